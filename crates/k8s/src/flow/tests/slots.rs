//! Live Jobs over all flows: never too many, nobody passed over, and no flow stuck behind what it cannot have.

use serde_json::{Value, json};

use super::super::Options;
use super::bed::{Bed, job};
use crate::api::Kind;

fn bed(most: usize) -> Bed {
    Bed::with_options(Options { max_live_jobs: most, ..Options::default() })
}

fn live(bed: &Bed) -> Vec<String> {
    let jobs = bed.server.list(Kind::Job).into_iter().filter(|job| job["status"]["conditions"].is_null());
    jobs.map(|job| job["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn wide(steps: usize) -> Value {
    json!({"steps": (0..steps).map(|number| job(&format!("s{number}"))).collect::<Vec<_>>()})
}

#[test]
fn s5_3_all_flows_together_have_no_more_live_jobs_than_may_be() {
    let mut bed = bed(3);
    for name in ["a", "b", "c"] {
        bed.submit(name, wide(6));
    }
    bed.settle();
    bed.sleep(2);
    assert_eq!(live(&bed).len(), 3);
    let step = &bed.status("c")["steps"][0];
    assert_eq!((&step["phase"], &step["reason"]), (&json!("Pending"), &json!("Throttled")), "{step}");
    let mut ended = Vec::new();
    while let Some(name) = live(&bed).into_iter().next() {
        assert!(live(&bed).len() <= 3);
        bed.end_job(&name, true);
        ended.push(name);
        bed.settle();
    }
    assert_eq!(ended.len(), 18);
    for name in ["a", "b", "c"] {
        assert_eq!(bed.status(name)["phase"], "Succeeded");
    }
    bed.check_created_once();
}

#[test]
fn s5_3_flows_get_slots_in_turns() {
    let mut bed = bed(1);
    bed.submit("a-large", wide(20));
    bed.settle();
    bed.submit("b-small", wide(2));
    bed.settle();
    let mut order = String::new();
    while let Some(name) = live(&bed).into_iter().next() {
        order.push_str(&name[..1]);
        bed.end_job(&name, true);
        bed.settle();
    }
    assert!(
        order.starts_with("aabab") || order.starts_with("abab"),
        "the small one does not wait for the large one: {order}"
    );
    assert_eq!(order.len(), 22);
}

#[test]
fn a_flow_that_waits_for_slots_can_be_ended_suspended_and_taken_over() {
    let mut bed = bed(1);
    bed.endless = vec!["s"];
    for name in ["a", "b", "c"] {
        bed.submit(name, wide(2));
    }
    bed.settle();
    assert_eq!(live(&bed).len(), 1);
    bed.server.edit(Kind::JobFlow, "b", |flow| flow["spec"]["stop"] = json!("Terminate"));
    bed.server.edit(Kind::JobFlow, "c", |flow| flow["spec"]["suspend"] = json!(true));
    bed.settle();
    bed.sleep(2);
    assert_eq!(bed.status("b")["phase"], "Failed", "{}", bed.status("b"));
    bed.restart();
    bed.settle();
    for _ in 0..2 {
        let name = live(&bed).remove(0);
        assert!(name.starts_with("a-"), "what is suspended starts nothing: {name}");
        bed.end_job(&name, true);
        bed.settle();
    }
    assert_eq!((live(&bed).len(), bed.status("a")["phase"].as_str()), (0, Some("Succeeded")));
    bed.server.edit(Kind::JobFlow, "c", |flow| flow["spec"]["suspend"] = json!(false));
    bed.settle();
    assert_eq!(live(&bed).len(), 1, "{}", bed.status("c"));
    bed.check_created_once();
}
