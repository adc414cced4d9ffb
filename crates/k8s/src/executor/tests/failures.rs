//! Servers that refuse, and backoff that outlives the controller.

use serde_json::{Value, json};

use super::{Bed, bed, place, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::{host, quota};
use crate::shell::fake::{Fault, refused};

fn refused_by(fault: Fault) -> Bed {
    let mut bed = Bed::with_faults(vec![fault]);
    bed.show(Kind::Node, host("node-1", json!({}), json!({})));
    bed.submit("exec", spec());
    bed
}

#[test]
fn a_refusal_is_kept_in_the_status_and_waited_for_by_another_controller() {
    let mut bed = refused_by(Fault::Refuse("create", Kind::Secret, 6, quota()));
    while bed.status("exec")["retry"]["count"] != 6 {
        bed.wait(1);
    }
    let status = bed.status("exec");
    assert_eq!(place(&bed), "Failed/Failed True/QuotaExceeded");
    assert_eq!(status["retry"]["reason"], "QuotaExceeded");
    let before = bed.writes().len();
    for _ in 0..3 {
        bed.restart();
        bed.wait(4);
        assert_eq!((bed.status("exec"), bed.writes().len()), (status.clone(), before), "it waits, and says the same");
    }
    bed.wait(60);
    assert_eq!(
        (place(&bed).as_str(), bed.status("exec")["retry"].clone()),
        ("Running/Running False/AsExpected", Value::Null)
    );
    bed.writes_nothing_more();
}

#[test]
fn another_spec_is_tried_at_once() {
    let mut bed = refused_by(Fault::Refuse("create", Kind::Deployment, u32::MAX, refused(403, "Forbidden")));
    bed.wait(1000);
    assert_eq!(place(&bed), "Failed/Failed True/Forbidden");
    bed.restart();
    bed.server.store().faults.clear();
    bed.change("exec", |spec| spec["image"] = json!("executor:2"));
    bed.wait(10);
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
}

#[test]
fn what_may_not_be_read_is_said_and_what_serves_goes_on() {
    let mut bed = bed();
    bed.refuse("get", Kind::Deployment, 6, refused(403, "Forbidden"));
    bed.submit("exec", spec());
    bed.wait(10);
    assert_eq!(place(&bed), "Failed/Failed True/Forbidden");
    bed.wait(301);
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    let mut bed = running(spec());
    bed.refuse("get", Kind::ConfigMap, 9, refused(403, "Forbidden"));
    bed.wait(302);
    assert_eq!(place(&bed), "Running/Running True/Forbidden");
    assert!(bed.events().contains(&"Forbidden".to_owned()));
    bed.wait(601);
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    bed.writes_nothing_more();
}

#[test]
fn a_new_restart_annotation_rolls_the_pods() {
    let mut bed = running(spec());
    let template =
        |bed: &Bed| bed.server.list(Kind::Deployment)[0]["spec"]["template"]["metadata"]["annotations"].clone();
    bed.server.edit(Kind::Executor, "exec", |executor| {
        executor["metadata"]["annotations"]["hourglass.eigenlayer.io/restarted-at"] = json!("now");
    });
    bed.wait(60);
    assert_eq!(template(&bed)["hourglass.eigenlayer.io/restarted-at"], "now");
    assert_eq!(place(&bed), "Running/Running False/AsExpected");
    bed.writes_nothing_more();
}
