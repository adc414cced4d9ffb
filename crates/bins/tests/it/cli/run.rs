//! `orlop run`.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::bench::{Bench, ReleaseFile, after, end, phases, signal, step};

#[test]
fn a_chain_runs_to_its_end_and_hands_values_on() {
    let bench = Bench::new();
    let mut build = step("build", "echo abc > /tmp/out");
    build["outputs"] = json!({"parameters": [{"name": "digest", "valueFrom": {"path": "/tmp/out"}}]});
    let mut test = after(step("test", "echo got ${parameters.digest} ${parameters.env}"), &["build"]);
    test["inputs"] = json!({"parameters": [{"name": "digest", "valueFrom": {"jsonPath": "build:$.outputs.digest"}}]});
    let file = bench.flow("chain", &json!({"parameters": [{"name": "env"}], "steps": [build, test]}));
    let gave = bench.run(&file, &["-p", "env=dev"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert!(gave.out.contains("build.digest = abc"), "{}", gave.out);
    assert_eq!(bench.orlop(&["flow", "logs", "chain", "test"]).out, "test/1 got abc dev\n");
}

#[test]
fn a_failed_flow_gives_1_and_shows_the_last_lines() {
    let bench = Bench::new();
    let gave =
        bench.run_steps("bad", &json!([step("boom", "echo it broke; exit 3"), after(step("next", "true"), &["boom"])]));
    assert_eq!(gave.code, 1, "{gave:?}");
    assert!(gave.out.contains("it broke"), "{}", gave.out);
    assert_eq!(phases(&bench.status("bad").unwrap()), "boom=Failed/NonZeroExit next=Skipped/DependencyFailed");
}

#[test]
fn usage_errors_give_2_and_refused_manifests_3() {
    let bench = Bench::new();
    assert_eq!(bench.orlop(&["run"]).code, 2);
    assert_eq!(bench.orlop(&["flow", "nonsense"]).code, 2);
    assert_eq!(bench.orlop(&["run", "flow.yaml", "-p", "novalue"]).code, 2);
    let file = bench.flow("p", &json!({"parameters": [{"name": "env"}], "steps": [step("a", "true")]}));
    let gave = bench.run(&file, &[]);
    assert_eq!(gave.code, 2);
    assert!(gave.err.contains("parameter `env` needs a value"), "{}", gave.err);
    let cycle =
        bench.flow("c", &json!({"steps": [after(step("a", "true"), &["b"]), after(step("b", "true"), &["a"])]}));
    let gave = bench.run(&cycle, &[]);
    assert_eq!(gave.code, 3, "{gave:?}");
    assert!(gave.err.contains("wait for each other in a cycle"), "{}", gave.err);
    let text = bench.file("broken.yaml", "kind: [");
    assert_eq!(bench.run(&text, &[]).code, 3);
    assert_eq!(bench.run(&bench.path("none.yaml"), &[]).code, 4);
    assert!(!bench.path("home/runs/default/c").exists());
}

#[test]
fn a_taken_name_gives_5_and_another_name_is_free() {
    let bench = Bench::new();
    let file = bench.flow("once", &json!({"steps": [step("a", "true")]}));
    assert_eq!(bench.run(&file, &[]).code, 0);
    let gave = bench.run(&file, &[]);
    assert_eq!(gave.code, 5);
    assert!(gave.err.contains("the name is taken"), "{}", gave.err);
    assert_eq!(bench.run(&file, &["--name", "twice"]).code, 0);
    let dir = bench.path("elsewhere").display().to_string();
    assert_eq!(bench.run(&file, &["--run-dir", &dir]).code, 0);
    assert!(bench.path("elsewhere/run.db").exists());
}

#[test]
fn going_on_with_a_copy_of_a_run_leaves_the_original_alone() {
    let (bench, release) = (Bench::new(), ReleaseFile::new());
    let steps = json!([step("slow", &release.then("echo whole"))]);
    let file = bench.flow("original", &json!({ "steps": steps }));
    let child = bench.begin(&file, &[]);
    bench.until("original", |status| status["progress"]["runningSteps"] == 1);
    let (run, copy) = (bench.path("home/runs/default/original"), bench.path("copy"));
    let copied = std::process::Command::new("cp").arg("-a").args([&run, &copy]).status().unwrap();
    assert!(copied.success());
    let copy = copy.display().to_string();
    let other = bench.start(&["run", "--resume", "--run-dir", &copy, "--progress", "none"]);
    let lost =
        || bench.orlop(&["flow", "get", "--run-dir", &copy, "original", "-o", "json"]).out.contains("\"lostCount\": 1");
    let began = std::time::Instant::now();
    while !lost() {
        assert!(began.elapsed().as_secs() < 60, "the copy never said that its step is lost");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    release.open();
    let (other, original) = (end(other), end(child));
    assert_eq!(original.code, 0, "{}", original.err);
    assert_eq!(phases(&bench.status("original").unwrap()), "slow=Succeeded", "{}", other.err);
}

#[test]
fn one_interrupt_stops_and_lets_attempts_finish() {
    let (bench, release) = (Bench::new(), ReleaseFile::new());
    let steps = json!([step("slow", &release.then("echo whole")), after(step("next", "true"), &["slow"])]);
    let file = bench.flow("stop", &json!({"steps": steps, "finally": [step("clean", "echo cleaned")]}));
    let child = bench.begin(&file, &[]);
    bench.until("stop", |status| status["progress"]["runningSteps"] == 1);
    signal(&child, Signal::SIGINT);
    bench.until("stop", |status| status["steps"][1]["reason"] == "Stopped");
    release.open();
    let gave = end(child);
    assert_eq!(gave.code, 9, "{gave:?}");
    assert!(gave.err.contains("stopping: live attempts finish"), "{}", gave.err);
    let status = bench.status("stop").unwrap();
    assert_eq!(phases(&status), "slow=Succeeded next=Skipped/Stopped clean=Succeeded");
}

#[test]
fn two_interrupts_cancel_attempts() {
    let bench = Bench::new();
    let child = bench.running("kill", &json!([step("slow", "sleep 100"), after(step("next", "true"), &["slow"])]));
    signal(&child, Signal::SIGINT);
    bench.until("kill", |status| status["steps"][1]["reason"] == "Stopped");
    signal(&child, Signal::SIGTERM);
    let gave = end(child);
    assert_eq!(gave.code, 9, "{gave:?}");
    assert_eq!(phases(&bench.status("kill").unwrap()), "slow=Failed/Terminated next=Skipped/Stopped");
}

#[test]
fn a_killed_host_is_followed_by_one_that_goes_on() {
    let bench = Bench::new();
    let steps = json!([step("slow", "sleep 2; echo once"), after(step("next", "echo after"), &["slow"])]);
    let child = bench.running("crash", &steps);
    let alive: Value = serde_json::from_str(&bench.orlop(&["flow", "list", "-o", "json"]).out).unwrap();
    assert_eq!(alive["items"][0]["interrupted"], false);
    signal(&child, Signal::SIGKILL);
    end(child);
    // Whoever looks sees that nobody drives it, and what to do.
    let resume = "orlop run --resume --name crash";
    let list = bench.orlop(&["flow", "list"]).out;
    assert!(list.contains("Interrupted") && list.contains(resume), "{list}");
    let left: Value = serde_json::from_str(&bench.orlop(&["flow", "list", "-o", "json"]).out).unwrap();
    assert_eq!(left["items"][0]["interrupted"], true);
    assert_eq!(bench.status("crash").unwrap()["interrupted"], true);
    let hint = format!("interrupted: no process drives it now; continue it: {resume}");
    for verb in ["get", "explain"] {
        let page = bench.orlop(&["flow", verb, "crash"]).out;
        assert!(page.contains(&hint), "{verb}: {page}");
    }
    let gave = bench.orlop(&["run", "--resume", "--name", "crash"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(bench.status("crash").unwrap()["interrupted"], Value::Null);
    assert_eq!(bench.orlop(&["flow", "logs", "crash"]).out, "slow/1 once\nnext/1 after\n");
    assert_eq!(bench.status("crash").unwrap()["steps"][0]["attempt"], 1);
}

#[test]
fn a_run_that_waits_for_a_person_is_left_with_10_and_goes_on_later() {
    let bench = Bench::new();
    let manual = json!({"name": "release", "type": "Manual"});
    let file = bench.flow("gate", &json!({"steps": [manual, after(step("ship", "true"), &["release"])]}));
    let gave = bench.run(&file, &["--no-wait-approval"]);
    assert_eq!(gave.code, 10, "{gave:?}");
    let gave = bench.orlop(&["flow", "approve", "gate", "release", "--reason", "looks good"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert!(gave.out.contains("no process drives it now"), "{}", gave.out);
    assert_eq!(bench.orlop(&["run", "--resume", "--name", "gate"]).code, 0);
    let status = bench.status("gate").unwrap();
    assert_eq!(status["steps"][0]["approval"]["by"], json!(super::bench::user()));
    assert_eq!(status["steps"][0]["approval"]["reason"], "looks good");
    let gave = bench.run(&file, &["--name", "auto", "--auto-approve", "release"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(bench.run(&file, &["--name", "no", "--auto-approve", "ship"]).code, 2);
}

#[test]
fn results_are_objects_when_asked() {
    let bench = Bench::new();
    let file = bench.flow("json", &json!({"steps": [step("a", "true")]}));
    let gave = bench.run(&file, &["-o", "json", "--progress", "none"]);
    let object: serde_json::Value = serde_json::from_str(&gave.out).unwrap();
    assert_eq!(object["status"]["phase"], "Succeeded");
    assert_eq!(object["kind"], "JobFlow");
}

#[test]
fn a_resumed_pipeline_keeps_limits_of_parts_of_a_second() {
    let bench = Bench::new();
    let command = |script: &str| json!(["sh", "-c", script]);
    let pipeline = json!({"name": "quick", "steps": [
        {"name": "first", "job_spec": {"command": command("sleep 2")}},
        {"name": "second", "depends_on": ["first"], "job_spec": {"command": command("sleep 100"), "timeout_ms": 1250}},
    ]});
    let file = bench.file("quick.json", &pipeline.to_string());
    let child = bench.begin(&file, &["--name", "quick"]);
    bench.until("quick", |status| status["progress"]["runningSteps"] == 1);
    signal(&child, Signal::SIGKILL);
    end(child);
    let gave = bench.orlop(&["run", "--resume", "--name", "quick"]);
    assert_eq!(gave.code, 1, "{gave:?}");
    assert_eq!(phases(&bench.status("quick").unwrap()), "first=Succeeded second=Failed/Timeout");
    assert!(gave.err.contains("took longer than 1.25s"), "{}", gave.err);
}

#[test]
fn http_inputs_are_downloaded_by_the_local_runner() {
    let bench = Bench::new();
    let server = super::web::Server::start();
    let mut read = step("read", "cat /in/page");
    let http = json!({"url": server.url("/page"), "headers": {"X-Token": "t0ken"}});
    read["inputs"] = json!({"artifacts": [{"name": "page", "path": "/in/page", "http": http}]});
    let gave = bench.run(&bench.flow("web", &json!({"steps": [read.clone()]})), &[]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "logs", "web"]).out, "read/1 served to t0ken\n");
    read["inputs"]["artifacts"][0]["http"]["url"] = json!(server.url("/none"));
    let gave = bench.run(&bench.flow("gone", &json!({"steps": [read]})), &[]);
    assert_eq!(gave.code, 1, "{gave:?}");
    assert_eq!(phases(&bench.status("gone").unwrap()), "read=Failed/ArtifactUnavailable");
    assert!(gave.out.contains("404"), "{}", gave.out);
}

#[test]
fn a_step_whose_input_cannot_be_fetched_now_says_why_it_waits_and_runs_once_it_can() {
    let bench = Bench::new();
    let mended = std::sync::Arc::default();
    let server = super::web::Server::broken(std::sync::Arc::clone(&mended));
    let mut read = step("read", "cat /in/page");
    let http = json!({"url": server.url("/page")});
    read["inputs"] = json!({"artifacts": [{"name": "page", "path": "/in/page", "http": http}]});
    let child = bench.begin(&bench.flow("late", &json!({"steps": [read]})), &[]);
    let status =
        bench.until("late", |status| status["steps"][0]["message"].as_str().is_some_and(|why| !why.is_empty()));
    let why = status["steps"][0]["message"].as_str().unwrap();
    assert!(why.contains("ArtifactUnavailable") && why.contains("500") && why.contains("`page`"), "{why}");
    assert_eq!(phases(&status), "read=Running");
    let explained = bench.orlop(&["flow", "explain", "late", "read"]);
    assert!(explained.out.contains("500"), "{explained:?}");
    mended.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(end(child).code, 0);
    assert_eq!(bench.orlop(&["flow", "logs", "late"]).out, "read/1 page\n");
}

#[test]
fn several_flows_of_a_file_run_one_after_the_other_until_one_fails() {
    let bench = Bench::new();
    let text = |name: &str, script: &str| {
        let spec = json!({"parameters": [{"name": name, "value": "0"}], "steps": [step("s", script)]});
        std::fs::read_to_string(bench.flow(name, &spec)).unwrap()
    };
    let documents = [text("one", "exit ${parameters.one}"), text("two", "echo 2"), text("three", "echo 3")];
    let file = bench.file("all.yaml", &documents.join("\n---\n"));
    assert_eq!(bench.run(&file, &["-p", "four=1"]).code, 2);
    assert_eq!(bench.run(&file, &["--name", "four"]).code, 2);
    assert_eq!(bench.run(&file, &["--run-dir", "x"]).code, 2);
    let gave = bench.run(&file, &["-p", "one=1"]);
    assert_eq!(gave.code, 1, "{gave:?}");
    assert!(gave.err.contains("not started: two, three; use --keep-going"), "{}", gave.err);
    assert_eq!(bench.orlop(&["flow", "list", "-o", "name"]).out, "one\n");
    let taken = bench.run(&file, &[]);
    assert_eq!(taken.code, 5, "{taken:?}");
    assert_eq!(bench.orlop(&["flow", "delete", "one"]).code, 0);
    let gave = bench.run(&file, &["-p", "one=1", "--keep-going", "-o", "name"]);
    assert_eq!((gave.code, gave.out.as_str()), (1, "one\ntwo\nthree\n"), "{gave:?}");
    let began = |name: &str| bench.status(name).unwrap()["startTime"].as_str().unwrap().to_owned();
    assert!(began("one") <= began("two") && began("two") <= began("three"));
    assert_eq!(bench.run(&file, &["--name", "two"]).code, 5);
    // What has ended is not run again; the rest would be begun.
    assert_eq!(bench.orlop(&["flow", "delete", "three"]).code, 0);
    let gave = bench.run(&file, &["--resume", "--keep-going", "-o", "name"]);
    assert_eq!((gave.code, gave.out.as_str()), (1, "one\ntwo\nthree\n"), "{gave:?}");
    let twins = bench.file("twins.yaml", &[documents[0].as_str(), documents[0].as_str()].join("\n---\n"));
    let gave = bench.run(&twins, &["-n", "other"]);
    assert_eq!(gave.code, 5, "{gave:?}");
    assert!(gave.err.contains("two flows `one`"), "{}", gave.err);
}
