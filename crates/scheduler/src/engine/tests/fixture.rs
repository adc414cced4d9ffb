//! A small scheduler for tests: a fleet by words, jobs by number, effects by kind.

use std::sync::Arc;

use orlop_core::id::{Epoch, JobId};
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::task::TaskRef;

use crate::config::Config;
use crate::effect::{Effect, Reason};
use crate::engine::Scheduler;
use crate::error::EventError;
use crate::event::{Capabilities, Event, Outcome, StartWindow};
use crate::job::{Demand, Runtime};
use crate::token::WorkerKey;

pub(super) struct Fixture {
    pub(super) scheduler: Scheduler,
    pub(super) effects: Vec<Effect>,
    pub(super) now: u64,
}

pub(super) fn id(number: u64) -> JobId {
    JobId::new(Epoch(1), number).unwrap()
}

/// A job of tenant `t` with these millicores and 1 Gi.
pub(super) fn spec(cpu_m: u64) -> Demand {
    let mut spec = Demand::new("t".parse().unwrap());
    spec.resources.cpu_m = cpu_m;
    spec.resources.memory_bytes = 1 << 30;
    spec
}

/// Millicores, as many gibibytes as cores times four.
pub(super) fn offer(cpu_m: u64) -> Capabilities {
    Capabilities {
        cpu_m,
        memory_bytes: (cpu_m * 4 / 1000) << 30,
        max_jobs: 64,
        runtimes: [Runtime::Process].into(),
        ..Capabilities::default()
    }
}

impl Fixture {
    pub(super) fn new(config: Config) -> Self {
        Self { scheduler: Scheduler::new(config, 1).unwrap(), effects: Vec::new(), now: 0 }
    }

    pub(super) fn apply(&mut self, event: Event) -> Result<(), EventError> {
        let result = self.scheduler.apply(self.now, event, &mut self.effects);
        self.scheduler.sanity_check().unwrap();
        result
    }

    pub(super) fn must(&mut self, event: Event) {
        self.apply(event).unwrap();
    }

    pub(super) fn worker(&mut self, name: &str, offer: Capabilities) -> WorkerKey {
        let id = name.parse().unwrap();
        self.must(Event::WorkerDeclared { id });
        let worker = self.scheduler.worker_key(&name.parse().unwrap()).unwrap();
        self.must(Event::Registered { worker, capabilities: Arc::new(offer) });
        self.must(Event::Connected { worker, kept: vec![] });
        worker
    }

    pub(super) fn submit(&mut self, number: u64, spec: Demand) {
        self.must(Event::Submit { job: id(number), spec: Arc::new(spec), gate: StartWindow::default() });
    }

    /// An unlimited round; what it assigned, in order.
    pub(super) fn round(&mut self) -> Vec<(TaskRef, WorkerKey)> {
        self.effects.clear();
        let _ = self.scheduler.round(self.now, u32::MAX, &mut self.effects);
        self.scheduler.sanity_check().unwrap();
        self.assigned()
    }

    pub(super) fn assigned(&self) -> Vec<(TaskRef, WorkerKey)> {
        let sent = self.effects.iter().filter_map(|effect| match effect {
            Effect::Assign { attempt, worker, .. } => Some((*attempt, *worker)),
            _ => None,
        });
        sent.collect()
    }

    /// Numbers of the jobs that a round starts, in order.
    pub(super) fn starts(&mut self) -> Vec<u64> {
        self.round().into_iter().map(|(attempt, _)| attempt.job.counter()).collect()
    }

    pub(super) fn wait(&mut self, millis: u64) {
        self.now += millis;
        self.effects.clear();
        self.must(Event::Tick);
    }

    pub(super) fn start(&mut self, attempt: TaskRef, worker: WorkerKey) {
        self.must(Event::Accepted { attempt, worker });
        self.must(Event::Started { attempt, worker });
    }

    pub(super) fn result(&mut self, attempt: TaskRef, worker: WorkerKey, outcome: Outcome) -> ReportVerdict {
        self.effects.clear();
        self.must(Event::Result { attempt, worker, outcome, ran_ms: None });
        self.verdict()
    }

    /// The one verdict among the effects; it comes last.
    pub(super) fn verdict(&self) -> ReportVerdict {
        let verdicts = self.effects.iter().filter(|effect| matches!(effect, Effect::Verdict { .. })).count();
        match self.effects.last() {
            Some(Effect::Verdict { verdict, .. }) if verdicts == 1 => *verdict,
            other => panic!("{verdicts} verdicts, the last effect is {other:?}"),
        }
    }

    pub(super) fn verdict_of(&self, of: TaskRef) -> ReportVerdict {
        let found = self.effects.iter().find_map(|effect| match effect {
            Effect::Verdict { attempt, verdict } if *attempt == of => Some(*verdict),
            _ => None,
        });
        found.unwrap()
    }

    pub(super) fn state(&self, number: u64) -> JobState {
        self.scheduler.job(id(number), None).unwrap().state
    }

    /// Why the job last changed, among the effects.
    pub(super) fn reason(&self) -> Option<Reason> {
        self.effects.iter().rev().find_map(|effect| match effect {
            Effect::JobChanged { reason, .. } => Some(*reason),
            _ => None,
        })
    }
}
