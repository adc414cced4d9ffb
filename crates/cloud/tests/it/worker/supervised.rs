//! Attempts under a supervisor: what goes on without the agent, what another agent makes of it, and what ends without one.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cloud::runtime::process::RoleProgram;
use orlop_cloud::runtime::worker::process::{ProcessOptions, ProcessRuntime};
use orlop_cloud::runtime::worker::{AttemptPlan, Cause, JobRuntime, RemainsState};
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
async fn an_attempt_goes_on_without_its_agent_and_another_takes_it_over() {
    let machine = machine("over");
    let go = machine.dir.path().join("go");
    let text = format!("echo before; while [ ! -e {} ]; do sleep 0.02; done; echo after; exit 3", go.display());
    let job = surviving(&text);
    let id = job.id;
    machine.runtime.start(job);
    let story = machine.reported.until(id, |story| !story.chunks.is_empty());
    let pid = first_pid(&machine, id);
    let next = another(machine, "over");
    assert!(!is_dead(pid), "it goes on");
    let found = next.runtime.list().await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(matches!(&found[0].state, RemainsState::Alive { started } if Some(started) == story.started.as_ref()));
    let seq = story.chunks.last().unwrap().seq;
    next.runtime.adopt(id, seq).await.unwrap();
    let used = next.runtime.in_use(&[id]).await.unwrap();
    assert!(used.len() == 1 && used[0].1.memory_bytes > 0, "{used:?}");
    fs::write(&go, "").unwrap();
    let (rest, end) = next.reported.ended(id);
    assert_eq!(
        (end.outcome, end.exit_code, end.started_at),
        (TaskEnd::Failed, Some(3), Some(story.started.unwrap().at))
    );
    assert_eq!(rest.text(), "after\n", "output goes on where it was");
    assert!(rest.chunks.iter().all(|chunk| chunk.seq > seq) && rest.started.is_none());
    until(|| controlled(&next).is_empty());
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
    let (story, end) = machine.reported.ended(id);
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::StartFailed, "supervisor"));
    let said = String::from_utf8(story.bytes(LogStream::System)).unwrap();
    assert!(said.contains("no supervisor takes the attempt on: it did not begin"), "{said}");
    until(|| controlled(&machine).is_empty());
}

#[tokio::test]
async fn what_ended_without_an_agent_is_reported_by_the_next() {
    let machine = machine("ended");
    let go = machine.dir.path().join("go");
    let job = surviving(&format!("echo x; while [ ! -e {} ]; do sleep 0.02; done; exit 4", go.display()));
    let id = job.id;
    let pid = {
        machine.runtime.start(job);
        machine.reported.until(id, |story| story.started.is_some());
        first_pid(&machine, id)
    };
    let next = another(machine, "ended");
    fs::write(&go, "").unwrap();
    until(|| is_dead(pid));
    let begun = Instant::now();
    while next.runtime.list().await.unwrap()[0].state != RemainsState::Ended {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    next.runtime.adopt(id, 0).await.unwrap();
    let (story, end) = next.reported.ended(id);
    assert_eq!((end.exit_code, story.text().as_str()), (Some(4), "x\n"));
}

#[tokio::test]
async fn another_agent_can_end_what_it_took_over() {
    let machine = machine("end");
    let job = surviving("trap 'echo asked; exit 9' TERM; echo up; while :; do sleep 0.02; done");
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |story| story.text().contains("up"));
    let next = another(machine, "end");
    next.runtime.adopt(id, 0).await.unwrap();
    next.runtime.end(id, Cause::Cancel, Duration::from_secs(30));
    let (story, end) = next.reported.ended(id);
    assert_eq!((end.outcome, end.exit_code), (TaskEnd::Cancelled, Some(9)));
    assert!(story.text().ends_with("asked\n"), "{}", story.text());
}

#[tokio::test]
async fn the_attempts_of_a_supervisor_that_is_killed_are_ended_and_lost() {
    let machine = machine("killed");
    let job = surviving("setsid sleep 600 & echo up; sleep 600");
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |story| story.text().contains("up"));
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
    machine.reported.until(id, |story| story.text().contains("up"));
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
fn an_attempt_that_may_not_overlap_ends_with_the_lease() {
    let machine = machine("lease");
    let argv = ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done"].map(str::to_owned).to_vec();
    let mut job = plan(Run { argv, forbid_overlap: true, ..Run::default() });
    job.grace = Duration::from_millis(200);
    let id = job.id;
    machine.runtime.renew_lease(Duration::from_secs(15));
    machine.runtime.start(job);
    machine.reported.until(id, |story| story.text().contains("up"));
    let renewed = Instant::now();
    machine.runtime.renew_lease(Duration::from_secs(20));
    let (_, end) = machine.reported.ended(id);
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::Lost, "lease_expired"));
    let after = renewed.elapsed();
    assert!(after >= Duration::from_millis(19_900), "it was renewed: {after:?}");
}

#[test]
fn without_a_supervisor_it_is_refused() {
    let machine = Machine::new();
    let argv = vec!["true".to_owned()];
    let job = plan(Run { argv, forbid_overlap: true, ..Run::default() });
    let id = job.id;
    machine.runtime.start(job);
    let (_, end) = machine.reported.ended(id);
    assert_eq!((end.outcome, end.reason.as_str()), (TaskEnd::StartFailed, "supervisor"));
}

#[test]
fn supervisors_end_when_their_agent_and_all_attempts_are_gone() {
    let machine = machine("gone");
    let go = machine.dir.path().join("go");
    let job = surviving(&format!("echo up; while [ ! -e {} ]; do sleep 0.02; done", go.display()));
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |story| story.started.is_some());
    let owner = owner(&machine.dir.path().join("work"), id);
    fs::write(&go, "").unwrap();
    machine.reported.ended(id);
    assert!(!is_dead(owner), "it waits for more");
    let Machine { runtime, dir, .. } = machine;
    drop(runtime);
    until(|| is_dead(owner));
    drop(dir);
}
