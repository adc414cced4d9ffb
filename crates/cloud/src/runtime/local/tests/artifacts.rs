//! Artifacts and output files: delivered before the start, collected after the end.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::{ArtifactCollection, ArtifactDelivery, ArtifactSource, EndResult, FileTrouble, OutputFile};
use orlop_core::error::{Class, Problem};
use orlop_core::ports::substrate::Substrate;
use orlop_core::spec::artifact::HttpSource;
use orlop_core::spec::status::ArtifactLocation;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Bench, failure, key, spec};

fn stored(name: &str, path: &str, location: ArtifactLocation) -> ArtifactDelivery {
    let source = ArtifactSource::Stored { location, archive: None };
    ArtifactDelivery { name: name.into(), path: path.into(), unpack: true, source }
}

fn http(path: &str, url: &str) -> ArtifactDelivery {
    let source = ArtifactSource::Http(HttpSource { url: url.into(), ..HttpSource::default() });
    ArtifactDelivery { name: "page".into(), path: path.into(), unpack: true, source }
}

fn output(name: &str, path: &str) -> ArtifactCollection {
    ArtifactCollection { name: name.into(), path: path.into(), optional: false, archive: None, s3: None }
}

#[tokio::test(start_paused = true)]
async fn inputs_lie_at_their_paths_before_the_command_starts() {
    let bench = Bench::new();
    let mut spec = spec("s", json!({"command": ["run"], "volumeMounts": [{"name": "work", "mountPath": "/data"}]}));
    bench.set_volumes(&mut spec, json!([{"name": "work"}]));
    spec.inputs = vec![
        stored("model", "/models/m.bin", bench.store.hold(&[("", "weights")])),
        stored("tree", "/data/deep/tree", bench.store.hold(&[("a", "1"), ("b", "2")])),
        stored("all", "/data", bench.store.hold(&[("top", "3")])),
        http("/page.html", "https://a.example/x"),
    ];
    let substrate = bench.open();
    substrate.start(spec).await.unwrap();
    let plan = bench.running("s").await;
    let source = |target: &str| plan.main.mounts.iter().find(|mount| mount.target == target).unwrap().source.clone();
    assert_eq!(fs::read_to_string(source("/models/m.bin")).unwrap(), "weights");
    assert_eq!(fs::read_to_string(source("/page.html")).unwrap(), "https://a.example/x");
    let work = source("/data");
    assert_eq!(fs::read_to_string(work.join("deep/tree/b")).unwrap(), "2");
    assert_eq!(fs::read_to_string(work.join("top")).unwrap(), "3");
    let names: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing else is left there: {names:?}");
    assert_eq!(plan.main.mounts.len(), 3, "what lies in a volume needs no mount of its own");
}

#[tokio::test(start_paused = true)]
async fn why_an_accepted_attempt_does_not_run_is_reported_at_once_and_that_it_runs_afterwards() {
    let bench = Bench::new();
    let mut spec = spec("s", json!({"command": ["run"]}));
    spec.inputs = vec![stored("model", "/m", bench.store.hold(&[("", "weights")]))];
    let busy = || Problem::new(Class::Transient, "the server answers 500").with_reason("ArtifactUnavailable");
    bench.store.faults.lock().unwrap().extend([busy(), busy(), busy()]);
    let substrate = bench.open();
    let began = Instant::now();
    substrate.start(spec).await.unwrap();
    let first = substrate.next_delay().await;
    assert_eq!(first.key, key("s"));
    let cause = first.cause.unwrap();
    assert_eq!(cause.reason, "ArtifactUnavailable");
    assert!(cause.message.contains("the server answers 500"), "{}", cause.message);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    bench.running("s").await;
    // The same cause is reported once, however often it is tried.
    assert_eq!(substrate.next_delay().await.cause, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_delivered_belongs_to_the_user_of_the_container_also_all_over_a_volume() {
    let bench = Bench::new();
    let mounts = json!([{"name": "work", "mountPath": "/data"}]);
    let mut spec =
        spec("s", json!({"command": ["run"], "volumeMounts": mounts, "securityContext": {"runAsUser": 1234}}));
    bench.set_volumes(&mut spec, json!([{"name": "work"}]));
    spec.inputs = vec![
        stored("all", "/data", bench.store.hold(&[("top", "3")])),
        stored("one", "/model", bench.store.hold(&[("", "weights")])),
    ];
    let substrate = bench.open();
    substrate.start(spec).await.unwrap();
    let plan = bench.running("s").await;
    let source = |target: &str| plan.main.mounts.iter().find(|mount| mount.target == target).unwrap().source.clone();
    let user = if nix::unistd::geteuid().is_root() { 1234 } else { nix::unistd::geteuid().as_raw() };
    for path in [source("/data").join("top"), source("/model")] {
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(&path).unwrap()), user, "{}", path.display());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_in_the_store_is_refused_as_unavailable() {
    let bench = Bench::new();
    let mut spec = spec("s", json!({"command": ["exit", "0"]}));
    spec.inputs = vec![stored("gone", "/in", ArtifactLocation { reference: "abc".into(), ..Default::default() })];
    let substrate = bench.open();
    let error = substrate.start(spec).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::NotFound, Some("ArtifactUnavailable")));
    insta::assert_snapshot!(error.chain(), @"abc is not in the store of this run; run the step that makes it again, with `orlop flow retry RUN --step STEP` (input artifact `gone`)");
    assert!(substrate.list("f").await.unwrap().is_empty() && bench.fake.plans().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_download_that_fails_fails_the_attempt() {
    let bench = Bench::new();
    let mut spec = spec("s", json!({"command": ["exit", "0"]}));
    spec.inputs = vec![http("/in", "https://a.example/missing")];
    let substrate = bench.open();
    substrate.start(spec).await.unwrap();
    let end = substrate.next().await.end;
    assert_eq!(failure(&end).0, "ArtifactUnavailable");
    insta::assert_snapshot!(failure(&end).1, @"https://a.example/missing answers 404 (input artifact `page`)");
    assert!(bench.fake.plans().is_empty(), "the command never ran");
}

#[tokio::test(start_paused = true)]
async fn an_artifact_below_a_read_only_mount_has_no_place() {
    let bench = Bench::new();
    let mounts = json!([{"name": "work", "mountPath": "/data", "readOnly": true}]);
    let mut spec = spec("s", json!({"command": ["exit", "0"], "volumeMounts": mounts}));
    bench.set_volumes(&mut spec, json!([{"name": "work"}]));
    spec.inputs = vec![stored("model", "/data/m", bench.store.hold(&[("", "weights")]))];
    let substrate = bench.open();
    substrate.start(spec).await.unwrap();
    let end = substrate.next().await.end;
    insta::assert_snapshot!(failure(&end).1, @"input artifact model has no place at /data/m: /data is mounted read-only");
    let mut outside = super::spec("t", json!({"command": ["exit", "0"]}));
    outside.inputs = vec![stored("model", "/data/../m", bench.store.hold(&[("", "weights")]))];
    substrate.start(outside).await.unwrap();
    let end = substrate.next().await.end;
    insta::assert_snapshot!(failure(&end).1, @"input artifact model has no place at /data/../m: it is not an absolute path below `/` without `..`");
}

#[tokio::test(start_paused = true)]
async fn outputs_come_from_volumes_and_from_the_container() {
    let bench = Bench::new();
    let command =
        json!({"command": ["write", "/data/out", "hello\n"], "volumeMounts": [{"name": "work", "mountPath": "/data"}]});
    let mut spec = spec("s", command);
    bench.set_volumes(&mut spec, json!([{"name": "work"}]));
    spec.output_files = vec![
        OutputFile { name: "text".into(), path: "/data/out".into() },
        OutputFile { name: "none".into(), path: "/data/none".into() },
        OutputFile { name: "elsewhere".into(), path: "/else/where".into() },
    ];
    spec.output_artifacts = vec![output("tree", "/data"), output("none", "/none")];
    let substrate = bench.open();
    substrate.start(spec).await.unwrap();
    let end = substrate.next().await.end;
    assert_eq!(end.result, EndResult::Succeeded);
    let files: Vec<_> = end.files.iter().map(|file| (file.name.as_str(), file.content.clone())).collect();
    assert_eq!(files, [("text", Ok("hello".to_owned()))]);
    let artifacts: Vec<_> = end.artifacts.iter().map(|record| (record.name.as_str(), record.path.as_str())).collect();
    assert_eq!(artifacts, [("tree", "/data")]);
    let held = bench.store.hold(&[("out", "hello\n")]);
    assert_eq!(end.artifacts[0].location, Some(held));
    assert_eq!(bench.fake.world().fetched, ["/else/where", "/none"], "volumes are read directly");
    let plan = &bench.fake.plans()[0];
    assert_eq!(plan.outputs, ["/data/out", "/data/none", "/else/where", "/data", "/none"]);
}

#[tokio::test(start_paused = true)]
async fn what_only_the_engine_may_read_is_fetched_through_it() {
    let bench = Bench::new();
    let mounted = json!({"command": ["exit", "0"], "volumeMounts": [{"name": "work", "mountPath": "/data"}]});
    let mut spec = spec("s", mounted);
    bench.set_volumes(&mut spec, json!([{"name": "work"}]));
    spec.output_artifacts = vec![output("tree", "/data")];
    bench.store.faults.lock().unwrap().push(Problem::new(Class::Denied, "permission denied"));
    let substrate = bench.open();
    substrate.start(spec).await.unwrap();
    substrate.next().await;
    assert_eq!(bench.fake.world().fetched, ["/data"]);
}

#[tokio::test(start_paused = true)]
async fn an_output_that_holds_a_secret_is_not_recorded() {
    for source in ["env", "volume"] {
        let bench = Bench::new();
        fs::create_dir_all(bench.root.path().join("secrets/s")).unwrap();
        fs::write(bench.root.path().join("secrets/s/token"), "hunter2\n").unwrap();
        let mut container = json!({"command": ["write", "/tmp/out", "token: hunter2"]});
        if source == "env" {
            container["env"] = json!([{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}]);
        } else {
            container["volumeMounts"] = json!([{"name": "s", "mountPath": "/s"}]);
        }
        let mut wanted = spec("s", container);
        bench.set_volumes(&mut wanted, json!([{"name": "s", "secret": {"secretName": "s"}}]));
        wanted.output_files = vec![OutputFile { name: "o".into(), path: "/tmp/out".into() }];
        let substrate = bench.open();
        substrate.start(wanted).await.unwrap();
        let end = substrate.next().await.end;
        assert!(end.files.is_empty(), "{source}: {:?}", end.files);
        assert_eq!(failure(&end).0, "Forbidden");
        let seen = if source == "env" { "variable T" } else { "file token" };
        let message = format!(
            "output file o at /tmp/out holds the value of the Secret in {seen}, and outputs are recorded in the open; hand \
             secrets on by a volume or an artifact"
        );
        assert_eq!(failure(&end).1, message);
    }
}

#[tokio::test(start_paused = true)]
async fn outputs_of_a_failure_are_taken_where_present() {
    let bench = Bench::new();
    let mut spec = spec("s", json!({"command": ["exit", "3"], "volumeMounts": [{"name": "w", "mountPath": "/w"}]}));
    bench.set_volumes(&mut spec, json!([{"name": "w", "persistentVolumeClaim": {"claimName": "c"}}]));
    let claim = bench.root.path().join("claims/c");
    fs::create_dir_all(&claim).unwrap();
    fs::write(claim.join("out"), [0xff]).unwrap();
    spec.output_files = vec![OutputFile { name: "o".into(), path: "/w/out".into() }];
    let substrate = bench.open();
    substrate.start(spec).await.unwrap();
    let end = substrate.next().await.end;
    assert_eq!(failure(&end).0, "NonZeroExit");
    assert_eq!(end.files[0].content, Err(FileTrouble::NotText));
}

#[tokio::test(start_paused = true)]
async fn a_success_whose_artifact_cannot_be_stored_is_none() {
    let bench = Bench::new();
    let mut spec = spec("s", json!({"command": ["write", "/out", "x"]}));
    spec.output_artifacts = vec![output("o", "/out")];
    let too_large = || Problem::new(Class::Invalid, "larger than --artifact-max-bytes").with_reason("OutputTooLarge");
    let full = || Problem::new(Class::Capacity, "the disk is full");
    bench.store.faults.lock().unwrap().extend([too_large(), full(), full()]);
    let substrate = bench.open();
    substrate.start(spec).await.unwrap();
    let end = substrate.next().await.end;
    assert_eq!(failure(&end).0, "OutputTooLarge", "after the disk had room again");
    insta::assert_snapshot!(failure(&end).1, @"larger than --artifact-max-bytes (output artifact `o` at /out)");
    assert_eq!(end.document["status"]["conditions"][0]["reason"], "OutputTooLarge");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_can_be_cancelled_while_its_artifacts_come() {
    let bench = Bench::new();
    let mut spec = spec("s", json!({"command": ["exit", "0"]}));
    spec.inputs = vec![stored("model", "/m", bench.store.hold(&[("", "weights")]))];
    let busy = || Problem::new(Class::Transient, "busy").retry_after(std::time::Duration::from_secs(3_600));
    bench.store.faults.lock().unwrap().extend([busy(), busy()]);
    let substrate = bench.open();
    substrate.start(spec).await.unwrap();
    substrate.cancel(&key("s"), None).await.unwrap();
    assert_eq!(substrate.next().await.end.result, EndResult::Cancelled);
    assert!(bench.fake.plans().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_can_be_cancelled_while_its_outputs_are_taken() {
    for (code, result) in
        [("0", EndResult::Cancelled), ("3", EndResult::Failed { reason: String::new(), message: String::new() })]
    {
        let bench = Bench::new();
        let mut spec = spec("s", json!({"command": ["exit", code]}));
        spec.output_artifacts = vec![output("tree", "/data")];
        bench.set_volumes(&mut spec, json!([{"name": "work"}]));
        Arc::make_mut(&mut spec.template)["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "work", "mountPath": "/data"}]);
        let busy = || Problem::new(Class::Transient, "busy").retry_after(Duration::from_secs(3_600));
        bench.store.faults.lock().unwrap().extend([busy(), busy()]);
        let substrate = bench.open();
        substrate.start(spec).await.unwrap();
        sleep(Duration::from_secs(60)).await;
        let began = Instant::now();
        substrate.cancel(&key("s"), None).await.unwrap();
        let end = substrate.next().await.end;
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
        assert_eq!(std::mem::discriminant(&end.result), std::mem::discriminant(&result), "{:?}", end.result);
    }
}
