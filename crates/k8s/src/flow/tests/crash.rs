//! Two orders of writes and faults that once went wrong, one write after the other. The mass of plans is tried on the double, with
//! schemas and admission.

use serde_json::{Value, json};

use super::server::Fault;
use super::test_env::{TestEnv, after, job};
use crate::api::Kind;

/// Something that people do to a flow.
type Order = fn(&mut Value);

/// Runs a flow to its end while writes go wrong; the next controller is so many changes behind at first. What people order comes
/// when nothing goes on by itself, and Jobs of this name end only after that.
fn run(spec: &Value, faults: &[(Fault, usize)], orders: &[Order], endless: Option<&'static str>) -> TestEnv {
    let mut env = TestEnv::new();
    env.server.store().faults = faults.iter().map(|(fault, _)| fault.clone()).collect();
    let kills = |fault: &Fault| matches!(fault, Fault::DieBefore(_) | Fault::DieAfter(_));
    env.stale = faults.iter().filter(|(fault, _)| kills(fault)).map(|(_, behind)| *behind).collect();
    env.endless.extend(endless);
    env.submit("etl", spec.clone());
    env.run();
    for order in orders {
        env.server.edit(Kind::JobFlow, "etl", order);
        env.run();
    }
    env.endless.clear();
    env.run();
    env.check_created_once();
    env
}

#[test]
fn what_waits_for_the_status_is_not_tried_before_it_can_be_stored() {
    let mut many = job("many");
    many["withItems"] = json!([1, 2]);
    let mut tolerated = after("bad", &["many"]);
    tolerated["continueOnFailure"] = json!(true);
    let spec = json!({
        "steps": [many, tolerated],
        "resourceTemplates": {"configMapTemplates": [{"metadata": {"name": "settings"}, "data": {"k": "v"}}]},
        "executionPolicy": {"jobRetention": "Failed"},
    });
    let (deletion, status) = (11, 14);
    let writes = run(&spec, &[], &[], None).writes();
    assert!(writes.get(deletion).is_some_and(|write| write.starts_with("delete jobs")), "{writes:?}");
    let env = run(&spec, &[(Fault::LoseAnswer(deletion), 0), (Fault::LoseAnswer(status), 0)], &[], None);
    let found = env.writes();
    assert!(found.get(status).is_some_and(|write| write.starts_with("patch jobflows/status")), "{found:?}");
    assert!(env.passes < 100, "{} passes for {} writes", env.passes, found.len());
}

#[test]
fn what_was_ordered_since_undoes_a_suspension_that_a_restart_brings_back() {
    let orders: [Order; 2] =
        [|flow| flow["spec"]["suspend"] = json!(true), |flow| flow["spec"]["suspend"] = json!(false)];
    let spec = json!({"suspendMode": "Suspend", "steps": [job("a"), after("b", &["a"])]});
    let resumption = 9;
    let world = (orders.as_slice(), Some("-a-"));
    let clean = run(&spec, &[], world.0, world.1);
    assert_eq!(clean.writes().get(resumption).map(String::as_str), Some("patch jobs default/etl-a-00000001"));
    let late = [(Fault::DieAfter(resumption), 0), (Fault::LoseAnswer(resumption + 1), 0)];
    // The next controller sees the Job as it was before it was suspended.
    for faults in [late.as_slice(), &[(Fault::DieBefore(resumption), 5)]] {
        let env = run(&spec, faults, world.0, world.1);
        assert_eq!(env.outcome("etl"), clean.outcome("etl"), "{faults:?}");
        assert_eq!(env.made(), clean.made(), "{faults:?}");
    }
}
