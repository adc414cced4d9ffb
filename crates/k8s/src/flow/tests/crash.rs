//! A controller that dies at every write, before it, after it, or that hears no answer; the next one sees the past at
//! first. Every write alone, and every pair of writes. Owns the flows this is tried with and what must hold afterwards.

use serde_json::{Value, json};

use super::super::Options;
use super::bed::{Bed, after, job};
use super::server::Fault;
use crate::api::Kind;
use crate::status::SizeLimits;

/// Of how many pairs of writes one is tried, unless `ORLOP_TEST_CRASHES` has another number or asks for `all`. Every write
/// alone is tried always. The ways one pair goes wrong are 49: what shares a factor with it tries the same ways again and again.
const EVERY: usize = 16;
/// How far behind the next controller is at first; the last is all that ever happened.
const BEHIND: [usize; 7] = [0, 1, 2, 3, 5, 8, 1_000];
/// The same where two writes go wrong.
const PAIRED: [usize; 3] = [0, 2, 1_000];

/// What is tried.
struct Case {
    /// A flow that is under way before.
    before: Option<Value>,
    spec: Value,
    options: Options,
    /// Whether the next controller sees all there is at once: who holds a key is known from that.
    fresh: bool,
    /// Jobs that do not end until everything is ordered.
    endless: Vec<&'static str>,
    /// What people order one after the other, each when nothing goes on by itself.
    orders: Vec<Order>,
}

/// Something that people do to a flow.
type Order = fn(&mut Value);

impl Case {
    fn of(spec: Value) -> Self {
        Self { before: None, spec, options: Options::default(), fresh: false, endless: Vec::new(), orders: Vec::new() }
    }

    fn run(&self, plan: &[(Fault, usize)]) -> Bed {
        let mut bed = Bed::with_options(self.options.clone());
        bed.server.store().faults = plan.iter().map(|(fault, _)| fault.clone()).collect();
        bed.stale = plan.iter().filter(|(fault, _)| kills(fault)).map(|(_, behind)| *behind).collect();
        bed.endless.clone_from(&self.endless);
        bed.told = told(plan);
        if let Some(before) = &self.before {
            bed.submit("old", before.clone());
            bed.run();
        }
        bed.submit("etl", self.spec.clone());
        bed.run();
        for order in &self.orders {
            bed.server.edit(Kind::JobFlow, "etl", order);
            bed.run();
        }
        bed.endless.clear();
        bed.run();
        bed
    }

    /// Carries out a plan; afterwards all is as if nothing had gone wrong, and nothing more is written.
    fn holds(&self, clean: &Bed, plan: &[(Fault, usize)]) {
        let mut bed = self.run(plan);
        assert_eq!(bed.outcome("etl"), clean.outcome("etl"), "{}", told(plan));
        assert_eq!(made(&bed), made(clean), "{}", told(plan));
        assert_eq!(jobs(&bed), jobs(clean), "Jobs that are left: {}", told(plan));
        assert_eq!(bed.pieces("etl").len(), clean.pieces("etl").len(), "{}", told(plan));
        bed.check_created_once();
        let writes = bed.writes().len();
        bed.restart();
        bed.settle();
        assert_eq!(bed.writes().get(writes..), Some([].as_slice()), "a finished flow is written: {}", told(plan));
    }

    /// All plans of one fault and of two.
    fn plans(&self, writes: usize) -> Vec<Vec<(Fault, usize)>> {
        let (alone, paired): (&[usize], &[usize]) = if self.fresh { (&[0], &[0]) } else { (&BEHIND, &PAIRED) };
        let mut plans = Vec::new();
        for first in 0..writes {
            plans.extend(faults(first, alone).into_iter().map(|fault| vec![fault]));
            for second in first + 1..writes {
                for one in faults(first, paired) {
                    plans.extend(faults(second, paired).into_iter().map(|two| vec![one.clone(), two]));
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
        let (alone, pairs): (Vec<_>, Vec<_>) = plans.iter().partition(|plan| plan.len() == 1);
        let tried: Vec<_> = alone.into_iter().chain(pairs.into_iter().step_by(every())).collect();
        tried.iter().for_each(|plan| self.holds(&clean, plan));
        println!("{} of {} plans over {writes} writes", tried.len(), plans.len());
        plans.len()
    }
}

/// Of how many pairs one is tried.
fn every() -> usize {
    match std::env::var("ORLOP_TEST_CRASHES").as_deref() {
        Err(_) => EVERY,
        Ok("all") => 1,
        Ok(number) => number.parse().expect("ORLOP_TEST_CRASHES is a number or `all`"),
    }
}

/// A plan in words.
fn told(plan: &[(Fault, usize)]) -> String {
    let place = |(fault, behind): &(Fault, usize)| format!("{fault:?} ({behind} behind)");
    plan.iter().map(place).collect::<Vec<_>>().join(", ")
}

/// All that was created, with a word for the flow's uid, which is the number of a write.
fn made(bed: &Bed) -> Vec<String> {
    bed.made().into_iter().map(|name| name.replace(&uid(bed), "UID")).collect()
}

fn uid(bed: &Bed) -> String {
    let flow = bed.server.get(Kind::JobFlow, "etl").unwrap();
    flow["metadata"]["uid"].as_str().unwrap()[..8].to_owned()
}

/// Names of the Jobs there are, and whether they are to go by themselves.
fn jobs(bed: &Bed) -> Vec<String> {
    let name = |job: &Value| job["metadata"]["name"].as_str().unwrap().replace(&uid(bed), "UID");
    let all = bed.server.list(Kind::Job).into_iter();
    all.map(|job| format!("{} {}", name(&job), job["spec"]["ttlSecondsAfterFinished"])).collect()
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

/// Two instances and a step that fails, of which only the failed one keeps its Job.
fn fan_out() -> Case {
    let mut many = job("many");
    many["withItems"] = json!([1, 2]);
    let mut tolerated = after("bad", &["many"]);
    tolerated["continueOnFailure"] = json!(true);
    Case::of(json!({
        "steps": [many, tolerated],
        "resourceTemplates": {"configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"k": "v"}}]},
        "executionPolicy": {"jobRetention": "Failed"},
    }))
}

#[test]
fn what_waits_for_the_status_is_not_tried_before_it_can_be_stored() {
    let (case, deletion, status) = (fan_out(), 11, 14);
    let writes = case.run(&[]).writes();
    assert!(writes.get(deletion).is_some_and(|write| write.starts_with("delete jobs")), "{writes:?}");
    let bed = case.run(&[(Fault::LoseAnswer(deletion), 0), (Fault::LoseAnswer(status), 0)]);
    let found = bed.writes();
    assert!(found.get(status).is_some_and(|write| write.starts_with("patch jobflows/status")), "{found:?}");
    assert!(bed.passes < 100, "{} passes for {} writes", bed.passes, found.len());
}

#[test]
fn a_crash_at_any_two_writes_of_a_fan_out_changes_nothing_and_creates_nothing_twice() {
    let plans = fan_out().all();
    assert!(plans > 5_000, "{plans}");
}

#[test]
fn a_crash_at_any_two_writes_with_records_beside_the_object_changes_nothing_and_creates_nothing_twice() {
    let options = Options { sizes: SizeLimits { inline: 64, object: 1_400 }, ..Options::default() };
    let case = Case { options, ..Case::of(json!({"steps": [job("a"), after("b", &["a"])]})) };
    let clean = case.run(&[]);
    assert!(!clean.pieces("etl").is_empty(), "{}", clean.status("etl"));
    let plans = case.all();
    assert!(plans > 5_000, "{plans}");
}

#[test]
fn a_crash_at_any_two_writes_of_attempts_that_are_ended_changes_nothing_and_creates_nothing_twice() {
    let mut slow = job("slow");
    slow["timeoutSeconds"] = json!(60);
    slow["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "30s"}});
    let mut kept = job("kept");
    kept["template"]["spec"]["ttlSecondsAfterFinished"] = json!(77);
    let spec = json!({"steps": [slow, kept]});
    let plans = Case { endless: vec!["slow"], ..Case::of(spec) }.all();
    assert!(plans > 1_000, "{plans}");
}

fn suspension() -> Case {
    let orders: Vec<Order> =
        vec![|flow| flow["spec"]["suspend"] = json!(true), |flow| flow["spec"]["suspend"] = json!(false)];
    let spec = json!({"suspendMode": "Suspend", "steps": [job("a"), after("b", &["a"])]});
    Case { endless: vec!["-a-"], orders, ..Case::of(spec) }
}

#[test]
fn what_was_ordered_since_undoes_a_suspension_that_a_restart_brings_back() {
    let (case, resumption) = (suspension(), 9);
    let clean = case.run(&[]);
    assert_eq!(clean.writes().get(resumption).map(String::as_str), Some("patch jobs default/etl-a-00000001"));
    case.holds(&clean, &[(Fault::DieAfter(resumption), 0), (Fault::LoseAnswer(resumption + 1), 0)]);
    // The next controller sees the Job as it was before it was suspended.
    case.holds(&clean, &[(Fault::DieBefore(resumption), 5)]);
}

#[test]
fn a_crash_at_any_two_writes_of_a_suspension_changes_nothing_and_creates_nothing_twice() {
    let plans = suspension().all();
    assert!(plans > 1_000, "{plans}");
}

#[test]
fn a_crash_at_any_two_writes_around_a_decision_changes_nothing_and_creates_nothing_twice() {
    let orders: Vec<Order> = vec![|flow| {
        flow["metadata"]["annotations"]["approved.workflow.kube-zen.io/gate"] = json!("true");
    }];
    let gate = json!({"name": "gate", "type": "Manual", "dependencies": ["a"]});
    let plans = Case { orders, ..Case::of(json!({"steps": [job("a"), gate, after("b", &["gate"])]})) }.all();
    assert!(plans > 1_000, "{plans}");
}

#[test]
fn a_crash_at_any_two_writes_of_a_fan_out_over_an_output_changes_nothing_and_creates_nothing_twice() {
    let mut many = after("many", &["a"]);
    many["withParam"] = json!("a:$.status.conditions[*]['type','status']");
    let plans = Case::of(json!({"steps": [job("a"), many]})).all();
    assert!(plans > 1_500, "{plans}");
}

/// A flow that takes the place of another, whose Job does not end.
fn replacement() -> Case {
    let spec = |policy: &str| json!({"steps": [job("a")], "executionPolicy": {"concurrencyPolicy": policy, "concurrencyKey": "k"}});
    Case { before: Some(spec("Forbid")), fresh: true, endless: vec!["old"], ..Case::of(spec("Replace")) }
}

#[test]
fn a_crash_at_any_two_writes_of_a_flow_that_replaces_another_changes_nothing_and_creates_nothing_twice() {
    let case = replacement();
    assert!(case.run(&[]).status("old")["conditions"].to_string().contains("Replaced"));
    let plans = case.all();
    assert!(plans > 1_000, "{plans}");
}
