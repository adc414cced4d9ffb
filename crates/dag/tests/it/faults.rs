//! The laws notice: every deliberate fault of the engine breaks one within a bounded number of cases.

use orlop_dag::engine::Fault;
use orlop_dag::testing::check;
use proptest::test_runner::TestRunner;

use super::laws::case;

/// Cases in which a fault must be found.
const CASES: usize = 1500;

/// The number of the first case that breaks a law, and the law.
fn first_broken(fault: Fault) -> Option<(usize, String)> {
    let mut runner = TestRunner::deterministic();
    Fault::inject(Some(fault));
    let found = (0..CASES).find_map(|number| {
        let bytes = case(&mut runner);
        check(&bytes).err().map(|broken| (number, broken.law))
    });
    Fault::inject(None);
    found
}

/// Every fault of a list is found.
fn find(faults: &[Fault]) {
    let mut missed = Vec::new();
    for fault in faults.iter().copied() {
        match first_broken(fault) {
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
