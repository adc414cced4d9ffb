//! Ends of whole trees: whoever an attempt starts is gone when it has ended. Owns the ways a process tries to stay.

use std::fs;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use orlop_cloud::runtime::worker::{Cause, JobRuntime};
use orlop_core::task::TaskEnd;

use super::{Machine, script};

/// Held by whoever must have this program to itself: a runtime that takes all orphans for its own.
static PROGRAM: RwLock<()> = RwLock::new(());

/// Whether a process with this argument is alive.
fn lives(marker: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == marker.as_bytes()) && !stat.contains(") Z ")
    })
}

/// A number of seconds to sleep that nothing else on this machine sleeps.
fn marker(which: u32) -> String {
    format!("{}.{which}", 70_000 + std::process::id())
}

#[test]
fn leftovers_go_after_a_normal_exit() {
    let _shared = PROGRAM.read().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::new();
    for (which, way) in
        ["sleep M &", "setsid sleep M & sleep 0.1", "(setsid sleep M &) ; sleep 0.1", "nohup sleep M >/dev/null 2>&1 &"]
            .into_iter()
            .enumerate()
    {
        let marker = marker(which as u32);
        let job = script(&format!(
            "{} exit 5",
            way.replace('M', &marker).trim_end_matches('&').to_owned() + if way.ends_with('&') { "&" } else { ";" }
        ));
        let id = job.id;
        machine.runtime.start(job);
        let (_, end) = machine.reported.ended(id);
        assert_eq!((end.outcome, end.exit_code), (TaskEnd::Failed, Some(5)), "{way}: {end:?}");
        assert!(!lives(&marker), "{way}");
    }
}

#[test]
fn a_cancelled_tree_is_gone_as_a_whole_double_forks_too() {
    let _shared = PROGRAM.read().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::new();
    let marker = marker(10);
    let text = format!(
        "trap '' TERM; (setsid sh -c \"trap '' TERM; sleep {marker}; sleep {marker}\" &); \
         setsid setsid sleep {marker} & sleep {marker} & echo up; while :; do sleep 0.05; done"
    );
    let job = script(&text);
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |story| story.text().contains("up"));
    let begun = std::time::Instant::now();
    while !lives(&marker) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    machine.runtime.end(id, Cause::Cancel, Duration::from_millis(100));
    let (_, end) = machine.reported.ended(id);
    assert_eq!((end.outcome, end.signal), (TaskEnd::Cancelled, Some(9)));
    assert!(!lives(&marker));
}

#[test]
fn a_fork_loop_does_not_escape() {
    let _shared = PROGRAM.read().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::new();
    let marker = marker(20);
    let job = script(&format!("echo up; while :; do setsid sleep {marker} & sleep 0.01; done"));
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.until(id, |story| story.text().contains("up"));
    std::thread::sleep(Duration::from_millis(300));
    machine.runtime.end(id, Cause::Cancel, Duration::ZERO);
    machine.reported.ended(id);
    assert!(!lives(&marker));
}

#[test]
fn who_hides_its_marks_is_found_when_nobody_else_runs() {
    let _alone = PROGRAM.write().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::with(|options| options.exclusive = true);
    let marker = marker(30);
    let job = script(&format!("(env -i setsid sleep {marker} >/dev/null 2>&1 &); sleep 0.2"));
    let id = job.id;
    machine.runtime.start(job);
    machine.reported.ended(id);
    assert!(!lives(&marker));
}

/// No environment, session or parent tells whose they are; where they work and what they write to does.
#[test]
fn who_hides_its_marks_goes_with_its_attempt_while_others_run() {
    let _shared = PROGRAM.read().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::new();
    let stays = marker(50);
    let other = script(&format!("(env -i setsid sleep {stays} &); echo up; sleep 600"));
    let other_id = other.id;
    machine.runtime.start(other);
    machine.reported.until(other_id, |story| story.text().contains("up"));
    for (which, way) in [
        "(env -i setsid sh -c 'sleep M &' &) ; sleep 0.2",
        "(env -i setsid sleep M >/dev/null 2>&1 &) ; sleep 0.2",
        "(cd / && env -i setsid sleep M &) ; sleep 0.2",
    ]
    .into_iter()
    .enumerate()
    {
        let marker = marker(51 + which as u32);
        let job = script(&way.replace('M', &marker));
        let id = job.id;
        machine.runtime.start(job);
        machine.reported.ended(id);
        assert!(!lives(&marker), "{way}");
    }
    assert!(lives(&stays), "that of another goes on");
    machine.runtime.end(other_id, Cause::Cancel, Duration::ZERO);
    machine.reported.ended(other_id);
    assert!(!lives(&stays));
}

#[test]
fn one_attempt_leaves_the_processes_of_another_alone() {
    let _shared = PROGRAM.read().unwrap_or_else(PoisonError::into_inner);
    let machine = Machine::new();
    let stays = marker(40);
    let other = script(&format!("(setsid sleep {stays} &); echo up; sleep 600"));
    let other_id = other.id;
    machine.runtime.start(other);
    machine.reported.until(other_id, |story| story.text().contains("up"));
    for _ in 0..3 {
        let job = script("setsid sleep 500 & exit 0");
        let id = job.id;
        machine.runtime.start(job);
        machine.reported.ended(id);
    }
    assert!(lives(&stays));
    machine.runtime.end(other_id, Cause::Cancel, Duration::ZERO);
    machine.reported.ended(other_id);
    assert!(!lives(&stays));
}
