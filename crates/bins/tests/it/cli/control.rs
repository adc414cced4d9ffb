//! Orders from another process, watching, logs that grow.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::bench::{Bench, ReleaseFile, after, end, phases, signal, step};

#[test]
fn orders_reach_a_live_host_and_wrong_ones_are_refused() {
    let bench = Bench::new();
    let manual = json!({"name": "ok", "type": "Manual"});
    let file = bench.flow("live", &json!({"steps": [manual, after(step("a", "true"), &["ok"])]}));
    let child = bench.begin(&file, &[]);
    bench.until("live", |status| status["phase"] == "Paused");
    let orlop = |args: &[&str]| bench.orlop(args).code;
    assert_eq!(orlop(&["flow", "approve", "live", "nix"]), 4);
    assert_eq!(orlop(&["flow", "approve", "live", "a"]), 5);
    assert_eq!(orlop(&["flow", "resume", "live"]), 5);
    assert_eq!(orlop(&["flow", "approve", "none", "ok"]), 4);
    assert_eq!(orlop(&["flow", "delete", "live"]), 5);
    assert_eq!(orlop(&["flow", "retry", "live"]), 5);
    assert_eq!(orlop(&["run", "--resume", "--name", "live"]), 5);
    assert_eq!(orlop(&["flow", "watch", "live", "--timeout", "200ms"]), 8);
    assert_eq!(orlop(&["flow", "suspend", "live"]), 0);
    bench.until("live", |status| status["phase"] == "Suspended");
    assert_eq!(orlop(&["flow", "resume", "live"]), 0);
    assert_eq!(orlop(&["flow", "approve", "live", "ok"]), 0);
    assert_eq!(end(child).code, 0);
    assert_eq!(orlop(&["flow", "approve", "live", "ok"]), 5);
    assert_eq!(orlop(&["flow", "stop", "live"]), 5);
}

#[test]
fn a_watcher_hears_the_end_and_gives_its_code() {
    let (bench, release) = (Bench::new(), ReleaseFile::new());
    let steps =
        json!([step("a", &release.then("true")), after(step("b", "exit 4"), &["a"]), after(step("c", "true"), &["b"])]);
    let child = bench.running("seen", &steps);
    let watcher = bench.start(&["flow", "watch", "seen"]);
    bench.catches(&watcher, Signal::SIGINT);
    // What it does from there to its first look shows nowhere.
    std::thread::sleep(std::time::Duration::from_secs(1));
    release.open();
    let gave = end(watcher);
    assert_eq!(gave.code, 1, "{gave:?}");
    bench.settings().bind(|| {
        insta::assert_snapshot!(gave.out, @r"
        TIME a succeeded
        TIME b started: Process seen-b-UID8
        TIME b failed: NonZeroExit: container `main` ended with exit code 4
        TIME c skipped: DependencyFailed: step b did not succeed
        TIME seen Failed: FlowFailed: step b failed: NonZeroExit: container `main` ended with exit code 4
        ✖ seen: Failed in DURATION — 3 steps: 1 succeeded, 1 failed, 1 skipped
          step b failed: NonZeroExit: container `main` ended with exit code 4
          logs of the failure: orlop flow logs seen b
        ");
    });
    assert_eq!(end(child).code, 1);
    assert_eq!(bench.orlop(&["flow", "watch", "seen"]).code, 1);
}

#[test]
fn logs_are_followed_until_the_run_has_ended() {
    let bench = Bench::new();
    let steps = json!([step("a", "echo one; sleep 1; echo two"), after(step("b", "echo three"), &["a"])]);
    let child = bench.running("grow", &steps);
    let gave = bench.orlop(&["flow", "logs", "grow", "--follow"]);
    assert_eq!(gave.out, "a/1 one\na/1 two\nb/1 three\n");
    assert_eq!(end(child).code, 0);
}

#[test]
fn terminate_from_another_process_cancels() {
    let bench = Bench::new();
    let child = bench.running("far", &json!([step("a", "sleep 100")]));
    assert_eq!(bench.orlop(&["flow", "terminate", "far"]).code, 0);
    assert_eq!(end(child).code, 9);
    assert_eq!(phases(&bench.status("far").unwrap()), "a=Failed/Terminated");
}

#[test]
fn a_retry_runs_again_what_failed_and_keeps_the_rest() {
    let bench = Bench::new();
    let mut good = step("good", "echo data > /tmp/d");
    good["outputs"] = json!({"artifacts": [{"name": "d", "path": "/tmp/d"}]});
    let mut bad = after(step("bad", "cat /in/d; test ${parameters.mode} = good"), &["good"]);
    bad["inputs"] = json!({"artifacts": [{"name": "d", "from": "good/d", "path": "/in/d"}]});
    let file = bench.flow("again", &json!({"parameters": [{"name": "mode"}], "steps": [good, bad]}));
    assert_eq!(bench.run(&file, &["-p", "mode=bad"]).code, 1);
    let gave = bench.orlop(&["flow", "retry", "again", "-p", "mode=good"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(phases(&bench.status("again-r2").unwrap()), "good=Succeeded/Reused bad=Succeeded");
    assert_eq!(bench.orlop(&["flow", "logs", "again-r2"]).out, "bad/1 data\n");
}

#[test]
fn runs_of_one_key_wait_for_each_other_or_take_their_place() {
    let bench = Bench::new();
    let spec = |policy: &str, script: &str| json!({"executionPolicy": {"concurrencyPolicy": policy, "concurrencyKey": "nightly"}, "steps": [step("a", script)]});
    let first = bench.begin(&bench.flow("first", &spec("Forbid", "sleep 100")), &[]);
    bench.until("first", |status| status["progress"]["runningSteps"] == 1);
    let second = bench.begin(&bench.flow("second", &spec("Forbid", "true")), &[]);
    let waiting = bench.until("second", |status| status["conditions"].to_string().contains("ConcurrencyBlocked"));
    assert_eq!(waiting["phase"], "Pending");
    assert!(waiting["message"].to_string().contains("first"), "{waiting}");
    let third = bench.run(&bench.flow("third", &spec("Replace", "true")), &[]);
    assert_eq!(third.code, 0, "{third:?}");
    assert_eq!(end(first).code, 9);
    assert_eq!(phases(&bench.status("first").unwrap()), "a=Failed/Replaced");
    assert_eq!(end(second).code, 0);
    let started = |name: &str| bench.status(name).unwrap()["startTime"].as_str().unwrap().to_owned();
    assert!(started("third") <= started("second"));
}

#[test]
fn replace_ends_a_holder_without_a_host() {
    let bench = Bench::new();
    let flow = |name: &str, policy: &str, step: Value| {
        let policy = json!({"concurrencyPolicy": policy, "concurrencyKey": "nightly"});
        bench.flow(name, &json!({"executionPolicy": policy, "steps": [step]}))
    };
    let manual = json!({"name": "ok", "type": "Manual"});
    assert_eq!(bench.run(&flow("left", "Forbid", manual), &["--no-wait-approval"]).code, 10);
    let gave = bench.run(&flow("next", "Replace", step("a", "true")), &[]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(phases(&bench.status("left").unwrap()), "ok=Skipped/Replaced");
    assert_eq!(bench.orlop(&["flow", "delete", "left"]).code, 0);
}

#[test]
fn a_run_holds_its_key_until_it_has_ended_with_a_host_or_without() {
    let bench = Bench::new();
    let policy = json!({"concurrencyPolicy": "Forbid", "concurrencyKey": "nightly"});
    let flow = |name: &str, step: Value| bench.flow(name, &json!({"executionPolicy": policy, "steps": [step]}));
    let manual = json!({"name": "ok", "type": "Manual"});
    assert_eq!(bench.run(&flow("paused", manual), &["--no-wait-approval"]).code, 10);
    let killed = flow("killed", step("a", "sleep 100"));
    let blocked = |name: &str, by: &str| {
        let status = bench.until(name, |status| status["message"].to_string().contains(by));
        assert_eq!((&status["phase"], &status["startTime"]), (&json!("Pending"), &Value::Null));
        assert!(status["message"].to_string().contains("no process drives"), "{status}");
    };
    let second = bench.begin(&killed, &[]);
    blocked("killed", "waits for paused");
    assert_eq!(bench.orlop(&["flow", "approve", "paused", "ok"]).code, 0);
    assert_eq!(bench.orlop(&["run", "--resume", "--name", "paused"]).code, 0);
    bench.until("killed", |status| status["progress"]["runningSteps"] == 1);
    signal(&second, Signal::SIGKILL);
    end(second);
    let third = bench.begin(&flow("third", step("a", "true")), &[]);
    blocked("third", "waits for killed");
    let again = bench.start(&["run", "--resume", "--name", "killed"]);
    bench.until("third", |status| !status["message"].to_string().contains("no process drives"));
    assert_eq!(bench.orlop(&["flow", "terminate", "killed"]).code, 0);
    assert_eq!((end(again).code, end(third).code), (9, 0));
    let status = |name: &str, field: &str| bench.status(name).unwrap()[field].as_str().unwrap().to_owned();
    assert!(status("killed", "completionTime") <= status("third", "startTime"));
}

#[test]
fn hints_lead_to_runs_of_other_namespaces_and_places() {
    let bench = Bench::new();
    let file = bench.flow("gate", &json!({"steps": [{"name": "ok", "type": "Manual"}]}));
    let gave = bench.run(&file, &["-n", "team", "--no-wait-approval", "--progress", "none"]);
    assert_eq!(gave.code, 10);
    let hint = "left `gate` waiting for a decision: `orlop flow approve gate -n team ok`, then `orlop run --resume --name gate -n team`";
    assert_eq!(gave.err.trim_end(), hint);
    let gave = bench.orlop(&["flow", "approve", "gate", "-n", "team", "ok"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert!(gave.out.contains("`orlop run --resume --name gate -n team`"), "{}", gave.out);
    assert_eq!(bench.orlop(&["run", "--resume", "--name", "gate", "-n", "team"]).code, 0);
    let dir = bench.path("here").display().to_string();
    let gave = bench.run(&file, &["--run-dir", &dir, "--no-wait-approval", "--progress", "none"]);
    assert!(gave.err.contains(&format!("orlop flow approve gate --run-dir {dir} ok")), "{}", gave.err);
}

#[test]
fn orders_wait_for_a_host_that_comes_and_deletions_for_one_that_goes() {
    let bench = Bench::new();
    let file = bench.flow("door", &json!({"steps": [{"name": "ok", "type": "Manual"}]}));
    for _ in 0..5 {
        let child = bench.begin(&file, &[]);
        let since = std::time::Instant::now();
        while !bench.path("home/runs/default/door/run.db").exists() {
            assert!(since.elapsed() < std::time::Duration::from_secs(60), "the run never begins");
            std::thread::yield_now();
        }
        // The journal is there; the host may not answer yet.
        let gave = bench.orlop(&["flow", "approve", "door", "ok"]);
        assert_eq!(gave.code, 0, "{gave:?}");
        assert_eq!(gave.out, "door: approved ok\n", "the host has taken it");
        bench.until("door", |status| status["phase"] == "Succeeded");
        // The flow has ended; its host may not have.
        let gave = bench.orlop(&["flow", "delete", "door"]);
        assert_eq!(gave.code, 0, "{gave:?}");
        assert_eq!(end(child).code, 0);
    }
}
