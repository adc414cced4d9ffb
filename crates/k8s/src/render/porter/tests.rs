//! The pod of an attempt whose files the helper moves, and what is refused.

use std::sync::Arc;

use orlop_core::attempt::{ArtifactCollection, ArtifactDelivery, ArtifactSource, AttemptKey, OutputFile};
use orlop_core::porter::{FetchOrder, ORDER, ORDER_MAX};
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::artifact::{ArtifactStore, HttpSource};
use orlop_core::spec::status::ArtifactLocation;

use super::super::{Carriage, job};
use super::*;

fn owner() -> FlowOwner {
    FlowOwner { uid: "u1".into(), name: "etl".into(), namespace: "team".into() }
}

fn porter() -> Porter {
    Porter::new("orlop-helper:1", "http://orlop-artifacts.orlop:9444", Tokens::new(|| "token-1".to_owned()))
}

fn input(name: &str, path: &str, location: (&str, &str)) -> ArtifactDelivery {
    let (kind, reference) = (location.0.to_owned(), location.1.to_owned());
    let location = ArtifactLocation { kind, reference, size_bytes: 3, sha256: "ab".into() };
    let source = ArtifactSource::Stored { location, archive: None };
    ArtifactDelivery { name: name.into(), path: path.into(), unpack: true, source }
}

fn output(name: &str, path: &str) -> ArtifactCollection {
    ArtifactCollection { name: name.into(), path: path.into(), optional: false, archive: None }
}

fn spec(pod: Value) -> AttemptSpec {
    AttemptSpec {
        key: AttemptKey { flow: "u1".into(), step: "data".into(), item: None, attempt: 2 },
        flow_name: "etl".into(),
        namespace: "team".into(),
        job_name: "etl-work-u1-2".into(),
        template: Arc::new(json!({"spec": {"template": {"spec": pod}}})),
        inputs: vec![],
        output_files: vec![],
        output_artifacts: vec![],
    }
}

fn pod() -> Value {
    json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "own", "image": "b"}],
        "containers": [{
            "name": "main", "image": "busybox", "command": ["sh", "-c", "run $(X)"], "args": ["a"],
            "env": [{"name": "X", "value": "1"}],
            "securityContext": {"runAsUser": 1000},
            "volumeMounts": [
                {"name": "work", "mountPath": "/data", "subPath": "w"},
                {"name": "settings", "mountPath": "/etc/app"},
            ],
        }],
        "volumes": [{"name": "work", "emptyDir": {}}, {"name": "settings", "configMap": {"name": "s"}}],
    })
}

fn rendered(spec: &AttemptSpec, store: Option<&ArtifactStore>) -> Result<Value, RenderError> {
    job(spec, &owner(), Carriage { porter: Some(&porter()), store, step: None })
}

fn full() -> AttemptSpec {
    let mut spec = spec(pod());
    let http = HttpSource { url: "https://h/$(X)".into(), ..HttpSource::default() };
    let http = ArtifactDelivery { source: ArtifactSource::Http(http), ..input("web", "/tmp/artifacts/web", ("", "")) };
    spec.inputs = vec![
        input("rows", "/data/in/rows", ("configmap", "etl-make-rows/rows#.tar")),
        input("parts", "/parts/0", ("pvc", "shelf/u1/make-i0/1/part")),
        input("parts", "/parts/1", ("pvc", "shelf/u1/make-i1/1/part#+x")),
        http,
    ];
    spec.output_files = vec![OutputFile { name: "count".into(), path: "/data/count".into() }];
    spec.output_artifacts = vec![output("model", "/data/model")];
    spec
}

#[test]
fn r32_a_pod_fetches_before_and_keeps_after_its_command() {
    let job = rendered(&full(), None).unwrap();
    insta::assert_json_snapshot!(job["spec"]["template"]["spec"]);
    let places = Places::of(&job).unwrap();
    assert_eq!((places.reports, places.config_map("model")), (true, Some("etl-data-model")));
    assert_eq!(places.token, fingerprint("token-1"));
    assert!(!job["metadata"].to_string().contains("token-1"));
}

#[test]
fn r32_a_claim_of_the_flow_is_mounted_at_the_folder_of_the_attempt() {
    let mut spec = spec(pod());
    spec.output_artifacts = vec![output("model", "/data/model")];
    let claim = orlop_core::spec::artifact::ClaimStore { claim_name: "shelf".into(), sub_path: Some("/a/b/".into()) };
    let store = ArtifactStore { persistent_volume_claim: Some(claim), s3: None };
    let job = rendered(&spec, Some(&store)).unwrap();
    let main = &job["spec"]["template"]["spec"]["containers"][0];
    let mounts = main["volumeMounts"].as_array().unwrap();
    let mount = json!({"name": "orlop-store", "mountPath": "/orlop-store", "subPath": "a/b/u1/data/2"});
    assert!(mounts.contains(&mount), "{mounts:?}");
    let places = Places::of(&job).unwrap();
    let location = places.location("model", orlop_core::porter::Content::default()).unwrap();
    assert_eq!((location.kind.as_str(), location.reference.as_str()), ("pvc", "shelf/a/b/u1/data/2/model"));
    assert_eq!(places.config_map("model"), None);
}

#[test]
fn r32_a_step_that_only_takes_artifacts_keeps_its_command_and_its_message() {
    let mut spec = spec(pod());
    spec.inputs = vec![input("rows", "/rows", ("configmap", "etl-make-rows/rows"))];
    let job = rendered(&spec, None).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["command"], json!(["sh", "-c", "run $(X)"]));
    assert!(pod["containers"][0].get("terminationMessagePolicy").is_none());
    let order = pod["initContainers"][0]["env"][0]["value"].as_str().unwrap();
    let order: FetchOrder = serde_json::from_str(order).unwrap();
    assert_eq!((order.install, order.fetch[0].target.as_str()), (None, "/orlop/in/rows"));
    assert!(!Places::of(&job).unwrap().reports && !pod.to_string().contains("token-1"));
}

#[test]
fn r30_one_output_file_alone_needs_no_helper() {
    let mut spec = spec(pod());
    spec.output_files = vec![OutputFile { name: "count".into(), path: "/data/count".into() }];
    let job = rendered(&spec, None).unwrap();
    assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"], "/data/count");
    assert!(
        Places::of(&job).is_none() && job["spec"]["template"]["spec"]["initContainers"].as_array().unwrap().len() == 1
    );
}

#[test]
fn the_user_of_the_command_fetches_its_inputs() {
    for (user, of_pod, want) in [
        (json!(0), json!(1), json!([0, null])),
        (json!(null), json!(7), json!([7, true])),
        (json!(null), json!(null), json!([null, true])),
    ] {
        let mut pod = pod();
        pod["securityContext"] = if of_pod.is_null() { json!({}) } else { json!({"runAsUser": of_pod}) };
        pod["containers"][0]["securityContext"] = if user.is_null() { json!({}) } else { json!({"runAsUser": user}) };
        let mut spec = spec(pod);
        spec.inputs = vec![input("rows", "/rows", ("configmap", "etl-make-rows/rows"))];
        let job = rendered(&spec, None).unwrap();
        let security = &job["spec"]["template"]["spec"]["initContainers"][0]["securityContext"];
        assert_eq!(json!([security["runAsUser"], security["runAsNonRoot"]]), want);
    }
}

/// What is said about an attempt that is changed like this.
fn refused(change: impl FnOnce(&mut AttemptSpec)) -> (&'static str, String) {
    let mut spec = full();
    change(&mut spec);
    let error = rendered(&spec, None).unwrap_err();
    (error.reason(), error.to_string())
}

fn with_pod(change: impl FnOnce(&mut Value)) -> (&'static str, String) {
    refused(|spec| change(&mut Arc::make_mut(&mut spec.template)["spec"]["template"]["spec"]))
}

#[test]
fn what_cannot_be_moved_is_refused_in_words() {
    let told = [
        with_pod(|pod| pod["volumes"][0]["name"] = json!("orlop")),
        with_pod(|pod| pod["initContainers"][0]["name"] = json!("orlop-in")),
        with_pod(|pod| pod["containers"][0]["volumeMounts"][0]["mountPath"] = json!("/orlop/x")),
        with_pod(|pod| pod["containers"][0]["command"] = json!(null)),
        refused(|spec| spec.inputs[0].path = "/etc/app/rows".into()),
        refused(|spec| spec.inputs[0].path = "/data/".into()),
        with_pod(|pod| pod["containers"][0]["volumeMounts"][0]["subPathExpr"] = json!("$(X)")),
        refused(|spec| spec.inputs[0] = input("rows", "/r", ("cas", "sha256/ab"))),
        refused(|spec| spec.inputs[0] = input("rows", "/r", ("pvc", "shelf/../x"))),
        refused(|spec| {
            let source = HttpSource { url: format!("https://h/{}", "x".repeat(ORDER_MAX)), ..HttpSource::default() };
            spec.inputs[0].source = ArtifactSource::Http(source);
        }),
    ];
    let lines: Vec<String> = told.iter().map(|(reason, message)| format!("{reason}: {message:.300}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let error = job(&full(), &owner(), Carriage::default()).unwrap_err();
    insta::assert_snapshot!(error, @"artifacts are moved by a program inside the pod, which this operator does not place: start it with --helper-image and --artifact-url, or use one output `path` or a `jsonPath`");
}

#[test]
fn r32_stores_that_are_not_carried_are_refused() {
    let mut spec = spec(pod());
    spec.output_artifacts = vec![output("model", "/data/model")];
    let s3 = json!({"endpoint": "https://s", "bucket": "b"});
    let store: ArtifactStore = serde_json::from_value(json!({"s3": s3})).unwrap();
    let refused = rendered(&spec, Some(&store)).unwrap_err();
    insta::assert_snapshot!(refused, @"`artifactStore.s3` cannot be used as artifact store by this operator; use a persistentVolumeClaim, or leave it out for ConfigMaps");
    let step = json!({"name": "work", "outputs": {"artifacts": [{"name": "model", "path": "/data/model",
        "s3": {"endpoint": "https://s", "bucket": "b", "key": "k"}}]}});
    let step = serde_json::from_value(step).unwrap();
    let carriage = Carriage { porter: Some(&porter()), store: None, step: Some(&step) };
    insta::assert_snapshot!(job(&spec, &owner(), carriage).unwrap_err(), @"`s3` of an artifact cannot be used as artifact store by this operator; use a persistentVolumeClaim, or leave it out for ConfigMaps");
}

#[test]
fn r32_the_store_of_the_operator_is_used_where_the_flow_names_none() {
    let mut spec = spec(pod());
    spec.output_artifacts = vec![output("model", "/data/model")];
    let mut porter = porter();
    porter.store = Some(ClaimStore { claim_name: "all".into(), sub_path: None });
    let kept = |store| {
        let job = job(&spec, &owner(), Carriage { porter: Some(&porter), store, step: None }).unwrap();
        Places::of(&job).unwrap().location("model", orlop_core::porter::Content::default()).unwrap().reference
    };
    let own = ClaimStore { claim_name: "own".into(), sub_path: None };
    let own = ArtifactStore { persistent_volume_claim: Some(own), s3: None };
    assert_eq!((kept(None).as_str(), kept(Some(&own)).as_str()), ("all/u1/data/2/model", "own/u1/data/2/model"));
}

#[test]
fn orders_are_read_as_they_were_written() {
    let job = rendered(&full(), None).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    let order = |container: &Value| {
        let variable = container["env"].as_array().unwrap().iter().find(|variable| variable["name"] == ORDER);
        variable.unwrap()["value"].as_str().unwrap().to_owned()
    };
    let fetch: FetchOrder = serde_json::from_str(&order(&pod["initContainers"][0])).unwrap();
    let targets: Vec<&str> = fetch.fetch.iter().map(|fetch| fetch.target.as_str()).collect();
    assert_eq!(targets, ["/orlop-to/1/in/rows", "/orlop/in/parts/0", "/orlop/in/parts/1", "/orlop/in/web"]);
    let run: RunOrder = serde_json::from_str(&order(&pod["containers"][0])).unwrap();
    assert_eq!((run.message.as_str(), run.files.len(), run.artifacts.len()), ("/dev/termination-log", 1, 1));
}
