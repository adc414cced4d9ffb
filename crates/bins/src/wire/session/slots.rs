//! What an agent may start, and when: the lease, which counts from the sending of the heartbeat that renewed it, and whose slot an
//! attempt inherits. Starts nothing.
//!
//! The server passes the slot of an end to the oldest attempt it sent to wait there, else frees it. The agent knows which
//! of the two happened by numbers alone: a frame of assignments says up to which frame of the agent the deciding batch had
//! looked. A vacancy whose end lies beyond was not seen free yet, so the assignment has it; one at or below is gone.

use std::collections::{BTreeMap, VecDeque};

use orlop_core::task::TaskRef;

use super::super::frame::{ServerFrame, WorkerFrame};
use super::MILLI;

/// Heartbeats without an answer that are remembered; the oldest are forgotten, and their answers count for later ones
/// never.
const UNANSWERED: usize = 64;

/// The lease of one session. Times are in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    /// When the unanswered heartbeats of this stream were sent, the oldest first.
    sent: VecDeque<u64>,
    /// Of the heartbeats of this stream so many were forgotten unanswered.
    forgotten: u64,
    until: u64,
}

impl Lease {
    /// A heartbeat leaves.
    pub fn beat(&mut self, now: u64) {
        if self.sent.len() == UNANSWERED {
            self.sent.pop_front();
            self.forgotten += 1;
        }
        self.sent.push_back(now);
    }

    /// The oldest unanswered heartbeat is answered.
    pub fn answered(&mut self, lease_ms: u32) {
        if self.forgotten > 0 {
            self.forgotten -= 1;
        } else if let Some(sent) = self.sent.pop_front() {
            self.granted(sent, lease_ms);
        }
    }

    /// A heartbeat that was sent by another way is answered.
    pub fn granted(&mut self, sent: u64, lease_ms: u32) {
        self.until = self.until.max(sent.saturating_add(u64::from(lease_ms) * MILLI));
    }

    /// Heartbeats of a broken stream are never answered.
    pub fn broken(&mut self) {
        self.sent.clear();
        self.forgotten = 0;
    }

    /// Until when it holds; 0 where there never was one.
    #[must_use]
    pub fn until(&self) -> u64 {
        self.until
    }
}

/// A slot that is free here while the server does not know it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vacancy {
    /// Whose end left it.
    ended: TaskRef,
    /// The frame that carries the end; none while it is not in one.
    mark: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Line {
    waiting: VecDeque<TaskRef>,
    vacancies: VecDeque<Vacancy>,
    /// Attempts that hold a slot.
    live: usize,
    /// Since when somebody waits though nobody holds a slot.
    stuck: Option<u64>,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.vacancies.is_empty() && self.live == 0
    }
}

/// Local queues by tenant and class.
#[derive(Clone, Debug)]
pub struct Slots<K> {
    lines: BTreeMap<K, Line>,
    /// The lines of ends that left vacancies.
    ends: BTreeMap<TaskRef, K>,
}

impl<K> Default for Slots<K> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), ends: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Slots<K> {
    /// A frame of the server came that was not there before: vacancies up to the frame of the agent that it acknowledges
    /// are gone. To be called before its assignments. Frames without a number say nothing about batches.
    pub fn received(&mut self, frame: &ServerFrame) {
        if frame.seq == 0 {
            return;
        }
        let ends = &mut self.ends;
        self.lines.retain(|_, line| {
            line.vacancies.retain(|vacancy| {
                let stays = vacancy.mark.is_none_or(|mark| mark > frame.ack);
                if !stays {
                    ends.remove(&vacancy.ended);
                }
                stays
            });
            !line.is_empty()
        });
    }

    /// An attempt starts in a slot that the server charged for it.
    pub fn started(&mut self, key: &K) {
        self.lines.entry(key.clone()).or_default().live += 1;
    }

    /// Whether an attempt that inherits would start at once.
    #[must_use]
    pub fn is_vacant(&self, key: &K) -> bool {
        self.lines.get(key).is_some_and(|line| !line.vacancies.is_empty())
    }

    /// An attempt came that inherits. True when it is to start at once in a vacancy; else it waits.
    #[must_use]
    pub fn inherit(&mut self, key: &K, attempt: TaskRef) -> bool {
        let line = self.lines.entry(key.clone()).or_default();
        match line.vacancies.pop_front() {
            Some(vacancy) => {
                self.ends.remove(&vacancy.ended);
                line.live += 1;
                true
            }
            None => {
                line.waiting.push_back(attempt);
                false
            }
        }
    }

    /// An attempt that held a slot ended. Returned is the attempt that is to start in its place; without one the slot is
    /// vacant until the server knows. The start is to be reported after the end.
    #[must_use]
    pub fn ended(&mut self, key: &K, attempt: TaskRef) -> Option<TaskRef> {
        let line = self.lines.entry(key.clone()).or_default();
        let next = line.waiting.pop_front();
        if next.is_none() {
            line.live = line.live.saturating_sub(1);
            line.vacancies.push_back(Vacancy { ended: attempt, mark: None });
            self.ends.insert(attempt, key.clone());
        }
        next
    }

    /// A frame was made: its ends have its number.
    pub fn framed(&mut self, frame: &WorkerFrame) {
        if frame.seq == 0 || self.ends.is_empty() {
            return;
        }
        for result in &frame.results {
            let Some(line) = self.ends.get(&result.attempt()).and_then(|key| self.lines.get_mut(key)) else { continue };
            for vacancy in line.vacancies.iter_mut().filter(|vacancy| vacancy.ended == result.attempt()) {
                vacancy.mark = Some(frame.seq);
            }
        }
    }

    /// A new stream of the session, on which frames up to `received` are not made again: ends in later ones have no
    /// number until they are, and another one then perhaps.
    pub fn resumed(&mut self, received: u64) {
        for vacancy in self.lines.values_mut().flat_map(|line| &mut line.vacancies) {
            vacancy.mark = vacancy.mark.filter(|mark| *mark <= received);
        }
    }

    /// A waiting attempt is not to start: true if it was waiting.
    pub fn revoke(&mut self, key: &K, attempt: TaskRef) -> bool {
        let Some(line) = self.lines.get_mut(key) else { return false };
        let before = line.waiting.len();
        line.waiting.retain(|waiting| *waiting != attempt);
        line.waiting.len() < before
    }

    /// Attempts that wait, of all lines.
    pub fn waiting(&self) -> impl Iterator<Item = TaskRef> {
        self.lines.values().flat_map(|line| &line.waiting).copied()
    }

    /// Whether so many attempts at least wait for each that holds a slot, in every line where one does.
    #[must_use]
    pub fn are_fed(&self, each: usize) -> bool {
        let mut live = self.lines.values().filter(|line| line.live > 0).peekable();
        live.peek().is_some() && live.all(|line| line.waiting.len() >= each * line.live)
    }

    /// Attempts that wait in lines where nobody holds a slot since `patience`: nothing will ever end for them. They wait no
    /// longer.
    pub fn stuck(&mut self, now: u64, patience: u64) -> Vec<TaskRef> {
        let mut given_back = Vec::new();
        for line in self.lines.values_mut() {
            if line.live > 0 || line.waiting.is_empty() {
                line.stuck = None;
            } else if now.saturating_sub(*line.stuck.get_or_insert(now)) >= patience {
                given_back.extend(line.waiting.drain(..));
            }
        }
        given_back
    }

    /// A new session began: nothing is vacant.
    pub fn new_session(&mut self) {
        self.ends.clear();
        self.lines.values_mut().for_each(|line| line.vacancies.clear());
        self.lines.retain(|_, line| !line.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_the_sending_of_the_heartbeat_it_answers() {
        let mut lease = Lease::default();
        lease.beat(1_000);
        lease.beat(5_000_000);
        lease.answered(20_000);
        assert_eq!(lease.until(), 1_000 + 20_000_000);
        lease.answered(20_000);
        assert_eq!(lease.until(), 25_000_000);
        lease.answered(20_000);
        assert_eq!(lease.until(), 25_000_000, "an answer to nothing renews nothing");
    }

    #[test]
    fn an_answer_never_counts_for_a_later_heartbeat() {
        let mut lease = Lease::default();
        (0..=UNANSWERED as u64).for_each(|at| lease.beat(at * 1_000_000));
        lease.answered(1000);
        assert_eq!(lease.until(), 0, "it was for the heartbeat that is forgotten");
        lease.answered(1000);
        assert_eq!(lease.until(), 2_000_000);
        lease.broken();
        lease.answered(1000);
        assert_eq!(lease.until(), 2_000_000);
        lease.granted(500, 1);
        assert_eq!(lease.until(), 2_000_000, "a lease is never shortened");
    }
}
