//! A controller that dies at every write, before it, after it, or that hears no answer; the next one sees the past at
//! first. Every write alone, and every pair of writes. Owns the flows this is tried with and what must hold afterwards.

use serde_json::{Value, json};

use super::super::Options;
use super::bed::{Bed, after, job};
use super::server::Fault;
use crate::status::SizeLimits;

/// Of how many plans one is tried, unless all are asked for with `ORLOP_TEST_CRASHES=all`.
const EVERY: usize = 16;
/// How far behind the next controller is at first; the last is all that ever happened.
const BEHIND: [usize; 7] = [0, 1, 2, 3, 5, 8, 1_000];
/// The same where two writes go wrong.
const PAIRED: [usize; 3] = [0, 2, 1_000];

/// What is tried.
struct Case {
    spec: Value,
    options: Options,
}

impl Case {
    fn of(spec: Value) -> Self {
        Self { spec, options: Options::default() }
    }

    fn run(&self, plan: &[(Fault, usize)]) -> Bed {
        let mut bed = Bed::with_options(self.options.clone());
        bed.server.store().faults = plan.iter().map(|(fault, _)| fault.clone()).collect();
        bed.stale = plan.iter().filter(|(fault, _)| kills(fault)).map(|(_, behind)| *behind).collect();
        bed.submit("etl", self.spec.clone());
        bed.run();
        bed
    }

    /// Carries out a plan; afterwards all is as if nothing had gone wrong, and nothing more is written.
    fn holds(&self, clean: &Bed, plan: &[(Fault, usize)]) {
        let mut bed = self.run(plan);
        let told = || {
            let place = |(fault, behind): &(Fault, usize)| format!("{fault:?} ({behind} behind)");
            plan.iter().map(place).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(bed.outcome("etl"), clean.outcome("etl"), "{}", told());
        assert_eq!(bed.made(), clean.made(), "{}", told());
        assert_eq!(bed.pieces("etl").len(), clean.pieces("etl").len(), "{}", told());
        bed.check_created_once();
        let writes = bed.writes().len();
        bed.restart();
        bed.settle();
        assert_eq!(bed.writes().get(writes..), Some([].as_slice()), "a finished flow is written: {}", told());
    }

    /// All plans of one fault and of two.
    fn plans(&self, writes: usize) -> Vec<Vec<(Fault, usize)>> {
        let mut plans = Vec::new();
        for first in 0..writes {
            plans.extend(faults(first, &BEHIND).into_iter().map(|fault| vec![fault]));
            for second in first + 1..writes {
                for one in faults(first, &PAIRED) {
                    plans.extend(faults(second, &PAIRED).into_iter().map(|two| vec![one.clone(), two]));
                }
            }
        }
        plans
    }

    /// Carries out all plans, or some of them, and gives how many there are.
    fn all(&self) -> usize {
        let clean = self.run(&[]);
        let writes = clean.writes().len();
        let plans = self.plans(writes);
        let every = if std::env::var("ORLOP_TEST_CRASHES").is_ok_and(|which| which == "all") { 1 } else { EVERY };
        plans.iter().step_by(every).for_each(|plan| self.holds(&clean, plan));
        println!("{} of {} plans over {writes} writes", plans.len().div_ceil(every), plans.len());
        plans.len()
    }
}

const fn kills(fault: &Fault) -> bool {
    matches!(fault, Fault::DieBefore(_) | Fault::DieAfter(_))
}

/// What may happen at a write. Without a restart nothing is old.
fn faults(at: usize, behind: &[usize]) -> Vec<(Fault, usize)> {
    let mut all = vec![(Fault::LoseAnswer(at), 0)];
    for behind in behind {
        all.extend([(Fault::DieBefore(at), *behind), (Fault::DieAfter(at), *behind)]);
    }
    all
}

#[test]
fn a_crash_at_any_two_writes_of_a_chain_changes_nothing_and_creates_nothing_twice() {
    let mut first = job("a");
    first["outputs"] = json!({"parameters": [{"name": "count", "valueFrom": {"jsonPath": "$.succeeded"}}]});
    let mut flaky = after("flaky", &["a"]);
    flaky["retryPolicy"] = json!({"limit": 2, "backoff": {"type": "Fixed", "duration": "30s"}});
    let plans = Case::of(json!({"steps": [first, flaky], "finally": [job("tidy")]})).all();
    assert!(plans > 5_000, "{plans}");
}

#[test]
fn a_crash_at_any_two_writes_of_a_fan_out_changes_nothing_and_creates_nothing_twice() {
    let mut many = job("many");
    many["withItems"] = json!([1, 2]);
    let mut tolerated = after("bad", &["many"]);
    tolerated["continueOnFailure"] = json!(true);
    let plans = Case::of(json!({
        "steps": [many, tolerated],
        "resourceTemplates": {"configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"k": "v"}}]},
        "executionPolicy": {"jobRetention": "Failed"},
    }))
    .all();
    assert!(plans > 5_000, "{plans}");
}

#[test]
fn a_crash_at_any_two_writes_with_records_beside_the_object_changes_nothing_and_creates_nothing_twice() {
    let options = Options { sizes: SizeLimits { inline: 64, object: 1_400 }, ..Options::default() };
    let case = Case { spec: json!({"steps": [job("a"), after("b", &["a"])]}), options };
    let clean = case.run(&[]);
    assert!(!clean.pieces("etl").is_empty(), "{}", clean.status("etl"));
    let plans = case.all();
    assert!(plans > 5_000, "{plans}");
}
