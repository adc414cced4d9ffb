//! What the loop knows beside the core: which specification and client fields a live job has, who waits for its end or its next
//! change, which requests were made under a key, and the workers with their sessions and what goes out to them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use orlop_core::id::{JobId, SessionId, WorkerId};
use orlop_core::ports::fleet_store::IdempotencyKey;
use orlop_core::task::TaskRef;
use orlop_core::time::Time;
use orlop_scheduler::effect::JobPart;
use orlop_scheduler::token::WorkerKey;
use tokio::sync::oneshot;

use super::session::{Batch, Session};
use super::spec::Interned;
use crate::wire::status::WorkerStatus;

/// What a client said about a job that is neither placement nor what is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFields {
    /// Follows the request through all parts.
    pub correlation_id: Option<Box<str>>,
    /// W3C trace context.
    pub traceparent: Option<Box<str>>,
}

/// A job that is not final.
#[derive(Clone, Debug)]
pub(super) struct LiveJob {
    /// What it is.
    pub(super) spec: Arc<Interned>,
    /// What its client said, if anything.
    pub(super) client: Option<Arc<ClientFields>>,
    /// It is an array.
    pub(super) array: bool,
    /// Its array was stored as Running.
    pub(super) shown_running: bool,
}

/// Jobs that are not final.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    live: HashMap<JobId, LiveJob, ByNumber>,
    waiters: HashMap<JobId, Vec<oneshot::Sender<()>>, ByNumber>,
}

impl Jobs {
    pub(super) fn insert(&mut self, id: JobId, job: LiveJob) {
        self.live.insert(id, job);
    }

    pub(super) fn get(&self, id: JobId) -> Option<&LiveJob> {
        self.live.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut LiveJob> {
        self.live.get_mut(&id)
    }

    /// Forgets a job that is final, and gives those who waited for that.
    pub(super) fn finish(&mut self, id: JobId) -> Vec<oneshot::Sender<()>> {
        self.live.remove(&id);
        if self.waiters.is_empty() { Vec::new() } else { self.waiters.remove(&id).unwrap_or_default() }
    }

    /// Lets somebody wait for the end of a job. One that is not live has ended, or was never there: the waiter comes back.
    pub(super) fn wait(&mut self, id: JobId, waiter: oneshot::Sender<()>) -> Option<oneshot::Sender<()>> {
        if !self.live.contains_key(&id) {
            return Some(waiter);
        }
        let waiters = self.waiters.entry(id).or_default();
        waiters.retain(|known| !known.is_closed());
        waiters.push(waiter);
        None
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (JobId, &LiveJob)> {
        self.live.iter().map(|(id, job)| (*id, job))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.live.len()
    }
}

/// What a worker that came back has yet to send before it is known what it lost.
#[derive(Clone, Debug)]
pub(super) struct Syncing {
    /// The last frame that it held.
    pub(super) until: u64,
    /// Attempts that are lost unless one of these frames tells their end.
    pub(super) missing: BTreeSet<TaskRef>,
}

/// One incarnation of a worker.
#[derive(Debug)]
pub(super) struct LiveWorker {
    /// Its id.
    pub(super) id: WorkerId,
    /// Which incarnation of it.
    pub(super) incarnation: u32,
    /// Names the state directory of its agent.
    pub(super) state_id: String,
    /// Where that is, as its agent said when it registered; empty = unknown.
    pub(super) place: String,
    /// Version of its agent.
    pub(super) agent_version: String,
    /// When it registered.
    pub(super) registered_at: Option<Time>,
    /// Since when it is in its state, and why.
    pub(super) since: Time,
    /// Why it is in its state.
    pub(super) reason: String,
    /// Why it is to leave, as an operator said.
    pub(super) drain_reason: String,
    /// An operator cordoned or drained its id, and has not undone that: it gets no new work, in its next incarnations neither.
    pub(super) barred: bool,
    /// Its labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Its session, from its registration on.
    pub(super) session: Option<Arc<Session>>,
    /// Number of the stream that is up; none while there is none.
    pub(super) stream: Option<u64>,
    /// What it has yet to send since it came back.
    pub(super) syncing: Option<Syncing>,
    /// What goes out to it after this batch.
    pub(super) out: Batch,
    /// What it last reported.
    pub(super) status: Option<Arc<WorkerStatus>>,
    /// The last frame of its session that was applied.
    pub(super) applied: u64,
}

/// All workers that are known.
#[derive(Debug, Default)]
pub(super) struct Workers {
    known: HashMap<WorkerKey, LiveWorker>,
    sessions: HashMap<SessionId, WorkerKey>,
}

impl Workers {
    pub(super) fn get(&self, key: WorkerKey) -> Option<&LiveWorker> {
        self.known.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: WorkerKey) -> Option<&mut LiveWorker> {
        self.known.get_mut(&key)
    }

    pub(super) fn insert(&mut self, key: WorkerKey, worker: LiveWorker) {
        self.known.insert(key, worker);
    }

    /// Gives a worker a session; the one it had is over.
    pub(super) fn set_session(&mut self, key: WorkerKey, session: Arc<Session>) -> Option<Arc<Session>> {
        let worker = self.known.get_mut(&key)?;
        self.sessions.insert(session.id(), key);
        let old = worker.session.replace(session);
        if let Some(old) = &old {
            self.sessions.remove(&old.id());
        }
        old
    }

    /// The worker that a session speaks for.
    pub(super) fn by_session(&self, session: SessionId) -> Option<WorkerKey> {
        self.sessions.get(&session).copied()
    }

    /// Ends the session of a worker.
    pub(super) fn end_session(&mut self, key: WorkerKey) -> Option<Arc<Session>> {
        let worker = self.known.get_mut(&key)?;
        (worker.stream, worker.syncing) = (None, None);
        let old = worker.session.take()?;
        self.sessions.remove(&old.id());
        Some(old)
    }

    /// Forgets workers that the core forgot.
    pub(super) fn retain(&mut self, mut known: impl FnMut(WorkerKey) -> bool) {
        self.known.retain(|key, _| known(*key));
        let known = &self.known;
        self.sessions.retain(|_, key| known.contains_key(key));
    }

    /// All of them, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (WorkerKey, &LiveWorker)> {
        self.known.iter().map(|(key, worker)| (*key, worker))
    }
}

type Waiter = oneshot::Sender<()>;

/// Anyone who waits for a change of any element of an array, or of the whole: no element has this index.
pub(super) const ANY: u32 = u32::MAX;

/// Those who wait, by job and element; of jobs that are no arrays the element is 0.
#[derive(Debug, Default)]
pub(super) struct Watchers(BTreeMap<(JobId, u32), Vec<Waiter>>);

impl Watchers {
    /// Lets somebody wait.
    pub(super) fn add(&mut self, job: JobId, index: u32, waiter: Waiter) {
        let waiters = self.0.entry((job, index)).or_default();
        // Who waits for something else as well may have gone.
        waiters.retain(|known| !known.is_closed());
        waiters.push(waiter);
    }

    /// Something of a job changed: who waited for that.
    pub(super) fn changed(&mut self, job: JobId, part: JobPart) -> Vec<Waiter> {
        let (first, last) = match part {
            JobPart::Whole => (0, u32::MAX),
            JobPart::Elements(first, last) => (first, last),
        };
        if self.0.is_empty() || first > last {
            return Vec::new();
        }
        let mut keys: Vec<_> = self.0.range((job, first)..=(job, last)).map(|(key, _)| *key).collect();
        keys.extend((last < ANY).then_some((job, ANY)));
        keys.iter().filter_map(|key| self.0.remove(key)).flatten().collect()
    }
}

/// Requests that are remembered.
const KEYS_MAX: usize = 65_536;

/// What a request got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// Hash of its body.
    pub(super) body_hash: [u8; 32],
    /// The jobs it made.
    pub(super) jobs: Vec<JobId>,
    /// What its client was answered beside.
    pub(super) warnings: Vec<String>,
}

/// Answers to the last requests with an idempotency key, the oldest forgotten first.
#[derive(Debug, Default)]
pub(super) struct Keys {
    known: HashMap<IdempotencyKey, Answered>,
    order: VecDeque<IdempotencyKey>,
}

impl Keys {
    pub(super) fn get(&self, key: &IdempotencyKey) -> Option<&Answered> {
        self.known.get(key)
    }

    pub(super) fn insert(&mut self, key: IdempotencyKey, answered: Answered) {
        if self.known.insert(key.clone(), answered).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > KEYS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

/// Builds the hasher of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ByNumber;

/// Mixes numbers by multiplication with the golden ratio.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mixed(u64);

impl BuildHasher for ByNumber {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed::default()
    }
}

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Tables take their place from the low bits and their tag from the high ones.
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use orlop_core::id::{Epoch, JobId};

    use super::*;

    #[test]
    fn a_change_wakes_who_waits_for_that_part_and_no_others() {
        let (one, two) = (JobId::from_u64(1), JobId::from_u64(2));
        let mut watchers = Watchers::default();
        let add = |watchers: &mut Watchers, job, index| {
            let (waiter, waits) = oneshot::channel();
            watchers.add(job, index, waiter);
            waits
        };
        let _kept = [add(&mut watchers, one, 0), add(&mut watchers, one, 7), add(&mut watchers, two, 7)];
        assert_eq!(watchers.changed(one, JobPart::Elements(1, 6)).len(), 0);
        let _any = [add(&mut watchers, one, ANY), add(&mut watchers, two, ANY)];
        assert_eq!(watchers.changed(one, JobPart::Elements(1, 6)).len(), 1, "who waits for any");
        assert_eq!(watchers.changed(one, JobPart::Elements(5, 9)).len(), 1);
        assert_eq!(watchers.changed(one, JobPart::Whole).len(), 1);
        assert_eq!(watchers.changed(one, JobPart::Whole).len(), 0, "once each");
        assert_eq!(watchers.changed(two, JobPart::Whole).len(), 2);
    }

    #[test]
    fn who_has_gone_is_forgotten() {
        let mut watchers = Watchers::default();
        for _ in 0..100 {
            let (waiter, _) = oneshot::channel();
            watchers.add(JobId::from_u64(1), 0, waiter);
        }
        assert_eq!(watchers.changed(JobId::from_u64(1), JobPart::Whole).len(), 1);
    }

    #[test]
    fn the_window_forgets_the_oldest() {
        let key = |number: usize| IdempotencyKey { tenant: "t".parse().unwrap(), key: number.to_string() };
        let answered = Answered { body_hash: [1; 32], jobs: vec![JobId::from_u64(1)], warnings: Vec::new() };
        let mut keys = Keys::default();
        (0..=KEYS_MAX).for_each(|number| keys.insert(key(number), answered.clone()));
        assert_eq!(keys.get(&key(0)), None);
        assert_eq!(keys.get(&key(1)), Some(&answered));
    }

    #[test]
    fn ids_in_a_row_spread_over_low_bits() {
        let ids = (0..1024).filter_map(|counter| JobId::new(Epoch(7), counter));
        let places: HashSet<u64> = ids.map(|id| ByNumber.hash_one(id) & 1023).collect();
        assert!(places.len() > 512, "{}", places.len());
    }
}
