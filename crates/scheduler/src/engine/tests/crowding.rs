//! Preemption by gangs and of gangs.

use std::collections::BTreeSet;

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::Verdict;
use orlop_core::task::TaskRef;

use super::bed::{Bed, id, offer, spec};
use crate::config::Config;
use crate::effect::{CancelReason, Effect, Reason};
use crate::engine::Scheduler;
use crate::event::{Event, Outcome, Quota};
use crate::job::{Demand, Gang, Priority};
use crate::token::WorkerKey;

const NOBODY: [u64; 0] = [];

type Sent = Vec<(TaskRef, WorkerKey)>;

fn on() -> Config {
    Config { preemption: true, max_reservations: 0, ..Config::default() }
}

fn gang(size: u32, priority: u8, max_per_worker: Option<u32>) -> Demand {
    Demand {
        priority: Priority(priority),
        gang: Some(Gang { size, max_per_worker, same_label: None }),
        tenant: "g".parse().unwrap(),
        ..spec(1000)
    }
}

fn lowly(cpu_m: u64, priority: u8) -> Demand {
    Demand { priority: Priority(priority), preemptible: true, ..spec(cpu_m) }
}

/// Submits a job, places it and lets it run.
fn run(bed: &mut Bed, number: u64, spec: Demand) -> Sent {
    bed.submit(number, spec);
    let sent = bed.round();
    assert!(sent.iter().all(|(attempt, _)| attempt.job == id(number)) && !sent.is_empty());
    sent.iter().for_each(|(attempt, worker)| bed.start(*attempt, *worker));
    bed.now += 1;
    sent
}

/// Attempts that are told to end for others, among the effects.
fn told(bed: &Bed) -> Vec<TaskRef> {
    let told = bed.effects.iter().filter_map(|effect| match effect {
        Effect::Cancel { attempt, why: CancelReason::Preempt, .. } => Some(*attempt),
        _ => None,
    });
    told.collect()
}

/// Jobs of which attempts are told to end for others, in order of their numbers.
fn victims(bed: &Bed) -> Vec<u64> {
    let jobs: BTreeSet<u64> = told(bed).iter().map(|attempt| attempt.job.counter()).collect();
    jobs.into_iter().collect()
}

fn end(bed: &mut Bed, sent: &Sent) {
    for (attempt, worker) in sent {
        bed.result(*attempt, *worker, Outcome::Cancelled);
    }
}

/// Two workers of 2000m, each full of two attempts of 1000m: jobs 1 to 4.
fn full() -> (Bed, Vec<Sent>) {
    let mut bed = Bed::new(on());
    let mut sent = Vec::new();
    for (name, first) in [("w1", 1), ("w2", 3)] {
        bed.worker(name, offer(2000));
        sent.extend((first..first + 2).map(|number| run(&mut bed, number, lowly(1000, 9))));
    }
    (bed, sent)
}

#[test]
pub(super) fn a_gang_ends_victims_on_a_set_of_workers_and_keeps_these_until_it_starts() {
    let (mut bed, sent) = full();
    bed.submit(10, gang(3, 1, None));
    bed.round();
    let ended = victims(&bed);
    assert_eq!(ended.len(), 3, "no more than it needs");
    assert_eq!(bed.scheduler.preemptions().count(), 3, "an entry for each member");
    assert_eq!(bed.scheduler.tenant(&"g".parse().unwrap()).unwrap().running, 3, "charged as if they ran");
    // It would fit what is free first.
    bed.submit(11, Demand { priority: Priority(6), ..spec(1000) });
    for (at, number) in ended.iter().enumerate() {
        assert!(bed.starts().is_empty(), "after {at} ends");
        end(&mut bed, &sent[usize::try_from(number - 1).unwrap()]);
    }
    assert_eq!(bed.starts(), [10, 10, 10]);
    assert_eq!(bed.scheduler.preemptions().count(), 0);
    assert_eq!(bed.scheduler.tenant(&"g".parse().unwrap()).unwrap().running, 3);
}

#[test]
pub(super) fn a_gang_ends_fewest_then_the_worst_then_the_youngest() {
    let mut bed = Bed::new(on());
    bed.worker("w1", offer(2000));
    run(&mut bed, 1, lowly(1000, 9));
    run(&mut bed, 2, lowly(1000, 9));
    bed.worker("w2", offer(2000));
    run(&mut bed, 3, lowly(2000, 6));
    bed.worker("w3", offer(2000));
    run(&mut bed, 4, lowly(2000, 7));
    bed.worker("w4", offer(2000));
    run(&mut bed, 5, lowly(2000, 7));
    for (number, expected) in [(10, &[5][..]), (11, &[4]), (12, &[3]), (13, &[1, 2])] {
        bed.submit(number, Demand { tenant: format!("g{number}").parse().unwrap(), ..gang(2, 1, None) });
        bed.round();
        assert_eq!(victims(&bed), expected, "gang {number}");
    }
    bed.round();
    assert_eq!(victims(&bed), NOBODY, "nobody is ended twice");
}

#[test]
pub(super) fn a_gang_counts_what_is_free_and_heeds_members_a_worker_and_labels() {
    let mut bed = Bed::new(on());
    for (name, zone, number) in [("w1", "a", 1), ("w2", "a", 2), ("w3", "b", 3)] {
        let mut offer = offer(3000);
        offer.labels.insert("zone".to_owned(), zone.to_owned());
        bed.worker(name, offer);
        run(&mut bed, number, lowly(2500, 9));
    }
    let mut job = gang(2, 1, Some(1));
    job.gang.as_mut().unwrap().same_label = Some("zone".to_owned());
    bed.submit(10, job);
    bed.round();
    assert_eq!(victims(&bed), [1, 2], "one member each on two workers of one zone");
    let mut bed = Bed::new(on());
    bed.worker("w1", offer(1000));
    bed.worker("w2", offer(1000));
    run(&mut bed, 1, lowly(1000, 9));
    bed.submit(10, gang(2, 1, None));
    bed.round();
    assert_eq!(victims(&bed), [1], "one worker is free");
    assert_eq!(bed.scheduler.preemptions().count(), 2, "and kept as well");
}

#[test]
pub(super) fn a_gang_is_one_victim_and_all_its_members_end() {
    let mut bed = Bed::new(on());
    for name in ["w1", "w2", "w3"] {
        let mut offer = offer(1000);
        offer.features.insert(name.to_owned());
        bed.worker(name, offer);
    }
    let sent = run(&mut bed, 1, Demand { preemptible: true, ..gang(3, 9, None) });
    let mut picky = Demand { priority: Priority(1), ..spec(1000) };
    picky.requires.features.insert("w2".to_owned());
    bed.submit(10, picky);
    bed.submit(11, lowly(1000, 9));
    bed.round();
    assert_eq!(told(&bed).len(), 3);
    let (_, wanted) = bed.scheduler.preemptions().next().unwrap();
    assert_eq!(bed.scheduler.preemptions().count(), 1, "one worker is kept");
    let (kept, others): (Sent, Sent) = sent.into_iter().partition(|(_, worker)| *worker == wanted);
    bed.result(others[0].0, others[0].1, Outcome::Cancelled);
    let again = bed.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. }));
    assert!(!again, "its fellows were told before");
    assert_eq!(bed.starts(), [11], "what else it held is for anybody");
    assert_eq!(bed.state(1), JobState::Running, "two members are still out");
    end(&mut bed, &kept);
    assert_eq!(bed.starts(), [10], "it need not wait for the rest of the gang");
    bed.result(others[1].0, others[1].1, Outcome::Failed { exit_code: None });
    let view = bed.scheduler.job(id(1), None).unwrap();
    assert_eq!((view.state, view.retries, view.infra), (JobState::Queued, 0, 0), "nothing is counted");
    assert_eq!(bed.reason(), Some(Reason::Preempted));
}

#[test]
pub(super) fn one_gang_is_fewer_than_two_jobs_and_its_lost_run_time_is_that_of_all_members() {
    let mut bed = Bed::new(on());
    bed.worker("w1", offer(2000));
    run(&mut bed, 1, lowly(1000, 9));
    run(&mut bed, 2, lowly(1000, 9));
    bed.worker("w2", offer(2000));
    run(&mut bed, 3, Demand { preemptible: true, ..gang(2, 6, None) });
    bed.submit(10, Demand { priority: Priority(1), ..spec(2000) });
    bed.round();
    assert_eq!(victims(&bed), [3]);
    // The gang is younger than the job, but two members lose more together.
    let mut bed = Bed::new(on());
    bed.worker("w1", offer(2000));
    run(&mut bed, 1, lowly(2000, 9));
    bed.now += 20;
    bed.worker("w2", offer(2000));
    run(&mut bed, 2, Demand { preemptible: true, ..gang(2, 9, None) });
    bed.now += 80;
    bed.submit(10, Demand { priority: Priority(1), ..spec(2000) });
    bed.round();
    assert_eq!(victims(&bed), [1]);
}

#[test]
pub(super) fn only_gangs_that_run_as_a_whole_are_victims() {
    let mut bed = Bed::new(on());
    bed.worker("w1", offer(2000));
    bed.submit(1, Demand { preemptible: true, ..gang(2, 9, None) });
    let sent = bed.round();
    bed.start(sent[0].0, sent[0].1);
    bed.submit(10, Demand { priority: Priority(1), ..spec(1000) });
    bed.round();
    assert_eq!((bed.state(1), told(&bed)), (JobState::Running, vec![]), "a member has not started");
    bed.start(sent[1].0, sent[1].1);
    bed.round();
    assert_eq!(told(&bed).len(), 2);
}

#[test]
pub(super) fn a_gang_whose_members_all_succeed_in_their_grace_is_completed() {
    let mut bed = Bed::new(on());
    bed.worker("w1", offer(2000));
    let sent = run(&mut bed, 1, Demand { preemptible: true, ..gang(2, 9, None) });
    bed.submit(10, Demand { priority: Priority(1), ..spec(2000) });
    bed.round();
    assert_eq!(told(&bed).len(), 2);
    for (attempt, worker) in &sent {
        assert_eq!(bed.result(*attempt, *worker, Outcome::Succeeded), Verdict::Accepted);
    }
    assert_eq!(bed.state(1), JobState::Completed);
    assert_eq!(bed.starts(), [10]);
}

#[test]
pub(super) fn gangs_end_gangs_and_count_once_in_the_rate() {
    let mut bed = Bed::new(Config { preempt_per_minute: 2, ..on() });
    for name in ["w1", "w2", "w3"] {
        bed.worker(name, offer(4000));
    }
    for number in 1..=3 {
        run(&mut bed, number, Demand { preemptible: true, ..gang(4, 9, None) });
    }
    bed.submit(10, gang(12, 1, None));
    bed.round();
    assert_eq!(victims(&bed), NOBODY, "three are needed, two may be ended");
    bed.must(Event::Cancel { job: id(10), elements: None });
    bed.submit(11, gang(8, 1, None));
    bed.round();
    assert_eq!((victims(&bed).len(), told(&bed).len()), (2, 8));
    bed.submit(12, gang(4, 1, None));
    bed.round();
    assert_eq!(victims(&bed), NOBODY, "no more in this minute");
}

#[test]
pub(super) fn a_gang_beyond_its_tenants_limits_ends_nobody() {
    let (mut bed, _) = full();
    let quota = |max_running_jobs| Quota { max_running_jobs, ..Quota::default() };
    bed.submit(10, gang(3, 1, None));
    bed.must(Event::QuotaChanged { tenant: "g".parse().unwrap(), quota: quota(Some(2)) });
    bed.round();
    assert_eq!(victims(&bed), NOBODY);
    bed.must(Event::QuotaChanged { tenant: "g".parse().unwrap(), quota: quota(Some(3)) });
    bed.round();
    assert_eq!(victims(&bed).len(), 3);
    // A lower limit gives back what it could not use.
    bed.must(Event::QuotaChanged { tenant: "g".parse().unwrap(), quota: quota(Some(1)) });
    bed.round();
    assert_eq!(bed.scheduler.preemptions().count(), 0);
    assert_eq!(bed.scheduler.tenant(&"g".parse().unwrap()).unwrap().running, 0);
}

#[test]
pub(super) fn a_gang_gives_back_what_is_kept_when_it_is_cancelled_or_loses_a_worker() {
    for cancel in [true, false] {
        let (mut bed, sent) = full();
        bed.submit(10, gang(4, 1, None));
        bed.round();
        assert_eq!(bed.scheduler.preemptions().count(), 4);
        if cancel {
            bed.must(Event::Cancel { job: id(10), elements: None });
        } else {
            bed.must(Event::Cordon { worker: sent[0][0].1 });
        }
        bed.submit(11, Demand { priority: Priority(0), ..spec(1000) });
        end(&mut bed, &sent[3]);
        assert_eq!(bed.starts(), [11]);
        assert_eq!(bed.scheduler.preemptions().count(), 0);
        assert_eq!(bed.scheduler.tenant(&"g".parse().unwrap()).unwrap().running, 0);
    }
}

#[test]
pub(super) fn what_is_kept_for_a_gang_survives_a_snapshot() {
    let (mut bed, sent) = full();
    bed.submit(10, gang(4, 1, None));
    bed.round();
    let text = serde_json::to_string(&bed.scheduler.snapshot()).unwrap();
    bed.scheduler = Scheduler::restore(serde_json::from_str(&text).unwrap(), Config::default()).unwrap();
    assert_eq!(bed.scheduler.preemptions().count(), 4);
    sent.iter().for_each(|sent| end(&mut bed, sent));
    assert_eq!(bed.starts(), [10; 4]);
}
