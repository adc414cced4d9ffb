//! The host of a worker goes wrong: its disk is full, its clock jumps.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;

use super::super::programs::{Programs, Running, Scheduler, until};
use super::proxy::Proxy;
use super::{
    FAST, PATIENT, attempts, fill, job_in, metric, only_final, serve, submit, text, touch, waits_for, worker_in,
};

/// A worker whose state is on a small disk of its own, and that disk; none where the system allows no mounts.
fn on_a_small_disk(programs: &Programs, server: &str, args: &[&str]) -> Option<(Running, PathBuf)> {
    let namespaces = ["--user", "--map-root-user", "--mount"];
    if !Command::new("unshare").args(namespaces).arg("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: this system allows no mounts");
        return None;
    }
    let disk = programs.path("disk");
    std::fs::create_dir_all(&disk).expect("a folder");
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=160m none \"$1\" && shift && exec \"$@\"";
    command.args(namespaces).args(["sh", "-c", script, "sh"]).arg(&disk).arg(crate::role::PROGRAM).arg("worker");
    command.args(["--id", "w1", "--no-containers", "--server", server, "--state"]).arg(disk.join("state")).args(args);
    command.arg("--token-file").arg(programs.client_token());
    command.current_dir(programs.path("")).stdin(Stdio::null());
    let process = programs.spawn("w1", command);
    // The disk as the worker sees it: `unshare` and the shell have become the program.
    let seen = PathBuf::from(format!("/proc/{}/root{}", process.pid(), disk.display()));
    until("its state", || seen.join("state").exists().then_some(()));
    Some((process, seen))
}

#[test]
fn a_worker_whose_disk_is_full_takes_no_work_and_keeps_results() {
    let programs = Programs::new();
    let server: Scheduler = serve(&programs, &[&PATIENT[..], &["--scheduler-probation-min=2s"]].concat());
    let line = Proxy::to(&server.grpc);
    let args = ["--min-free", "33554432"];
    let Some((_worker, disk)) = on_a_small_disk(&programs, &line.url(), &args) else { return };
    worker_in(&server, "w1", &["Available"]);
    let flood = format!(
        "{}; yes 0123456789abcdef | head -c 40000000; echo end; touch {}",
        waits_for(&programs.path("go")),
        programs.path("flooded").display()
    );
    let loud = submit(&server, &flood, json!({ "survive_agent": false }));
    let quiet = submit(&server, &waits_for(&programs.path("go")), json!({ "survive_agent": false }));
    let kept = submit(&server, &waits_for(&programs.path("go")), json!({ "overlap": "allow", "survive_agent": true }));
    for id in [&loud, &quiet, &kept] {
        job_in(&server, id, "Running");
    }
    // Little room: what runs goes on, and nothing more comes.
    fill(&disk, 16 << 20);
    worker_in(&server, "w1", &["Unhealthy"]);
    let later = submit(&server, "true", json!({}));
    // None at all, and nobody who takes anything: ends are kept in what was set aside for them.
    line.quiet(true, true);
    fill(&disk, 0);
    touch(&programs, "go");
    until("the end of the flood", || programs.path("flooded").exists().then_some(()));
    assert_eq!(attempts(&server, &later).len(), 0, "nothing is placed on a worker that is not well");
    line.quiet(false, false);
    for id in [&loud, &quiet] {
        let done = job_in(&server, id, "Completed");
        assert_eq!((&done["attempt"], only_final(&server, id)), (&json!(1), 1), "{}", programs.log("w1"));
    }
    until("the log with its gap", || {
        let log = programs.orlop(&server.rest, &["logs", &loud]);
        (log.out.starts_with("before\n") && log.err.contains("are missing here")).then_some(())
    });
    // Room again: it is well after a while.
    std::fs::remove_file(disk.join("ballast")).expect("it goes");
    worker_in(&server, "w1", &["Available", "Running"]);
    for id in [&kept, &later] {
        assert_eq!(job_in(&server, id, "Completed")["attempt"], 1);
    }
    assert_eq!(metric(&server, "orlop_jobs_lost_total", ""), 0.0);
}

#[cfg(feature = "testing")]
#[test]
fn no_jump_of_a_workers_clock_loses_anything() {
    const HOUR: i64 = 3_600_000;
    let programs = Programs::new();
    let server = serve(&programs, &FAST);
    let clock = programs.path("w1-clock");
    std::fs::write(&clock, "0").expect("a file is written");
    let _worker = programs.worker("w1", &[&server.grpc], &[]);
    let script = format!("{}; touch {}", waits_for(&programs.path("go")), programs.path("done").display());
    let timed = submit(&server, &script, json!({ "timeout_ms": 600_000 }));
    let leased = submit(&server, &waits_for(&programs.path("go")), json!({ "overlap": "forbid" }));
    for id in [&timed, &leased] {
        job_in(&server, id, "Running");
    }
    for (count, by) in [(1, HOUR), (2, -HOUR)] {
        std::fs::write(&clock, by.to_string()).expect("a file is written");
        until("a word on the clock", || {
            (programs.log("w1").matches("the clock of this host jumped").count() >= count).then_some(())
        });
        let beats = metric(&server, "orlop_worker_heartbeats_total", "");
        until("heartbeats", || (metric(&server, "orlop_worker_heartbeats_total", "") > beats + 8.0).then_some(()));
        worker_in(&server, "w1", &["Running"]);
        let short = submit(&server, "true", json!({ "timeout_ms": 60_000 }));
        job_in(&server, &short, "Completed");
    }
    touch(&programs, "go");
    for id in [&timed, &leased] {
        let done = job_in(&server, id, "Completed");
        assert_eq!((&done["attempt"], only_final(&server, id)), (&json!(1), 1));
    }
    assert_eq!(text(&programs, "done"), "");
    assert_eq!(metric(&server, "orlop_jobs_lost_total", ""), 0.0);
}
