//! The line between programs goes quiet, one way or both, and is cut: short and long partitions, results that come twice,
//! answers that are lost.

use serde_json::json;

use super::super::programs::{Programs, Running, Scheduler, ask, until};
use super::proxy::Proxy;
use super::{
    FAST, PATIENT, attempts, job, job_in, metric, only_final, serve, submit, text, touch, waits_for, worker_in,
};

/// A server, a worker behind a line, and a job that runs there until the file `go` is there.
struct World {
    programs: Programs,
    server: Scheduler,
    line: Proxy,
    _worker: Running,
    job: String,
}

impl World {
    fn new(more: serde_json::Value) -> Self {
        Self::with(&FAST, more)
    }

    fn with(times: &[&str], more: serde_json::Value) -> Self {
        let programs = Programs::new();
        let server = serve(&programs, times);
        let line = Proxy::to(&server.grpc);
        let worker = programs.worker("w1", &[&line.url()], &[]);
        worker_in(&server, "w1", &["Available"]);
        let script = format!(
            "exec 9>lock; flock -n 9 || echo clash >> marks; echo $ORLOP_ATTEMPT >> marks; {}; touch done$ORLOP_ATTEMPT",
            waits_for(&programs.path("go"))
        );
        let script = format!("cd {}; {script}", programs.path("").display());
        let job = submit(&server, &script, more);
        job_in(&server, &job, "Running");
        Self { programs, server, line, _worker: worker, job }
    }

    fn logs(&self) -> String {
        self.programs.good(&self.server.rest, &["logs", &self.job])
    }
}

#[test]
fn a_short_partition_restarts_nothing_and_keeps_the_output() {
    let world = World::with(&PATIENT, json!({}));
    let World { programs, server, line, job, .. } = &world;
    line.quiet(true, true);
    worker_in(server, "w1", &["Unhealthy"]);
    touch(programs, "go");
    until("the end of the job", || programs.path("done1").exists().then_some(()));
    line.quiet(false, false);
    let done = job_in(server, job, "Completed");
    assert_eq!(done["attempt"], 1, "{done}");
    worker_in(server, "w1", &["Available"]);
    assert_eq!(world.logs(), "before\nafter\n");
    assert_eq!((text(programs, "marks").as_str(), only_final(server, job)), ("1\n", 1));
    assert_eq!(metric(server, "orlop_jobs_lost_total", ""), 0.0);
}

#[test]
fn a_line_that_is_cut_is_taken_up_again() {
    let world = World::with(&PATIENT, json!({}));
    let World { programs, server, line, job, .. } = &world;
    line.cut(true);
    worker_in(server, "w1", &["Unhealthy"]);
    touch(programs, "go");
    until("the end of the job", || programs.path("done1").exists().then_some(()));
    line.cut(false);
    let done = job_in(server, job, "Completed");
    assert_eq!((&done["attempt"], only_final(server, job)), (&json!(1), 1));
    assert_eq!(world.logs(), "before\nafter\n");
    worker_in(server, "w1", &["Available"]);
}

#[test]
fn after_a_long_partition_one_result_counts_and_what_must_not_overlap_did_not() {
    let world = World::new(json!({ "overlap": "forbid" }));
    let World { programs, server, line, job, .. } = &world;
    let both =
        format!("echo $ORLOP_ATTEMPT >> {}; {}", programs.path("other").display(), waits_for(&programs.path("go")));
    let other = submit(server, &both, json!({}));
    job_in(server, &other, "Running");
    line.quiet(true, true);
    let _second = programs.worker("w2", &[&server.grpc], &[]);
    for job in [job, &other] {
        let second = until("another attempt", || attempts(server, job).into_iter().find(|row| row["attempt"] == 2));
        assert_eq!(second["worker"], "w2");
        until("its start", || {
            attempts(server, job).iter().any(|row| row["attempt"] == 2 && row["state"] == "Running").then_some(())
        });
    }
    until("both attempts", || (text(programs, "other").lines().count() == 2).then_some(()));
    // Whoever comes back is told that its attempts are old.
    line.quiet(false, false);
    worker_in(server, "w1", &["Available", "Running"]);
    until("the end of what is old", || {
        let worker = super::read(&server.rest, "/workers/w1")?;
        (worker["state"] == "Available").then_some(())
    });
    touch(programs, "go");
    for job in [job, &other] {
        job_in(server, job, "Completed");
        assert_eq!(only_final(server, job), 2);
    }
    assert_eq!(text(programs, "marks"), "1\n2\n", "never two at once");
    assert!(!programs.path("done1").exists(), "the first attempt was ended with its lease");
}

#[test]
fn a_line_that_is_open_one_way_only_loses_nothing() {
    let world = World::new(json!({}));
    let World { programs, server, line, job, .. } = &world;
    // The server hears the worker, and the worker nothing.
    line.quiet(false, true);
    let deaf = submit(server, &format!("echo x >> {}", programs.path("deaf").display()), json!({}));
    until("an assignment", || attempts(server, &deaf).first().map(|_| ()));
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(text(programs, "deaf"), "", "nobody told the worker");
    line.quiet(false, false);
    job_in(server, &deaf, "Completed");
    assert_eq!(text(programs, "deaf"), "x\n");
    // The worker hears the server, and the server nothing.
    line.quiet(true, false);
    worker_in(server, "w1", &["Unhealthy"]);
    touch(programs, "go");
    until("the end of the job", || programs.path("done1").exists().then_some(()));
    line.quiet(false, false);
    let done = job_in(server, job, "Completed");
    assert_eq!((&done["attempt"], only_final(server, &deaf)), (&json!(1), 1));
    assert_eq!(world.logs(), "before\nafter\n");
}

#[test]
fn a_result_that_comes_again_changes_nothing() {
    let World { programs, server, line, job: id, _worker } = World::new(json!({}));
    // The result arrives; that it did never reaches the worker.
    line.quiet(false, true);
    touch(&programs, "go");
    let before = job_in(&server, &id, "Completed");
    let mut server = server;
    server.process.kill();
    let server = programs.scheduler_again("s1", &server, &FAST);
    line.break_off();
    line.quiet(false, false);
    worker_in(&server, "w1", &["Available"]);
    // A server that was started since knows jobs that have ended from the store only.
    let verdicts = |verdict| metric(&server, "orlop_result_verdicts_total", verdict);
    until("the result once more", || (verdicts("duplicate") > 0.0).then_some(()));
    assert!(verdicts("unknown") == 0.0, "it is known");
    assert_eq!(job(&server, &id), Some(before), "it is as it was");
    assert_eq!((only_final(&server, &id), attempts(&server, &id).len()), (1, 1));
}

#[test]
fn a_submit_whose_answer_is_lost_is_repeated_under_its_key() {
    let programs = Programs::new();
    let server = serve(&programs, &FAST);
    let line = Proxy::to(&server.rest);
    let body = json!({ "runtime": "noop" }).to_string();
    let send = |to: &str| ask(to, "POST", "/jobs", "Idempotency-Key: once\r\n", &body);
    line.quiet(false, true);
    let (lost, url) = (
        std::thread::scope(|threads| {
            let sending = threads.spawn(|| send(&line.url()));
            until("the job", || {
                let jobs = super::read(&server.rest, "/jobs")?;
                (jobs["items"].as_array()?.len() == 1).then_some(())
            });
            line.break_off();
            sending.join().expect("it ends")
        }),
        line.url(),
    );
    assert_eq!(lost, None, "no answer");
    line.quiet(false, false);
    let (status, first) = send(&url).expect("an answer");
    assert_eq!((status, send(&server.rest)), (202, Some((202, first))));
    let jobs = super::read(&server.rest, "/jobs").expect("an answer");
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(1), "one job");
}
