//! Deployments on the double: the happy way, every row of the chapter of failures, and that nothing leaks.

mod failures;
mod happy;
mod hooks;
mod leaks;
mod resumed;
mod tidy;
mod verbs;
mod vms;
mod waiting;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use orlop_core::machine::saga::SagaState;

use super::*;
use crate::openstack::port::{Clock as _, Reserve};
use crate::provision::journal::MemoryJournal;
use crate::provision::mark::DeploymentId;
use crate::provision::order::{Choice, KeyOrder, OrderImage, Pace, Verify};
use crate::testing::openstack::{MemoryCloud, Remains, VirtualClock};

pub(super) const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqzLuUFJzOmYPLp2UjD8NJqhNPJ3k4Q8XSvBv0wSgx7 me";

/// Surroundings that answer as told.
pub(super) struct Stage {
    pub(super) probe: Mutex<Probe>,
    pub(super) stop: Mutex<Option<(usize, Stop)>>,
    pub(super) consoles: Mutex<Vec<String>>,
    pub(super) elsewhere: Mutex<Elsewhere>,
    /// When the machine's worker joins, by looks; never without one.
    pub(super) joins: Mutex<Result<Option<usize>, String>>,
    /// What was seen of host keys at each probe.
    pub(super) keys: Mutex<Vec<usize>>,
    pub(super) token: Mutex<Result<String, String>>,
    seen: AtomicUsize,
}

#[async_trait]
impl Surroundings for Stage {
    async fn joined(&self, _: &DeploymentId) -> Result<bool, String> {
        let mut joins = self.joins.lock().unwrap();
        match joins.as_mut() {
            Err(why) => Err(why.clone()),
            Ok(left) => {
                *left = left.map(|left| left.saturating_sub(1));
                Ok(*left == Some(0))
            }
        }
    }

    async fn join_token(&self, _: &str) -> Result<Token, String> {
        let text = self.token.lock().unwrap().clone()?;
        Token::read(&text).map_err(|error| error.to_string())
    }

    async fn probe(&self, _: &str, login: Option<&Login>) -> Probe {
        self.keys.lock().unwrap().push(login.map_or(0, |login| login.host_keys.len()));
        self.probe.lock().unwrap().clone()
    }

    fn changed(&self, _: &Saga) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    fn console(&self, text: &str) {
        self.consoles.lock().unwrap().push(text.to_owned());
    }

    async fn elsewhere(&self) -> Elsewhere {
        self.elsewhere.lock().unwrap().clone()
    }

    fn stop(&self) -> Option<Stop> {
        let at = *self.stop.lock().unwrap();
        at.filter(|(line, _)| self.seen.load(Ordering::Relaxed) > *line).map(|(_, stop)| stop)
    }
}

/// A deployment on a double.
pub(super) struct World {
    pub(super) clock: VirtualClock,
    pub(super) cloud: MemoryCloud,
    pub(super) journal: MemoryJournal,
    pub(super) stage: Arc<Stage>,
    pub(super) order: DeploymentOrder,
}

pub(super) fn choice(node_type: &str) -> Choice {
    Choice {
        site: "test".to_owned(),
        node_type: node_type.to_owned(),
        reserve: Some(Reserve::Host {
            hypervisor_properties: String::new(),
            resource_properties: serde_json::json!(["=", "$node_type", node_type]).to_string(),
        }),
        hosts: if node_type == "gpu_rtx_6000" { vec!["3".into()] } else { vec!["1".into(), "2".into()] },
        start: None,
        hours: 24,
        images: vec![
            OrderImage { id: "image-0".into(), name: "CC-Ubuntu22.04".into(), user: Some("cc".into()) },
            OrderImage { id: "image-2".into(), name: "CC-Ubuntu24.04".into(), user: Some("cc".into()) },
        ],
        flavor: "baremetal".to_owned(),
        su_milli: 24_000,
        su_known: true,
        expects: None,
        taken: false,
        gpu_model: None,
    }
}

pub(super) fn order() -> DeploymentOrder {
    DeploymentOrder {
        id: DeploymentId::new("orlop-demo", "project", "nonce"),
        server_name: "orlop-demo".to_owned(),
        lease_name: None,
        project_id: "project".to_owned(),
        key: KeyOrder {
            name: "my-key".to_owned(),
            public_key: Some(KEY.to_owned()),
            must_match: false,
            made_file: None,
        },
        network: ("net-shared".to_owned(), "sharednet1".to_owned()),
        external: Some("net-public".to_owned()),
        ssh_from: None,
        groups: Vec::new(),
        choices: vec![choice("gpu_rtx_6000"), choice("compute_haswell")],
        max_attempts: 4,
        tried: 0,
        elsewhere: None,
        verify: Verify::Port,
        pace: Pace::default(),
        keep_on_failure: false,
        user_data: None,
        join: None,
        max_su: None,
        max_hours: None,
    }
}

impl World {
    pub(super) fn new() -> Self {
        let clock = VirtualClock::default();
        let stage = Stage {
            probe: Mutex::new(Probe::Answered),
            stop: Mutex::new(None),
            consoles: Mutex::new(Vec::new()),
            elsewhere: Mutex::new(Elsewhere::default()),
            joins: Mutex::new(Ok(None)),
            keys: Mutex::new(Vec::new()),
            token: Mutex::new(Err("gone".to_owned())),
            seen: AtomicUsize::new(0),
        };
        let cloud = MemoryCloud::new(clock.clone());
        cloud.world().add_machines();
        Self { cloud, clock, journal: MemoryJournal::default(), stage: Arc::new(stage), order: order() }
    }

    /// Hands of a new process: what one before remembered is lost.
    pub(super) fn hands(&self) -> Hands {
        Hands {
            cloud: self.cloud.open().0,
            journal: Arc::new(self.journal.clone()),
            clock: Arc::new(self.clock.clone()),
            around: Arc::clone(&self.stage) as _,
        }
    }

    /// Applies; nothing if the process died on the way.
    pub(super) fn apply(&self) -> Option<Result<Saga, JournalError>> {
        apply(&self.hands(), self.order.clone(), "nonce", Vec::new()).now_or_never()
    }

    /// Applies without dying.
    pub(super) fn applied(&self) -> Saga {
        self.apply().expect("nobody dies").expect("the journal can be written")
    }

    /// Takes up what the journal tells, and gives it an event; nothing if the process died, or no plan was written.
    pub(super) fn take_up(&self, event: Event) -> Option<Saga> {
        take_up(&self.hands(), event).now_or_never()?.expect("the journal can be written")
    }

    pub(super) fn remains(&self) -> Remains {
        self.cloud.world().remains()
    }

    /// Asserts that exactly one of each is there.
    pub(super) fn assert_one_of_each(&self, what: &str) {
        let left = self.remains();
        let counts = [left.leases.len(), left.servers.len(), left.addresses.len(), left.keypairs.len()];
        assert_eq!(counts, [self.leases(), 1, 1, 1], "{what}: {left:?}");
    }

    /// Leases that a deployment of the order has.
    pub(super) fn leases(&self) -> usize {
        usize::from(self.order.choices.iter().any(|choice| choice.reserve.is_some()))
    }

    /// Asserts that nothing is there.
    pub(super) fn assert_nothing(&self, what: &str) {
        assert_eq!(self.remains(), Remains::default(), "{what}\n{}", self.trace());
    }

    /// The journal and the calls, for people.
    pub(super) fn trace(&self) -> String {
        let lines: Vec<String> =
            self.journal.written().iter().skip(2).map(|line| format!("{} {:?}", line.ts, line.entry)).collect();
        format!("{}\n{}", lines.join("\n"), self.cloud.faults().calls().join("\n"))
    }
}

pub(super) fn ended_well(saga: &Saga) -> bool {
    matches!(saga.state(), SagaState::Ready | SagaState::Degraded)
}
