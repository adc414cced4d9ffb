//! A controller, its server, and the cluster around: nodes, a scheduler, kubelets and the controller of Deployments, each of
//! which takes one step at a time. Owns the order in which things happen: always the same.

mod cluster;
mod effects;
mod failures;
pub(crate) mod laws;
pub(crate) mod log;
pub(crate) mod reasons;
pub(crate) mod steps;

pub(crate) use cluster::host;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use orlop_core::error::Class;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::controller::{Controller, ControllerEvent, Monitor, Reconciler};
use super::{API_VERSION, Config};
use crate::api::{ApiError, Kind};
use crate::shell::fake::{Fault, Server, TestClock};
use crate::shell::{Clock, Key};

/// How often everything is looked at.
const RESYNC: Duration = Duration::from_secs(300);

/// Steps of lifecycles, as they were written, and what went wrong.
#[derive(Default)]
pub(crate) struct Steps {
    taken: std::sync::Mutex<Vec<(Option<&'static str>, &'static str)>>,
    failures: std::sync::Mutex<Vec<Class>>,
}

impl Monitor for Steps {
    fn record(&self, event: ControllerEvent<'_>) {
        match event {
            ControllerEvent::Transitioned { step, .. } => self.taken.lock().unwrap().push((step.from, step.to)),
            ControllerEvent::RequestFailed { class } => self.failures.lock().unwrap().push(class),
            _ => {}
        }
    }
}

pub(crate) struct TestEnv<R: Reconciler> {
    pub(crate) server: Server,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) config: Arc<Config>,
    controller: Controller<Server, R>,
    steps: Arc<Steps>,
    queue: BTreeSet<Key>,
    due: BTreeMap<Key, Time>,
    seen: usize,
    /// Objects of the cluster as a whole.
    cluster: BTreeMap<(Kind, String), Value>,
    /// Kinds of them that are served and were listed.
    listed: BTreeSet<Kind>,
    /// What images do: they cannot be pulled, crash, are never ready.
    pub(crate) images: BTreeMap<String, &'static str>,
    pub(crate) passes: usize,
    /// Whether watches tell one thing at a time, each after a pass over what is known by then.
    pub(crate) late: bool,
    /// What somebody does while the controller is dead, once.
    pub(crate) at_death: Option<fn(&Server)>,
}

impl<R: Reconciler> TestEnv<R> {
    pub(crate) fn new() -> Self {
        Self::with_faults(Vec::new())
    }

    pub(crate) fn with_faults(faults: Vec<Fault>) -> Self {
        let clock = Arc::new(TestClock::new());
        let server = Server::new(Arc::clone(&clock));
        server.store().faults = faults;
        let (config, steps) = (Arc::new(Config::default()), Arc::new(Steps::default()));
        let controller = controller(&server, &clock, &config, &steps);
        let (queue, due, cluster, images, listed) = Default::default();
        let (seen, passes, at_death, late) = Default::default();
        Self {
            server,
            clock,
            config,
            controller,
            steps,
            queue,
            due,
            seen,
            cluster,
            listed,
            images,
            passes,
            late,
            at_death,
        }
    }

    /// Somebody creates an object of the kind.
    pub(crate) fn submit(&self, name: &str, spec: Value) -> Value {
        let object =
            json!({"apiVersion": API_VERSION, "kind": R::KIND.name(), "metadata": {"name": name}, "spec": spec});
        self.server.put(R::KIND, object)
    }

    /// Somebody changes its spec.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.server.edit(R::KIND, name, |object| change(&mut object["spec"]));
    }

    /// Something of the cluster is there.
    pub(crate) fn add(&mut self, kind: Kind, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.queue.extend(self.controller.object_applied(kind, &object));
        self.cluster.insert((kind, name), object);
    }

    /// Something of the cluster is gone.
    pub(crate) fn remove(&mut self, kind: Kind, name: &str) {
        let gone = self.cluster.remove(&(kind, name.to_owned())).expect("it is there");
        self.queue.extend(self.controller.object_deleted(kind, &gone));
    }

    /// All of a kind that exist were listed, so that it is known that it is served.
    pub(crate) fn list(&mut self, kind: Kind) {
        let uids = self.cluster(kind).iter().map(|object| crate::value::text(object, "/metadata/uid")).collect();
        self.queue.extend(self.controller.objects_listed(kind, &uids, None));
        self.listed.insert(kind);
    }

    pub(crate) fn cluster(&self, kind: Kind) -> Vec<Value> {
        self.cluster.iter().filter(|((known, _), _)| *known == kind).map(|(_, object)| object.clone()).collect()
    }

    /// Another controller takes over.
    pub(crate) fn restart(&mut self) {
        self.server.store().dead = false;
        self.controller = controller(&self.server, &self.clock, &self.config, &self.steps);
        (self.queue, self.due, self.seen) = Default::default();
        for ((kind, _), object) in &self.cluster {
            let _ = self.controller.object_applied(*kind, object);
        }
        for kind in self.listed.clone() {
            self.list(kind);
        }
        let late = std::mem::take(&mut self.late);
        self.deliver();
        self.late = late;
        for kind in watched::<R>() {
            let uids =
                self.server.list(kind).iter().map(|object| crate::value::text(object, "/metadata/uid")).collect();
            let _ = self.controller.objects_listed(kind, &uids, None);
        }
        self.queue.extend(self.controller.keys());
    }

    fn deliver(&mut self) {
        let all = if self.late { 1 } else { usize::MAX };
        let news: Vec<_> = self.server.store().log.iter().skip(self.seen).take(all).cloned().collect();
        self.seen += news.len();
        for change in news {
            let concerns = watched::<R>().contains(&change.kind);
            // A watch selects children by their labels, and tells of one that loses them as if it were gone.
            let labels = &change.object["metadata"]["labels"];
            let selected = R::CHILD_SELECTOR.split_once('=').is_some_and(|(name, value)| labels[name] == value);
            if concerns && (change.gone || R::CHILD_KINDS.contains(&change.kind) && !selected) {
                self.queue.extend(self.controller.object_deleted(change.kind, &change.object));
            } else if concerns {
                self.queue.extend(self.controller.object_applied(change.kind, &change.object));
            }
        }
    }

    /// Passes until nothing is to be done now.
    pub(crate) fn settle(&mut self) {
        loop {
            self.deliver();
            let Some(key) = self.queue.pop_first() else {
                if self.seen == self.server.store().log.len() {
                    return;
                }
                continue;
            };
            self.passes += 1;
            assert!(self.passes < 20_000, "the controller does not come to rest: {:?}", self.writes());
            let next = self.controller.reconcile(&key).now_or_never().expect("nothing here waits");
            match next.again_at {
                Some(at) if at <= self.clock.now() => drop(self.queue.insert(key)),
                Some(at) => drop(self.due.insert(key, at)),
                None => drop(self.due.remove(&key)),
            }
            if self.server.store().dead {
                if let Some(act) = self.at_death.take() {
                    act(&self.server);
                }
                self.restart();
            }
        }
    }

    /// The controller and the cluster act until neither has anything to do now.
    pub(crate) fn rest(&mut self) {
        self.settle();
        while self.step_cluster() {
            self.settle();
        }
    }

    /// Time goes by, and everything that is due happens in its time.
    pub(crate) fn wait(&mut self, seconds: u64) {
        let end = self.clock.now().plus(Duration::from_secs(seconds));
        self.rest();
        while let Some(at) = self.due.values().copied().filter(|at| *at <= end).min() {
            self.clock.set(at);
            let now = self.clock.now();
            self.queue.extend(self.due.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()));
            self.due.retain(|_, at| *at > now);
            self.rest();
        }
        self.clock.set(end);
        self.rest();
    }

    pub(crate) fn object(&self, name: &str) -> Value {
        self.server.get(R::KIND, name).unwrap_or_default()
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        self.object(name)["status"].clone()
    }

    /// Status and reason of a condition.
    pub(crate) fn condition(&self, name: &str, kind: &str) -> String {
        let status = self.status(name);
        let condition = crate::value::item(&status, "/conditions", "type", kind).cloned().unwrap_or_default();
        format!("{}/{}", condition["status"].as_str().unwrap_or("-"), condition["reason"].as_str().unwrap_or("-"))
    }

    /// Where it is: phase, state, and what is wrong.
    pub(crate) fn place(&self, name: &str) -> String {
        let status = self.status(name);
        let word = |name: &str| status[name].as_str().unwrap_or("-").to_owned();
        format!("{}/{} {}", word("phase"), word("state"), self.condition(name, "Degraded"))
    }

    /// How often people were told something.
    pub(crate) fn event_count(&self, reason: &str) -> usize {
        self.events().iter().filter(|event| *event == reason).count()
    }

    /// The controller dies after so many more writes.
    pub(crate) fn dies_after(&self, writes: usize) {
        let at = self.writes().len() + writes;
        self.server.store().faults.push(Fault::DieAfter(at));
    }

    /// Requests of a verb and kind are refused so many times.
    pub(crate) fn refuse(&self, verb: &'static str, kind: Kind, times: u32, error: ApiError) {
        self.server.store().faults.push(Fault::Refuse(verb, kind, times, error));
    }

    /// Writes so far.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.server.store().writes.clone()
    }

    /// Everything that was created but events, by name.
    pub(crate) fn created(&self) -> Vec<String> {
        let mut made = self.server.store().created.clone();
        made.retain(|name| !name.starts_with("events "));
        made
    }

    /// Reasons of all events, in order.
    pub(crate) fn events(&self) -> Vec<String> {
        let mut events = self.server.list(Kind::Event);
        events.sort_by_key(|event| event["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap());
        events.iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// States that were passed, each step once.
    pub(crate) fn steps(&self) -> steps::Steps {
        self.steps.taken.lock().unwrap().iter().copied().collect()
    }

    /// What went wrong, in order.
    pub(crate) fn failures(&self) -> Vec<Class> {
        self.steps.failures.lock().unwrap().clone()
    }

    /// A second pass, also by another controller, writes nothing.
    pub(crate) fn writes_nothing_more(&mut self) {
        self.rest();
        let before = self.writes();
        self.restart();
        self.rest();
        self.wait(RESYNC.as_secs() + 1);
        assert_eq!(self.writes()[before.len()..], [] as [String; 0]);
    }
}

/// What a server says that has no room for a pod.
pub(crate) fn quota() -> ApiError {
    let said = json!({"reason": "Forbidden", "message": "exceeded quota: q, requested: pods=1, used: pods=1"});
    ApiError::from_status(403, &said)
}

fn controller<R: Reconciler>(
    server: &Server,
    clock: &Arc<TestClock>,
    config: &Arc<Config>,
    steps: &Arc<Steps>,
) -> Controller<Server, R> {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    let controller = Controller::new(server.clone(), clock, Arc::clone(config), RESYNC);
    let controller: Controller<Server, R> = controller.measured(Arc::clone(steps) as Arc<dyn Monitor>);
    for kind in watched::<R>() {
        let _ = controller.objects_listed(kind, &BTreeSet::new(), None);
    }
    controller
}

/// What the server's watches tell a controller: of its objects, their children, and executors.
fn watched<R: Reconciler>() -> Vec<Kind> {
    let others = R::WATCHED_KINDS.iter().filter(|kind| **kind == Kind::Executor);
    [R::KIND].iter().chain(R::CHILD_KINDS).chain(others).copied().collect()
}

/// Writes of a scenario that are tried where not all are.
const FEW: usize = 6;

/// Tries every fault at every write of a scenario, or at a sample of them; gives how many writes there were.
pub(crate) fn every_fault<R: Reconciler>(
    play: impl Fn(&mut TestEnv<R>),
    outcome: impl Fn(&TestEnv<R>) -> String,
) -> usize {
    let run = |faults: Vec<Fault>| {
        let mut env = TestEnv::with_faults(faults);
        play(&mut env);
        env
    };
    let clean = run(Vec::new());
    let (want, writes) = (outcome(&clean), clean.writes());
    for at in orlop_core::sample!(writes.len(), FEW) {
        for fault in [Fault::DieBefore(at), Fault::DieAfter(at), Fault::LoseAnswer(at)] {
            let reported = format!("{fault:?} at {}", writes[at]);
            let mut env = run(vec![fault]);
            assert_eq!(outcome(&env), want, "{reported}");
            let created = env.created();
            let distinct: BTreeSet<&String> = created.iter().collect();
            assert_eq!(distinct.len(), created.len(), "something was created twice: {reported}: {created:?}");
            let before = env.writes().len();
            env.restart();
            env.rest();
            assert_eq!(env.writes()[before..], [] as [String; 0], "{reported}");
        }
    }
    writes.len()
}

impl<R: Reconciler> TestEnv<R> {
    /// So many steps of the cluster, the controller after each.
    pub(crate) fn few_steps(&mut self, steps: usize) {
        self.settle();
        for _ in 0..steps {
            if !self.step_cluster() {
                return;
            }
            self.settle();
        }
    }
}
