//! Requests made under idempotency keys lately: who repeats one while its first is not committed yet, or before the store
//! shows it, gets the same answer.

use std::collections::{HashMap, VecDeque};

use orlop_core::id::JobId;
use orlop_core::ports::fleet_store::IdempotencyKey;

/// How many keys the window holds.
const WINDOW: usize = 65_536;

/// What a request got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Hash of its body.
    pub(crate) body_hash: [u8; 32],
    /// The jobs it made.
    pub(crate) jobs: Vec<JobId>,
    /// What its client was answered beside.
    pub(crate) warnings: Vec<String>,
}

/// The window.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    known: HashMap<IdempotencyKey, Answered>,
    order: VecDeque<IdempotencyKey>,
}

impl Keys {
    pub(crate) fn get(&self, key: &IdempotencyKey) -> Option<&Answered> {
        self.known.get(key)
    }

    pub(crate) fn insert(&mut self, key: IdempotencyKey, answered: Answered) {
        if self.known.insert(key.clone(), answered).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > WINDOW {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_forgets_the_oldest() {
        let key = |number: usize| IdempotencyKey { tenant: "t".parse().unwrap(), key: number.to_string() };
        let answered = Answered { body_hash: [1; 32], jobs: vec![JobId::from_u64(1)], warnings: Vec::new() };
        let mut keys = Keys::default();
        (0..=WINDOW).for_each(|number| keys.insert(key(number), answered.clone()));
        assert_eq!(keys.get(&key(0)), None);
        assert_eq!(keys.get(&key(1)), Some(&answered));
    }
}
