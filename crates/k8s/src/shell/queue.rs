//! A queue of keys: each waits at most once, is worked on by one at a time, and none is passed over for another that came
//! later. Owns order and delays; the clock and the workers are the caller's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use orlop_core::time::Time;

/// A work queue: keys to be worked on, now or later. A key is in it once, and only one worker has it at a time.
///
/// ```
/// use orlop_core::time::Time;
/// let mut queue = orlop_k8s::shell::Queue::default();
/// queue.add("a");
/// queue.add("a");
/// assert_eq!(queue.take(Time::EPOCH), Some("a"));
/// queue.add("a");
/// assert_eq!(queue.take(Time::EPOCH), None, "somebody works on it");
/// queue.done(&"a");
/// assert_eq!(queue.take(Time::EPOCH), Some("a"), "it was asked for meanwhile");
/// ```
#[derive(Clone, Debug)]
pub struct Queue<K> {
    ready: VecDeque<K>,
    /// Keys in `ready`, and those to be put there when their worker is done.
    wanted: BTreeSet<K>,
    running: BTreeSet<K>,
    later: BTreeSet<(Time, K)>,
    due: BTreeMap<K, Time>,
    /// Keys that were taken.
    taken: u64,
}

/// Of so many keys one is taken in its turn.
const TURN: u64 = 16;
/// Keys that are searched for one that comes first.
const LOOKED_AT: usize = 4096;

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            wanted: BTreeSet::new(),
            running: BTreeSet::new(),
            later: BTreeSet::new(),
            due: BTreeMap::new(),
            taken: 0,
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// A key is to be worked on as soon as those before it are.
    pub fn add(&mut self, key: K) {
        if self.wanted.insert(key.clone()) && !self.running.contains(&key) {
            self.ready.push_back(key);
        }
    }

    /// A key is to be worked on at that time, if not before. Of several times the earliest counts.
    pub fn add_at(&mut self, key: K, at: Time) {
        match self.due.get(&key) {
            Some(known) if *known <= at => return,
            Some(known) => drop(self.later.remove(&(*known, key.clone()))),
            None => {}
        }
        self.due.insert(key.clone(), at);
        self.later.insert((at, key));
    }

    /// The next key, which then counts as being worked on.
    pub fn take(&mut self, now: Time) -> Option<K> {
        self.take_first(now, |_| true)
    }

    /// The same of those that come first, where there is one; of every few keys the next one is taken, whatever it is.
    pub fn take_first(&mut self, now: Time, comes_first: impl Fn(&K) -> bool) -> Option<K> {
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.later.pop_first() {
                self.due.remove(&key);
                self.add(key);
            }
        }
        self.taken = self.taken.wrapping_add(1);
        let any = self.taken.is_multiple_of(TURN);
        let at = self.ready.iter().take(LOOKED_AT).position(|key| any || comes_first(key)).unwrap_or(0);
        let key = self.ready.remove(at)?;
        self.wanted.remove(&key);
        self.running.insert(key.clone());
        // Whoever works on it says when it is due again.
        if let Some(at) = self.due.remove(&key) {
            self.later.remove(&(at, key.clone()));
        }
        Some(key)
    }

    /// Nobody works on a key any more.
    pub fn done(&mut self, key: &K) {
        if self.running.remove(key) && self.wanted.contains(key) {
            self.ready.push_back(key.clone());
        }
    }

    /// When the first of those that wait for a time is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Keys that could be worked on now.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.ready.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    #[test]
    fn keys_come_in_order_and_once() {
        let mut queue = Queue::default();
        for key in ["b", "a", "b", "c", "a"] {
            queue.add(key);
        }
        assert_eq!(queue.depth(), 3);
        let order: Vec<_> = std::iter::from_fn(|| queue.take(at(0))).collect();
        assert_eq!(order, ["b", "a", "c"]);
    }

    #[test]
    fn who_comes_first_is_taken_before_the_others_and_holds_nobody_up_for_ever() {
        let mut queue = Queue::default();
        (0..20).for_each(|key| queue.add(key));
        (100..120).for_each(|key| queue.add(key));
        let order: Vec<i32> = std::iter::from_fn(|| queue.take_first(at(0), |key| *key >= 100)).collect();
        assert!(order[..15].iter().copied().eq(100..115), "{order:?}");
        assert_eq!(order[15..17], [0, 115]);
        assert_eq!((order.len(), order[21..].is_sorted()), (40, true));
    }

    #[test]
    fn the_earliest_of_several_times_counts() {
        let mut queue = Queue::default();
        queue.add_at("a", at(9));
        queue.add_at("a", at(5));
        queue.add_at("a", at(7));
        assert_eq!((queue.next_due(), queue.take(at(4))), (Some(at(5)), None));
        assert_eq!((queue.take(at(5)), queue.next_due()), (Some("a"), None));
    }

    #[test]
    fn what_is_taken_is_not_due_any_more() {
        let mut queue = Queue::default();
        queue.add_at("a", at(5));
        queue.add("a");
        assert_eq!((queue.take(at(0)), queue.next_due()), (Some("a"), None));
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Add(u8),
        Later(u8, i64),
        Take(i64),
        Done(u8),
    }

    fn deed() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (0_u8..4).prop_map(Operation::Add),
            (0_u8..4, 0_i64..20).prop_map(|(key, at)| Operation::Later(key, at)),
            (0_i64..20).prop_map(Operation::Take),
            (0_u8..4).prop_map(Operation::Done),
        ]
    }

    proptest! {
        /// Against a model: what was asked for is given, nothing twice at a time, nothing that was not asked for.
        #[test]
        fn nothing_is_lost_and_nothing_runs_twice_at_once(deeds in prop::collection::vec(deed(), 0..60)) {
            let mut queue = Queue::default();
            let (mut wanted, mut running) = (BTreeSet::new(), BTreeSet::new());
            let mut now = 0;
            for deed in deeds {
                match deed {
                    Operation::Add(key) => {
                        queue.add(key);
                        wanted.insert(key);
                    }
                    Operation::Later(key, seconds) => {
                        queue.add_at(key, at(seconds));
                        wanted.insert(key);
                    }
                    Operation::Take(seconds) => {
                        now = now.max(seconds);
                        if let Some(key) = queue.take(at(now)) {
                            prop_assert!(wanted.remove(&key) && running.insert(key));
                        }
                    }
                    Operation::Done(key) => {
                        queue.done(&key);
                        running.remove(&key);
                    }
                }
            }
            for key in 0..4 {
                queue.done(&key);
            }
            let rest: BTreeSet<u8> = std::iter::from_fn(|| queue.take(at(1_000))).collect();
            prop_assert_eq!(rest, wanted);
        }
    }
}
