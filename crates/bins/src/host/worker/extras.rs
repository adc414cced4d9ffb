//! Which units of this machine's counters attempts hold: the server counts them, the agent says which. No unit is held by two
//! attempts at once.

use std::collections::BTreeMap;

use orlop_cloud::runtime::worker::ExtraUnits;
use orlop_core::task::TaskRef;

/// Counters up to this many have units with numbers; of larger ones, such as bytes, only amounts are held.
const MAX_UNITS: u64 = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ExtrasLedger {
    /// Of each counter who holds which unit.
    counters: BTreeMap<String, Vec<Option<TaskRef>>>,
}

impl ExtrasLedger {
    pub(super) fn new(offered: &BTreeMap<String, u64>) -> Self {
        let numbered = offered.iter().filter(|(_, count)| **count <= MAX_UNITS);
        let free = |count: u64| vec![None; usize::try_from(count).unwrap_or(0)];
        Self { counters: numbered.map(|(name, count)| (name.clone(), free(*count))).collect() }
    }

    /// Gives an attempt the lowest free units of what it asks for. None when there are not enough; then it gets nothing.
    pub(super) fn take(&mut self, id: TaskRef, asked: &BTreeMap<String, u64>) -> Option<Vec<ExtraUnits>> {
        let mut given = Vec::with_capacity(asked.len());
        for (name, count) in asked {
            let units = match self.counters.get(name) {
                None => Vec::new(),
                Some(units) => {
                    let free = (0..).zip(units).filter(|(_, holder)| holder.is_none()).map(|(unit, _)| unit);
                    let lowest: Vec<u32> = free.take(usize::try_from(*count).unwrap_or(usize::MAX)).collect();
                    (lowest.len() as u64 == *count).then_some(lowest)?
                }
            };
            given.push(ExtraUnits { name: name.clone(), count: *count, units });
        }
        self.hold(id, &given);
        Some(given)
    }

    /// An attempt that ended passes its units on to one that asks for as many.
    pub(super) fn pass(&mut self, from: &TaskRef, to: TaskRef, given: &mut [ExtraUnits]) {
        for extra in given {
            let units = self.counters.get_mut(&extra.name).into_iter().flatten();
            for (unit, holder) in (0..).zip(units).filter(|(_, holder)| holder.as_ref() == Some(from)) {
                *holder = Some(to);
                extra.units.push(unit);
            }
        }
    }

    /// Notes units of an attempt that ran before this agent.
    pub(super) fn hold(&mut self, id: TaskRef, given: &[ExtraUnits]) {
        for extra in given {
            let Some(units) = self.counters.get_mut(&extra.name) else { continue };
            for unit in &extra.units {
                if let Some(holder) = usize::try_from(*unit).ok().and_then(|unit| units.get_mut(unit)) {
                    *holder = Some(id);
                }
            }
        }
    }

    /// Gives back what an attempt has.
    pub(super) fn give_back(&mut self, id: &TaskRef) {
        for holder in self.counters.values_mut().flatten().filter(|holder| holder.as_ref() == Some(id)) {
            *holder = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};

    use super::*;

    fn id(job: u64) -> TaskRef {
        TaskRef { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
    }

    fn counts(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn units(given: &[ExtraUnits]) -> Vec<(&str, u64, &[u32])> {
        given.iter().map(|extra| (extra.name.as_str(), extra.count, extra.units.as_slice())).collect()
    }

    #[test]
    fn no_unit_is_held_twice_and_what_comes_back_is_given_again() {
        let mut ledger = ExtrasLedger::new(&counts(&[("fpga", 4), ("disk", 1 << 40)]));
        let two = counts(&[("fpga", 2)]);
        assert_eq!(units(&ledger.take(id(1), &two).unwrap()), [("fpga", 2, &[0, 1][..])]);
        let more = ledger.take(id(2), &counts(&[("disk", 1 << 30), ("fpga", 1)])).unwrap();
        assert_eq!(units(&more), [("disk", 1 << 30, &[][..]), ("fpga", 1, &[2][..])]);
        assert_eq!(ledger.take(id(3), &two), None);
        let mut inherited = vec![ExtraUnits { name: "fpga".to_owned(), count: 2, units: Vec::new() }];
        ledger.pass(&id(1), id(4), &mut inherited);
        ledger.give_back(&id(1));
        assert_eq!(units(&inherited), [("fpga", 2, &[0, 1][..])]);
        assert_eq!(ledger.take(id(3), &two), None, "they were passed on");
        ledger.give_back(&id(4));
        assert_eq!(units(&ledger.take(id(3), &two).unwrap()), [("fpga", 2, &[0, 1][..])]);
    }

    /// An agent that starts again finds attempts that run.
    #[test]
    fn units_of_adopted_attempts_are_not_given_away() {
        let mut ledger = ExtrasLedger::new(&counts(&[("fpga", 2)]));
        // One beyond what there is now: fewer are offered than before.
        ledger.hold(id(1), &[ExtraUnits { name: "fpga".to_owned(), count: 2, units: vec![0, 7] }]);
        ledger.hold(id(1), &[ExtraUnits { name: "gone".to_owned(), count: 1, units: vec![0] }]);
        assert_eq!(units(&ledger.take(id(2), &counts(&[("fpga", 1)])).unwrap()), [("fpga", 1, &[1][..])]);
        assert_eq!(ledger.take(id(3), &counts(&[("fpga", 1)])), None);
        ledger.give_back(&id(1));
        assert_eq!(units(&ledger.take(id(3), &counts(&[("fpga", 1)])).unwrap()), [("fpga", 1, &[0][..])]);
    }
}
