//! Exit codes of verbs of flows, from the real program.

use nix::sys::signal::Signal;
use serde_json::json;

use super::bench::{Bench, ReleaseFile, after, end, signal, step};
use crate::ongoing::Ongoing;

fn live(bench: &Bench, name: &str) -> Ongoing {
    let steps = json!([step("slow", "sleep 100"), after(step("next", "true"), &["slow"])]);
    let child = bench.begin(&bench.flow(name, &json!({ "steps": steps })), &[]);
    bench.until(name, |status| status["progress"]["runningSteps"] == 1);
    child
}

#[test]
fn exit_0_to_5_for_done_failed_usage_refused_missing_and_conflict() {
    let bench = Bench::new();
    let flow = |name: &str, script: &str| bench.flow(name, &json!({"steps": [step("a", script)]}));
    assert_eq!(bench.run(&flow("good", "true"), &[]).code, 0);
    assert_eq!(bench.run(&flow("bad", "false"), &[]).code, 1);
    assert_eq!(bench.orlop(&["flow", "watch", "good"]).code, 0);
    assert_eq!(bench.orlop(&["flow", "watch", "bad"]).code, 1);
    assert_eq!(bench.orlop(&["run", "--jobs", "0", "x"]).code, 2);
    assert_eq!(bench.run(&bench.file("no.yaml", "kind: JobFlow\n"), &[]).code, 3);
    for verb in ["get", "watch", "logs", "suspend", "resume", "stop", "terminate", "retry", "delete"] {
        let gave = bench.orlop(&["flow", verb, "nobody"]);
        assert_eq!(gave.code, 4, "{verb}: {gave:?}");
        assert!(gave.err.contains("there is no flow `nobody` in namespace `default`"), "{verb}: {}", gave.err);
    }
    assert_eq!(bench.run(&flow("good", "true"), &[]).code, 5);
    for verb in ["suspend", "resume", "stop", "terminate"] {
        let gave = bench.orlop(&["flow", verb, "good"]);
        assert_eq!(gave.code, 5, "{verb}: {gave:?}");
        assert!(gave.err.contains("has ended: it is Succeeded"), "{verb}: {}", gave.err);
    }
}

#[test]
fn exit_7_where_nobody_runs_what_is_watched() {
    let bench = Bench::new();
    let child = live(&bench, "left");
    signal(&child, Signal::SIGKILL);
    end(child);
    let gave = bench.orlop(&["flow", "watch", "left"]);
    assert_eq!(gave.code, 7);
    insta::assert_snapshot!(gave.err, @"error: no process drives `left` now: it is Running; continue it with `orlop run --resume --name left`");
    assert_eq!(bench.orlop(&["flow", "delete", "left", "--force"]).code, 0);
}

#[test]
fn exit_8_and_9_for_waiting_too_long_and_being_stopped() {
    let bench = Bench::new();
    let child = live(&bench, "long");
    let gave = bench.orlop(&["flow", "watch", "long", "--timeout", "100ms"]);
    assert_eq!((gave.code, gave.err.as_str()), (8, "`long` has not ended; it continues\n"));
    assert_eq!(bench.orlop(&["flow", "terminate", "long"]).code, 0);
    assert_eq!(end(child).code, 9);
    assert_eq!(bench.orlop(&["flow", "watch", "long"]).code, 9);
}

#[test]
fn exit_130_or_143_for_watching_and_following_that_is_interrupted() {
    let bench = Bench::new();
    let child = live(&bench, "seen");
    for verb in [&["flow", "watch", "seen"][..], &["flow", "logs", "seen", "--follow"]] {
        for which in [Signal::SIGINT, Signal::SIGTERM] {
            let watcher = bench.start(verb);
            bench.catches(&watcher, which);
            signal(&watcher, which);
            let code = if which == Signal::SIGINT { 130 } else { 143 };
            assert_eq!(end(watcher).code, code, "{verb:?} {which}");
        }
    }
    assert_eq!(bench.status("seen").unwrap()["phase"], "Running", "the run does not mind");
    assert_eq!(bench.orlop(&["flow", "delete", "seen", "--force"]).code, 0);
    assert_eq!(end(child).code, 9);
}

#[test]
fn exit_130_for_a_third_interrupt_which_leaves_the_attempts_running() {
    let bench = Bench::new();
    let (release, job) = (ReleaseFile::new(), |script: &str| json!({"command": ["sh", "-c", script]}));
    let pipeline = json!({"name": "thrice", "steps": [
        {"name": "stubborn", "job_spec": job(&format!("trap '' TERM; {}", release.then("echo whole")))},
        {"name": "next", "depends_on": ["stubborn"], "job_spec": job("true")},
    ]});
    let child = bench.begin(&bench.file("thrice.json", &pipeline.to_string()), &["--name", "thrice"]);
    bench.until("thrice", |status| status["progress"]["runningSteps"] == 1);
    signal(&child, Signal::SIGINT);
    bench.until("thrice", |status| status["steps"][1]["reason"] == "Stopped");
    signal(&child, Signal::SIGINT);
    bench.until("thrice", |status| status["steps"][0].to_string().contains("Terminated"));
    signal(&child, Signal::SIGINT);
    let gave = end(child);
    assert_eq!(gave.code, 130, "{gave:?}");
    bench.settings().bind(|| {
        insta::assert_snapshot!(gave.err, @"
    TIME stubborn started: Process thrice-stubborn-UID8

    stopping: live attempts finish, nothing more starts; interrupt again to cancel them
    TIME thrice FlowStopped: the flow was asked to stop: Stopped

    terminating: live attempts are cancelled; interrupt again to leave them running
    TIME thrice FlowStopped: the flow was asked to stop: Terminated
    left `thrice`; running attempts continue, `orlop run --resume --name thrice` resumes it
    ");
    });
    release.open();
    assert_eq!(bench.orlop(&["run", "--resume", "--name", "thrice"]).code, 9);
}
