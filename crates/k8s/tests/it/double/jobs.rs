//! Jobs and their pods, garbage, namespaces, nodes: what the played controllers do.

use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::{api, config_map, config_maps, object, widget, widgets, with_widgets};

fn jobs(client: kube::Client) -> Api<DynamicObject> {
    api(client, "batch", "v1", "Job", "jobs")
}

/// A Job with these annotations on its pods, and this much more in its spec.
fn job(name: &str, annotations: Value, more: Value) -> DynamicObject {
    let mut spec = json!({"template": {"metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example"}]}}});
    for (name, value) in more.as_object().expect("an object") {
        if name == "restartPolicy" {
            spec["template"]["spec"]["restartPolicy"] = value.clone();
        } else {
            spec[name] = value.clone();
        }
    }
    object(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}))
}

/// The conditions that hold, with their reasons, and the counts.
fn end(server: &ApiServer, name: &str) -> String {
    let job = server.look("jobs.batch", "default", name).expect("the Job");
    let conditions: Vec<String> = job["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|condition| condition["status"] == "True")
        .map(|condition| {
            format!("{}={}", condition["type"].as_str().unwrap_or(""), condition["reason"].as_str().unwrap_or(""))
        })
        .collect();
    let count = |name: &str| job["status"][name].as_i64().unwrap_or_default();
    format!(
        "{} active {} succeeded {} failed {}",
        conditions.join(" "),
        count("active"),
        count("succeeded"),
        count("failed")
    )
}

async fn played(annotations: Value, more: Value) -> (ApiServer, String) {
    let server = ApiServer::new();
    jobs(server.client()).create(&PostParams::default(), &job("j", annotations, more)).await.expect("created");
    server.jobs().run_for(Duration::from_secs(3600));
    let end = end(&server, "j");
    (server, end)
}

#[tokio::test]
async fn jobs_end_as_their_pods_do() {
    let cases = [
        (
            json!({}),
            json!({}),
            "SuccessCriteriaMet=CompletionsReached Complete=CompletionsReached active 0 succeeded 1 failed 0",
        ),
        (
            json!({"fake/exit-code": "1"}),
            json!({"backoffLimit": 0}),
            "FailureTarget=BackoffLimitExceeded Failed=BackoffLimitExceeded active 0 succeeded 0 failed 1",
        ),
        (
            json!({"fake/exit-code": "1"}),
            json!({"backoffLimit": 2}),
            "FailureTarget=BackoffLimitExceeded Failed=BackoffLimitExceeded active 0 succeeded 0 failed 3",
        ),
        (
            json!({"fake/exit-code": "1,1,0"}),
            json!({"restartPolicy": "OnFailure"}),
            "SuccessCriteriaMet=CompletionsReached Complete=CompletionsReached active 0 succeeded 1 failed 0",
        ),
        (
            json!({"fake/run-seconds": "inf"}),
            json!({"activeDeadlineSeconds": 10}),
            "FailureTarget=DeadlineExceeded Failed=DeadlineExceeded active 0 succeeded 0 failed 1",
        ),
        (
            json!({}),
            json!({"completions": 5, "parallelism": 2}),
            "SuccessCriteriaMet=CompletionsReached Complete=CompletionsReached active 0 succeeded 5 failed 0",
        ),
        (
            json!({"fake/exit-code": "3"}),
            json!({"podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]}}),
            "FailureTarget=PodFailurePolicy Failed=PodFailurePolicy active 0 succeeded 0 failed 1",
        ),
        (
            json!({"fake/exit-code-index-1": "1"}),
            json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1}),
            "FailureTarget=FailedIndexes Failed=FailedIndexes active 0 succeeded 2 failed 2",
        ),
        (
            json!({"fake/run-seconds": "inf"}),
            json!({"suspend": true}),
            "Suspended=JobSuspended active 0 succeeded 0 failed 0",
        ),
    ];
    for (annotations, more, wanted) in cases {
        let (server, end) = played(annotations.clone(), more.clone()).await;
        assert_eq!(end, wanted, "{annotations} {more}");
        for pod in server.look_all("pods") {
            assert_eq!(pod["metadata"]["finalizers"], Value::Null, "every pod was counted");
        }
    }
}

#[tokio::test]
async fn pods_that_a_job_takes_down_itself_are_no_failures() {
    for (more, change, after) in [
        (json!({}), json!({"suspend": true}), "Suspended=JobSuspended active 0 succeeded 0 failed 0"),
        (json!({"parallelism": 2, "completions": 2}), json!({"parallelism": 1}), " active 1 succeeded 0 failed 0"),
    ] {
        let server = ApiServer::new();
        let jobs = jobs(server.client());
        let mut more = more.clone();
        more["backoffLimit"] = json!(0);
        let plays = json!({"fake/run-seconds": "30", "fake/term-seconds": "5"});
        jobs.create(&PostParams::default(), &job("j", plays, more.clone())).await.expect("created");
        server.jobs().run_for(Duration::from_secs(10));
        let patch = |spec: &Value| Patch::Merge(json!({ "spec": spec }));
        jobs.patch("j", &PatchParams::default(), &patch(&change)).await.expect("changed");
        server.jobs().settle();
        let terminating =
            || server.look("jobs.batch", "default", "j").expect("the Job")["status"]["terminating"].clone();
        assert_eq!((end(&server, "j").as_str(), terminating()), (after, json!(1)), "{change}");
        server.jobs().run_for(Duration::from_secs(6));
        assert_eq!((end(&server, "j").as_str(), terminating()), (after, json!(0)), "{change}");
        let back = json!({"suspend": false, "parallelism": more.get("parallelism").unwrap_or(&json!(1))});
        jobs.patch("j", &PatchParams::default(), &patch(&back)).await.expect("changed");
        server.jobs().run_for(Duration::from_secs(120));
        assert!(
            end(&server, "j").contains(" Complete=CompletionsReached active 0 "),
            "{change}: {}",
            end(&server, "j")
        );
    }
}

#[tokio::test]
async fn failures_wait_longer_each_time() {
    let server = ApiServer::new();
    let failing = job("j", json!({"fake/exit-code": "1"}), json!({"backoffLimit": 3}));
    jobs(server.client()).create(&PostParams::default(), &failing).await.expect("created");
    let mut seen = Vec::new();
    for _ in 0..80 {
        server.jobs().run_for(Duration::from_secs(1));
        seen.push(server.look_all("pods").len());
    }
    let at = |count: usize| seen.iter().position(|seen| *seen == count);
    assert_eq!((at(1), at(2), at(3), at(4)), (Some(0), Some(9), Some(29), Some(69)));
}

#[tokio::test]
async fn indexed_pods_carry_their_index() {
    let (server, _) = played(json!({}), json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"})).await;
    let pods = server.look_all("pods");
    assert_eq!(pods.len(), 2);
    for (index, pod) in pods.iter().enumerate() {
        let index = index.to_string();
        assert_eq!(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"], json!(index));
        assert!(pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(&format!("j-{index}-"))));
        assert_eq!(pod["spec"]["hostname"], json!(format!("j-{index}")));
        assert_eq!(pod["metadata"]["labels"]["job-name"], "j");
    }
    assert_eq!(server.look("jobs.batch", "default", "j").expect("the Job")["status"]["completedIndexes"], "0,1");
}

#[tokio::test]
async fn deleted_jobs_take_their_pods_with_them_or_not() {
    for (params, left) in [
        (DeleteParams::background(), 0),
        (DeleteParams::foreground(), 0),
        (DeleteParams::orphan(), 1),
        (DeleteParams::default(), 1),
    ] {
        let server = ApiServer::new();
        let jobs = jobs(server.client());
        jobs.create(&PostParams::default(), &job("j", json!({"fake/run-seconds": "inf"}), json!({})))
            .await
            .expect("created");
        server.jobs().settle();
        assert_eq!(end(&server, "j"), " active 1 succeeded 0 failed 0");
        jobs.delete("j", &params).await.expect("deleted");
        server.jobs().settle();
        assert!(jobs.get_opt("j").await.expect("an answer").is_none());
        assert_eq!(server.look_all("pods").len(), left, "{params:?}");
    }
}

#[tokio::test]
async fn finished_jobs_go_when_their_time_is_over() {
    let (server, _) = played(json!({}), json!({"ttlSecondsAfterFinished": 7200})).await;
    assert!(server.look("jobs.batch", "default", "j").is_some());
    server.jobs().run_for(Duration::from_secs(3601));
    assert!(server.look("jobs.batch", "default", "j").is_none());
    assert_eq!(server.look_all("pods").len(), 0);
}

#[tokio::test]
async fn what_is_owned_goes_with_its_owner_and_only_with_that_one() {
    let server = with_widgets();
    let (widgets, maps) = (widgets(server.client()), config_maps(server.client()));
    let owner = widgets.create(&PostParams::default(), &widget("w", json!({"size": 1}))).await.expect("created");
    let reference = |uid: &str| json!([{"apiVersion": "example.org/v1", "kind": "Widget", "name": "w", "uid": uid, "controller": true}]);
    for (name, uid) in
        [("owned", owner.metadata.uid.clone().unwrap_or_default()), ("strange", "no-such-uid".to_owned())]
    {
        let mut map = config_map(name, "1");
        map.metadata.owner_references = serde_json::from_value(reference(&uid)).expect("references");
        maps.create(&PostParams::default(), &map).await.expect("created");
    }
    server.jobs().settle();
    assert!(server.look("configmaps", "default", "strange").is_none(), "its owner is not there");
    assert!(server.look("configmaps", "default", "owned").is_some());
    widgets.delete("w", &DeleteParams::default()).await.expect("deleted");
    widgets.create(&PostParams::default(), &widget("w", json!({"size": 1}))).await.expect("created again");
    server.jobs().settle();
    assert!(server.look("configmaps", "default", "owned").is_none(), "the new owner is another");
}

#[tokio::test]
async fn namespaces_go_after_what_is_in_them() {
    let server = ApiServer::new();
    server.namespace("n");
    for index in 0..3 {
        let map = json!({"metadata": {"name": format!("m{index}")}});
        server.create("", "configmaps", "n", &map).expect("created");
    }
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(server.client());
    namespaces.delete("n", &DeleteParams::default()).await.expect("accepted");
    assert_eq!(server.look("namespaces", "", "n").expect("still there")["status"]["phase"], "Terminating");
    server.jobs().settle();
    assert!(server.look("namespaces", "", "n").is_none());
    assert_eq!(server.look_all("configmaps").len(), 0);
}

#[tokio::test]
async fn pods_of_lost_nodes_are_made_anew_elsewhere() {
    let server = ApiServer::new();
    jobs(server.client())
        .create(&PostParams::default(), &job("j", json!({"fake/run-seconds": "60"}), json!({})))
        .await
        .expect("created");
    server.jobs().settle();
    server.jobs().lose_node("node-0");
    let nodes = json!({"metadata": {"name": "node-1"}});
    server.create("", "nodes", "", &nodes).expect("another node");
    server.jobs().run_for(Duration::from_secs(120));
    assert_eq!(
        end(&server, "j"),
        "SuccessCriteriaMet=CompletionsReached active 0 succeeded 1 failed 1",
        "the old pod may still run"
    );
    server.jobs().remove_node("node-0");
    server.jobs().settle();
    assert!(end(&server, "j").contains("Complete=CompletionsReached"));
}

#[tokio::test]
async fn evicted_pods_fail_with_a_reason() {
    let server = ApiServer::new();
    let rules = json!({"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}, "backoffLimit": 0});
    jobs(server.client())
        .create(&PostParams::default(), &job("j", json!({"fake/run-seconds": "60"}), rules))
        .await
        .expect("created");
    server.jobs().settle();
    let pod = server.look_all("pods")[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    assert!(server.jobs().evict("default", &pod));
    server.jobs().run_for(Duration::from_secs(600));
    assert!(end(&server, "j").contains("Complete=CompletionsReached active 0 succeeded 1 failed 0"));
}

#[tokio::test(start_paused = true)]
async fn the_controllers_can_run_beside_a_test() {
    let server = ApiServer::new();
    server.clock().follow_tokio();
    let controllers = server.jobs();
    let running = tokio::spawn(async move { controllers.run().await });
    let jobs = jobs(server.client());
    jobs.create(&PostParams::default(), &job("j", json!({"fake/run-seconds": "30"}), json!({})))
        .await
        .expect("created");
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(end(&server, "j"), " active 1 succeeded 0 failed 0");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(end(&server, "j").contains("Complete=CompletionsReached"));
    let resumed = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    jobs.patch("j", &PatchParams::default(), &resumed).await.expect("labels of finished Jobs can change");
    running.abort();
}

#[tokio::test]
async fn claims_stay_while_pods_use_them() {
    let server = ApiServer::new();
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    server.create("", "persistentvolumeclaims", "default", &claim).expect("created");
    let pod = json!({"metadata": {"name": "p", "annotations": {"fake/run-seconds": "60"}}, "spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example"}], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
    server.create("", "pods", "default", &pod).expect("created");
    server.jobs().settle();
    let claims = api(server.client(), "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
    claims.delete("c", &DeleteParams::default()).await.expect("accepted");
    server.jobs().run_for(Duration::from_secs(59));
    assert!(server.look("persistentvolumeclaims", "default", "c").is_some());
    server.jobs().run_for(Duration::from_secs(2));
    assert!(server.look("persistentvolumeclaims", "default", "c").is_none());
}
