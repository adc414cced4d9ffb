//! What messages of members of a gang are worth once their attempt has ended.

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::task::TaskRef;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::effect::{CancelReason, Effect, Limit, Refusal};
use crate::engine::Scheduler;
use crate::event::{Capabilities, Departure, Event, GpuDevices, Kept, Outcome, Quota, StartWindow};
use crate::job::{Demand, Gang, GpuKind};
use crate::token::WorkerKey;

/// A gang of three whose first attempt ended: member 0 succeeded, member 1 failed, member 2 never answered.
fn ended_gang() -> (Fixture, Vec<TaskRef>, WorkerKey) {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(3000));
    let other = fixture.worker("w2", Capabilities { max_jobs: 1, ..offer(1000) });
    let gang = Gang { size: 3, max_per_worker: Some(2), same_label: None };
    let mut job = Demand { gang: Some(gang), ..spec(1000) };
    (job.retries, job.retry.jitter_milli) = (3, 0);
    fixture.submit(1, job);
    let sent = fixture.round();
    sent.iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
    assert_eq!(sent.iter().map(|(_, on)| *on).collect::<Vec<_>>(), [worker, worker, other]);
    assert_eq!(fixture.result(sent[0].0, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    assert_eq!(fixture.result(sent[1].0, worker, Outcome::Failed { exit_code: Some(1) }), ReportVerdict::Accepted);
    fixture.must(Event::Remove { worker: other, why: Departure::Removed });
    assert_eq!(fixture.state(1), JobState::Backoff);
    (fixture, sent.into_iter().map(|(attempt, _)| attempt).collect(), worker)
}

#[test]
fn old_members_of_a_gang_are_answered_by_what_they_had_said_before() {
    let (mut fixture, old, worker) = ended_gang();
    fixture.worker("w3", offer(1000));
    let expected = [ReportVerdict::Duplicate, ReportVerdict::Duplicate, ReportVerdict::Stale];
    let judge = |fixture: &mut Fixture, when: &str| {
        for (attempt, expected) in old.iter().zip(expected) {
            assert_eq!(
                fixture.result(*attempt, worker, Outcome::Succeeded),
                expected,
                "member {} {when}",
                attempt.member
            );
        }
    };
    judge(&mut fixture, "before the next attempt");
    fixture.now += 1000;
    let next = fixture.round();
    assert_eq!((next.len(), next[0].0.attempt), (3, 2));
    judge(&mut fixture, "beside the next attempt");
    for (attempt, worker) in &next {
        assert_eq!(fixture.result(*attempt, *worker, Outcome::Succeeded), ReportVerdict::Accepted);
    }
    assert_eq!(fixture.state(1), JobState::Completed);
    judge(&mut fixture, "after the end");
    // Of the newest attempt every member has its answer.
    assert_eq!(fixture.result(next[1].0, worker, Outcome::TimedOut), ReportVerdict::Duplicate);
    let beyond = TaskRef { member: 3, ..old[0] };
    assert_eq!(fixture.result(beyond, worker, Outcome::Succeeded), ReportVerdict::Unknown, "it has three members");
}

#[test]
fn old_members_that_still_run_are_killed_and_change_nothing() {
    let (mut fixture, old, worker) = ended_gang();
    for attempt in old {
        fixture.effects.clear();
        fixture.must(Event::Started { attempt, worker });
        let expected = if attempt.member < 2 { ReportVerdict::Duplicate } else { ReportVerdict::Stale };
        assert_eq!(fixture.verdict(), expected);
        let killed = fixture.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. }));
        assert_eq!((killed, fixture.state(1)), (expected.kills(), JobState::Backoff));
    }
}

#[test]
fn what_old_members_said_survives_a_snapshot_and_goes_with_the_job() {
    let (mut fixture, old, worker) = ended_gang();
    fixture.worker("w3", offer(1000));
    fixture.now += 1000;
    fixture.round();
    let text = serde_json::to_string(&fixture.scheduler.snapshot()).unwrap();
    let config = Config { finished_kept: 0, ..Config::default() };
    fixture.scheduler = Scheduler::restore(serde_json::from_str(&text).unwrap(), config).unwrap();
    assert_eq!(fixture.result(old[1], worker, Outcome::Succeeded), ReportVerdict::Duplicate);
    fixture.must(Event::Cancel { job: id(1), elements: None });
    for member in 0..3 {
        let attempt = TaskRef { attempt: 2, member, ..old[0] };
        for worker in fixture.scheduler.worker_keys().collect::<Vec<_>>() {
            fixture.apply(Event::Revoked { attempt, worker }).ok();
        }
    }
    assert!(fixture.scheduler.job(id(1), None).is_none(), "it is forgotten");
    assert_eq!(fixture.result(old[1], worker, Outcome::Succeeded), ReportVerdict::Unknown);
    assert!(
        !serde_json::to_string(&fixture.scheduler.snapshot()).unwrap().contains("\"past_members\":[["),
        "so is what it said"
    );
}

/// A gang of two that runs, on one worker or on two.
fn running_gang(workers: &[u64]) -> (Fixture, Vec<(TaskRef, WorkerKey)>) {
    let mut fixture = Fixture::new(Config::default());
    for (at, cpu_m) in workers.iter().enumerate() {
        fixture.worker(&format!("w{at}"), offer(*cpu_m));
    }
    let gang = Gang { size: 2, max_per_worker: None, same_label: None };
    fixture.submit(1, Demand { gang: Some(gang), ..spec(1000) });
    let sent = fixture.round();
    sent.iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
    (fixture, sent)
}

/// A worker comes back and says what it has.
fn returns(fixture: &mut Fixture, worker: WorkerKey, kept: &[(TaskRef, bool)]) {
    fixture.effects.clear();
    let kept = kept.iter().map(|(attempt, started)| Kept { attempt: *attempt, started: *started }).collect();
    fixture.must(Event::Connected { worker, kept });
}

fn reported(fixture: &Fixture, why: CancelReason) -> bool {
    fixture.effects.iter().any(|effect| matches!(effect, Effect::Cancel { why: reported, .. } if *reported == why))
}

/// Silence for so long that what runs is given up.
fn be_silent(fixture: &mut Fixture) {
    fixture.wait(15_000);
    fixture.wait(15_000);
}

#[test]
fn a_gang_that_comes_back_whole_is_adopted() {
    let (mut fixture, sent) = running_gang(&[2000]);
    let worker = sent[0].1;
    fixture.effects.clear();
    be_silent(&mut fixture);
    assert_eq!(fixture.state(1), JobState::Queued);
    assert!(!reported(&fixture, CancelReason::Gang), "who may yet come back is not asked to end");
    returns(&mut fixture, worker, &[(sent[0].0, true), (sent[1].0, true)]);
    for (attempt, _) in &sent {
        assert_eq!(fixture.verdict_of(*attempt), ReportVerdict::Adopted);
    }
    assert_eq!(fixture.state(1), JobState::Running);
    assert_eq!(fixture.starts(), [0_u64; 0], "it runs already");
    assert_eq!(fixture.result(sent[0].0, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    assert_eq!(fixture.result(sent[0].0, worker, Outcome::Succeeded), ReportVerdict::Duplicate);
    assert_eq!(fixture.state(1), JobState::Running, "one outcome, with the last member");
    assert_eq!(fixture.result(sent[1].0, worker, Outcome::Succeeded), ReportVerdict::Accepted);
    assert_eq!(fixture.state(1), JobState::Completed);
}

#[test]
fn members_that_succeeded_before_need_not_come_back() {
    let (mut fixture, sent) = running_gang(&[2000]);
    let worker = sent[0].1;
    fixture.result(sent[1].0, worker, Outcome::Succeeded);
    be_silent(&mut fixture);
    returns(&mut fixture, worker, &[(sent[0].0, true)]);
    assert_eq!((fixture.verdict_of(sent[0].0), fixture.state(1)), (ReportVerdict::Adopted, JobState::Running));
    fixture.result(sent[0].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.state(1), JobState::Completed);
}

/// What is left of a gang is killed, and the gang starts again as a whole.
fn starts_again(mut fixture: Fixture, sent: &[(TaskRef, WorkerKey)], why: &str) {
    for (attempt, worker) in sent {
        assert!(matches!(fixture.result(*attempt, *worker, Outcome::Cancelled), ReportVerdict::Stale), "{why}");
    }
    let again: Vec<u32> = fixture.round().into_iter().map(|(attempt, _)| attempt.attempt).collect();
    assert_eq!(again, [2, 2], "{why}");
}

#[test]
fn a_gang_of_which_a_member_is_missing_or_has_not_started_is_not_adopted() {
    for (kept, why) in [(vec![true], "one is missing"), (vec![true, false], "one has not started")] {
        let (mut fixture, sent) = running_gang(&[2000]);
        be_silent(&mut fixture);
        let kept: Vec<_> = sent.iter().zip(kept).map(|((attempt, _), started)| (*attempt, started)).collect();
        returns(&mut fixture, sent[0].1, &kept);
        for (attempt, _) in &kept {
            assert_eq!(fixture.verdict_of(*attempt), ReportVerdict::Stale, "{why}");
        }
        assert_eq!(fixture.state(1), JobState::Queued);
        assert!(reported(&fixture, CancelReason::Stale), "what still runs of it is killed: {why}");
        starts_again(fixture, &sent[..kept.len()], why);
    }
}

/// A member that is given up has failed, so its fellow elsewhere is told to end: nothing whole is left.
#[test]
fn a_gang_that_lost_a_member_has_ended_and_starts_again_as_a_whole() {
    let (mut fixture, sent) = running_gang(&[1000, 1000]);
    let ((lost, silent), (fellow, heard)) = (sent[0], sent[1]);
    fixture.effects.clear();
    for _ in 0..2 {
        fixture.now += 14_000;
        fixture.must(Event::Heartbeat { worker: heard });
    }
    fixture.wait(2000);
    assert!(reported(&fixture, CancelReason::Gang) && fixture.state(1) == JobState::Running);
    fixture.result(fellow, heard, Outcome::Cancelled);
    assert_eq!(fixture.state(1), JobState::Queued);
    returns(&mut fixture, silent, &[(lost, true)]);
    assert_eq!(fixture.verdict_of(lost), ReportVerdict::Stale);
    assert!(reported(&fixture, CancelReason::Stale), "what still runs of it is killed");
    assert_eq!(fixture.starts(), [0_u64; 0], "it holds its capacity until then");
    starts_again(fixture, &[(lost, silent)], "its fellow has ended");
}

/// Each of two workers has half of it: none brings it back whole, and what waits is told so after a restart as well.
#[test]
fn a_gang_that_was_given_up_on_two_workers_is_not_adopted() {
    let (mut fixture, sent) = running_gang(&[1000, 1000]);
    be_silent(&mut fixture);
    let row = fixture.scheduler.task_row(id(1), None).unwrap();
    assert_eq!((row.state, row.lost, row.gang.map(|gang| gang.broken)), (JobState::Queued, false, Some(true)));
    for (attempt, worker) in &sent {
        returns(&mut fixture, *worker, &[(*attempt, true)]);
        assert_eq!(fixture.verdict_of(*attempt), ReportVerdict::Stale);
        assert!(reported(&fixture, CancelReason::Stale), "what still runs of it is killed");
    }
    starts_again(fixture, &sent, "both have ended");
}

#[test]
fn a_gang_is_adopted_if_the_limits_allow_all_of_it_and_nothing_newer_was_issued() {
    let quota = |max_running_jobs| Event::QuotaChanged {
        tenant: "t".parse().unwrap(),
        quota: Quota { max_running_jobs: Some(max_running_jobs), ..Quota::default() },
    };
    for (most, verdict) in [(1, ReportVerdict::Stale), (2, ReportVerdict::Adopted)] {
        let (mut fixture, sent) = running_gang(&[2000]);
        be_silent(&mut fixture);
        fixture.must(quota(most));
        returns(&mut fixture, sent[0].1, &[(sent[0].0, true), (sent[1].0, true)]);
        assert_eq!(fixture.verdict_of(sent[1].0), verdict, "at most {most}");
        let charged = fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap().running;
        assert_eq!(charged, if most == 2 { 2 } else { 0 });
    }
    let (mut fixture, sent) = running_gang(&[2000]);
    be_silent(&mut fixture);
    fixture.worker("w9", offer(2000));
    assert_eq!(fixture.starts(), [1, 1]);
    returns(&mut fixture, sent[0].1, &[(sent[0].0, true), (sent[1].0, true)]);
    assert_eq!(fixture.verdict_of(sent[0].0), ReportVerdict::Stale, "it runs elsewhere by now");
}

#[test]
fn a_gang_comes_back_whole_over_a_snapshot_as_well() {
    let (mut fixture, sent) = running_gang(&[2000]);
    be_silent(&mut fixture);
    let text = serde_json::to_string(&fixture.scheduler.snapshot()).unwrap();
    fixture.scheduler = Scheduler::restore(serde_json::from_str(&text).unwrap(), Config::default()).unwrap();
    returns(&mut fixture, sent[0].1, &[(sent[1].0, true), (sent[0].0, true)]);
    assert_eq!(fixture.state(1), JobState::Running);
}

/// Members may get different kinds of GPUs, but a limit by kind has to allow all of them that kind.
#[test]
fn a_limit_by_kind_of_gpu_counts_all_members_of_a_gang() {
    let model = |name: &str| orlop_core::hardware::gpu::ModelKey::new(name).unwrap();
    let vendor = orlop_core::hardware::gpu::Vendor::Nvidia;
    let devices = |name| GpuDevices { vendor, model: model(name), memory_bytes: 40 << 30, count: 2 };
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", Capabilities { gpus: vec![devices("a100")], ..offer(8000) });
    fixture.worker("w2", Capabilities { gpus: vec![devices("h100")], ..offer(8000) });
    let limit = |most| Event::QuotaChanged {
        tenant: "t".parse().unwrap(),
        quota: Quota { max_gpus_by_kind: [(model("a100"), most), (model("h100"), most)].into(), ..Quota::default() },
    };
    let kind = |name| GpuKind { vendor, model: Some(model(name)), memory_min: None };
    let gang = Gang { size: 4, max_per_worker: None, same_label: None };
    let mut job = Demand { gang: Some(gang), ..spec(1000) };
    (job.resources.gpus.count, job.resources.gpus.any_of) = (1, vec![kind("a100"), kind("h100")]);
    fixture.must(limit(3));
    fixture.effects.clear();
    fixture.must(Event::Submit { job: id(1), spec: job.clone().into(), gate: StartWindow::default() });
    let never = Refusal::NeverFits { what: Limit::GpusByKind, asked: 4, limit: 3 };
    let refused =
        fixture.effects.iter().any(|effect| matches!(effect, Effect::Refused { reason, .. } if *reason == never));
    assert!(refused, "{:?}", fixture.effects);
    fixture.must(limit(4));
    fixture.submit(1, job);
    fixture.must(limit(3));
    assert_eq!(fixture.starts(), [0_u64; 0]);
    fixture.must(limit(4));
    assert_eq!(fixture.starts(), [1; 4], "two of each kind");
}
