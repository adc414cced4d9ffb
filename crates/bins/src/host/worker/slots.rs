//! Which prefilled attempt inherits which slot (scheduler contract, section 2.8). Owns the local queues and the slots left
//! vacant by ends; never starts anything.
//!
//! A prefilled attempt waits for an end of its own kind (tenant and class). An end that finds nobody waiting leaves a
//! vacancy, marked with the frame that tells of the end. The server counts such a slot as free once it has handled that
//! frame, so the vacancy is gone when the server acknowledges it, and an attempt to inherit that was decided before takes
//! it at once.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use orlop_cloud::runtime::worker::AttemptId;

/// Tenant and class of attempts, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Kind(pub(super) u32);

#[derive(Clone, Copy, Debug)]
struct Vacancy {
    /// Whose end left it.
    by: AttemptId,
    /// The frame that tells of that end; none while none was sent.
    frame: Option<u64>,
}

/// What one kind has.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<AttemptId>,
    vacant: VecDeque<Vacancy>,
    live: usize,
    /// Since when somebody waits though nothing of the kind runs.
    stuck: Option<Instant>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Slots {
    queues: BTreeMap<Kind, Queue>,
    /// Whose ends no frame has told of yet.
    untold: BTreeMap<AttemptId, Kind>,
}

impl Slots {
    /// An attempt starts in a slot that the server charged for it.
    pub(super) fn start(&mut self, kind: Kind) {
        self.queues.entry(kind).or_default().live += 1;
    }

    /// An attempt came to inherit a slot. True when there is a vacant one that it takes at once; else it waits.
    pub(super) fn inherit(&mut self, kind: Kind, id: AttemptId) -> bool {
        let queue = self.queues.entry(kind).or_default();
        if let Some(vacancy) = queue.vacant.pop_front() {
            self.untold.remove(&vacancy.by);
            queue.live += 1;
            return true;
        }
        queue.waiting.push_back(id);
        false
    }

    /// An attempt that held a slot ended. Who inherits it and is to start now, if anybody.
    pub(super) fn end(&mut self, kind: Kind, id: AttemptId) -> Option<AttemptId> {
        let queue = self.queues.entry(kind).or_default();
        let next = queue.waiting.pop_front();
        if next.is_none() {
            queue.live = queue.live.saturating_sub(1);
            queue.vacant.push_back(Vacancy { by: id, frame: None });
            self.untold.insert(id, kind);
        }
        next
    }

    /// An attempt that waits is not to start. False when it does not wait.
    pub(super) fn revoke(&mut self, kind: Kind, id: &AttemptId) -> bool {
        let Some(queue) = self.queues.get_mut(&kind) else { return false };
        let before = queue.waiting.len();
        queue.waiting.retain(|waiting| waiting != id);
        queue.waiting.len() < before
    }

    /// The end of an attempt goes out in a frame.
    pub(super) fn told(&mut self, id: &AttemptId, frame: u64) {
        let Some(kind) = self.untold.remove(id) else { return };
        let vacant = self.queues.get_mut(&kind).map(|queue| &mut queue.vacant);
        for vacancy in vacant.into_iter().flatten().filter(|vacancy| vacancy.by == *id) {
            vacancy.frame = Some(frame);
        }
    }

    /// The server has handled all frames up to this one.
    pub(super) fn acknowledged(&mut self, frame: u64) {
        self.queues.retain(|_, queue| {
            queue.vacant.retain(|vacancy| vacancy.frame.is_none_or(|told| told > frame));
            queue.live > 0 || !queue.waiting.is_empty() || !queue.vacant.is_empty()
        });
    }

    /// A new session: the server counts no slot as vacant.
    pub(super) fn new_session(&mut self) {
        self.untold.clear();
        self.queues.values_mut().for_each(|queue| queue.vacant.clear());
    }

    /// Attempts that wait for a slot of a kind of which nothing runs since some time: nothing will ever end for them. They
    /// are given back.
    pub(super) fn stuck(&mut self, now: Instant, patience: Duration) -> Vec<AttemptId> {
        let mut given_back = Vec::new();
        for queue in self.queues.values_mut() {
            if queue.live > 0 || queue.waiting.is_empty() {
                queue.stuck = None;
            } else if now.saturating_duration_since(*queue.stuck.get_or_insert(now)) >= patience {
                given_back.extend(queue.waiting.drain(..));
            }
        }
        given_back
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};

    use super::*;

    const A: Kind = Kind(1);
    const B: Kind = Kind(2);

    fn id(job: u64) -> AttemptId {
        AttemptId { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
    }

    #[test]
    fn s28_an_end_passes_its_slot_to_the_oldest_waiting_of_its_kind() {
        let mut slots = Slots::default();
        slots.start(A);
        assert!(!slots.inherit(A, id(2)) && !slots.inherit(A, id(3)) && !slots.inherit(B, id(4)));
        assert_eq!(slots.end(A, id(1)), Some(id(2)));
        assert_eq!(slots.end(A, id(2)), Some(id(3)));
        assert_eq!(slots.end(A, id(3)), None);
        assert!(slots.revoke(B, &id(4)), "of another kind: it waits on");
    }

    #[test]
    fn s28_a_vacancy_is_taken_at_once_until_its_frame_is_acknowledged() {
        let mut slots = Slots::default();
        slots.start(A);
        slots.start(A);
        assert_eq!((slots.end(A, id(1)), slots.end(A, id(2))), (None, None));
        slots.told(&id(1), 7);
        slots.acknowledged(6);
        assert!(slots.inherit(A, id(3)), "the server had not handled the end when it decided");
        slots.told(&id(2), 8);
        slots.acknowledged(8);
        assert!(!slots.inherit(A, id(4)), "the slot was counted as free");
    }

    #[test]
    fn s28_a_vacancy_nobody_was_told_of_stays() {
        let mut slots = Slots::default();
        slots.start(A);
        assert_eq!(slots.end(A, id(1)), None);
        slots.acknowledged(100);
        assert!(slots.inherit(A, id(2)));
    }

    #[test]
    fn s28_who_waits_can_be_revoked_and_does_not_wait_for_ever() {
        let mut slots = Slots::default();
        assert!(!slots.inherit(A, id(1)) && !slots.inherit(A, id(2)));
        assert!(slots.revoke(A, &id(1)) && !slots.revoke(A, &id(1)) && !slots.revoke(B, &id(2)));
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        assert!(slots.stuck(now, second).is_empty());
        assert_eq!(slots.stuck(now + second, second), [id(2)]);
        slots.start(A);
        assert!(!slots.inherit(A, id(3)));
        assert!(slots.stuck(now, second).is_empty() && slots.stuck(now + 2 * second, second).is_empty());
    }

    #[test]
    fn a_new_session_knows_no_vacancies() {
        let mut slots = Slots::default();
        slots.start(A);
        assert_eq!(slots.end(A, id(1)), None);
        slots.new_session();
        assert!(!slots.inherit(A, id(2)));
    }
}
