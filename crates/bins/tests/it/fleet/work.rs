//! A whole fleet in one process: jobs run on its worker, end, are waited for, retried and explained.

use nix::sys::signal::Signal;
use serde_json::json;

use super::bench::Bench;

#[test]
fn jobs_run_and_their_ends_are_exit_codes() {
    let bench = Bench::up(&["--memory-store"]);
    let good = bench.orlop(&["submit", "--cpu", "100m", "--memory", "1Mi", "--wait", "--", "true"]);
    assert_eq!(good.code, 0, "{good:?}");
    assert!(good.err.contains("Completed"), "{good:?}");
    let bad = bench.orlop(&["submit", "--cpu", "100m", "--memory", "1Mi", "--wait", "--", "false"]);
    assert_eq!((bad.code, bad.err.contains("Failed (exit)")), (1, true), "{bad:?}");
    let args = ["submit", "--cpu", "100m", "--memory", "1Mi", "--exit-code", "--", "sh", "-c", "exit 7"];
    assert_eq!(bench.orlop(&args).code, 7);
    let killed = ["submit", "--cpu", "100m", "--memory", "1Mi", "--exit-code", "--", "sh", "-c", "kill -9 $$"];
    assert_eq!(bench.orlop(&killed).code, 128 + 9, "a signal ended it");
    let id = bad.out.trim();
    let attempts = bench.good(&["job", "get", id]);
    assert!(attempts.contains("ATTEMPT") && attempts.contains("exit code  1"), "{attempts}");
    let again = bench.good(&["job", "retry", id]);
    assert_eq!(bench.orlop(&["job", "get", again.trim(), "-o", "json"]).json()["retry_of"], id);
    let workers = bench.orlop(&["workers", "-o", "json"]).json();
    assert_eq!(workers["items"].as_array().map(Vec::len), Some(1), "{workers}");
}

#[test]
fn arrays_run_through() {
    let bench = Bench::up(&["--memory-store"]);
    let file = bench.noop("job.yaml", "resources: {cpu_m: 10, memory_bytes: 0}\n");
    let all = bench.orlop(&["submit", "-f", &file, "--array", "0-99", "--wait", "-o", "json"]);
    let job = all.json();
    assert_eq!((&job["state"], &job["count"]), (&json!("Completed"), &json!(100)));
}

#[test]
fn what_waits_is_explained() {
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
    assert_eq!(live.code, 5, "{live:?}");
}

#[test]
fn what_a_job_uses_is_shown_while_it_runs_and_afterwards() {
    let bench = Bench::up(&["--memory-store"]);
    // Its first process waits: what it started is counted too.
    let script = "sh -c 'while :; do :; done' & sleep 600";
    let id = bench.good(&["submit", "--cpu", "500m", "--memory", "16Mi", "--", "sh", "-c", script]).trim().to_owned();
    let attempts = || bench.get(&format!("/jobs/{id}/attempts"), "");
    let body = |text: String| -> serde_json::Value {
        serde_json::from_str(text.split_once("\r\n\r\n").expect("a body").1).expect("JSON")
    };
    let used = super::programs::until("the worker tells what it uses", || {
        let used = body(attempts())["items"][0]["in_use"].clone();
        (used["cpu_m"].as_u64() > Some(50) && used["memory_bytes"].as_u64() > Some(0)).then_some(used)
    });
    assert!(used["cpu_m"].as_u64() < Some(64_000), "one loop: {used}");
    let page = bench.good(&["job", "get", &id]);
    let line = page.lines().find(|line| line.contains("Running") && line.contains("Mi")).expect("its attempt");
    assert!(line.split_whitespace().any(|word| word.ends_with('m') && word.len() > 1), "{page}");
    let worker = bench.good(&["workers", "-o", "name"]).trim().to_owned();
    let page = bench.good(&["workers", "get", &worker]);
    for line in ["host cpu", "host memory", "host disk", "host net", "spool"] {
        assert!(page.lines().any(|known| known.starts_with(line)), "{line}: {page}");
    }
    assert!(!page.contains("host gpus") && !page.contains("unwell"), "{page}");
    assert_eq!(bench.orlop(&["cancel", &id, "--wait"]).code, 0);
    let ended = body(attempts())["items"][0].clone();
    assert!(ended["in_use"].is_null() && ended["usage"].is_object(), "{ended}");
}

#[test]
fn a_cordoned_worker_gets_nothing_new_until_it_is_uncordoned() {
    let bench = Bench::up(&["--memory-store"]);
    let submit = ["submit", "--cpu", "100m", "--memory", "1Mi", "--", "sleep", "600"];
    let before = bench.good(&submit).trim().to_owned();
    let state = |id: &str| bench.orlop(&["job", "get", id, "-o", "json"]).json()["state"].clone();
    super::programs::until("it runs", || (state(&before) == "Running").then_some(()));
    let worker = super::programs::until("the worker in the list", || {
        Some(bench.good(&["workers", "-o", "name"]).trim().to_owned()).filter(|name| !name.is_empty())
    });
    bench.good(&["workers", "cordon", &worker]);
    super::programs::until("the flag", || bench.good(&["workers"]).contains("cordoned").then_some(()));
    let later = bench.orlop(&["submit", "--cpu", "100m", "--memory", "1Mi", "--wait-timeout", "1s", "--", "true"]);
    assert_eq!(later.code, 8, "it waits: {later:?}");
    let later = later.out.trim();
    let why = bench.good(&["job", "get", later, "--explain"]);
    assert!(why.contains("cordon"), "{why}");
    assert_eq!(state(&before), "Running", "what runs goes on");
    let undone = bench.orlop(&["workers", "uncordon", &worker, "-o", "json"]).json();
    assert_eq!((&undone["id"], &undone["order"]), (&json!(worker), &json!("uncordon")));
    super::programs::until("it runs by itself", || (state(later) == "Completed").then_some(()));
    super::programs::until("the flag to go", || (!bench.good(&["workers"]).contains("cordoned")).then_some(()));
    // It would go on without the server.
    bench.good(&["cancel", &before, "--wait"]);
}

#[test]
fn a_watch_shows_the_jobs_again_and_again() {
    use std::io::BufRead as _;
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let mut watch = bench.begin(&["jobs", "--watch", "-o", "name"]);
    let id = bench.good(&["submit", "--", "true"]);
    let lines = std::io::BufReader::new(watch.stdout.take().expect("its output")).lines();
    let seen: Vec<String> = lines.take(2).map(|line| line.expect("a line")).collect();
    assert_eq!(seen, [id.trim(), id.trim()], "every two seconds");
    watch.kill().expect("it is a child");
    watch.wait().expect("it ends");
}

#[test]
fn an_interrupt_drains_and_a_second_one_cancels() {
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

/// What an operator wants of a worker is about its id: a restart of its program, which its unit does by itself, undoes neither a cordon nor
/// a drain.
#[cfg(all(feature = "run", target_os = "linux"))]
#[test]
fn cordon_and_drain_last_until_they_are_undone() {
    use nix::sys::signal::Signal;

    use super::programs::{Programs, until};
    let programs = Programs::new();
    let mut scheduler = programs.leader("s1", &[]);
    let orlop = |server: &str, args: &[&str]| programs.orlop(server, args);
    let worker = |server: &str| {
        let shown = orlop(server, &["workers", "get", "w1", "-o", "json"]);
        if shown.code == 0 { shown.json() } else { serde_json::Value::Null }
    };
    let seen = std::cell::Cell::new(0);
    let come = |server: &str, grpc: &str| {
        let process = programs.worker("w1", &[grpc], &[]);
        // What is shown may be the one before for a moment.
        let newest = |shown: &serde_json::Value| shown["incarnation"].as_u64().unwrap_or_default();
        until("the worker", || {
            let shown = worker(server);
            let new = shown["connected"] == true && newest(&shown) > seen.get();
            new.then(|| seen.set(newest(&shown)))
        });
        process
    };
    let submit = ["submit", "--cpu", "100m", "--memory", "1Mi", "--wait-timeout", "2s", "--", "true"];
    for (order, undo) in [
        (&["workers", "cordon", "w1"][..], &["workers", "uncordon", "w1"][..]),
        (&["drain", "w1", "--reason", "maintenance", "--wait"], &["drain", "w1", "--undo"]),
    ] {
        let process = come(&scheduler.rest, &scheduler.grpc);
        programs.good(&scheduler.rest, order);
        // A drained one has ended by itself.
        if order[0] == "workers" {
            process.signal(Signal::SIGTERM);
        }
        assert_eq!(process.end(), Some(0));
        let process = come(&scheduler.rest, &scheduler.grpc);
        assert_eq!(orlop(&scheduler.rest, &submit).code, 8, "{order:?}: it takes nothing");
        assert_eq!(worker(&scheduler.rest)["cordoned"], true, "{order:?}");
        process.signal(Signal::SIGTERM);
        assert_eq!(process.end(), Some(0), "{order:?}: it stays until it is told to go");
        // The server is killed too.
        scheduler.process.kill();
        scheduler = programs.scheduler_again("s1", &scheduler, &[]);
        let process = come(&scheduler.rest, &scheduler.grpc);
        assert_eq!(orlop(&scheduler.rest, &submit).code, 8, "{order:?}: after a restart of the server neither");
        process.signal(Signal::SIGTERM);
        assert_eq!(process.end(), Some(0));
        // Undone while it is away.
        programs.good(&scheduler.rest, undo);
        let process = come(&scheduler.rest, &scheduler.grpc);
        let done = orlop(&scheduler.rest, &submit);
        assert_eq!(done.code, 0, "{undo:?}: {done:?}");
        until("all jobs", || {
            (orlop(&scheduler.rest, &["jobs", "--state", "Queued", "-o", "name"]).out.is_empty()).then_some(())
        });
        process.signal(Signal::SIGTERM);
        assert_eq!(process.end(), Some(0));
    }
}
