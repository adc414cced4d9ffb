//! Attempts that a substrate knows, with their jobs. Talks to nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use orlop_core::attempt::AttemptKey;
use orlop_core::id::JobId;
use tokio::task::AbortHandle;

use super::port::FlowJob;

/// An attempt is to be followed by the receiver of this.
pub(super) struct Followed;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Flows whose jobs of earlier hosts are known.
    flows: BTreeSet<Box<str>>,
    jobs: BTreeMap<AttemptKey, JobId>,
    followed: BTreeMap<AttemptKey, Option<AbortHandle>>,
    cancelled: BTreeSet<AttemptKey>,
    forgotten: BTreeSet<AttemptKey>,
    /// Jobs by the claims of their flows that they mount.
    claims: BTreeMap<Box<str>, BTreeMap<String, BTreeSet<JobId>>>,
}

impl State {
    fn claim(&mut self, flow: &str, claims: Vec<String>, job: JobId) {
        for claim in claims {
            self.claims.entry(flow.into()).or_default().entry(claim).or_default().insert(job);
        }
    }
}

impl Attempts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn job(&self, key: &AttemptKey) -> Option<JobId> {
        self.state().jobs.get(key).copied()
    }

    pub(super) fn is_known(&self, flow: &str) -> bool {
        self.state().flows.contains(flow)
    }

    /// Takes in what earlier hosts have submitted. Of several jobs of one attempt the first counts.
    pub(super) fn learn(&self, flow: &str, jobs: Vec<FlowJob>) {
        let mut state = self.state();
        for FlowJob { key, job, claims } in jobs {
            state.claim(&key.flow, claims, job);
            state.jobs.entry(key).or_insert(job);
        }
        state.flows.insert(flow.into());
    }

    pub(super) fn insert(&self, key: &AttemptKey, job: JobId) {
        self.state().jobs.insert(key.clone(), job);
    }

    /// Notes that a job mounts claims of its flow.
    pub(super) fn claim(&self, flow: &str, claims: Vec<String>, job: JobId) {
        self.state().claim(flow, claims, job);
    }

    /// The jobs that mount a claim, the first one first.
    pub(super) fn claimed(&self, flow: &str, claim: &str) -> Vec<JobId> {
        let state = self.state();
        let jobs = state.claims.get(flow).and_then(|claims| claims.get(claim));
        jobs.map(|jobs| jobs.iter().copied().collect()).unwrap_or_default()
    }

    /// Whether the caller is to follow an attempt; nobody else does until it is left.
    pub(super) fn follow(&self, key: &AttemptKey) -> Option<Followed> {
        let mut state = self.state();
        if state.followed.contains_key(key) {
            return None;
        }
        state.followed.insert(key.clone(), None);
        Some(Followed)
    }

    /// Keeps what ends the following of an attempt, while it is followed.
    pub(super) fn keep(&self, key: &AttemptKey, task: AbortHandle) {
        if let Some(followed) = self.state().followed.get_mut(key) {
            *followed = Some(task);
        }
    }

    pub(super) fn leave(&self, key: &AttemptKey) {
        self.state().followed.remove(key);
    }

    pub(super) fn abort(&self) {
        self.state().followed.values().flatten().for_each(AbortHandle::abort);
    }

    pub(super) fn cancel(&self, key: &AttemptKey) {
        self.state().cancelled.insert(key.clone());
    }

    pub(super) fn is_cancelled(&self, key: &AttemptKey) -> bool {
        self.state().cancelled.contains(key)
    }

    /// Forgets an attempt, unless it has not ended.
    pub(super) fn forget(&self, key: &AttemptKey) -> bool {
        let mut state = self.state();
        let ended = !state.followed.contains_key(key);
        if ended {
            state.forgotten.insert(key.clone());
        }
        ended
    }

    pub(super) fn is_forgotten(&self, key: &AttemptKey) -> bool {
        self.state().forgotten.contains(key)
    }
}
