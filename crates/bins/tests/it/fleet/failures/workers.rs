//! Workers and jobs go wrong: hosts that crash, jobs that crash or take their agent with them, a worker on which nothing
//! starts, output without end, and many workers that lose their server at once.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::super::programs::{Programs, Running, Scheduler, until};
use super::proxy::Proxy;
use super::{
    FAST, PATIENT, attempts, job, job_in, metric, only_final, serve, submit, text, touch, waits_for, worker_in,
};

#[test]
fn the_work_of_a_host_that_crashed_is_done_by_another() {
    let programs = Programs::new();
    let server = serve(&programs, &FAST);
    let mut first = programs.worker("w1", &[&server.grpc], &[]);
    worker_in(&server, "w1", &["Available"]);
    let pid = programs.path("pid");
    // With its host a job ends too.
    let script = format!("[ $ORLOP_ATTEMPT = 2 ] || {{ echo $$ > {}; exec sleep 1000; }}", pid.display());
    let id = submit(&server, &script, json!({}));
    job_in(&server, &id, "Running");
    let job = until("its process", || text(&programs, "pid").trim().parse().ok());
    first.kill();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(job), Signal::SIGKILL).expect("it is there");
    let _second = programs.worker("w2", &[&server.grpc], &[]);
    let done = job_in(&server, &id, "Completed");
    assert_eq!((&done["attempt"], only_final(&server, &id)), (&json!(2), 2));
    assert_eq!(attempts(&server, &id)[0]["state"], "Lost");
}

#[test]
fn a_job_that_crashes_says_how_and_is_repeated_by_rule() {
    let programs = Programs::new();
    let server = serve(&programs, &FAST);
    let _worker = programs.worker("w1", &[&server.grpc], &[]);
    let id = submit(&server, "[ $ORLOP_ATTEMPT = 2 ] || kill -SEGV $$", json!({ "retries": 1 }));
    job_in(&server, &id, "Completed");
    let all = attempts(&server, &id);
    assert_eq!((&all[0]["state"], &all[0]["signal"], only_final(&server, &id)), (&json!("Failed"), &json!(11), 2));
    let id = submit(&server, "kill -SEGV $$", json!({}));
    let failed = job_in(&server, &id, "Failed");
    assert_eq!(failed["reason"], "signal", "{failed}");
}

#[test]
fn a_job_that_takes_its_agent_with_it_fails_and_the_fleet_goes_on() {
    let programs = Programs::new();
    let args = [&FAST[..], &["--scheduler-max-infra=1"]].concat();
    let server = serve(&programs, &args);
    let mut worker = programs.worker("w1", &[&server.grpc], &[]);
    worker_in(&server, "w1", &["Available"]);
    let poison = submit(&server, "sleep 0.5; kill -9 $PPID; sleep 1000", json!({ "survive_agent": false }));
    let began = Instant::now();
    while job(&server, &poison).is_none_or(|job| job["state"] != "Failed") {
        assert!(began.elapsed() < super::super::bench::PATIENCE, "{:?}", job(&server, &poison));
        // Whoever looks after the agent starts it again.
        if worker.has_ended() {
            worker = programs.worker("w1", &[&server.grpc], &[]);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let failed = job(&server, &poison).expect("an answer");
    assert_eq!((&failed["reason"], &failed["attempt"]), (&json!("infra_limit"), &json!(2)), "{failed}");
    if worker.has_ended() {
        worker = programs.worker("w1", &[&server.grpc], &[]);
    }
    let good = submit(&server, "true", json!({}));
    job_in(&server, &good, "Completed");
    drop(worker);
}

#[test]
fn a_worker_on_which_nothing_starts_does_not_eat_the_queue() {
    let programs = Programs::new();
    let args = [&FAST[..], &["--scheduler-start-failures=3"]].concat();
    let server = serve(&programs, &args);
    let _broken = programs.worker("w1", &[&server.grpc], &["--max-jobs", "4"]);
    let _good = programs.worker("w2", &[&server.grpc], &["--max-jobs", "2"]);
    for id in ["w1", "w2"] {
        worker_in(&server, id, &["Available"]);
    }
    // No directory of an attempt can be made there any more.
    let work = programs.path("w1-state").join("work");
    std::fs::rename(&work, work.with_extension("away")).expect("it is moved");
    std::fs::write(&work, "").expect("a file is written");
    let jobs: Vec<String> = (0..12).map(|_| submit(&server, "sleep 0.2", json!({}))).collect();
    worker_in(&server, "w1", &["Unhealthy"]);
    for id in &jobs {
        job_in(&server, id, "Completed");
        let last = attempts(&server, id).pop().expect("an attempt");
        assert_eq!(last["worker"], "w2");
    }
    assert!(metric(&server, "orlop_jobs_failed_total", "") == 0.0);
    worker_in(&server, "w1", &["Unhealthy"]);
}

#[test]
fn a_flood_of_output_leaves_gaps_and_holds_nobody_up() {
    let programs = Programs::new();
    let server = serve(&programs, &PATIENT);
    let line = Proxy::to(&server.grpc);
    let _worker = programs.worker("w1", &[&line.url()], &["--spool-logs", "1000000"]);
    worker_in(&server, "w1", &["Available"]);
    // More than is kept while nobody takes it.
    let go = programs.path("go");
    let script = format!(
        "echo begin; until [ -e {} ]; do sleep 0.05; done; yes 0123456789abcdef | head -c 20000000; echo end; touch {}",
        go.display(),
        programs.path("done").display()
    );
    let flood = submit(&server, &script, json!({ "survive_agent": false }));
    job_in(&server, &flood, "Running");
    // What nobody has taken yet when the flood comes may be what is given up.
    until("the beginning of the log", || {
        (programs.orlop(&server.rest, &["logs", &flood]).out == "begin\n").then_some(())
    });
    line.quiet(true, true);
    touch(&programs, "go");
    until("the end of the flood", || programs.path("done").exists().then_some(()));
    line.quiet(false, false);
    job_in(&server, &flood, "Completed");
    let log = until("the log with its gap", || {
        let log = programs.orlop(&server.rest, &["logs", &flood]);
        (log.err.contains("are missing here") && log.out.ends_with("end\n")).then_some(log.out)
    });
    assert!(log.starts_with("begin\n") && log.len() < 4_000_000, "{} bytes", log.len());
    assert!(metric(&server, "orlop_log_dropped_bytes_total", "worker") > 10_000_000.0);
    // While one floods the way, others come and go.
    let flood = submit(&server, "yes 0123456789abcdef", json!({ "survive_agent": false }));
    job_in(&server, &flood, "Running");
    let began = Instant::now();
    for _ in 0..5 {
        let quick = submit(&server, "true", json!({}));
        job_in(&server, &quick, "Completed");
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    worker_in(&server, "w1", &["Running"]);
    programs.good(&server.rest, &["cancel", &flood, "--wait"]);
    assert_eq!(metric(&server, "orlop_jobs_lost_total", ""), 0.0);
}

#[test]
fn many_workers_come_back_at_once_and_nothing_is_lost_or_doubled() {
    const WORKERS: usize = 16;
    let programs = Programs::new();
    let args = ["--log-level=warn"];
    let server: Scheduler = serve(&programs, &args);
    let workers: Vec<Running> = (0..WORKERS)
        .map(|number| {
            let offer = ["--cpu-m", "1000", "--memory-bytes", "1000000000", "--max-jobs", "2"];
            programs.worker(&format!("w{number}"), &[&server.grpc], &offer)
        })
        .collect();
    let script =
        format!("echo $ORLOP_JOB_ID >> {}; {}", programs.path("ran").display(), waits_for(&programs.path("go")));
    let jobs: Vec<String> = (0..WORKERS * 2).map(|_| submit(&server, &script, json!({}))).collect();
    let count = |state: &str, server: &Scheduler| {
        let list = super::read(&server.rest, &format!("/jobs?limit=1000&state={state}"))?;
        Some(list["items"].as_array()?.len())
    };
    until("all of them to run", || (count("Running", &server) == Some(jobs.len())).then_some(()));
    let mut server = server;
    server.process.kill();
    let began = Instant::now();
    let server = programs.scheduler_again("s1", &server, &args);
    until("all workers", || {
        let list = super::read(&server.rest, "/workers?limit=1000&state=Running")?;
        (list["items"].as_array()?.len() == WORKERS).then_some(())
    });
    println!("{WORKERS} workers were back after {:.1?}", began.elapsed());
    touch(&programs, "go");
    until("the ends of all jobs", || (count("Completed", &server) == Some(jobs.len())).then_some(()));
    for id in &jobs {
        assert_eq!((only_final(&server, id), attempts(&server, id).len()), (1, 1));
    }
    assert_eq!(text(&programs, "ran").lines().count(), jobs.len(), "each ran once");
    drop(workers);
}
