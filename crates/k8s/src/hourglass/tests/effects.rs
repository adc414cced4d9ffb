//! The requests that effects come to.

use std::sync::Mutex;

use async_trait::async_trait;
use futures::FutureExt as _;
use serde_json::{Value, json};

use crate::api::{Api, ApiError, Kind, Propagation, Request, Verb};
use crate::hourglass::children::Meta;
use crate::hourglass::effect::{EffectError, EffectWriter};
use crate::hourglass::plan::{Effect, ObjectKey};
use crate::hourglass::{Config, MANAGER, STATUS_MANAGER};
use crate::shell::Clock as _;
use crate::shell::fake::{TestClock, refused};

/// Answers every request alike, and keeps what was asked.
struct RecordingApi {
    answer: Result<Value, ApiError>,
    asked: Mutex<Vec<Request>>,
}

#[async_trait]
impl Api for RecordingApi {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        self.asked.lock().unwrap().push(request.clone());
        self.answer.clone()
    }
}

/// Requests of an effect, with what came of it.
fn carried(effect: &Effect, answer: Result<Value, ApiError>) -> (Vec<Request>, Result<(), EffectError>) {
    let meta =
        Meta { namespace: "n".into(), name: "avs".into(), uid: "u".into(), version: "41".into(), ..Meta::default() };
    let api = RecordingApi { answer, asked: Mutex::default() };
    let (config, now) = (Config::default(), TestClock::new().now());
    let writer = EffectWriter { api: &api, kind: Kind::Performer, finalizer: "f", meta: &meta, config: &config, now };
    let outcome = writer.write(effect).now_or_never().expect("nothing here waits");
    (api.asked.into_inner().unwrap(), outcome.map(drop))
}

/// Requests of an effect on an object of ours, with these managers of its fields.
fn requests(effect: &Effect, managed: Value) -> Vec<Request> {
    let owner = json!([{"kind": "Performer", "uid": "u", "controller": true}]);
    let metadata = json!({"name": "child", "uid": "c", "resourceVersion": "7", "ownerReferences": owner, "managedFields": managed});
    let (asked, outcome) = carried(effect, Ok(json!({ "metadata": metadata })));
    assert_eq!(outcome, Ok(()));
    asked
}

fn entry(manager: &str, operation: &str, subresource: &str) -> Value {
    json!({"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": {"f:spec": {}}})
}

#[test]
fn what_was_created_is_taken_over_by_one_guarded_patch_before_the_first_apply() {
    let change = Effect::Apply(Kind::Service, json!({"metadata": {"name": "child", "namespace": "n"}, "spec": {}}));
    let theirs =
        [entry("kubelet", "Update", "status"), entry("user", "Update", ""), entry(MANAGER, "Update", "status")];
    let managed = |ours: Value| json!([theirs[0].clone(), ours, theirs[1].clone(), theirs[2].clone()]);
    let asked = requests(&change, managed(entry(MANAGER, "Update", "")));
    let [get, patch, apply] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!((&get.verb, get.name.as_str()), (&Verb::Get, "child"));
    let wanted = json!({"resourceVersion": "7", "managedFields": managed(entry(MANAGER, "Apply", ""))});
    assert_eq!(
        (&patch.verb, &patch.body),
        (&Verb::Patch, &json!({ "metadata": wanted })),
        "of that version, and no other's"
    );
    assert_eq!((&apply.verb, &apply.body["metadata"]["uid"]), (&Verb::Apply { manager: MANAGER }, &json!("c")));
    // Once that is done, and where nothing of ours is to be taken over, the apply is all.
    for managed in [managed(entry(MANAGER, "Apply", "")), json!([theirs[0], theirs[1]]), json!(null)] {
        let asked = requests(&change, managed.clone());
        assert!(matches!(asked.as_slice(), [_, Request { verb: Verb::Apply { .. }, .. }]), "{managed}: {asked:?}");
    }
}

#[test]
fn a_status_is_applied_by_its_own_manager_over_the_version_it_was_planned_on() {
    let asked = requests(&Effect::WriteStatus(json!({"phase": "Running"})), json!([]));
    let [apply] = asked.as_slice() else { panic!("{asked:?}") };
    let metadata = json!({"name": "avs", "namespace": "n", "uid": "u", "resourceVersion": "41"});
    assert_eq!((&apply.verb, &apply.body["metadata"]), (&Verb::ApplyStatus { manager: STATUS_MANAGER }, &metadata));
    assert_eq!(apply.body["status"], json!({"phase": "Running"}));
}

#[test]
fn a_finalizer_is_set_over_the_version_it_was_planned_on_and_others_stay() {
    for (effect, left) in [(Effect::AddFinalizer, json!(["f"])), (Effect::RemoveFinalizer, json!([]))] {
        let asked = requests(&effect, json!([]));
        let [patch] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(patch.body, json!({"metadata": {"resourceVersion": "41", "finalizers": left}}));
    }
}

#[test]
fn a_deletion_is_of_one_object_only_and_what_is_gone_is_deleted() {
    let key = ObjectKey { kind: Kind::Pod, name: "child".to_owned() };
    let delete = Effect::Delete { key, uid: "c".to_owned(), propagation: Propagation::Background };
    let (asked, outcome) = carried(&delete, Ok(json!({})));
    let [request, Request { verb: Verb::Get, .. }] = asked.as_slice() else { panic!("{asked:?}") };
    let options = serde_json::to_value(request.delete_options()).unwrap();
    assert_eq!(options["preconditions"], json!({"uid": "c"}), "{options}");
    assert_eq!(options["gracePeriodSeconds"], Value::Null, "never forced");
    assert_eq!(outcome, Ok(()));
    assert_eq!(carried(&delete, Err(refused(404, "NotFound"))).1, Ok(()));
    assert_eq!(
        carried(&delete, Err(refused(409, "Conflict"))).1,
        Err(EffectError::Outdated),
        "another one of the name"
    );
}
