//! The Secret with keys that somebody else keeps: a change of it rolls the pods, by its metadata alone.

use serde_json::{Value, json};

use super::{Bed, bed, spec};
use crate::api::Kind;
use crate::shell::fake::refused;

/// A time after which everything is looked at again.
const RESYNC: u64 = 301;

fn referring() -> Value {
    let mut spec = spec();
    spec["config"].as_object_mut().unwrap().remove("operatorKeys");
    spec["config"]["operatorKeysSecretRef"] = json!({"name": "mine"});
    spec
}

fn running(spec: Value) -> Bed {
    let mut bed = bed();
    bed.server.put(Kind::Secret, json!({"metadata": {"name": "mine"}, "data": {"ecdsa": "a2V5"}}));
    bed.submit("exec", spec);
    bed.rest();
    assert_eq!(bed.status("exec")["phase"], "Running", "{}", bed.status("exec"));
    bed
}

fn rolled(bed: &Bed) -> (u64, Value) {
    let deployment = bed.server.list(Kind::Deployment).remove(0);
    let path = "/spec/template/metadata/annotations/hourglass.eigenlayer.io~1reference-generation";
    let generation = bed.status("exec")["referenceGeneration"].as_u64().unwrap_or_default();
    (generation, deployment.pointer(path).cloned().unwrap_or_default())
}

fn change(bed: &Bed) {
    bed.server.edit(Kind::Secret, "mine", |secret| secret["data"]["ecdsa"] = json!("b3RoZXI="));
}

#[test]
fn a_changed_secret_rolls_the_pods_once() {
    let mut bed = running(referring());
    assert_eq!(rolled(&bed), (0, Value::Null));
    assert_eq!(bed.status("exec")["references"][0]["name"], "mine");
    change(&bed);
    bed.wait(RESYNC);
    assert_eq!(rolled(&bed), (1, json!("1")));
    bed.restart();
    bed.rest();
    bed.wait(RESYNC);
    assert_eq!(rolled(&bed), (1, json!("1")), "another operator");
    bed.server.edit(Kind::Executor, "exec", |object| object["status"] = json!({}));
    bed.restart();
    bed.rest();
    assert_eq!(rolled(&bed), (1, json!("1")), "a lost status");
}

#[test]
fn a_crash_at_any_write_rolls_them_once() {
    for writes in 0..6 {
        let mut bed = running(referring());
        change(&bed);
        bed.dies_after(writes);
        bed.wait(RESYNC);
        bed.rest();
        bed.wait(RESYNC);
        assert_eq!(rolled(&bed), (1, json!("1")), "after {writes} writes");
    }
}

#[test]
fn a_secret_that_may_not_be_read_is_told_once_and_who_does_not_want_it_reads_nothing() {
    let mut bed = bed();
    bed.server.put(Kind::Secret, json!({"metadata": {"name": "mine"}, "data": {}}));
    bed.refuse("get", Kind::Secret, 3, refused(403, "Forbidden"));
    let mut spec = referring();
    spec["rollOnReferenceChange"] = json!(false);
    bed.submit("exec", spec);
    bed.change("exec", |spec| spec["rollOnReferenceChange"] = json!(true));
    bed.rest();
    bed.wait(RESYNC);
    assert_eq!((bed.told("ReferenceForbidden"), rolled(&bed)), (1, (0, Value::Null)));
}
