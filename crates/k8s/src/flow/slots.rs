//! Live Jobs over all flows: how many there may be, who may start how many, and who is next. Owns that account; counts Jobs
//! by what is told, and starts nothing.
//!
//! Flows that want more than there is stand in a line. Whoever is served goes to its end, so that with little room every
//! flow gets a slot in its turn, however many steps another has.

use std::collections::BTreeMap;

use super::Key;

/// The slots for live Jobs, and the flows that wait for them.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Starts under way that no Job is known of yet.
    reserved: usize,
    /// Flows that wait, by tickets in the order in which they are served.
    line: BTreeMap<u64, Key>,
    /// Their tickets.
    tickets: BTreeMap<Key, u64>,
    /// The next ticket.
    next: u64,
}

impl Slots {
    /// Slots for a flow that wants so many, where there is room for so many more Jobs. What it does not get it waits for.
    pub(super) fn take(&mut self, key: &Key, wanted: usize, room: usize) -> usize {
        let free = room.saturating_sub(self.reserved);
        let ticket = self.tickets.get(key).copied();
        if wanted == 0 || !self.is_near(ticket, free) {
            if wanted > 0 && ticket.is_none() {
                self.join(key);
            }
            return 0;
        }
        let contenders = self.line.len() + usize::from(ticket.is_none());
        let granted = wanted.min((free / contenders).max(1));
        self.leave(key);
        if granted < wanted {
            self.join(key);
        }
        self.reserved += granted;
        granted
    }

    /// Whether fewer than `free` stand before the holder of a ticket, or before who comes without one.
    fn is_near(&self, ticket: Option<u64>, free: usize) -> bool {
        match ticket {
            None => self.line.len() < free,
            Some(ticket) => self.line.len() <= free || self.line.keys().nth(free).is_some_and(|first| ticket < *first),
        }
    }

    fn join(&mut self, key: &Key) {
        self.line.insert(self.next, key.clone());
        self.tickets.insert(key.clone(), self.next);
        self.next += 1;
    }

    /// So many starts have come out: their Jobs are known, or there are none.
    pub(super) fn return_slots(&mut self, count: usize) {
        self.reserved = self.reserved.saturating_sub(count);
    }

    /// A flow wants nothing any more.
    pub(super) fn leave(&mut self, key: &Key) {
        if let Some(ticket) = self.tickets.remove(key) {
            self.line.remove(&ticket);
        }
    }

    /// Who waits and may start something now.
    pub(super) fn next(&self, room: usize) -> Vec<Key> {
        let free = room.saturating_sub(self.reserved);
        self.line.values().take(free).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn key(number: usize) -> Key {
        Key { namespace: "n".into(), name: format!("f{number}") }
    }

    #[test]
    fn who_comes_first_gets_what_is_there_and_the_rest_in_turns() {
        let mut slots = Slots::default();
        assert_eq!(slots.take(&key(0), 16, 10), 10);
        slots.return_slots(10);
        assert_eq!(slots.take(&key(1), 16, 0), 0);
        assert_eq!(slots.take(&key(2), 1, 0), 0);
        assert_eq!(slots.next(0), []);
        // One Job ends: the first in line is the first flow, which already had its share.
        assert_eq!(slots.next(1), [key(0)]);
        assert_eq!(slots.take(&key(2), 1, 1), 0, "it is not its turn");
        assert_eq!(slots.take(&key(0), 6, 1), 1);
        slots.return_slots(1);
        assert_eq!(slots.next(2), [key(1), key(2)]);
        assert_eq!((slots.take(&key(1), 16, 2), slots.take(&key(2), 1, 2)), (1, 1));
        slots.return_slots(2);
        assert_eq!(slots.next(3), [key(0), key(1)]);
    }

    #[test]
    fn leaving_costs_the_same_however_long_the_line_is() {
        let mut slots = Slots::default();
        let keys: Vec<Key> = (0..100_000).map(key).collect();
        for key in &keys {
            assert_eq!(slots.take(key, 1, 0), 0);
        }
        let began = Instant::now();
        // From behind and from the middle, where a search takes longest.
        let (front, back) = keys.split_at(keys.len() / 2);
        back.iter().rev().chain(front.iter().rev()).for_each(|key| slots.leave(key));
        // A search through the line takes minutes.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert_eq!(slots.next(10), []);
    }

    /// The line as a plain list.
    #[derive(Default)]
    struct Model {
        reserved: usize,
        line: VecDeque<Key>,
    }

    impl Model {
        fn take(&mut self, key: &Key, wanted: usize, room: usize) -> usize {
            let free = room.saturating_sub(self.reserved);
            let place = self.line.iter().position(|known| known == key);
            if wanted == 0 || place.unwrap_or(self.line.len()) >= free {
                if wanted > 0 && place.is_none() {
                    self.line.push_back(key.clone());
                }
                return 0;
            }
            let granted = wanted.min((free / (self.line.len() + usize::from(place.is_none()))).max(1));
            self.line.retain(|known| known != key);
            if granted < wanted {
                self.line.push_back(key.clone());
            }
            self.reserved += granted;
            granted
        }
    }

    proptest! {
        /// Whatever happens in whatever order, the line is served like a plain list.
        #[test]
        fn the_line_is_served_in_order(calls in prop::collection::vec((0_usize..8, 0_usize..4, 0_usize..6, 0_u8..4), 0..200)) {
            let (mut slots, mut model) = (Slots::default(), Model::default());
            for (flow, wanted, room, call) in calls {
                let key = key(flow);
                match call {
                    0 => {
                        slots.leave(&key);
                        model.line.retain(|known| *known != key);
                    }
                    1 => {
                        slots.return_slots(wanted);
                        model.reserved = model.reserved.saturating_sub(wanted);
                    }
                    _ => prop_assert_eq!(slots.take(&key, wanted, room), model.take(&key, wanted, room)),
                }
                prop_assert_eq!(slots.next(usize::MAX), Vec::from(model.line.clone()));
            }
        }

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
                    let granted = slots.take(&key(flow), wanted, most - live.len());
                    prop_assert!(live.len() + granted <= most && granted <= wanted);
                    live.extend(std::iter::repeat_n(flow, granted));
                    slots.return_slots(granted);
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
