//! A whole fleet in one process: jobs run on its worker, end, are waited for, retried and explained.

use nix::sys::signal::Signal;
use serde_json::json;

use super::bench::Bench;

#[test]
fn s10_jobs_run_and_their_ends_are_exit_codes() {
    let bench = Bench::up(&["--memory-store"]);
    let good = bench.orlop(&["submit", "--cpu", "100m", "--memory", "1Mi", "--wait", "--", "true"]);
    assert_eq!(good.code, 0, "{good:?}");
    assert!(good.err.contains("Completed"), "{good:?}");
    let bad = bench.orlop(&["submit", "--cpu", "100m", "--memory", "1Mi", "--wait", "--", "false"]);
    assert_eq!((bad.code, bad.err.contains("Failed (exit)")), (1, true), "{bad:?}");
    let args = ["submit", "--cpu", "100m", "--memory", "1Mi", "--exit-code", "--", "sh", "-c", "exit 7"];
    assert_eq!(bench.orlop(&args).code, 7);
    let id = bad.out.trim();
    let attempts = bench.good(&["job", "get", id]);
    assert!(attempts.contains("ATTEMPT") && attempts.contains("exit code  1"), "{attempts}");
    let again = bench.good(&["job", "retry", id]);
    assert_eq!(bench.orlop(&["job", "get", again.trim(), "-o", "json"]).json()["retry_of"], id);
    let workers = bench.orlop(&["workers", "-o", "json"]).json();
    assert_eq!(workers["items"].as_array().map(Vec::len), Some(1), "{workers}");
}

#[test]
fn s10_arrays_run_through() {
    let bench = Bench::up(&["--memory-store"]);
    let file = bench.noop("job.yaml", "resources: {cpu_m: 10, memory_bytes: 0}\n");
    let all = bench.orlop(&["submit", "-f", &file, "--array", "0-99", "--wait", "-o", "json"]);
    let job = all.json();
    assert_eq!((&job["state"], &job["count"]), (&json!("Completed"), &json!(100)));
}

#[test]
fn s2_9_what_waits_is_explained() {
    let bench = Bench::up(&["--memory-store"]);
    let id = bench.good(&["submit", "--cpu", "100000", "--", "true"]);
    let began = std::time::Instant::now();
    loop {
        let why = bench.good(&["job", "get", id.trim(), "--explain"]);
        if why.contains("cpu: needs 100000000m") {
            break;
        }
        assert!(began.elapsed() < super::bench::PATIENCE, "{why}");
    }
    let live = bench.orlop(&["job", "retry", id.trim()]);
    assert_eq!(live.code, 3, "{live:?}");
}

#[test]
fn s10_an_interrupt_drains_and_a_second_one_cancels() {
    let mut bench = Bench::up(&[]);
    bench.good(&["submit", "--cpu", "100m", "--memory", "1Mi", "--", "sleep", "1000"]);
    let began = std::time::Instant::now();
    while bench.good(&["jobs", "--state", "Running", "-o", "name"]).is_empty() {
        assert!(began.elapsed() < super::bench::PATIENCE, "it runs");
    }
    bench.signal(Signal::SIGINT);
    while !bench.good(&["workers"]).contains("Draining") {
        assert!(began.elapsed() < super::bench::PATIENCE, "it drains");
    }
    bench.signal(Signal::SIGINT);
    assert_eq!(bench.end(), Some(0));
}
