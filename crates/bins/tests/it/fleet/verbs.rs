//! The verbs against a server without workers: what is submitted waits, is listed, and is cancelled.

use serde_json::json;

use super::bench::Bench;

#[test]
fn jobs_are_submitted_listed_shown_and_cancelled() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let id = bench.good(&["submit", "--name", "hello", "--label", "x=1", "--cpu", "500m", "--", "echo", "hi"]);
    let id = id.trim();
    assert!(id.starts_with('j') && id.len() == 14, "{id}");
    let table = bench.good(&["jobs"]);
    assert!(table.starts_with("ID") && table.contains("hello") && table.contains("Queued"), "{table}");
    assert!(!table.contains('\u{1b}'), "no colours but on a terminal");
    assert_eq!(bench.good(&["jobs", "--label", "x=1", "-o", "name"]).trim(), id);
    assert_eq!(bench.good(&["jobs", "--state", "Failed", "-o", "name"]), "");
    let job = bench.orlop(&["job", "get", id, "-o", "json"]).json();
    assert_eq!((&job["state"], &job["spec"]["resources"]["cpu_m"]), (&json!("Queued"), &json!(500)));
    assert!(bench.good(&["job", "get", id]).contains("state      Queued"));
    assert!(bench.good(&["jobs", "-o", "yaml"]).contains("state: Queued"));
    let top = bench.good(&["top"]);
    assert!(top.starts_with("leading epoch 1") && top.contains("workers  none"), "{top}");
    assert_eq!(bench.orlop(&["top", "-o", "json"]).json()["status"], "leading");
    assert_eq!(bench.good(&["workers"]), "no workers\n");
    let cancelled = bench.orlop(&["cancel", id, "--wait"]);
    assert_eq!((cancelled.code, cancelled.out.trim()), (0, format!("{id} Cancelled").as_str()));
    assert!(bench.orlop(&["cancel", id]).err.contains("had ended before"));
    let again = bench.orlop(&["cancel", id, "-o", "json"]).json();
    assert_eq!(again, json!({ "items": [{ "id": id, "cancelled": 0, "ended": 1 }] }));
    assert_eq!(bench.orlop(&["cancel", "--all", "--yes", "-o", "json"]).json()["cancelled"], 0);
    assert_eq!(bench.orlop(&["wait", id]).code, 9, "it was stopped, it did not fail");
}

#[test]
fn arrays_and_filters() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let file = bench.noop("job.yaml", "labels: {kind: sweep}\n");
    let id = bench.good(&["submit", "-f", &file, "--array", "0-999", "--max-parallel", "50"]);
    let job = bench.orlop(&["job", "get", id.trim(), "-o", "json"]).json();
    assert_eq!((&job["kind"], &job["count"]), (&json!("array"), &json!(1000)));
    assert_eq!(bench.orlop(&["cancel", "--label", "kind=sweep"]).code, 2, "many jobs are named on purpose");
    assert_eq!(bench.orlop(&["cancel", "--label", "kind=sweep", "--yes", "--wait"]).code, 0);
    assert_eq!(bench.orlop(&["job", "get", id.trim(), "-o", "json"]).json()["state"], "Cancelled");
}

#[test]
fn jobs_are_listed_since_a_time_and_cancelled_by_state() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let (one, two) = (bench.good(&["submit", "--", "true"]), bench.good(&["submit", "--", "true"]));
    assert_eq!(bench.good(&["jobs", "--since", "1h", "-o", "name"]).lines().count(), 2);
    assert_eq!(bench.good(&["jobs", "--since", "2100-01-01T00:00:00Z"]), "no jobs\n");
    let wrong = bench.orlop(&["jobs", "--since", "yesterday"]);
    assert!(wrong.code == 2 && wrong.err.contains("RFC 3339"), "{wrong:?}");
    assert_eq!(bench.orlop(&["cancel", one.trim(), "--wait"]).code, 0);
    let none = bench.orlop(&["cancel", "--state", "Running,Assigned", "--yes"]);
    assert!(none.code == 0 && none.err.contains("0 jobs"), "{none:?}");
    assert_eq!(bench.orlop(&["cancel", "--state", "queued", "--yes", "--wait"]).code, 0);
    assert_eq!(bench.orlop(&["job", "get", two.trim(), "-o", "json"]).json()["state"], "Cancelled");
    let unknown = bench.orlop(&["cancel", "--state", "Sleeping", "--yes"]);
    assert!(unknown.code == 3 && unknown.err.contains("Sleeping"), "{unknown:?}");
}

#[test]
fn headers_have_16_kib_at_most() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let fits = bench.get("/jobs", &format!("X-Filler: {}\r\n", "a".repeat(12 << 10)));
    assert!(fits.starts_with("HTTP/1.1 200"), "{fits}");
    let more = bench.get("/jobs", &format!("X-Filler: {}\r\n", "a".repeat(16 << 10)));
    assert!(more.starts_with("HTTP/1.1 431"), "{more}");
}

#[test]
fn a_key_submits_once_and_wait_has_its_own_end() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let file = bench.noop("job.yaml", "");
    let first = bench.good(&["submit", "-f", &file, "--key", "nightly"]);
    assert_eq!(bench.good(&["submit", "-f", &file, "--key", "nightly"]), first);
    assert_eq!(bench.good(&["jobs", "-o", "name"]), first);
    let waited = bench.orlop(&["submit", "-f", &file, "--wait-timeout", "100ms", "--cpu", "100000"]);
    assert_eq!(waited.code, 8, "{waited:?}");
}

#[test]
fn quotas_are_set_shown_and_refuse_what_is_above_them() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let set = bench.good(&["quota", "set", "physics", "cpu=64", "memory=256Gi", "pending=2", "weight=200"]);
    assert!(set.contains("weight    200") && set.contains("cpu       64000m") && set.contains("pending   2"), "{set}");
    let quota = bench.orlop(&["quota", "get", "physics", "-o", "json"]).json();
    assert_eq!(quota["quota"]["max_memory_bytes"], json!(256_u64 << 30));
    let submit = ["submit", "--tenant", "physics", "--", "true"];
    bench.good(&submit);
    bench.good(&submit);
    let full = bench.orlop(&submit);
    assert_eq!(full.code, 11, "{full:?}");
    // Usage is read from a picture that is a moment old.
    let began = std::time::Instant::now();
    while bench.orlop(&["quota", "usage", "physics", "-o", "json"]).json()["items"][0]["pending"] != 2 {
        assert!(began.elapsed() < super::bench::PATIENCE, "the picture is made anew");
    }
}

#[test]
fn a_verb_that_waits_ends_with_the_code_of_the_signal() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let id = bench.good(&["submit", "--", "true"]).trim().to_owned();
    let waiting: [&[&str]; 4] = [
        &["submit", "--wait", "--", "true"],
        &["submit", "--follow", "--", "true"],
        &["logs", &id, "-f"],
        &["jobs", "--watch"],
    ];
    let both = [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)];
    for (args, (signal, code)) in waiting.iter().flat_map(|args| both.map(|one| (args, one))) {
        let child = bench.begin(args);
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
        // It takes signals once it waits; before that the signal ends it, which is another matter.
        let status = std::path::PathBuf::from(format!("/proc/{pid}/status"));
        super::programs::until("a verb that takes signals", || {
            let status = std::fs::read_to_string(&status).ok()?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim();
            (u64::from_str_radix(caught, 16).ok()? & (1 << (signal as u64 - 1)) != 0).then_some(())
        });
        kill(pid, signal).expect("the signal is sent");
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!(ended.status.code(), Some(code), "{args:?}: {}", String::from_utf8_lossy(&ended.stderr));
    }
}

#[test]
fn limits_of_time_and_of_gpus_by_model_are_set_and_shown() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    bench.good(&["quota", "set", "physics", "gpus:a100=4", "timeout=12h"]);
    let set = bench.good(&["quota", "set", "physics", "gpus:h100=2"]);
    assert!(set.contains("timeout   12h") && set.contains("gpus:a100  4") && set.contains("gpus:h100  2"), "{set}");
    let long = bench.orlop(&["submit", "--tenant", "physics", "--timeout", "13h", "--", "true"]);
    assert!(long.code == 3 && long.err.contains("max_timeout_ms"), "{long:?}");
    let set = bench.good(&["quota", "set", "physics", "gpus:a100=none", "timeout=none"]);
    assert!(set.contains("timeout   none") && !set.contains("a100"), "{set}");
}

#[test]
fn what_a_job_calls_its_files_steers_no_terminal() {
    let bench = Bench::up(&["--memory-store"]);
    let script = "printf x > \"$(printf 'a\\033[2J\\033]0;owned\\007.txt')\"";
    let submit = ["submit", "--cpu", "10m", "--memory", "1Mi", "--wait", "--out", "o=*.txt", "--", "sh", "-c", script];
    let job = bench.good(&submit).trim().to_owned();
    for verb in [&["artifacts", "list", &job][..], &["jobs"], &["job", "get", &job]] {
        let gave = bench.orlop(verb);
        assert_eq!(gave.code, 0, "{gave:?}");
        let shown = format!("{}{}", gave.out, gave.err);
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{verb:?}: {shown:?}");
    }
}
