//! Whose slot an attempt inherits, on the agent (scheduler contract, section 2.8). Owns the local queue of each tenant
//! and class and the vacancies of ends that found it empty; starts nothing.
//!
//! The server passes the slot of an end to the oldest attempt it sent to wait there, else frees it. The agent knows which
//! of the two happened by numbers alone: a frame of assignments says up to which frame of the agent the deciding turn had
//! looked. A vacancy whose end lies beyond was not seen free yet, so the assignment has it; one at or below is gone.

use std::collections::{BTreeMap, VecDeque};

use orlop_scheduler::token::AttemptRef;

use super::super::attempt::AssignJob;
use super::super::frame::{ServerFrame, WorkerFrame};

/// A slot that is free here while the server does not know it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Vacancy {
    /// Whose end left it.
    ended: AttemptRef,
    /// The frame that carries the end; none while it is not in one.
    mark: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Line {
    waiting: VecDeque<AssignJob>,
    vacancies: VecDeque<Vacancy>,
}

/// Local queues by tenant and class.
#[derive(Clone, Debug)]
pub struct Slots<K> {
    lines: BTreeMap<K, Line>,
    /// Ends that are in no frame yet, with their line.
    unframed: BTreeMap<AttemptRef, K>,
}

impl<K> Default for Slots<K> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), unframed: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Slots<K> {
    /// A frame of the server came that was not there before: vacancies up to the frame of the agent that it acknowledges
    /// are gone. To be called before its assignments. Frames without a number say nothing about turns.
    pub fn received(&mut self, frame: &ServerFrame) {
        if frame.seq == 0 {
            return;
        }
        for line in self.lines.values_mut() {
            line.vacancies.retain(|vacancy| vacancy.mark.is_none_or(|mark| mark > frame.ack));
        }
        self.lines.retain(|_, line| !line.waiting.is_empty() || !line.vacancies.is_empty());
    }

    /// An attempt came that inherits. Returned, it is to start at once in a vacancy; else it waits.
    #[must_use]
    pub fn inherit(&mut self, key: &K, assign: AssignJob) -> Option<AssignJob> {
        let line = self.lines.entry(key.clone()).or_default();
        match line.vacancies.pop_front() {
            Some(vacancy) => {
                self.unframed.remove(&vacancy.ended);
                Some(assign)
            }
            None => {
                line.waiting.push_back(assign);
                None
            }
        }
    }

    /// An attempt that held a slot ended. Returned is the attempt that is to start in its place; without one the slot is
    /// vacant until the server knows. The start is to be reported after the end.
    #[must_use]
    pub fn ended(&mut self, key: &K, attempt: AttemptRef) -> Option<AssignJob> {
        let line = self.lines.entry(key.clone()).or_default();
        let next = line.waiting.pop_front();
        if next.is_none() {
            line.vacancies.push_back(Vacancy { ended: attempt, mark: None });
            self.unframed.insert(attempt, key.clone());
        }
        next
    }

    /// A frame was made for the first time: its ends now have a number.
    pub fn framed(&mut self, frame: &WorkerFrame) {
        if frame.seq == 0 || self.unframed.is_empty() {
            return;
        }
        for result in &frame.results {
            let Some(key) = self.unframed.remove(&result.attempt) else { continue };
            let vacancies = self.lines.get_mut(&key).map(|line| &mut line.vacancies);
            for vacancy in vacancies.into_iter().flatten().filter(|vacancy| vacancy.ended == result.attempt) {
                vacancy.mark = Some(frame.seq);
            }
        }
    }

    /// A waiting attempt is not to start: true if it was waiting.
    pub fn revoke(&mut self, key: &K, attempt: AttemptRef) -> bool {
        let Some(line) = self.lines.get_mut(key) else { return false };
        let before = line.waiting.len();
        line.waiting.retain(|assign| assign.attempt != attempt);
        line.waiting.len() < before
    }

    /// Attempts that wait, of all lines.
    pub fn waiting(&self) -> impl Iterator<Item = &AssignJob> {
        self.lines.values().flat_map(|line| &line.waiting)
    }

    /// A new session began: nothing is vacant, and what waited is returned.
    pub fn clear(&mut self) -> Vec<AssignJob> {
        self.unframed.clear();
        std::mem::take(&mut self.lines).into_values().flat_map(|line| line.waiting).collect()
    }
}
