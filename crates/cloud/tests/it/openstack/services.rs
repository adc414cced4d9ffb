//! Where the real services are, and hands to work with on them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::openstack::port::{Clock, Cloud, Reserve, Timer};
use orlop_cloud::provision::drive::{Hands, Surroundings};
use orlop_cloud::provision::journal::Journal;
use orlop_cloud::provision::mark::DeploymentId;
use orlop_cloud::provision::order::{Choice, DeploymentOrder, KeyOrder, OrderImage, Pace, Verify};
use orlop_cloud::provision::saga::{Login, Probe};
use orlop_cloud::testing::openstack::{Census, RealServices};
use orlop_core::time::Time;

/// A public key whose private half nobody has.
pub(super) const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqzLuUFJzOmYPLp2UjD8NJqhNPJ3k4Q8XSvBv0wSgx7 test";

/// The services, if there are any.
pub(super) async fn find() -> Option<RealServices> {
    let found = tokio::task::spawn_blocking(RealServices::find).await.unwrap().unwrap();
    if found.is_none() {
        println!("skipped: no OpenStack in ORLOP_TEST_OPENSTACK; scripts/with-openstack provides one");
    }
    found
}

/// A cloud as somebody, on the way that is there.
pub(super) fn cloud_as(services: &RealServices, who: &str) -> Cloud {
    services.open(who, |transport| transport).unwrap().0
}

/// Asserts that a test has left nothing in any project, and no key.
pub(super) async fn assert_unchanged(census: &Census, order: &DeploymentOrder, what: &str) {
    let left = census.more().await.unwrap();
    assert!(left.is_empty(), "{what}: an administrator sees {left:?}");
    assert!(!census.has_key(&order.key.name).await.unwrap(), "{what}: an administrator sees the key");
}

/// A clock that runs so many times faster than real ones: what waits for minutes waits for seconds.
pub(super) struct FastClock {
    began: Time,
    factor: u32,
}

impl FastClock {
    pub(super) fn new(factor: u32) -> Self {
        Self { began: SystemClock.now(), factor }
    }
}

impl Clock for FastClock {
    fn now(&self) -> Time {
        self.began.plus(SystemClock.now().since(self.began) * self.factor)
    }
}

#[async_trait]
impl Timer for FastClock {
    async fn sleep_until(&self, time: Time) {
        tokio::time::sleep(time.since(self.now()) / self.factor).await;
    }
}

struct Nothing;

#[async_trait]
impl Surroundings for Nothing {
    async fn probe(&self, _: &str, _: Option<&Login>) -> Probe {
        Probe::Answered
    }
}

/// Hands on the services.
pub(super) fn hands(cloud: Cloud, journal: Arc<dyn Journal>, clock: Arc<dyn Timer>) -> Hands {
    Hands { cloud, journal, clock, around: Arc::new(Nothing) }
}

/// An order for a host of a type. Nobody is behind the address, so nothing is asked of it.
pub(super) async fn order(cloud: &Cloud, name: &str, node_type: &str) -> DeploymentOrder {
    let account = cloud.identity.authenticate().await.unwrap();
    let networks = cloud.network.networks().await.unwrap();
    let network = |name: &str| networks.iter().find(|network| network.name == name).unwrap().id.clone();
    let images = cloud.images.images().await.unwrap();
    let image = images.iter().find(|image| image["name"] == "CC-Ubuntu22.04").unwrap();
    let nonce = format!("{name}-{}-{}", std::process::id(), SystemClock.now().millis());
    let id = DeploymentId::new(name, &account.project_id, &nonce);
    DeploymentOrder {
        // Not that of another run, which may have left its own.
        key: KeyOrder {
            name: format!("key-{id}"),
            public_key: Some(KEY.to_owned()),
            must_match: true,
            made_file: None,
        },
        id,
        server_name: name.to_owned(),
        lease_name: None,
        project_id: account.project_id,
        network: (network("sharednet1"), "sharednet1".to_owned()),
        external: Some(network("public")),
        ssh_from: None,
        groups: Vec::new(),
        choices: vec![Choice {
            site: "test".to_owned(),
            node_type: node_type.to_owned(),
            reserve: Some(Reserve::Host {
                hypervisor_properties: String::new(),
                resource_properties: serde_json::json!(["=", "$node_type", node_type]).to_string(),
            }),
            hosts: Vec::new(),
            start: None,
            hours: 2,
            images: vec![OrderImage {
                id: image["id"].as_str().unwrap().to_owned(),
                name: "CC-Ubuntu22.04".to_owned(),
                user: Some("cc".to_owned()),
            }],
            flavor: "baremetal".to_owned(),
            su_milli: 2000,
            su_known: true,
            expects: None,
            taken: false,
            gpu_model: None,
        }],
        max_attempts: 3,
        tried: 0,
        elsewhere: None,
        verify: Verify::None,
        pace: Pace {
            lease_poll: Duration::from_secs(1),
            lease_timeout: Duration::from_secs(3000),
            server_poll: Duration::from_secs(1),
            server_timeout: Duration::from_secs(6000),
            deadline: Duration::from_secs(20_000),
            capacity: None,
            margin: Duration::ZERO,
        },
        keep_on_failure: false,
        user_data: None,
        join: None,
        max_su: None,
        max_hours: None,
    }
}

/// Asserts that the project holds nothing that bears the mark of a deployment, and no key of it.
pub(super) async fn assert_nothing(cloud: &Cloud, order: &DeploymentOrder, what: &str) {
    let mut left = orlop_cloud::provision::drive::orphans(cloud, &order.project_id).await.unwrap();
    // A run that was killed may have left others; what belongs to nobody is for the census to see.
    left.retain(|orphan| orphan.deployment == order.id);
    assert!(left.is_empty(), "{what}: {left:?}");
    assert!(
        cloud.compute.keypair(&order.key.name).await.is_err_and(|error| error.is_gone()),
        "{what}: the key is left"
    );
}
