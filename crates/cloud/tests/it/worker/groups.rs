//! Attempts in control groups, where this machine has them (version 2) and lets this user make some.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_cloud::runtime::process::RoleProgram;
use orlop_cloud::runtime::worker::process::{Enforce, ProcessOptions, ProcessRuntime};
use orlop_cloud::runtime::worker::{Cause, JobRuntime};
use orlop_core::task::TaskEnd;

use super::recorder::Recorder;
use super::{Machine, script};
use crate::process::program;

/// A group of this test's own, removed at its end.
struct Parent(PathBuf);

impl Drop for Parent {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.0));
    }
}

fn parent(name: &str) -> Option<Parent> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let root = roots.iter().map(Path::new).find(|root| root.join("cgroup.controllers").exists())?;
    let path = root.join(format!("orlop-test-{}-{name}", std::process::id()));
    fs::create_dir(&path).ok()?;
    Some(Parent(path))
}

fn grouped(options: &mut ProcessOptions, parent: &Parent) {
    options.cgroup = Some(parent.0.clone());
    options.launcher = Some(RoleProgram { path: program(), args: vec!["__launcher".into()] });
}

fn groups(parent: &Parent) -> usize {
    fs::read_dir(&parent.0).unwrap().flatten().filter(|entry| entry.path().is_dir()).count()
}

#[test]
fn a_job_is_in_its_group_from_its_first_instruction_and_the_group_goes_with_it() {
    let Some(parent) = parent("in") else {
        eprintln!("skipped: no control groups (version 2) can be made here");
        return;
    };
    let machine = Machine::with(|options| grouped(options, &parent));
    let job = script("cat /proc/self/cgroup; exit 3");
    let id = job.id;
    machine.runtime.start(job);
    let (reports, end) = machine.reported.ended(id);
    assert_eq!((end.outcome, end.exit_code), (TaskEnd::Failed, Some(3)));
    assert!(reports.text().contains(&format!("orlop-{id}")), "{}", reports.text());
    assert_eq!(groups(&parent), 0);
    // What is not there is refused before a group is made for it.
    let job =
        super::plan(orlop_core::task::Run { argv: vec!["no-such-program-anywhere".to_owned()], ..Default::default() });
    let id = job.id;
    machine.runtime.start(job);
    assert_eq!(machine.reported.ended(id).1.outcome, TaskEnd::StartFailed);
    assert_eq!(groups(&parent), 0);
}

#[test]
fn a_whole_group_is_killed_whatever_its_processes_hide() {
    let Some(parent) = parent("kill") else {
        eprintln!("skipped: no control groups (version 2) can be made here");
        return;
    };
    let machine = Machine::with(|options| grouped(options, &parent));
    let job = script("trap '' TERM; (env -i setsid sleep 600 &); (env -i setsid sleep 600 &); echo up; sleep 600");
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |reports| reports.text().contains("up"));
    machine.runtime.end(id, Cause::Cancel, Duration::from_millis(100));
    assert_eq!(machine.reported.ended(id).1.outcome, TaskEnd::Cancelled);
    assert_eq!(groups(&parent), 0, "an empty group can be removed");
}

#[test]
fn a_fork_bomb_ends_at_its_limit_and_goes_with_its_group() {
    let Some(parent) = parent("bomb") else {
        println!("skipped: s6_a_fork_bomb…: no control groups (version 2) can be made here");
        return;
    };
    let offered = fs::read_to_string(parent.0.join("cgroup.controllers")).unwrap_or_default();
    if !offered.split_whitespace().any(|name| name == "pids") {
        println!("skipped: s6_a_fork_bomb…: the number of processes cannot be limited here: no controller `pids`");
        return;
    }
    let machine = Machine::with(|options| grouped(options, &parent));
    // Far more than may be: the shell says so, and none of them is left.
    let job = script("n=0; while [ $n -lt 6000 ]; do sleep 600 & n=$((n+1)); done; echo all of them");
    let id = job.id;
    machine.runtime.start(job);
    let (reports, end) = machine.reported.ended(id);
    assert!(!reports.text().contains("all of them"), "{}", reports.text());
    assert_eq!(end.outcome, TaskEnd::Failed);
    assert_eq!(groups(&parent), 0, "an empty group can be removed");
}

#[test]
fn limits_that_are_required_and_cannot_be_enforced_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = ProcessOptions::new("w", dir.path().join("work"));
    options.enforce = Enforce::Require;
    options.cgroup = Some(dir.path().join("no-group"));
    let error = ProcessRuntime::new(options, std::sync::Arc::new(Recorder::default())).unwrap_err();
    assert!(error.message.contains("no control group"), "{error}");
}
