//! Workers as the loop knows them: who they are to people and stores, their sessions, and what goes out to them in this
//! batch.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use orlop_core::id::{SessionId, WorkerId};
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use orlop_scheduler::token::WorkerKey;

use super::super::session::{Batch, Session};
use crate::wire::status::WorkerStatus;

/// What a worker that came back has yet to send before it is known what it lost.
#[derive(Clone, Debug)]
pub(crate) struct Syncing {
    /// The last frame that it had spooled.
    pub(crate) until: u64,
    /// Attempts that are lost unless one of these frames tells their end.
    pub(crate) missing: BTreeSet<TaskRef>,
}

/// One incarnation of a worker.
#[derive(Debug)]
pub(crate) struct LiveWorker {
    /// Its id.
    pub(crate) id: WorkerId,
    /// Which incarnation of it.
    pub(crate) incarnation: u32,
    /// Names the state directory of its agent.
    pub(crate) state_id: String,
    /// Where that is, as its agent said when it registered; empty = unknown.
    pub(crate) place: String,
    /// Version of its agent.
    pub(crate) agent_version: String,
    /// When it registered.
    pub(crate) registered_at: Option<Time>,
    /// Since when it is in its state, and why.
    pub(crate) since: Time,
    /// Why it is in its state.
    pub(crate) reason: String,
    /// Why it is to leave, as an operator said.
    pub(crate) drain_reason: String,
    /// An operator cordoned or drained its id, and has not undone that: it gets no new work, in its next incarnations neither.
    pub(crate) barred: bool,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Its session, from its registration on.
    pub(crate) session: Option<Arc<Session>>,
    /// Number of the stream that is up; none while there is none.
    pub(crate) stream: Option<u64>,
    /// What it has yet to send since it came back.
    pub(crate) syncing: Option<Syncing>,
    /// What goes out to it after this batch.
    pub(crate) out: Batch,
    /// What it last said of itself.
    pub(crate) status: Option<Arc<WorkerStatus>>,
    /// The last frame of its session that was applied.
    pub(crate) applied: u64,
}

/// All workers that are known.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    known: HashMap<WorkerKey, LiveWorker>,
    sessions: HashMap<SessionId, WorkerKey>,
}

impl Workers {
    pub(crate) fn get(&self, key: WorkerKey) -> Option<&LiveWorker> {
        self.known.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: WorkerKey) -> Option<&mut LiveWorker> {
        self.known.get_mut(&key)
    }

    pub(crate) fn insert(&mut self, key: WorkerKey, worker: LiveWorker) {
        self.known.insert(key, worker);
    }

    /// Gives a worker a session; the one it had is over.
    pub(crate) fn set_session(&mut self, key: WorkerKey, session: Arc<Session>) -> Option<Arc<Session>> {
        let worker = self.known.get_mut(&key)?;
        self.sessions.insert(session.id(), key);
        let old = worker.session.replace(session);
        if let Some(old) = &old {
            self.sessions.remove(&old.id());
        }
        old
    }

    /// The worker that a session speaks for.
    pub(crate) fn by_session(&self, session: SessionId) -> Option<WorkerKey> {
        self.sessions.get(&session).copied()
    }

    /// Ends the session of a worker.
    pub(crate) fn end_session(&mut self, key: WorkerKey) -> Option<Arc<Session>> {
        let worker = self.known.get_mut(&key)?;
        (worker.stream, worker.syncing) = (None, None);
        let old = worker.session.take()?;
        self.sessions.remove(&old.id());
        Some(old)
    }

    /// Forgets workers that the core forgot.
    pub(crate) fn retain(&mut self, mut known: impl FnMut(WorkerKey) -> bool) {
        self.known.retain(|key, _| known(*key));
        let known = &self.known;
        self.sessions.retain(|_, key| known.contains_key(key));
    }

    /// All of them, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (WorkerKey, &LiveWorker)> {
        self.known.iter().map(|(key, worker)| (*key, worker))
    }
}
