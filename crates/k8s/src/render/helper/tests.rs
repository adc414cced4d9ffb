//! The pod of an attempt whose files the helper moves, and what is refused.

use std::sync::Arc;

use orlop_core::attempt::{ArtifactCollection, ArtifactDelivery, ArtifactSource, AttemptKey, OutputFile};
use orlop_core::helper::{Content, FetchOrder, KeepTarget, ORDER, ORDER_MAX, Source};
use orlop_core::ports::substrate::FlowOwner;
use orlop_core::spec::artifact::{ArtifactStore, ClaimStore, HttpSource};
use orlop_core::spec::status::ArtifactLocation;

use super::super::{ArtifactTransfer, job};
use super::*;

fn owner() -> FlowOwner {
    FlowOwner { uid: "u1".into(), name: "etl".into(), namespace: "team".into() }
}

fn helper() -> HelperOptions {
    HelperOptions::new("orlop-helper:1", "http://orlop-artifacts.orlop:9444", Tokens::new(|| "token-1".to_owned()))
}

fn input(name: &str, path: &str, location: (&str, &str)) -> ArtifactDelivery {
    let (kind, reference) = (location.0.to_owned(), location.1.to_owned());
    let location = ArtifactLocation { kind, reference, size_bytes: 3, sha256: "ab".into() };
    let source = ArtifactSource::Stored { location, archive: None };
    ArtifactDelivery { name: name.into(), path: path.into(), unpack: true, source }
}

fn output(name: &str, path: &str) -> ArtifactCollection {
    ArtifactCollection { name: name.into(), path: path.into(), optional: false, archive: None, s3: None }
}

fn spec(pod: Value) -> AttemptSpec {
    AttemptSpec {
        function: None,
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
    job(spec, &owner(), ArtifactTransfer { helper: Some(&helper()), store, shared: None })
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
fn a_pod_fetches_before_and_keeps_after_its_command() {
    let job = rendered(&full(), None).unwrap();
    insta::assert_json_snapshot!(job["spec"]["template"]["spec"]);
    let places = HelperAnnotation::of(&job).unwrap();
    assert_eq!((places.reports, places.config_map("model")), (true, Some("etl-data-model")));
    assert_eq!(places.token, fingerprint("token-1"));
    assert!(!job["metadata"].to_string().contains("token-1"));
}

#[test]
fn a_claim_of_the_flow_is_mounted_at_the_folder_of_the_attempt() {
    let mut spec = spec(pod());
    spec.output_artifacts = vec![output("model", "/data/model")];
    let claim = orlop_core::spec::artifact::ClaimStore { claim_name: "shelf".into(), sub_path: Some("/a/b/".into()) };
    let store = ArtifactStore { persistent_volume_claim: Some(claim), s3: None };
    let job = rendered(&spec, Some(&store)).unwrap();
    let main = &job["spec"]["template"]["spec"]["containers"][0];
    let mounts = main["volumeMounts"].as_array().unwrap();
    let mount = json!({"name": "orlop-store", "mountPath": "/orlop-store", "subPath": "a/b/u1/data/2"});
    assert!(mounts.contains(&mount), "{mounts:?}");
    let places = HelperAnnotation::of(&job).unwrap();
    let location = places.location("model", orlop_core::helper::Content::default()).unwrap();
    assert_eq!((location.kind.as_str(), location.reference.as_str()), ("pvc", "shelf/a/b/u1/data/2/model"));
    assert_eq!(places.config_map("model"), None);
}

#[test]
fn a_step_that_only_takes_artifacts_keeps_its_command_and_its_message() {
    let mut spec = spec(pod());
    spec.inputs = vec![input("rows", "/rows", ("configmap", "etl-make-rows/rows"))];
    let job = rendered(&spec, None).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["command"], json!(["sh", "-c", "run $(X)"]));
    assert!(pod["containers"][0].get("terminationMessagePolicy").is_none());
    let order = pod["initContainers"][0]["env"][0]["value"].as_str().unwrap();
    let order: FetchOrder = serde_json::from_str(order).unwrap();
    assert_eq!((order.install, order.fetch[0].target.as_str()), (None, "/orlop/in/rows"));
    assert!(!HelperAnnotation::of(&job).unwrap().reports && !pod.to_string().contains("token-1"));
}

#[test]
fn one_output_file_alone_needs_no_helper() {
    let mut spec = spec(pod());
    spec.output_files = vec![OutputFile { name: "count".into(), path: "/data/count".into() }];
    let job = rendered(&spec, None).unwrap();
    assert_eq!(job["spec"]["template"]["spec"]["containers"][0]["terminationMessagePath"], "/data/count");
    assert!(
        HelperAnnotation::of(&job).is_none()
            && job["spec"]["template"]["spec"]["initContainers"].as_array().unwrap().len() == 1
    );
}

#[test]
fn a_tree_may_go_into_the_root_of_a_volume_and_a_fan_out_below_it() {
    let mut spec = spec(pod());
    spec.inputs = vec![input("rows", "/data/", ("configmap", "etl-make-rows/rows#.tar"))];
    let fetch = |spec: &AttemptSpec| {
        let job = rendered(spec, None).unwrap();
        let init = &job["spec"]["template"]["spec"]["initContainers"][0];
        let order: FetchOrder = serde_json::from_str(&order_of(init)).unwrap();
        let mount = init["volumeMounts"][1].clone();
        (order.fetch.into_iter().map(|fetch| (fetch.target, fetch.into)).collect::<Vec<_>>(), mount)
    };
    let mount = json!({"name": "work", "mountPath": "/orlop-to/1", "subPath": "w"});
    assert_eq!(fetch(&spec), (vec![("/orlop-to/1".to_owned(), true)], mount.clone()));
    spec.inputs = (0..2).map(|k| input("rows", &format!("/data/{k}"), ("configmap", "etl-make-rows/rows"))).collect();
    let below = ["/orlop-to/1/0", "/orlop-to/1/1"].map(|target| (target.to_owned(), false));
    assert_eq!(fetch(&spec), (below.to_vec(), mount));
}

#[test]
fn what_stays_on_a_shared_claim_is_neither_stored_nor_fetched() {
    let mut pod = pod();
    pod["volumes"][0] = json!({"name": "work", "persistentVolumeClaim": {"claimName": "etl-work"}});
    let mut flow = json!({"steps": [
        {"name": "data", "outputs": {"artifacts": [{"name": "model", "path": "/data/model"}]}},
        {"name": "use", "inputs": {"artifacts": [{"name": "in", "from": "data/model", "path": "/data/model"}]}}]});
    for step in flow["steps"].as_array_mut().unwrap() {
        step["template"] = json!({"spec": {"template": {"spec": pod.clone()}}});
    }
    let shared = SharedArtifacts::of(&serde_json::from_value(flow).unwrap());
    let carried = |spec: &AttemptSpec| {
        super::super::job(
            spec,
            &owner(),
            ArtifactTransfer { helper: Some(&helper()), store: None, shared: Some(&shared) },
        )
    };
    let mut producer = spec(pod.clone());
    producer.output_artifacts = vec![output("model", "/data/model")];
    let job = carried(&producer).unwrap();
    let location = HelperAnnotation::of(&job).unwrap().location("model", Content::default()).unwrap();
    assert_eq!((location.kind.as_str(), location.reference.as_str()), ("volume", "etl-work/w/model"));
    let order: RunOrder = serde_json::from_str(&order_of(&job["spec"]["template"]["spec"]["containers"][0])).unwrap();
    assert_eq!(order.artifacts[0].to, KeepTarget::InPlace);
    let mut consumer = spec(pod);
    let source = ArtifactSource::Stored { location, archive: None };
    consumer.inputs = vec![ArtifactDelivery { source, ..input("in", "/data/model", ("", "")) }];
    let job = carried(&consumer).unwrap();
    let order = order_of(&job["spec"]["template"]["spec"]["initContainers"][0]);
    assert_eq!(serde_json::from_str::<FetchOrder>(&order).unwrap().fetch, []);
    // A flow that took it over has claims of its own.
    consumer.inputs[0].path = "/data/other".into();
    let refused = carried(&consumer).unwrap_err();
    assert_eq!(refused.reason(), "ArtifactUnavailable");
    insta::assert_snapshot!(refused, @"input artifact in is stored in volume `etl-work/w/model`, which pods of this cluster do not reach; run its step again");
}

#[test]
fn the_helper_takes_no_more_room_than_the_command() {
    let mut spec = spec(pod());
    spec.inputs = vec![input("rows", "/rows", ("configmap", "etl-make-rows/rows"))];
    let of = |spec: &AttemptSpec| {
        rendered(spec, None).unwrap()["spec"]["template"]["spec"]["initContainers"][0]["resources"].clone()
    };
    assert_eq!(of(&spec)["limits"], json!({"cpu": "1", "memory": "256Mi"}));
    let own = json!({"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"});
    let pod = &mut Arc::make_mut(&mut spec.template)["spec"]["template"]["spec"];
    pod["containers"][0]["resources"] = json!({"requests": own, "limits": own});
    let basic = json!({"cpu": "2", "memory": "1Gi"});
    assert_eq!(of(&spec), json!({"requests": basic, "limits": basic}));
}

#[test]
fn the_user_of_the_command_fetches_its_inputs() {
    for (user, of_pod, want) in [
        (json!(0), json!(1), json!([0, false])),
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

/// Another input at a path below that of this one.
fn nested(input: &ArtifactDelivery) -> ArtifactDelivery {
    ArtifactDelivery { name: "more".into(), path: format!("{}/more", input.path), ..input.clone() }
}

#[test]
fn what_cannot_be_moved_is_refused_in_words() {
    let reported = [
        with_pod(|pod| pod["volumes"][0]["name"] = json!("orlop")),
        with_pod(|pod| pod["initContainers"][0]["name"] = json!("orlop-in")),
        with_pod(|pod| pod["containers"][0]["volumeMounts"][0]["mountPath"] = json!("/orlop/x")),
        with_pod(|pod| pod["containers"][0]["command"] = json!(null)),
        refused(|spec| spec.inputs[0].path = "/etc/app/rows".into()),
        with_pod(|pod| pod["containers"][0]["volumeMounts"][0]["subPathExpr"] = json!("$(X)")),
        refused(|spec| {
            spec.inputs[0].path = "/rows".into();
            spec.inputs.push(nested(&spec.inputs[0]));
        }),
        refused(|spec| {
            spec.inputs[0].path = "/rows".into();
            spec.inputs.insert(0, nested(&spec.inputs[0]));
        }),
        refused(|spec| Arc::make_mut(&mut spec.template)["spec"]["completions"] = json!(3)),
        refused(|spec| Arc::make_mut(&mut spec.template)["spec"]["parallelism"] = json!(2)),
        refused(|spec| spec.inputs[0] = input("rows", "/r", ("cas", "sha256/ab"))),
        refused(|spec| spec.inputs[0] = input("rows", "/r", ("pvc", "shelf/../x"))),
        refused(|spec| {
            let source = HttpSource { url: format!("https://h/{}", "x".repeat(ORDER_MAX)), ..HttpSource::default() };
            spec.inputs[0].source = ArtifactSource::Http(source);
        }),
    ];
    let lines: Vec<String> = reported.iter().map(|(reason, message)| format!("{reason}: {message:.300}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let error = job(&full(), &owner(), ArtifactTransfer::default()).unwrap_err();
    insta::assert_snapshot!(error, @"artifacts are moved by a program inside the pod, which this operator does not place: start it with --helper-image and --artifact-url, or use one output `path` or a `jsonPath`");
}

#[test]
fn of_the_pods_of_an_indexed_job_the_first_gives_artifacts() {
    let mut spec = full();
    let job = &mut Arc::make_mut(&mut spec.template)["spec"];
    (job["completions"], job["completionMode"]) = (json!(3), json!("Indexed"));
    let job = rendered(&spec, None).unwrap();
    let run: RunOrder = serde_json::from_str(&order_of(&job["spec"]["template"]["spec"]["containers"][0])).unwrap();
    assert!(run.indexed);
}

fn s3(store: Value) -> ArtifactStore {
    serde_json::from_value(json!({"s3": store})).unwrap()
}

fn keys() -> Value {
    json!({
        "endpoint": "https://s3.example", "bucket": "lake", "prefix": "/flows/",
        "accessKeyIDSecretRef": {"name": "keys", "key": "id"},
        "secretAccessKeySecretRef": {"name": "keys", "key": "secret"},
    })
}

/// The variables of a container that are for the helper alone.
fn variables(container: &Value) -> Vec<(String, Value)> {
    let all = container["env"].as_array().unwrap();
    let ours = all.iter().filter(|variable| variable["name"].as_str().unwrap().starts_with(orlop_core::helper::KEYS));
    ours.map(|variable| (variable["name"].as_str().unwrap().to_owned(), variable["valueFrom"].clone())).collect()
}

fn order_of(container: &Value) -> String {
    let variable = container["env"].as_array().unwrap().iter().find(|variable| variable["name"] == ORDER);
    variable.unwrap()["value"].as_str().unwrap().to_owned()
}

#[test]
fn an_object_of_the_flows_bucket_bears_flow_step_and_attempt_and_its_keys_come_from_secrets() {
    let mut spec = spec(pod());
    spec.output_artifacts = vec![output("model", "/data/model"), output("report", "/data/report")];
    let job = rendered(&spec, Some(&s3(keys()))).unwrap();
    let main = &job["spec"]["template"]["spec"]["containers"][0];
    let run: RunOrder = serde_json::from_str(&order_of(main)).unwrap();
    let places: Vec<_> = run.artifacts.iter().map(|keep| &keep.to).collect();
    insta::assert_json_snapshot!(places);
    let secret = |key: &str| json!({"secretKeyRef": {"name": "keys", "key": key}});
    let want = [("ORLOP_PORTER_KEY_0", "id"), ("ORLOP_PORTER_KEY_1", "secret")];
    assert_eq!(variables(main), want.map(|(name, key)| (name.to_owned(), secret(key))));
    // The init container stores nothing, so it has no keys.
    assert_eq!(variables(&job["spec"]["template"]["spec"]["initContainers"][0]), []);
    assert_eq!(HelperAnnotation::of(&job).unwrap().config_map("model"), None);
}

#[test]
fn what_was_stored_as_an_object_is_fetched_by_another_pod_with_the_same_keys() {
    let mut producer = spec(pod());
    producer.output_artifacts = vec![output("model", "/data/model")];
    let job = rendered(&producer, Some(&s3(keys()))).unwrap();
    for packing in ["", ".tar"] {
        let content = Content { size_bytes: 7, sha256: "ab".into(), packing: packing.into() };
        let location = HelperAnnotation::of(&job).unwrap().location("model", content.clone()).unwrap();
        assert_eq!(location.kind, "s3");
        let mut consumer = spec(pod());
        let source = ArtifactSource::Stored { location, archive: None };
        consumer.inputs = vec![ArtifactDelivery { source, ..input("model", "/in/model", ("", "")) }];
        // Whatever its own flow says about stores.
        let job = rendered(&consumer, None).unwrap();
        let fetcher = &job["spec"]["template"]["spec"]["initContainers"][0];
        let order: FetchOrder = serde_json::from_str(&order_of(fetcher)).unwrap();
        let Source::S3 { object, content: found } = &order.fetch[0].from else { panic!("{order:?}") };
        assert_eq!((object.key.as_str(), found), ("flows/u1/data/2/model", &content));
        let keys = object.keys.clone().unwrap();
        let names: Vec<String> = variables(fetcher).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [keys.id, keys.secret]);
        assert!(job["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().len() == 1);
    }
}

#[test]
fn an_artifacts_own_bucket_comes_before_the_flows_and_that_before_the_operators() {
    let mut spec = spec(pod());
    let own = json!({"endpoint": "http://own", "bucket": "b", "key": "a/#1 {x}"});
    let own = ArtifactCollection { s3: serde_json::from_value(own).unwrap(), ..output("own", "/data/own") };
    spec.output_artifacts = vec![own, output("model", "/data/model")];
    let claim = json!({"persistentVolumeClaim": {"claimName": "flows"}});
    let claim: ArtifactStore = serde_json::from_value(claim).unwrap();
    let kind = |job: Value, name: &str| HelperAnnotation::of(&job).unwrap().location(name, Content::default()).unwrap();
    let job = rendered(&spec, Some(&claim)).unwrap();
    let of_own = kind(job.clone(), "own");
    assert_eq!((of_own.kind.as_str(), kind(job, "model").kind.as_str()), ("s3", "pvc"));
    let (object, packing) = of_own.reference.rsplit_once('#').unwrap();
    assert_eq!((serde_json::from_str::<Value>(object).unwrap()["key"].clone(), packing), (json!("a/#1 {x}"), ""));
    let mut helper = helper();
    helper.store = Some(s3(json!({"endpoint": "http://all", "bucket": "all"})));
    let carried = |store| {
        super::super::job(&spec, &owner(), ArtifactTransfer { helper: Some(&helper), store, shared: None }).unwrap()
    };
    let model = kind(carried(None), "model");
    assert!(model.reference.contains("http://all") && model.reference.contains("u1/data/2/model"), "{model:?}");
    assert_eq!(kind(carried(Some(&claim)), "model").kind, "pvc");
}

#[test]
fn stores_that_are_none_are_refused() {
    let mut spec = spec(pod());
    spec.output_artifacts = vec![output("model", "/data/model")];
    let with = |name: &str, value: Value| {
        let mut store = keys();
        store[name] = value;
        rendered(&spec, Some(&s3(store))).unwrap_err().to_string()
    };
    let reported = [
        with("endpoint", json!("s3.example")),
        with("bucket", json!("a/b")),
        with("prefix", json!("a/../b")),
        with("secretAccessKeySecretRef", Value::Null),
    ];
    insta::assert_snapshot!(reported.join("\n"));
}

#[test]
fn the_store_of_the_operator_is_used_where_the_flow_names_none() {
    let mut spec = spec(pod());
    spec.output_artifacts = vec![output("model", "/data/model")];
    let mut helper = helper();
    let all = ClaimStore { claim_name: "all".into(), sub_path: None };
    helper.store = Some(ArtifactStore { persistent_volume_claim: Some(all), s3: None });
    let kept = |store| {
        let job = job(&spec, &owner(), ArtifactTransfer { helper: Some(&helper), store, shared: None }).unwrap();
        HelperAnnotation::of(&job).unwrap().location("model", orlop_core::helper::Content::default()).unwrap().reference
    };
    let own = ClaimStore { claim_name: "own".into(), sub_path: None };
    let own = ArtifactStore { persistent_volume_claim: Some(own), s3: None };
    assert_eq!((kept(None).as_str(), kept(Some(&own)).as_str()), ("all/u1/data/2/model", "own/u1/data/2/model"));
}

#[test]
fn orders_are_read_as_they_were_written() {
    let job = rendered(&full(), None).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    let fetch: FetchOrder = serde_json::from_str(&order_of(&pod["initContainers"][0])).unwrap();
    let targets: Vec<&str> = fetch.fetch.iter().map(|fetch| fetch.target.as_str()).collect();
    assert_eq!(targets, ["/orlop-to/1/in/rows", "/orlop/in/parts/0", "/orlop/in/parts/1", "/orlop/in/web"]);
    let run: RunOrder = serde_json::from_str(&order_of(&pod["containers"][0])).unwrap();
    assert_eq!((run.message.as_str(), run.files.len(), run.artifacts.len()), ("/dev/termination-log", 1, 1));
}
