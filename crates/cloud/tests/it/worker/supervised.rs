//! What is special to attempts under a supervisor: supervisors that die or do nothing, and what another agent finds.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cloud::runtime::process::RoleProgram;
use orlop_cloud::runtime::worker::process::{ProcessOptions, ProcessRuntime};
use orlop_cloud::runtime::worker::{AttemptPlan, JobRuntime, RemainsState};
use orlop_cloud::segment::read::scan;
use orlop_cloud::segment::{Kind, decode_prefix};
use orlop_core::task::{LogStream, Run, TaskEnd, TaskRef};

use super::recorder::Recorder;
use super::{Machine, plan};
use crate::process::program;

pub(crate) fn with_supervisor(options: &mut ProcessOptions) {
    options.supervisor = Some(RoleProgram { path: program(), args: vec!["__supervisor".into()] });
}

fn surviving(text: &str) -> AttemptPlan {
    let argv = ["/bin/sh", "-c", text].map(str::to_owned).to_vec();
    plan(Run { argv, survive: true, ..Run::default() })
}

/// The agent is gone, and another comes with the same directory.
fn another(machine: Machine, mark: &str) -> Machine {
    let Machine { runtime, dir, .. } = machine;
    drop(runtime);
    let reported = Arc::new(Recorder::default());
    let mut options = ProcessOptions::new("next", dir.path().join("work"));
    options.mark = mark.to_owned();
    with_supervisor(&mut options);
    let runtime = ProcessRuntime::new(options, reported.clone()).unwrap();
    Machine { runtime, reported, dir }
}

/// Control files that are some attempt's; others wait to be used again.
fn controlled(machine: &Machine) -> Vec<String> {
    let files = fs::read_dir(machine.dir.path().join("work/.control")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

fn machine(mark: &str) -> Machine {
    Machine::with(|options| {
        with_supervisor(options);
        options.mark = mark.to_owned();
    })
}

/// The supervisor of an attempt.
fn owner(work: &Path, id: TaskRef) -> i32 {
    // The first entry of the journal: which report it is, and what that begins with.
    let (journal, mut first) = (File::open(work.join(".control").join(id.to_string())).unwrap(), None);
    scan(Kind::Attempt, journal, |_, payload| first = first.or(decode_prefix::<(u32, i32)>(payload))).unwrap();
    let (report, pid) = first.unwrap();
    assert_eq!(report, 0, "it says who keeps the attempt");
    pid
}

fn is_dead(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn first_pid(machine: &Machine, id: TaskRef) -> i32 {
    machine.reported.so_far(id).started.unwrap().handle.split('@').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn an_attempt_that_its_supervisor_cannot_begin_ends_as_one_that_did_not_start() {
    let machine = Machine::with(|options| {
        // It lives, takes the order, and does nothing with it.
        let args = vec!["-c".into(), "exec cat >/dev/null".into()];
        options.supervisor = Some(RoleProgram { path: "/bin/sh".into(), args });
    });
    let job = surviving("echo never");
    let id = job.id;
    machine.runtime.start(job);
    let (reports, end) = machine.reported.ended(id);
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::StartFailed, "supervisor"));
    let said = String::from_utf8(reports.bytes(LogStream::System)).unwrap();
    assert!(said.contains("no supervisor takes the attempt on: it did not begin"), "{said}");
    until(|| controlled(&machine).is_empty());
}

#[tokio::test]
async fn what_ended_without_an_agent_is_listed_as_ended() {
    let machine = machine("ended");
    let go = machine.dir.path().join("go");
    let job = surviving(&format!("while [ ! -e {} ]; do sleep 0.02; done", go.display()));
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |reports| reports.started.is_some());
    let next = another(machine, "ended");
    fs::write(&go, "").unwrap();
    let begun = Instant::now();
    while next.runtime.list().await.unwrap()[0].state != RemainsState::Ended {
        assert!(begun.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_attempts_of_a_supervisor_that_is_killed_are_ended_and_lost() {
    let machine = machine("killed");
    let job = surviving("setsid sleep 600 & echo up; sleep 600");
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |reports| reports.text().contains("up"));
    let (pid, owner) = (first_pid(&machine, id), owner(&machine.dir.path().join("work"), id));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(owner), nix::sys::signal::Signal::SIGKILL).unwrap();
    let (_, end) = machine.reported.ended(id);
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::Lost, "supervisor"));
    assert!(is_dead(pid));
    // The next attempt gets another supervisor.
    let job = surviving("exit 2");
    let id = job.id;
    machine.runtime.start(job);
    assert_eq!(machine.reported.ended(id).1.exit_code, Some(2));
}

#[tokio::test]
async fn a_supervisor_killed_without_an_agent_leaves_what_the_next_ends() {
    let machine = machine("both");
    let job = surviving("echo up; sleep 600");
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |reports| reports.text().contains("up"));
    let (pid, owner) = (first_pid(&machine, id), owner(&machine.dir.path().join("work"), id));
    let next = another(machine, "both");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(owner), nix::sys::signal::Signal::SIGKILL).unwrap();
    until(|| is_dead(owner));
    // Its threads may outlive the first one, and with them the lock on what it kept.
    let begun = Instant::now();
    while next.runtime.list().await.unwrap()[0].state != RemainsState::Orphaned {
        assert!(begun.elapsed() < Duration::from_secs(60), "a dead supervisor still counts as alive");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    next.runtime.adopt(id, 0).await.unwrap();
    let (_, end) = next.reported.ended(id);
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::Lost, "agent_restart"));
    assert!(is_dead(pid) && next.runtime.list().await.unwrap().is_empty());
}

#[test]
fn supervisors_end_when_their_agent_and_all_attempts_are_gone() {
    let machine = machine("gone");
    let go = machine.dir.path().join("go");
    let job = surviving(&format!("echo up; while [ ! -e {} ]; do sleep 0.02; done", go.display()));
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |reports| reports.started.is_some());
    let owner = owner(&machine.dir.path().join("work"), id);
    fs::write(&go, "").unwrap();
    machine.reported.ended(id);
    assert!(!is_dead(owner), "it waits for more");
    let Machine { runtime, dir, .. } = machine;
    drop(runtime);
    until(|| is_dead(owner));
    drop(dir);
}
