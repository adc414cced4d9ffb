//! Where the real services are, and hands to work with on them.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use orlop_cloud::openstack::client::{HttpTransport, Session, SystemClock, open};
use orlop_cloud::openstack::credentials::{Settings, read_assignments, resolve};
use orlop_cloud::openstack::port::{Clock, Cloud, Reserve};
use orlop_cloud::openstack::wire::Transport;
use orlop_cloud::provision::drive::{Hands, Surroundings};
use orlop_cloud::provision::journal::Journal;
use orlop_cloud::provision::mark::DeploymentId;
use orlop_cloud::provision::order::{Choice, KeyOrder, Order, OrderImage, Pace, Verify};
use orlop_cloud::provision::saga::Probe;
use orlop_core::time::Time;

/// A public key whose private half nobody has.
pub(super) const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqzLuUFJzOmYPLp2UjD8NJqhNPJ3k4Q8XSvBv0wSgx7 test";

/// The real services, for one test at a time.
pub(super) struct Services {
    folder: PathBuf,
    /// Locked while this test has its turn, whatever process the others run in.
    _turn: File,
}

impl Services {
    /// The services, if there are any.
    pub(super) async fn find() -> Option<Self> {
        let Some(folder) = std::env::var_os("ORLOP_TEST_OPENSTACK").filter(|folder| !folder.is_empty()) else {
            println!("skipped: no OpenStack in ORLOP_TEST_OPENSTACK; scripts/with-openstack provides one");
            return None;
        };
        let folder = PathBuf::from(folder);
        let lock = folder.join("orlop-test.lock");
        let turn = tokio::task::spawn_blocking(move || {
            let file = File::create(lock).unwrap();
            file.lock().unwrap();
            file
        });
        Some(Self { folder, _turn: turn.await.unwrap() })
    }

    /// A session as somebody: `tester`, `appcred`, `appcred-restricted`, `admin`.
    pub(super) fn open(
        &self,
        who: &str,
        wrap: impl FnOnce(Arc<dyn Transport>) -> Arc<dyn Transport>,
    ) -> (Cloud, Arc<Session>) {
        let text = std::fs::read_to_string(self.folder.join(format!("openrc-{who}.sh"))).unwrap();
        let credentials = resolve(&Settings::of(read_assignments(&text).values)).unwrap();
        open(credentials, wrap(Arc::new(HttpTransport::new(None).unwrap())), Arc::new(SystemClock))
    }
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

#[async_trait]
impl Clock for FastClock {
    fn now(&self) -> Time {
        self.began.plus(SystemClock.now().since(self.began) * self.factor)
    }

    async fn sleep_until(&self, time: Time) {
        tokio::time::sleep(time.since(self.now()) / self.factor).await;
    }
}

struct Nothing;

#[async_trait]
impl Surroundings for Nothing {
    async fn probe(&self, _: &str, _: Option<&str>) -> Probe {
        Probe::Answered
    }
}

/// Hands on the services.
pub(super) fn hands(cloud: Cloud, journal: Arc<dyn Journal>, clock: Arc<dyn Clock>) -> Hands {
    Hands { cloud, journal, clock, around: Arc::new(Nothing) }
}

/// An order for a host of a type. Nobody is behind the address, so nothing is asked of it.
pub(super) async fn order(cloud: &Cloud, name: &str, node_type: &str) -> Order {
    let account = cloud.identity.authenticate().await.unwrap();
    let networks = cloud.network.networks().await.unwrap();
    let network = |name: &str| networks.iter().find(|network| network.name == name).unwrap().id.clone();
    let images = cloud.images.images().await.unwrap();
    let image = images.iter().find(|image| image["name"] == "CC-Ubuntu22.04").unwrap();
    let nonce = format!("{name}-{}-{}", std::process::id(), SystemClock.now().millis());
    Order {
        id: DeploymentId::new(name, &account.project_id, &nonce),
        server_name: name.to_owned(),
        lease_name: None,
        project_id: account.project_id,
        key: KeyOrder {
            name: format!("key-{name}"),
            public_key: Some(KEY.to_owned()),
            must_match: true,
            made_file: None,
        },
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
        }],
        max_attempts: 3,
        verify: Verify::None,
        pace: Pace {
            lease_poll: Duration::from_secs(1),
            lease_timeout: Duration::from_secs(3000),
            server_poll: Duration::from_secs(1),
            server_timeout: Duration::from_secs(6000),
            deadline: Duration::from_secs(20_000),
            capacity: None,
        },
        keep_on_failure: false,
        user_data: None,
        max_su: None,
        max_hours: None,
    }
}

/// Asserts that the project holds nothing that bears a mark, and no key of this test.
pub(super) async fn assert_nothing(cloud: &Cloud, order: &Order, what: &str) {
    let left = orlop_cloud::provision::drive::orphans(cloud, &order.project_id).await.unwrap();
    assert!(left.is_empty(), "{what}: {left:?}");
    assert!(
        cloud.compute.keypair(&order.key.name).await.is_err_and(|error| error.is_gone()),
        "{what}: the key is left"
    );
}
