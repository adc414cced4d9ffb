//! Live Jobs over all flows: how many there may be, who may start how many, and who is next. Owns that account; counts Jobs
//! by what is told, and starts nothing.
//!
//! Flows that want more than there is stand in a line. Whoever is served goes to its end, so that with little room every
//! flow gets a slot in its turn, however many steps another has.

use std::collections::VecDeque;

use super::Key;

/// The account.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Starts under way that no Job is known of yet.
    reserved: usize,
    /// Flows that wait, in the order in which they are served.
    line: VecDeque<Key>,
}

impl Slots {
    /// Slots for a flow that wants so many, of a total with so many Jobs alive. What it does not get it waits for.
    pub(super) fn take(&mut self, key: &Key, wanted: usize, (most, live): (usize, usize)) -> usize {
        let free = most.saturating_sub(live).saturating_sub(self.reserved);
        let place = self.line.iter().position(|known| known == key);
        let ahead = place.unwrap_or(self.line.len());
        if wanted == 0 || ahead >= free {
            if wanted > 0 && place.is_none() {
                self.line.push_back(key.clone());
            }
            return 0;
        }
        let contenders = self.line.len() + usize::from(place.is_none());
        let granted = wanted.min((free / contenders).max(1));
        if let Some(place) = place {
            self.line.remove(place);
        }
        if granted < wanted {
            self.line.push_back(key.clone());
        }
        self.reserved += granted;
        granted
    }

    /// So many starts have come out: their Jobs are known, or there are none.
    pub(super) fn give_back(&mut self, count: usize) {
        self.reserved = self.reserved.saturating_sub(count);
    }

    /// A flow wants nothing any more.
    pub(super) fn leave(&mut self, key: &Key) {
        self.line.retain(|known| known != key);
    }

    /// Who waits and may start something now.
    pub(super) fn next(&self, (most, live): (usize, usize)) -> Vec<Key> {
        let free = most.saturating_sub(live).saturating_sub(self.reserved);
        self.line.iter().take(free).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(number: usize) -> Key {
        Key { namespace: "n".into(), name: format!("f{number}") }
    }

    #[test]
    fn who_comes_first_gets_what_is_there_and_the_rest_in_turns() {
        let mut slots = Slots::default();
        assert_eq!(slots.take(&key(0), 16, (10, 0)), 10);
        slots.give_back(10);
        assert_eq!(slots.take(&key(1), 16, (10, 10)), 0);
        assert_eq!(slots.take(&key(2), 1, (10, 10)), 0);
        assert_eq!(slots.next((10, 10)), []);
        // One Job ends: the first in line is the first flow, which already had its share.
        assert_eq!(slots.next((10, 9)), [key(0)]);
        assert_eq!(slots.take(&key(2), 1, (10, 9)), 0, "it is not its turn");
        assert_eq!(slots.take(&key(0), 6, (10, 9)), 1);
        slots.give_back(1);
        assert_eq!(slots.next((10, 8)), [key(1), key(2)]);
        assert_eq!((slots.take(&key(1), 16, (10, 8)), slots.take(&key(2), 1, (10, 8))), (1, 1));
        slots.give_back(2);
        assert_eq!(slots.next((10, 7)), [key(0), key(1)]);
    }

    proptest! {
        /// Never more than allowed, and with room for one at a time nobody waits for longer than everybody else takes.
        #[test]
        fn no_flow_is_passed_over(flows in 2_usize..6, most in 1_usize..5, wants in 20_usize..40) {
            let mut slots = Slots::default();
            let mut left: BTreeMap<usize, usize> = (0..flows).map(|flow| (flow, wants)).collect();
            let mut live: VecDeque<usize> = VecDeque::new();
            let mut served = vec![0_usize; flows];
            for _ in 0..1_000 {
                for flow in 0..flows {
                    let wanted = left[&flow];
                    let granted = slots.take(&key(flow), wanted, (most, live.len()));
                    prop_assert!(live.len() + granted <= most && granted <= wanted);
                    live.extend(std::iter::repeat_n(flow, granted));
                    slots.give_back(granted);
                    left.insert(flow, wanted - granted);
                    served[flow] += granted;
                }
                if left.values().all(|left| *left > 0) {
                    let (least, greatest) = (served.iter().min(), served.iter().max());
                    prop_assert!(greatest.unwrap() - least.unwrap() <= 2 * most, "{served:?}");
                }
                live.pop_front();
            }
            prop_assert!(left.values().all(|left| *left == 0), "everybody is served");
        }
    }
}
