//! The laws notice: every deliberate fault of the engine breaks one within a bounded number of cases.

use orlop_dag::engine::Fault;
use orlop_dag::testing::check;
use proptest::test_runner::TestRunner;

use super::laws::case;

/// Cases in which a fault must be found.
const CASES: usize = 1500;

/// Faults that few cases notice, and one that did when this was written: it is tried first.
const RARE: &[(Fault, usize)] = &[
    (Fault::ReopenTerminal, 194),
    (Fault::OrderAlwaysCounts, 128),
    (Fault::ForgetLateFailure, 460),
    (Fault::WaitAfterHalt, 184),
    (Fault::RetryOverBudget, 1154),
    (Fault::ThawKeepsTimer, 176),
    (Fault::LenientGroups, 1057),
];

/// The cases in their order, the same for every fault.
struct Cases {
    runner: TestRunner,
    made: Vec<Vec<u8>>,
}

impl Cases {
    fn get(&mut self, number: usize) -> &[u8] {
        while self.made.len() <= number {
            self.made.push(case(&mut self.runner));
        }
        &self.made[number]
    }

    /// The number of a case that breaks a law, and the law: the known one, else the first.
    fn broken(&mut self, fault: Fault) -> Option<(usize, String)> {
        let known = RARE.iter().find(|(rare, _)| *rare == fault).map(|(_, number)| *number);
        Fault::inject(Some(fault));
        let found = known
            .into_iter()
            .chain(0..CASES)
            .find_map(|number| check(self.get(number)).err().map(|broken| (number, broken.law)));
        Fault::inject(None);
        found
    }
}

/// Every fault of a list is found.
fn find(faults: &[Fault]) {
    let mut cases = Cases { runner: TestRunner::deterministic(), made: Vec::new() };
    let mut missed = Vec::new();
    for fault in faults.iter().copied() {
        match cases.broken(fault) {
            Some((number, law)) => println!("{fault:?}: case {number}: {}", law.lines().next().unwrap_or_default()),
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "no law notices {missed:?}");
}

#[test]
fn every_fault_is_found_first_half() {
    find(Fault::ALL.split_at(Fault::ALL.len() / 2).0);
}

#[test]
fn every_fault_is_found_second_half() {
    find(Fault::ALL.split_at(Fault::ALL.len() / 2).1);
}
