//! What messages of members of a gang are worth once their attempt has ended.

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::Verdict;
use orlop_core::task::TaskRef;

use super::bed::{Bed, id, offer, spec};
use crate::config::Config;
use crate::effect::{CancelReason, Effect, Limit, Refusal};
use crate::engine::Scheduler;
use crate::event::{Capabilities, Departure, Event, Gate, GpuDevices, Kept, Outcome, Quota};
use crate::job::{Demand, Gang, GpuKind};
use crate::token::WorkerKey;

/// A gang of three whose first attempt ended: member 0 succeeded, member 1 failed, member 2 never answered.
fn ended_gang() -> (Bed, Vec<TaskRef>, WorkerKey) {
    let mut bed = Bed::new(Config::default());
    let worker = bed.worker("w1", offer(3000));
    let other = bed.worker("w2", Capabilities { max_jobs: 1, ..offer(1000) });
    let gang = Gang { size: 3, max_per_worker: Some(2), same_label: None };
    let mut job = Demand { gang: Some(gang), ..spec(1000) };
    (job.retries, job.retry.jitter_milli) = (3, 0);
    bed.submit(1, job);
    let sent = bed.round();
    sent.iter().for_each(|(attempt, worker)| bed.start(*attempt, *worker));
    assert_eq!(sent.iter().map(|(_, on)| *on).collect::<Vec<_>>(), [worker, worker, other]);
    assert_eq!(bed.result(sent[0].0, worker, Outcome::Succeeded), Verdict::Accepted);
    assert_eq!(bed.result(sent[1].0, worker, Outcome::Failed { exit_code: Some(1) }), Verdict::Accepted);
    bed.must(Event::Remove { worker: other, why: Departure::Removed });
    assert_eq!(bed.state(1), JobState::Backoff);
    (bed, sent.into_iter().map(|(attempt, _)| attempt).collect(), worker)
}

#[test]
pub(super) fn old_members_of_a_gang_are_answered_by_what_they_had_said_before() {
    let (mut bed, old, worker) = ended_gang();
    bed.worker("w3", offer(1000));
    let expected = [Verdict::Duplicate, Verdict::Duplicate, Verdict::Stale];
    let judge = |bed: &mut Bed, when: &str| {
        for (attempt, expected) in old.iter().zip(expected) {
            assert_eq!(bed.result(*attempt, worker, Outcome::Succeeded), expected, "member {} {when}", attempt.member);
        }
    };
    judge(&mut bed, "before the next attempt");
    bed.now += 1000;
    let next = bed.round();
    assert_eq!((next.len(), next[0].0.attempt), (3, 2));
    judge(&mut bed, "beside the next attempt");
    for (attempt, worker) in &next {
        assert_eq!(bed.result(*attempt, *worker, Outcome::Succeeded), Verdict::Accepted);
    }
    assert_eq!(bed.state(1), JobState::Completed);
    judge(&mut bed, "after the end");
    // Of the newest attempt every member has its answer.
    assert_eq!(bed.result(next[1].0, worker, Outcome::TimedOut), Verdict::Duplicate);
    let beyond = TaskRef { member: 3, ..old[0] };
    assert_eq!(bed.result(beyond, worker, Outcome::Succeeded), Verdict::Unknown, "it has three members");
}

#[test]
pub(super) fn old_members_that_still_run_are_killed_and_change_nothing() {
    let (mut bed, old, worker) = ended_gang();
    for attempt in old {
        bed.effects.clear();
        bed.must(Event::Started { attempt, worker });
        let expected = if attempt.member < 2 { Verdict::Duplicate } else { Verdict::Stale };
        assert_eq!(bed.verdict(), expected);
        let killed = bed.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. }));
        assert_eq!((killed, bed.state(1)), (expected.kills(), JobState::Backoff));
    }
}

#[test]
pub(super) fn what_old_members_said_survives_a_snapshot_and_goes_with_the_job() {
    let (mut bed, old, worker) = ended_gang();
    bed.worker("w3", offer(1000));
    bed.now += 1000;
    bed.round();
    let text = serde_json::to_string(&bed.scheduler.snapshot()).unwrap();
    let config = Config { finished_kept: 0, ..Config::default() };
    bed.scheduler = Scheduler::restore(serde_json::from_str(&text).unwrap(), config).unwrap();
    assert_eq!(bed.result(old[1], worker, Outcome::Succeeded), Verdict::Duplicate);
    bed.must(Event::Cancel { job: id(1), elements: None });
    for member in 0..3 {
        let attempt = TaskRef { attempt: 2, member, ..old[0] };
        for worker in bed.scheduler.worker_keys().collect::<Vec<_>>() {
            bed.apply(Event::Revoked { attempt, worker }).ok();
        }
    }
    assert!(bed.scheduler.job(id(1), None).is_none(), "it is forgotten");
    assert_eq!(bed.result(old[1], worker, Outcome::Succeeded), Verdict::Unknown);
    assert!(
        !serde_json::to_string(&bed.scheduler.snapshot()).unwrap().contains("\"past_members\":[["),
        "so is what it said"
    );
}

/// A gang of two that runs, on one worker or on two.
fn running_gang(workers: &[u64]) -> (Bed, Vec<(TaskRef, WorkerKey)>) {
    let mut bed = Bed::new(Config::default());
    for (at, cpu_m) in workers.iter().enumerate() {
        bed.worker(&format!("w{at}"), offer(*cpu_m));
    }
    let gang = Gang { size: 2, max_per_worker: None, same_label: None };
    bed.submit(1, Demand { gang: Some(gang), ..spec(1000) });
    let sent = bed.round();
    sent.iter().for_each(|(attempt, worker)| bed.start(*attempt, *worker));
    (bed, sent)
}

/// A worker comes back and says what it has.
fn returns(bed: &mut Bed, worker: WorkerKey, kept: &[(TaskRef, bool)]) {
    bed.effects.clear();
    let kept = kept.iter().map(|(attempt, started)| Kept { attempt: *attempt, started: *started }).collect();
    bed.must(Event::Connected { worker, kept });
}

fn told(bed: &Bed, why: CancelReason) -> bool {
    bed.effects.iter().any(|effect| matches!(effect, Effect::Cancel { why: told, .. } if *told == why))
}

/// Silence for so long that what runs is given up.
fn be_silent(bed: &mut Bed) {
    bed.wait(15_000);
    bed.wait(15_000);
}

#[test]
pub(super) fn a_gang_that_comes_back_whole_is_adopted() {
    let (mut bed, sent) = running_gang(&[2000]);
    let worker = sent[0].1;
    bed.effects.clear();
    be_silent(&mut bed);
    assert_eq!(bed.state(1), JobState::Queued);
    assert!(!told(&bed, CancelReason::Gang), "nobody is told to end who may yet come back");
    returns(&mut bed, worker, &[(sent[0].0, true), (sent[1].0, true)]);
    for (attempt, _) in &sent {
        assert_eq!(bed.verdict_of(*attempt), Verdict::Adopted);
    }
    assert_eq!(bed.state(1), JobState::Running);
    assert_eq!(bed.starts(), [0_u64; 0], "it runs already");
    assert_eq!(bed.result(sent[0].0, worker, Outcome::Succeeded), Verdict::Accepted);
    assert_eq!(bed.result(sent[0].0, worker, Outcome::Succeeded), Verdict::Duplicate);
    assert_eq!(bed.state(1), JobState::Running, "one outcome, with the last member");
    assert_eq!(bed.result(sent[1].0, worker, Outcome::Succeeded), Verdict::Accepted);
    assert_eq!(bed.state(1), JobState::Completed);
}

#[test]
pub(super) fn members_that_succeeded_before_need_not_come_back() {
    let (mut bed, sent) = running_gang(&[2000]);
    let worker = sent[0].1;
    bed.result(sent[1].0, worker, Outcome::Succeeded);
    be_silent(&mut bed);
    returns(&mut bed, worker, &[(sent[0].0, true)]);
    assert_eq!((bed.verdict_of(sent[0].0), bed.state(1)), (Verdict::Adopted, JobState::Running));
    bed.result(sent[0].0, worker, Outcome::Succeeded);
    assert_eq!(bed.state(1), JobState::Completed);
}

/// What is left of a gang is killed, and the gang starts again as a whole.
fn starts_again(mut bed: Bed, sent: &[(TaskRef, WorkerKey)], why: &str) {
    for (attempt, worker) in sent {
        assert!(matches!(bed.result(*attempt, *worker, Outcome::Cancelled), Verdict::Stale), "{why}");
    }
    let again: Vec<u32> = bed.round().into_iter().map(|(attempt, _)| attempt.attempt).collect();
    assert_eq!(again, [2, 2], "{why}");
}

#[test]
pub(super) fn a_gang_of_which_a_member_is_missing_or_has_not_started_is_not_adopted() {
    for (kept, why) in [(vec![true], "one is missing"), (vec![true, false], "one has not started")] {
        let (mut bed, sent) = running_gang(&[2000]);
        be_silent(&mut bed);
        let kept: Vec<_> = sent.iter().zip(kept).map(|((attempt, _), started)| (*attempt, started)).collect();
        returns(&mut bed, sent[0].1, &kept);
        for (attempt, _) in &kept {
            assert_eq!(bed.verdict_of(*attempt), Verdict::Stale, "{why}");
        }
        assert_eq!(bed.state(1), JobState::Queued);
        assert!(told(&bed, CancelReason::Stale), "what still runs of it is killed: {why}");
        starts_again(bed, &sent[..kept.len()], why);
    }
}

/// A member that is given up has failed, so its fellow elsewhere is told to end: nothing whole is left.
#[test]
pub(super) fn a_gang_that_lost_a_member_has_ended_and_starts_again_as_a_whole() {
    let (mut bed, sent) = running_gang(&[1000, 1000]);
    let ((lost, silent), (fellow, heard)) = (sent[0], sent[1]);
    bed.effects.clear();
    for _ in 0..2 {
        bed.now += 14_000;
        bed.must(Event::Heartbeat { worker: heard });
    }
    bed.wait(2000);
    assert!(told(&bed, CancelReason::Gang) && bed.state(1) == JobState::Running);
    bed.result(fellow, heard, Outcome::Cancelled);
    assert_eq!(bed.state(1), JobState::Queued);
    returns(&mut bed, silent, &[(lost, true)]);
    assert_eq!(bed.verdict_of(lost), Verdict::Stale);
    assert!(told(&bed, CancelReason::Stale), "what still runs of it is killed");
    assert_eq!(bed.starts(), [0_u64; 0], "it holds its capacity until then");
    starts_again(bed, &[(lost, silent)], "its fellow has ended");
}

/// Each of two workers has half of it: none brings it back whole, and what waits is told so after a restart as well.
#[test]
pub(super) fn a_gang_that_was_given_up_on_two_workers_is_not_adopted() {
    let (mut bed, sent) = running_gang(&[1000, 1000]);
    be_silent(&mut bed);
    let row = bed.scheduler.unit_row(id(1), None).unwrap();
    assert_eq!((row.state, row.lost, row.gang.map(|gang| gang.broken)), (JobState::Queued, false, Some(true)));
    for (attempt, worker) in &sent {
        returns(&mut bed, *worker, &[(*attempt, true)]);
        assert_eq!(bed.verdict_of(*attempt), Verdict::Stale);
        assert!(told(&bed, CancelReason::Stale), "what still runs of it is killed");
    }
    starts_again(bed, &sent, "both have ended");
}

#[test]
pub(super) fn a_gang_is_adopted_if_the_limits_allow_all_of_it_and_nothing_newer_was_issued() {
    let quota = |max_running_jobs| Event::QuotaChanged {
        tenant: "t".parse().unwrap(),
        quota: Quota { max_running_jobs: Some(max_running_jobs), ..Quota::default() },
    };
    for (most, verdict) in [(1, Verdict::Stale), (2, Verdict::Adopted)] {
        let (mut bed, sent) = running_gang(&[2000]);
        be_silent(&mut bed);
        bed.must(quota(most));
        returns(&mut bed, sent[0].1, &[(sent[0].0, true), (sent[1].0, true)]);
        assert_eq!(bed.verdict_of(sent[1].0), verdict, "at most {most}");
        let charged = bed.scheduler.tenant(&"t".parse().unwrap()).unwrap().running;
        assert_eq!(charged, if most == 2 { 2 } else { 0 });
    }
    let (mut bed, sent) = running_gang(&[2000]);
    be_silent(&mut bed);
    bed.worker("w9", offer(2000));
    assert_eq!(bed.starts(), [1, 1]);
    returns(&mut bed, sent[0].1, &[(sent[0].0, true), (sent[1].0, true)]);
    assert_eq!(bed.verdict_of(sent[0].0), Verdict::Stale, "it runs elsewhere by now");
}

#[test]
pub(super) fn a_gang_comes_back_whole_over_a_snapshot_as_well() {
    let (mut bed, sent) = running_gang(&[2000]);
    be_silent(&mut bed);
    let text = serde_json::to_string(&bed.scheduler.snapshot()).unwrap();
    bed.scheduler = Scheduler::restore(serde_json::from_str(&text).unwrap(), Config::default()).unwrap();
    returns(&mut bed, sent[0].1, &[(sent[1].0, true), (sent[0].0, true)]);
    assert_eq!(bed.state(1), JobState::Running);
}

/// Members may get different kinds of GPUs, but a limit by kind has to allow all of them that kind.
#[test]
pub(super) fn a_limit_by_kind_of_gpu_counts_all_members_of_a_gang() {
    let model = |name: &str| orlop_core::hardware::gpu::ModelKey::new(name).unwrap();
    let vendor = orlop_core::hardware::gpu::Vendor::Nvidia;
    let devices = |name| GpuDevices { vendor, model: model(name), memory_bytes: 40 << 30, count: 2 };
    let mut bed = Bed::new(Config::default());
    bed.worker("w1", Capabilities { gpus: vec![devices("a100")], ..offer(8000) });
    bed.worker("w2", Capabilities { gpus: vec![devices("h100")], ..offer(8000) });
    let limit = |most| Event::QuotaChanged {
        tenant: "t".parse().unwrap(),
        quota: Quota { max_gpus_by_kind: [(model("a100"), most), (model("h100"), most)].into(), ..Quota::default() },
    };
    let kind = |name| GpuKind { vendor, model: Some(model(name)), memory_min: None };
    let gang = Gang { size: 4, max_per_worker: None, same_label: None };
    let mut job = Demand { gang: Some(gang), ..spec(1000) };
    (job.resources.gpus.count, job.resources.gpus.any_of) = (1, vec![kind("a100"), kind("h100")]);
    bed.must(limit(3));
    bed.effects.clear();
    bed.must(Event::Submit { job: id(1), spec: job.clone().into(), gate: Gate::default() });
    let never = Refusal::NeverFits { what: Limit::GpusByKind, asked: 4, limit: 3 };
    let refused = bed.effects.iter().any(|effect| matches!(effect, Effect::Refused { reason, .. } if *reason == never));
    assert!(refused, "{:?}", bed.effects);
    bed.must(limit(4));
    bed.submit(1, job);
    bed.must(limit(3));
    assert_eq!(bed.starts(), [0_u64; 0]);
    bed.must(limit(4));
    assert_eq!(bed.starts(), [1; 4], "two of each kind");
}
