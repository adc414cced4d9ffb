//! What stays of a run on this machine: logs, outputs and artifacts, and nothing else of steps that have ended.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::json;

use super::bench::{Bench, ReleaseFile, after, end, signal, step};

/// Everything below a directory.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(below(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// Files and directories of a run below one of its directories.
fn left(bench: &Bench, name: &str, part: &str) -> Vec<PathBuf> {
    below(&bench.path(&format!("home/runs/default/{name}/{part}")))
}

const WRITES: &str =
    "echo left-by-a-step > /tmp/file; echo left-by-a-step > here; mkdir -p /tmp/a; echo kept-by-a-step > /tmp/a/x";

#[test]
fn nothing_stays_of_a_step_that_has_ended_but_its_log_and_artifacts() {
    let bench = Bench::new();
    let mut writes = step("writes", WRITES);
    writes["outputs"] = json!({"artifacts": [{"name": "a", "path": "/tmp/a"}]});
    let mut steps = vec![writes];
    // Every kind of end: a success, a failure that is tried again, a cancellation.
    let mut fails = step("fails", "exit 3");
    fails["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "10ms"}});
    let mut late = step("late", "sleep 100");
    late["timeoutSeconds"] = json!(1);
    steps.extend([fails, late]);
    steps.extend((0..5).map(|number| step(&format!("s{number}"), "sleep 0")));
    let spec = json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": steps});
    let gave = bench.run(&bench.flow("tidy", &spec), &[]);
    assert_eq!(gave.code, 1, "{gave:?}");
    let attempts = left(&bench, "tidy", "attempts");
    assert!(attempts.iter().all(|path| path.is_dir()), "{attempts:?}");
    let of = |part: &str, name: &str| left(&bench, "tidy", part).iter().filter(|path| path.ends_with(name)).count();
    assert_eq!((of("logs", "1.out"), of("logs", "2.err")), (8, 1));
    assert_eq!(left(&bench, "tidy", "trash"), Vec::<PathBuf>::new());
    // An empty directory, the directory of logs and two of these.
    let plain = left(&bench, "tidy", "").into_iter().filter(|path| path.iter().any(|part| part == "s0"));
    assert!(plain.count() <= 6);
    let grep = |text: &str| {
        let mut command = std::process::Command::new("grep");
        command
            .args(["-rlq", text])
            .args([bench.path("home/runs/default/tidy/attempts"), bench.path("home/runs/default/tidy/cas")]);
        command.status().unwrap().success()
    };
    assert!(!grep("left-by-a-step") && grep("kept-by-a-step"));
}

#[test]
fn what_was_to_be_kept_stays_until_the_run_is_deleted() {
    let bench = Bench::new();
    let gave = bench.run(&bench.flow("kept", &json!({"steps": [step("writes", WRITES)]})), &["--keep"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let attempts = left(&bench, "kept", "attempts");
    assert!(
        ["tmp/file", "top/here"].iter().all(|name| attempts.iter().any(|path| path.ends_with(name))),
        "{attempts:?}"
    );
    assert_eq!(bench.orlop(&["flow", "delete", "kept"]).code, 0);
    assert!(!bench.path("home/runs/default/kept").exists());
}

#[test]
fn a_host_deletes_what_one_before_it_had_left() {
    let (bench, release) = (Bench::new(), ReleaseFile::new());
    let steps =
        json!([step("slow", &release.then("echo left-by-a-step > here")), after(step("next", "true"), &["slow"])]);
    let child = bench.begin(&bench.flow("crash", &json!({"steps": steps})), &[]);
    bench.until("crash", |status| status["progress"]["runningSteps"] == 1);
    signal(&child, Signal::SIGKILL);
    end(child);
    release.open();
    let gave = bench.orlop(&["run", "--resume", "--name", "crash"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let attempts = left(&bench, "crash", "attempts");
    assert!(attempts.iter().all(|path| path.is_dir()), "{attempts:?}");
}
