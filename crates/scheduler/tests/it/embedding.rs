//! The calls of a program that holds the scheduler itself do what the events do, and say what these leave to be looked for.

use std::sync::Arc;

use orlop_core::machine::worker::WorkerState;
use orlop_scheduler::prelude::*;

const GIB: u64 = 1 << 30;

fn scheduler() -> Scheduler {
    Scheduler::new(Config::without_timeouts(), 3).unwrap()
}

fn tenant() -> TenantName {
    "physics".parse().unwrap()
}

fn job(number: u64) -> Submission {
    Submission::new(JobId::from_u64(number), Demand::new(tenant()))
}

fn offer() -> Capabilities {
    Capabilities::new(4000, 8 * GIB)
}

fn written(scheduler: &Scheduler) -> String {
    serde_json::to_string(&scheduler.snapshot()).unwrap()
}

#[test]
fn a_submit_does_what_its_event_does_and_says_what_came_of_it() {
    let (mut by_call, mut by_event) = (scheduler(), scheduler());
    let (mut calls, mut events) = (Vec::new(), Vec::new());
    let quota = Event::QuotaChanged { tenant: tenant(), quota: Quota::default().max_active_jobs(5) };
    by_call.apply(1, quota.clone(), &mut calls).unwrap();
    by_event.apply(1, quota, &mut events).unwrap();
    let mut urgent = Demand::new(tenant());
    urgent.priority = Priority(12);
    let submissions = [
        job(1),
        job(2).not_before(500).queue_timeout(1000),
        job(3).array(ArraySpec::range(0, 2).max_parallel(1).max_failures(1)),
        job(4),
        job(1),
        Submission::new(JobId::from_u64(5), urgent),
        job(6).array(ArraySpec::range(0, 2).max_parallel(0)),
    ];
    let mut answers = Vec::new();
    for (now, submission) in (2..).zip(submissions) {
        let id = submission.job;
        let answer = by_call.submit(now, submission.clone(), &mut calls);
        let taken = by_event.apply(now, submission.into(), &mut events);
        match &answer {
            Ok(_) => assert_eq!(taken, Ok(())),
            Err(SubmitError::NotTaken(error)) => assert_eq!(taken.as_ref(), Err(error)),
            // The one thing in which they differ: the event is taken, and leaves word of the refusal.
            Err(SubmitError::Refused(reason)) => {
                assert_eq!(taken, Ok(()));
                assert_eq!(events.pop(), Some(Effect::Refused { job: id, reason: *reason }));
            }
        }
        answers.push(answer.map_or_else(|error| error.to_string(), |admitted| admitted.elements.to_string()));
    }
    insta::assert_snapshot!(answers.join("\n"), @"
    1
    1
    3
    the limit of active jobs is reached: 6 of 5; wait for some to end
    job j0000000000001 exists already; every submit needs a new id
    job j0000000000005: priority is 12; use 0 to 9
    job j0000000000006: an array whose `max_parallel` is 0 runs nothing; use 1 or more, or leave it out
    ");
    assert_eq!((calls, written(&by_call)), (events, written(&by_event)));
}

#[test]
fn a_worker_that_joins_is_one_that_was_declared_registered_and_connected() {
    let (mut by_call, mut by_events) = (scheduler(), scheduler());
    let (mut calls, mut events) = (Vec::new(), Vec::new());
    let key = by_call.join(7, "w1".parse().unwrap(), offer(), &mut calls).unwrap();
    let id: WorkerId = "w1".parse().unwrap();
    by_events.apply(7, Event::WorkerDeclared { id: id.clone() }, &mut events).unwrap();
    let worker = by_events.worker_key(&id).unwrap();
    by_events.apply(7, Event::Registered { worker, capabilities: Arc::new(offer()) }, &mut events).unwrap();
    by_events.apply(7, Event::Connected { worker, kept: vec![] }, &mut events).unwrap();
    assert_eq!((key, &calls, written(&by_call)), (worker, &events, written(&by_events)));
    assert_eq!(by_call.worker_view(key).unwrap().state, WorkerState::Available);
}

#[test]
fn a_worker_that_may_not_join_leaves_nothing_behind() {
    let (mut scheduler, mut effects) = (scheduler(), Vec::new());
    let many = (0..13).fold(offer(), |offer, number| offer.extra(format!("x{number:02}"), 1));
    scheduler.join(0, "w1".parse().unwrap(), many, &mut effects).unwrap();
    effects.clear();
    let before = written(&scheduler);
    let mut refused = |id: &str, offer: Capabilities| {
        let error = scheduler.join(0, id.parse().unwrap(), offer, &mut effects).unwrap_err();
        assert_eq!((written(&scheduler), effects.len()), (before.clone(), 0), "{id}");
        error.to_string()
    };
    let refusals = [
        refused("w1", offer()),
        refused("w2", offer().extra("x13", 1)),
        refused("w2", Capabilities::new(0, GIB)),
        refused("w2", offer().max_jobs(0)),
        refused("w2", offer().runtimes([])),
        refused("w2", Capabilities { cpu_m: 1000, ..Capabilities::default() }),
    ];
    insta::assert_snapshot!(refusals.join("\n"), @"
    worker `w1` has a live incarnation; remove that one first
    worker `w2`: no column is left for `x13`: the fleet has 13 kinds of GPUs and extras; advertise fewer
    worker `w2`: `cpu_m` is 0, so that no job fits; offer 1 or more
    worker `w2`: `max_jobs` is 0, so that no job fits; offer 1 or more
    worker `w2`: `runtimes` is empty, so that no job fits; offer at least one, for example Process
    worker `w2`: `max_jobs` is 0, so that no job fits; offer 1 or more
    ");
    scheduler.join(0, "w2".parse().unwrap(), offer(), &mut effects).unwrap();
}

/// All jobs end, by rounds and ends alone, whatever time passes in between.
#[test]
fn without_time_limits_silence_changes_nothing() {
    let (mut scheduler, mut effects) = (scheduler(), Vec::new());
    scheduler.join(0, "w1".parse().unwrap(), offer(), &mut effects).unwrap();
    for number in 1..=10 {
        scheduler.submit(0, job(number), &mut effects).unwrap();
    }
    let (mut now, mut ended) = (0, Vec::new());
    // One attempt runs all the time: what is noted of those after it must not gather behind it.
    let (mut first, mut sizes) = (None, Vec::new());
    while ended.len() < 9 {
        effects.clear();
        let _ = scheduler.round(now, u32::MAX, &mut effects);
        let placed: Vec<Placement> = effects.iter().filter_map(Effect::placement).collect();
        assert!(!placed.is_empty(), "at {now}, after {ended:?}");
        now += u64::from(u32::MAX) * 1000;
        for placement in placed {
            if *first.get_or_insert(placement) == placement {
                continue;
            }
            let verdict = scheduler.finish(now, placement, Outcome::Succeeded, &mut effects).unwrap();
            assert_eq!(verdict, ReportVerdict::Accepted);
            ended.push(placement.attempt.job.as_u64());
        }
        sizes.push(written(&scheduler).len());
    }
    assert!(sizes.iter().all(|size| *size < sizes[0] * 2), "{sizes:?}");
    let verdict = scheduler.finish(now, first.unwrap(), Outcome::Succeeded, &mut effects).unwrap();
    assert_eq!(verdict, ReportVerdict::Accepted);
    assert!(scheduler.round(now + 100_000, u32::MAX, &mut effects).placed == 0);
    assert_eq!(scheduler.next_deadline(), None, "nothing waits, and nothing is waited for");
    let states = (1..=10).map(|number| scheduler.job(JobId::from_u64(number), None).unwrap().state);
    assert!(states.into_iter().all(|state| state == JobState::Completed));
}

#[test]
fn what_is_said_of_a_placement_counts_as_events_do() {
    let (mut scheduler, mut effects) = (scheduler(), Vec::new());
    let worker = scheduler.join(0, "w1".parse().unwrap(), offer(), &mut effects).unwrap();
    let mut demand = Demand::new(tenant());
    demand.retries = 1;
    scheduler.submit(0, Submission::new(JobId::from_u64(1), demand), &mut effects).unwrap();
    let _ = scheduler.round(0, u32::MAX, &mut effects);
    let placement = effects.iter().find_map(Effect::placement).unwrap();
    assert_eq!((placement.worker, placement.start), (worker, StartMode::Now));
    scheduler.apply(1, placement.started(), &mut effects).unwrap();
    assert_eq!(scheduler.job(JobId::from_u64(1), None).unwrap().state, JobState::Running);
    scheduler.apply(2, placement.ended(Outcome::Failed { exit_code: Some(1) }), &mut effects).unwrap();
    // It is tried again, as another attempt; what is said of the first one is old by then.
    let now = scheduler.next_deadline().unwrap();
    effects.clear();
    let _ = scheduler.round(now, u32::MAX, &mut effects);
    let again = effects.iter().find_map(Effect::placement).unwrap();
    assert_eq!((again.attempt.attempt, again.attempt.job), (2, placement.attempt.job));
    let old = scheduler.finish(now, placement, Outcome::Succeeded, &mut effects).unwrap();
    assert!(!old.counts(), "{old}");
    assert!(scheduler.finish(now, again, Outcome::Succeeded, &mut effects).unwrap().counts());
}
