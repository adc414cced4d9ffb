//! Programs stand still, and clocks jump: a worker's agent and the server are stopped and go on, results come late, the time
//! of day is wrong.

use nix::sys::signal::Signal;
use serde_json::json;

use super::super::programs::{Programs, until};
use super::{FAST, attempts, job_in, metric, only_final, serve, submit, touch, waits_for, worker_in};

#[test]
fn a_late_result_is_adopted_while_nothing_newer_was_issued() {
    let programs = Programs::new();
    let server = serve(&programs, &FAST);
    let worker = programs.worker("w1", &[&server.grpc], &[]);
    let id = submit(
        &server,
        &format!("{}; touch {}", waits_for(&programs.path("go")), programs.path("done").display()),
        json!({}),
    );
    job_in(&server, &id, "Running");
    worker.signal(Signal::SIGSTOP);
    until("its loss", || attempts(&server, &id).iter().any(|row| row["state"] == "Lost").then_some(()));
    job_in(&server, &id, "Queued");
    touch(&programs, "go");
    until("the end of the job", || programs.path("done").exists().then_some(()));
    worker.signal(Signal::SIGCONT);
    let done = job_in(&server, &id, "Completed");
    assert_eq!((&done["attempt"], only_final(&server, &id)), (&json!(1), 1));
}

#[test]
fn a_late_result_never_overwrites_a_newer_attempt() {
    let programs = Programs::new();
    let server = serve(&programs, &FAST);
    let worker = programs.worker("w1", &[&server.grpc], &[]);
    // The first attempt fails, late; the second succeeds.
    let script = format!("{}; [ $ORLOP_ATTEMPT = 2 ]", waits_for(&programs.path("go")));
    let id = submit(&server, &script, json!({ "retries": 0 }));
    job_in(&server, &id, "Running");
    worker.signal(Signal::SIGSTOP);
    let _second = programs.worker("w2", &[&server.grpc], &[]);
    until("the second attempt", || {
        attempts(&server, &id).iter().any(|row| row["worker"] == "w2" && row["state"] == "Running").then_some(())
    });
    touch(&programs, "go");
    job_in(&server, &id, "Completed");
    worker.signal(Signal::SIGCONT);
    worker_in(&server, "w1", &["Available"]);
    until("the verdict on it", || (metric(&server, "orlop_result_verdicts_total", "stale") > 0.0).then_some(()));
    job_in(&server, &id, "Completed");
    assert_eq!(only_final(&server, &id), 2);
}

#[test]
fn a_server_that_was_stopped_takes_nobody_for_silent() {
    let programs = Programs::new();
    let server = serve(&programs, &FAST);
    let _worker = programs.worker("w1", &[&server.grpc], &[]);
    let id = submit(&server, &waits_for(&programs.path("go")), json!({}));
    job_in(&server, &id, "Running");
    server.process.signal(Signal::SIGSTOP);
    // Longer than a worker may be silent before its attempts are lost.
    std::thread::sleep(std::time::Duration::from_secs(12));
    server.process.signal(Signal::SIGCONT);
    until("what it says of it", || programs.log("s1").contains("was delayed").then_some(()));
    worker_in(&server, "w1", &["Running"]);
    touch(&programs, "go");
    let done = job_in(&server, &id, "Completed");
    assert_eq!(done["attempt"], 1, "{}", programs.log("s1"));
    assert_eq!(metric(&server, "orlop_jobs_lost_total", ""), 0.0);
    assert_eq!(only_final(&server, &id), 1);
}

/// Sets the server's time of day off by so many milliseconds, and waits until it has noticed.
#[cfg(feature = "testing")]
fn jump(programs: &Programs, millis: i64) {
    let before = programs.log("s1").matches("the clock of this host jumped").count();
    std::fs::write(programs.path("clock"), millis.to_string()).expect("a file is written");
    until("a word on the clock", || {
        (programs.log("s1").matches("the clock of this host jumped").count() > before).then_some(())
    });
}

#[cfg(feature = "testing")]
#[test]
fn no_jump_of_the_clock_loses_anything() {
    const HOUR: i64 = 3_600_000;
    let programs = Programs::new();
    std::fs::write(programs.path("clock"), "0").expect("a file is written");
    let mut server = serve(&programs, &FAST);
    let _worker = programs.worker("w1", &[&server.grpc], &[]);
    let timed = submit(&server, &waits_for(&programs.path("go")), json!({ "timeout_ms": 600_000 }));
    job_in(&server, &timed, "Running");
    for by in [HOUR, -HOUR] {
        jump(&programs, by);
        let beats = metric(&server, "orlop_worker_heartbeats_total", "");
        until("heartbeats", || (metric(&server, "orlop_worker_heartbeats_total", "") > beats + 8.0).then_some(()));
        worker_in(&server, "w1", &["Running"]);
    }
    // A server that comes back in another time goes on all the same.
    server.process.kill();
    std::fs::write(programs.path("clock"), (-3 * HOUR).to_string()).expect("a file is written");
    let server = programs.scheduler_again("s1", &server, &FAST);
    worker_in(&server, "w1", &["Running"]);
    touch(&programs, "go");
    let done = job_in(&server, &timed, "Completed");
    assert_eq!((&done["attempt"], only_final(&server, &timed)), (&json!(1), 1));
    assert_eq!(metric(&server, "orlop_jobs_lost_total", ""), 0.0);
}
