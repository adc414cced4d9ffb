//! A controller that dies at every write, before it, after it, or that hears no answer.

use serde_json::json;

use super::{Bed, place, pods, selected, spec};
use crate::api::Kind;
use crate::hourglass::tests::{every_fault, host};

fn start(bed: &mut Bed) {
    bed.show(Kind::Node, host("node-1", json!({}), json!({})));
    bed.submit("avs", spec("well"));
    bed.wait(5);
}

/// Everything but when it was.
fn outcome(bed: &Bed) -> String {
    format!("{} {:?} {}", place(bed), pods(bed), selected(bed))
}

#[test]
fn a_crash_at_every_write_of_an_upgrade_changes_nothing() {
    let play = |bed: &mut Bed| {
        start(bed);
        bed.change("avs", |spec| spec["image"] = json!("other"));
        bed.wait(120);
    };
    let writes = every_fault(play, outcome);
    assert!(writes > 15, "{writes}");
}

#[test]
fn a_crash_at_every_write_of_a_rollback_changes_nothing() {
    for strategy in ["Auto", "Recreate"] {
        let play = |bed: &mut Bed| {
            bed.images.insert("bad".into(), "never");
            start(bed);
            bed.change("avs", |spec| {
                spec["image"] = json!("bad");
                spec["upgrade"] = json!({"strategy": strategy, "progressDeadlineSeconds": 30});
            });
            bed.wait(200);
        };
        let writes = every_fault(play, outcome);
        assert!(writes > 15, "{writes}");
    }
}

#[test]
fn a_crash_at_every_write_after_failures_changes_nothing() {
    let play = |bed: &mut Bed| {
        start(bed);
        let name = pods(bed).pop().unwrap_or_default();
        bed.server.edit(Kind::Pod, &name, |pod| pod["status"]["phase"] = json!("Failed"));
        bed.wait(60);
    };
    every_fault(play, outcome);
}

#[test]
fn a_crash_at_every_write_of_a_deletion_leaves_nothing() {
    let play = |bed: &mut Bed| {
        start(bed);
        bed.server.request_deletion(Kind::Performer, "avs");
        bed.wait(120);
    };
    let left = |bed: &Bed| {
        let kinds = [Kind::Performer, Kind::Pod, Kind::Service, Kind::Revision];
        format!("{:?}", kinds.map(|kind| bed.server.list(kind).len()))
    };
    every_fault(play, left);
}
