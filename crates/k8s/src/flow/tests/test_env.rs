//! A controller, its server, and the world around: watches that deliver, Jobs that end, a clock that jumps to what is due.
//! Owns the order in which things happen: always the same.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::FutureExt as _;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::super::{Clock, Controller, Key, Options};
use super::server::{Fault, Server, TestClock};
use crate::api::Kind;

pub(super) struct TestEnv {
    pub(super) server: Server,
    pub(super) clock: Arc<TestClock>,
    pub(super) options: Options,
    controller: Controller<Server>,
    queue: BTreeSet<Key>,
    due: BTreeMap<Key, Time>,
    seen: usize,
    /// Jobs that do not end by themselves, by a part of their name.
    pub(super) endless: Vec<&'static str>,
    /// How much of the past a new controller does not see at first: of the next one, of the one after it, and so on.
    pub(super) stale: VecDeque<usize>,
    /// What people do while nobody is there after a controller died.
    pub(super) meanwhile: Option<fn(&Server)>,
    pub(super) passes: usize,
    /// What goes wrong here, in words.
    pub(super) reported: String,
}

impl TestEnv {
    pub(super) fn new() -> Self {
        Self::with_options(Options::default())
    }

    pub(super) fn with_options(options: Options) -> Self {
        let clock = Arc::new(TestClock::new());
        let server = Server::new(Arc::clone(&clock));
        let controller = Controller::new(server.clone(), clock.clone() as Arc<dyn Clock>, options.clone());
        let (queue, due, endless, stale, reported, meanwhile) = Default::default();
        Self { server, clock, options, controller, queue, due, seen: 0, endless, stale, meanwhile, passes: 0, reported }
    }

    pub(super) fn with_fault(fault: Fault) -> Self {
        let env = Self::new();
        env.server.store().faults.push(fault);
        env
    }

    pub(super) fn submit(&self, name: &str, spec: Value) {
        self.server.put(
            Kind::JobFlow,
            json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": name}, "spec": spec}),
        );
    }

    /// Another controller takes over; at first it sees what was true a while ago.
    pub(super) fn restart(&mut self) {
        self.server.store().dead = false;
        if let Some(act) = self.meanwhile.take() {
            act(&self.server);
        }
        self.controller =
            Controller::new(self.server.clone(), self.clock.clone() as Arc<dyn Clock>, self.options.clone());
        (self.queue, self.due) = Default::default();
        let stale = self.stale.pop_front().unwrap_or_default();
        let behind = self.server.store().log.len().saturating_sub(stale);
        self.seen = 0;
        self.deliver(behind);
        self.queue.extend(self.controller.prime());
    }

    fn deliver(&mut self, until: usize) {
        let news = self.server.store().log.get(self.seen..until).map(<[_]>::to_vec);
        for change in news.unwrap_or_default() {
            match (change.kind, change.gone) {
                (Kind::JobFlow, false) => self.queue.extend(self.controller.flow_applied(&change.object)),
                (Kind::JobFlow, true) => self.queue.extend(self.controller.flow_deleted(&change.object)),
                (Kind::Job, false) => self.queue.extend(self.controller.job_applied(&change.object)),
                (Kind::Job, true) => self.queue.extend(self.controller.job_deleted(&change.object)),
                _ => {}
            }
        }
        self.seen = until.max(self.seen);
    }

    fn pass(&mut self) -> bool {
        let Some(key) = self.queue.pop_first() else { return false };
        self.passes += 1;
        assert!(self.passes < 20_000, "the controller does not come to rest: {}, {:?}", self.reported, self.writes());
        let next = self.controller.reconcile(&key).now_or_never().expect("nothing here waits");
        let found = self.controller.finish_background().now_or_never().expect("nothing here waits");
        match next.again_at {
            Some(at) if at <= self.clock.now() => drop(self.queue.insert(key)),
            Some(at) => drop(self.due.insert(key, at)),
            None => drop(self.due.remove(&key)),
        }
        self.queue.extend(next.wake.into_iter().chain(found));
        if self.server.store().dead {
            self.restart();
            // The first looks are at the past.
            for _ in 0..self.queue.len() {
                self.pass();
            }
        }
        true
    }

    /// One pass, after all that has happened was seen; false when nothing is to be done now.
    pub(super) fn step(&mut self) -> bool {
        let until = self.server.store().log.len();
        self.deliver(until);
        self.pass()
    }

    /// How much has happened so far.
    pub(super) fn history(&self) -> usize {
        self.server.store().log.len()
    }

    /// Passes until nothing is to be done now, of which watches tell only what had happened by then.
    pub(super) fn settle_seeing(&mut self, until: usize) {
        self.deliver(until);
        while self.pass() {}
    }

    /// Passes until nothing is to be done now.
    pub(super) fn settle(&mut self) {
        while self.step() {}
    }

    /// Everything that is to happen until all flows are over or wait for people.
    pub(super) fn run(&mut self) {
        loop {
            self.settle();
            if !self.end_a_job() && !self.jump() {
                return;
            }
        }
    }

    /// The clock jumps to what is due next, unless that is the end of a flow that is over.
    fn jump(&mut self) -> bool {
        let live = |key: &Key| !self.is_over(&key.name);
        let Some((key, at)) = self.due.iter().filter(|(key, _)| live(key)).min_by_key(|(_, at)| **at) else {
            return false;
        };
        let (key, at) = (key.clone(), *at);
        self.due.remove(&key);
        self.clock.set(at);
        self.queue.insert(key);
        true
    }

    /// A day goes by.
    pub(super) fn sleep(&mut self, seconds: u64) {
        self.clock.set(self.clock.now().plus(std::time::Duration::from_secs(seconds)));
        let now = self.clock.now();
        let due: Vec<Key> = self.due.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        for key in due {
            self.due.remove(&key);
            self.queue.insert(key);
        }
        self.settle();
    }

    /// The first Job under way ends, as its name says.
    pub(super) fn end_a_job(&mut self) -> bool {
        let under_way = |job: &Value| {
            let name = job["metadata"]["name"].as_str().unwrap();
            job["status"]["conditions"].is_null()
                && job["spec"]["suspend"] != true
                && !self.endless.iter().any(|part| name.contains(part))
        };
        let Some(job) = self.server.list(Kind::Job).into_iter().find(under_way) else { return false };
        let name = job["metadata"]["name"].as_str().unwrap().to_owned();
        let first = job["metadata"]["labels"]["workflow.kube-zen.io/attempt"] == "1";
        let fails = name.contains("-bad-") || name.contains("-half-i1-") || (name.contains("flaky") && first);
        self.clock.set(self.clock.now().plus(std::time::Duration::from_secs(3)));
        self.end_job(&name, !fails);
        true
    }

    pub(super) fn end_job(&self, name: &str, well: bool) {
        let at = self.clock.now().whole_seconds().to_string();
        self.server.edit(Kind::Job, name, |job| {
            job["status"] = if well {
                json!({"succeeded": 1, "completionTime": at, "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": at}]})
            } else {
                json!({"failed": 1, "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": at,
                    "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}]})
            };
        });
    }

    pub(super) fn status(&self, flow: &str) -> Value {
        self.server.get(Kind::JobFlow, flow).unwrap()["status"].clone()
    }

    pub(super) fn is_over(&self, flow: &str) -> bool {
        let phase = self.server.get(Kind::JobFlow, flow).map(|flow| flow["status"]["phase"].clone());
        phase.is_none_or(|phase| phase == "Succeeded" || phase == "Failed")
    }

    /// How steps came out: name, phase, reason, attempt, outputs.
    pub(super) fn outcome(&self, flow: &str) -> String {
        let status = self.status(flow);
        let mut lines =
            vec![format!("{} {}", status["phase"].as_str().unwrap(), status["progress"]["summary"].as_str().unwrap())];
        for step in status["steps"].as_array().into_iter().flatten() {
            let word = |name: &str| step[name].as_str().unwrap_or("-").to_owned();
            let outputs = if step["outputs"].is_null() { String::new() } else { format!(" {}", step["outputs"]) };
            lines.push(format!("{} {}/{} {}{outputs}", word("name"), word("phase"), word("reason"), step["attempt"]));
        }
        lines.join("\n")
    }

    /// Writes so far.
    pub(super) fn writes(&self) -> Vec<String> {
        self.server.store().writes.clone()
    }

    /// All that was ever created, but for what people are told, which may be lost or be said twice, and for pieces of the
    /// status, which have the name of what is in them, times too.
    pub(super) fn made(&self) -> Vec<String> {
        let mut made = self.server.store().created.clone();
        made.retain(|name| !name.starts_with("events ") && !name.contains("-state-"));
        made.sort();
        made
    }

    /// No Job was ever created twice.
    pub(super) fn check_created_once(&self) {
        let created = self.server.store().created.clone();
        let distinct: BTreeSet<&String> = created.iter().collect();
        assert_eq!(distinct.len(), created.len(), "something was created twice: {created:?}");
    }

    pub(super) fn controller(&self) -> &Controller<Server> {
        &self.controller
    }
}

/// A step that runs a Job.
pub(super) fn job(name: &str) -> Value {
    json!({"name": name, "type": "Job", "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {
        "containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}}}}})
}

/// The same after other steps.
pub(super) fn after(name: &str, before: &[&str]) -> Value {
    let mut step = job(name);
    step["dependencies"] = json!(before);
    step
}
