//! The double passes the suite, in no time.

use std::time::Duration;

use futures::FutureExt as _;

use super::*;

#[test]
fn the_double_passes_the_suite_without_waiting() {
    let clock = VirtualClock::default();
    let cloud = MemoryCloud::new(clock.clone());
    let (ports, _) = cloud.open();
    let subject = Subject {
        cloud: &ports,
        clock: &clock,
        node_type: "compute_haswell",
        image: "CC-Ubuntu22.04",
        flavor: "baremetal",
        networks: ("sharednet1", "public"),
        nonce: "double",
    };
    let passed = cloud_suite(&subject).now_or_never().expect("nothing waits for real");
    assert_eq!(passed.unwrap_or_else(|failure| panic!("{failure}")).len(), 14);
    let left = cloud.world().remains();
    assert_eq!(left, Remains::default(), "the suite cleans up");
}

/// Credentials of a server's double.
fn credentials(server: &MemoryServer) -> Credentials {
    let auth_url = server.auth_url();
    Credentials { auth_url, ..MemoryCloud::credentials(false) }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_adapter_passes_the_suite_over_real_bytes() {
    let clock = VirtualClock::default();
    let cloud = MemoryCloud::new(clock.clone());
    let server = MemoryServer::start(cloud.clone()).await.unwrap();
    let transport = client::HttpTransport::new(None).unwrap();
    let (ports, session) = client::open(credentials(&server), Arc::new(transport), Arc::new(clock.clone()));
    let subject = Subject {
        cloud: &ports,
        clock: &clock,
        node_type: "compute_haswell",
        image: "CC-Ubuntu22.04",
        flavor: "baremetal",
        networks: ("sharednet1", "public"),
        nonce: "bytes",
    };
    let passed = cloud_suite(&subject).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(passed.len(), 14);
    assert!(session.meter().calls.load(std::sync::atomic::Ordering::Relaxed) > 50);
    assert_eq!(cloud.world().remains(), Remains::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_refused_is_stepped_down_once_and_tags_go_with_it() {
    use crate::openstack::classify::Meaning;
    let new = crate::openstack::port::NewServer {
        name: "n".to_owned(),
        image: "image-0".to_owned(),
        flavor: "baremetal".to_owned(),
        key: "k".to_owned(),
        network: NETWORK.to_owned(),
        reservation: None,
        groups: Vec::new(),
        deployment: "k4x7q2mzwa".to_owned(),
        attempt: 1,
        user_data: None,
    };
    for (newest, has_tags) in [((2, 53), true), ((2, 40), false)] {
        let clock = VirtualClock::default();
        let cloud = MemoryCloud::new(clock.clone());
        let server = MemoryServer::start(cloud.clone()).await.unwrap();
        cloud.world().compute_version = newest;
        cloud.world().add_keypair("k", "ssh-ed25519 AAAA");
        let transport = Arc::new(client::HttpTransport::new(None).unwrap());
        let (ports, _) = client::open(credentials(&server), transport, Arc::new(clock));
        let id = ports.compute.create_server(&new).await.unwrap();
        let made = ports.compute.server(&id).await.unwrap();
        assert_eq!(
            (!made.tags.is_empty(), made.metadata.get("orlop_attempt").map(String::as_str)),
            (has_tags, Some("1")),
            "{newest:?}"
        );
        assert_eq!(ports.compute.servers(Some("k4x7q2mzwa")).await.unwrap().len(), 1, "found by tag or label");
        let calls = cloud.faults().calls();
        let posts = calls.iter().filter(|call| call.contains("POST /servers")).count();
        assert_eq!((posts, calls.len()), (2, 6), "one refusal, told to all that follow: {calls:?}");
    }
    let clock = VirtualClock::default();
    let cloud = MemoryCloud::new(clock);
    cloud.faults().on("compute GET /limits", Fault::Status(406), 100);
    let (ports, _) = cloud.open();
    let error = ports.compute.limits().await.unwrap_err();
    assert_eq!((error.meaning, error.status), (Meaning::Microversion, Some(406)));
    assert_eq!(cloud.faults().calls().iter().filter(|call| call.contains("/limits")).count(), 2, "once, not for ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_break_off_over_real_bytes_are_distinguished_from_services_that_are_not_there() {
    let clock = VirtualClock::default();
    let cloud = MemoryCloud::new(clock.clone());
    let server = MemoryServer::start(cloud.clone()).await.unwrap();
    let transport = || Arc::new(client::HttpTransport::new(None).unwrap());
    let (ports, _) = client::open(credentials(&server), transport(), Arc::new(clock.clone()));
    let new = crate::openstack::port::NewLease {
        name: "n".to_owned(),
        start: None,
        end: clock.now().plus(Duration::from_secs(3600)),
        reserve: crate::openstack::port::Reserve::Host {
            hypervisor_properties: String::new(),
            resource_properties: "[\"=\", \"$node_type\", \"compute_haswell\"]".to_owned(),
        },
    };
    cloud.faults().on("reservation POST", Fault::Reset, 1);
    let error = ports.reservations.create_lease(&new).await.unwrap_err();
    assert_eq!((error.meaning, error.is_surely_unmade()), (crate::openstack::classify::Meaning::Ambiguous, false));
    assert_eq!(ports.reservations.leases().await.unwrap().len(), 1, "it was made");
    cloud.faults().on("reservation GET", Fault::Reset, 2);
    assert_eq!(ports.reservations.leases().await.unwrap().len(), 1, "reading is repeated");
    let address = credentials(&server);
    drop(server);
    let (ports, _) = client::open(address, transport(), Arc::new(clock));
    let error = ports.identity.authenticate().await.unwrap_err();
    assert_eq!((error.reached, error.status), (crate::openstack::port::Reached::NotSent, None), "{error}");
}
