//! A journal in memory, which can be told when whoever writes it dies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use orlop_core::time::Time;

use super::{Entry, Journal, JournalError, Line};

#[derive(Debug, Default)]
struct MemoryState {
    lines: Vec<Line>,
    kill: Option<(usize, bool)>,
    full: Option<usize>,
}

/// A journal in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal(Arc<Mutex<MemoryState>>);

impl MemoryJournal {
    fn held(&self) -> MutexGuard<'_, MemoryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that has these lines already.
    #[must_use]
    pub fn of(lines: Vec<Line>) -> Self {
        let journal = Self::default();
        journal.held().lines = lines;
        journal
    }

    /// Whoever writes the line of this number, from 0, dies just before it is durable.
    pub fn kill_before(&self, number: usize) {
        self.held().kill = Some((number, false));
    }

    /// Whoever writes the line of this number, from 0, dies just after it is durable.
    pub fn kill_after(&self, number: usize) {
        self.held().kill = Some((number, true));
    }

    /// From the line of this number on, from 0, nothing can be written any more.
    pub fn full_at(&self, number: Option<usize>) {
        self.held().full = number;
    }

    /// Everything written so far.
    #[must_use]
    pub fn written(&self) -> Vec<Line> {
        self.held().lines.clone()
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn lines(&self) -> Result<Vec<Line>, JournalError> {
        Ok(self.written())
    }

    async fn append(&self, now: Time, attempt: u32, entry: &Entry) -> Result<(), JournalError> {
        let dies = {
            let mut held = self.held();
            let number = held.lines.len();
            if held.full.is_some_and(|full| number >= full) {
                return Err(JournalError::Storage { what: "no space is left".to_owned() });
            }
            let dies = held.kill.filter(|(at, _)| *at == number);
            if dies.is_some() {
                held.kill = None;
            }
            if dies.is_none_or(|(_, after)| after) {
                held.lines.push(Line { seq: number as u64 + 1, ts: now, attempt, entry: entry.clone() });
            }
            dies
        };
        if dies.is_some() {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}
