//! Preemption by gangs and of gangs.

use std::collections::BTreeSet;

use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::task::TaskRef;

use super::fixture::{Fixture, id, offer, spec};
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
fn run(fixture: &mut Fixture, number: u64, spec: Demand) -> Sent {
    fixture.submit(number, spec);
    let sent = fixture.round();
    assert!(sent.iter().all(|(attempt, _)| attempt.job == id(number)) && !sent.is_empty());
    sent.iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
    fixture.now += 1;
    sent
}

/// Attempts that are told to end for others, among the effects.
fn reported(fixture: &Fixture) -> Vec<TaskRef> {
    let reported = fixture.effects.iter().filter_map(|effect| match effect {
        Effect::Cancel { attempt, why: CancelReason::Preempted, .. } => Some(*attempt),
        _ => None,
    });
    reported.collect()
}

/// Jobs of which attempts are told to end for others, in order of their numbers.
fn victims(fixture: &Fixture) -> Vec<u64> {
    let jobs: BTreeSet<u64> = reported(fixture).iter().map(|attempt| attempt.job.counter()).collect();
    jobs.into_iter().collect()
}

fn end(fixture: &mut Fixture, sent: &Sent) {
    for (attempt, worker) in sent {
        fixture.result(*attempt, *worker, Outcome::Cancelled);
    }
}

/// Two workers of 2000m, each full of two attempts of 1000m: jobs 1 to 4.
fn full() -> (Fixture, Vec<Sent>) {
    let mut fixture = Fixture::new(on());
    let mut sent = Vec::new();
    for (name, first) in [("w1", 1), ("w2", 3)] {
        fixture.worker(name, offer(2000));
        sent.extend((first..first + 2).map(|number| run(&mut fixture, number, lowly(1000, 9))));
    }
    (fixture, sent)
}

#[test]
fn a_gang_ends_victims_on_a_set_of_workers_and_keeps_these_until_it_starts() {
    let (mut fixture, sent) = full();
    fixture.submit(10, gang(3, 1, None));
    fixture.round();
    let ended = victims(&fixture);
    assert_eq!(ended.len(), 3, "no more than it needs");
    assert_eq!(fixture.scheduler.preemptions().count(), 3, "an entry for each member");
    assert_eq!(fixture.scheduler.tenant(&"g".parse().unwrap()).unwrap().running, 3, "charged as if they ran");
    // It would fit what is free first.
    fixture.submit(11, Demand { priority: Priority(6), ..spec(1000) });
    for (at, number) in ended.iter().enumerate() {
        assert!(fixture.starts().is_empty(), "after {at} ends");
        end(&mut fixture, &sent[usize::try_from(number - 1).unwrap()]);
    }
    assert_eq!(fixture.starts(), [10, 10, 10]);
    assert_eq!(fixture.scheduler.preemptions().count(), 0);
    assert_eq!(fixture.scheduler.tenant(&"g".parse().unwrap()).unwrap().running, 3);
}

#[test]
fn a_gang_ends_fewest_then_the_worst_then_the_youngest() {
    let mut fixture = Fixture::new(on());
    fixture.worker("w1", offer(2000));
    run(&mut fixture, 1, lowly(1000, 9));
    run(&mut fixture, 2, lowly(1000, 9));
    fixture.worker("w2", offer(2000));
    run(&mut fixture, 3, lowly(2000, 6));
    fixture.worker("w3", offer(2000));
    run(&mut fixture, 4, lowly(2000, 7));
    fixture.worker("w4", offer(2000));
    run(&mut fixture, 5, lowly(2000, 7));
    for (number, expected) in [(10, &[5][..]), (11, &[4]), (12, &[3]), (13, &[1, 2])] {
        fixture.submit(number, Demand { tenant: format!("g{number}").parse().unwrap(), ..gang(2, 1, None) });
        fixture.round();
        assert_eq!(victims(&fixture), expected, "gang {number}");
    }
    fixture.round();
    assert_eq!(victims(&fixture), NOBODY, "nobody is ended twice");
}

#[test]
fn a_gang_counts_what_is_free_and_heeds_members_a_worker_and_labels() {
    let mut fixture = Fixture::new(on());
    for (name, zone, number) in [("w1", "a", 1), ("w2", "a", 2), ("w3", "b", 3)] {
        let mut offer = offer(3000);
        offer.labels.insert("zone".to_owned(), zone.to_owned());
        fixture.worker(name, offer);
        run(&mut fixture, number, lowly(2500, 9));
    }
    let mut job = gang(2, 1, Some(1));
    job.gang.as_mut().unwrap().same_label = Some("zone".to_owned());
    fixture.submit(10, job);
    fixture.round();
    assert_eq!(victims(&fixture), [1, 2], "one member each on two workers of one zone");
    let mut fixture = Fixture::new(on());
    fixture.worker("w1", offer(1000));
    fixture.worker("w2", offer(1000));
    run(&mut fixture, 1, lowly(1000, 9));
    fixture.submit(10, gang(2, 1, None));
    fixture.round();
    assert_eq!(victims(&fixture), [1], "one worker is free");
    assert_eq!(fixture.scheduler.preemptions().count(), 2, "and kept as well");
}

#[test]
fn a_gang_is_one_victim_and_all_its_members_end() {
    let mut fixture = Fixture::new(on());
    for name in ["w1", "w2", "w3"] {
        let mut offer = offer(1000);
        offer.features.insert(name.to_owned());
        fixture.worker(name, offer);
    }
    let sent = run(&mut fixture, 1, Demand { preemptible: true, ..gang(3, 9, None) });
    let mut picky = Demand { priority: Priority(1), ..spec(1000) };
    picky.requires.features.insert("w2".to_owned());
    fixture.submit(10, picky);
    fixture.submit(11, lowly(1000, 9));
    fixture.round();
    assert_eq!(reported(&fixture).len(), 3);
    let (_, wanted) = fixture.scheduler.preemptions().next().unwrap();
    assert_eq!(fixture.scheduler.preemptions().count(), 1, "one worker is kept");
    let (kept, others): (Sent, Sent) = sent.into_iter().partition(|(_, worker)| *worker == wanted);
    fixture.result(others[0].0, others[0].1, Outcome::Cancelled);
    let again = fixture.effects.iter().any(|effect| matches!(effect, Effect::Cancel { .. }));
    assert!(!again, "its fellows were told before");
    assert_eq!(fixture.starts(), [11], "what else it held is for anybody");
    assert_eq!(fixture.state(1), JobState::Running, "two members are still out");
    end(&mut fixture, &kept);
    assert_eq!(fixture.starts(), [10], "it need not wait for the rest of the gang");
    fixture.result(others[1].0, others[1].1, Outcome::Failed { exit_code: None });
    let view = fixture.scheduler.job(id(1), None).unwrap();
    assert_eq!((view.state, view.retries, view.infra), (JobState::Queued, 0, 0), "nothing is counted");
    assert_eq!(fixture.reason(), Some(Reason::Preempted));
}

#[test]
fn one_gang_is_fewer_than_two_jobs_and_its_lost_run_time_is_that_of_all_members() {
    let mut fixture = Fixture::new(on());
    fixture.worker("w1", offer(2000));
    run(&mut fixture, 1, lowly(1000, 9));
    run(&mut fixture, 2, lowly(1000, 9));
    fixture.worker("w2", offer(2000));
    run(&mut fixture, 3, Demand { preemptible: true, ..gang(2, 6, None) });
    fixture.submit(10, Demand { priority: Priority(1), ..spec(2000) });
    fixture.round();
    assert_eq!(victims(&fixture), [3]);
    // The gang is younger than the job, but two members lose more together.
    let mut fixture = Fixture::new(on());
    fixture.worker("w1", offer(2000));
    run(&mut fixture, 1, lowly(2000, 9));
    fixture.now += 20;
    fixture.worker("w2", offer(2000));
    run(&mut fixture, 2, Demand { preemptible: true, ..gang(2, 9, None) });
    fixture.now += 80;
    fixture.submit(10, Demand { priority: Priority(1), ..spec(2000) });
    fixture.round();
    assert_eq!(victims(&fixture), [1]);
}

#[test]
fn only_gangs_that_run_as_a_whole_are_victims() {
    let mut fixture = Fixture::new(on());
    fixture.worker("w1", offer(2000));
    fixture.submit(1, Demand { preemptible: true, ..gang(2, 9, None) });
    let sent = fixture.round();
    fixture.start(sent[0].0, sent[0].1);
    fixture.submit(10, Demand { priority: Priority(1), ..spec(1000) });
    fixture.round();
    assert_eq!((fixture.state(1), reported(&fixture)), (JobState::Running, vec![]), "a member has not started");
    fixture.start(sent[1].0, sent[1].1);
    fixture.round();
    assert_eq!(reported(&fixture).len(), 2);
}

#[test]
fn a_gang_whose_members_all_succeed_in_their_grace_is_completed() {
    let mut fixture = Fixture::new(on());
    fixture.worker("w1", offer(2000));
    let sent = run(&mut fixture, 1, Demand { preemptible: true, ..gang(2, 9, None) });
    fixture.submit(10, Demand { priority: Priority(1), ..spec(2000) });
    fixture.round();
    assert_eq!(reported(&fixture).len(), 2);
    for (attempt, worker) in &sent {
        assert_eq!(fixture.result(*attempt, *worker, Outcome::Succeeded), ReportVerdict::Accepted);
    }
    assert_eq!(fixture.state(1), JobState::Completed);
    assert_eq!(fixture.starts(), [10]);
}

#[test]
fn gangs_end_gangs_and_count_once_in_the_rate() {
    let mut fixture = Fixture::new(Config { preempt_per_minute: 2, ..on() });
    for name in ["w1", "w2", "w3"] {
        fixture.worker(name, offer(4000));
    }
    for number in 1..=3 {
        run(&mut fixture, number, Demand { preemptible: true, ..gang(4, 9, None) });
    }
    fixture.submit(10, gang(12, 1, None));
    fixture.round();
    assert_eq!(victims(&fixture), NOBODY, "three are needed, two may be ended");
    fixture.must(Event::Cancel { job: id(10), elements: None });
    fixture.submit(11, gang(8, 1, None));
    fixture.round();
    assert_eq!((victims(&fixture).len(), reported(&fixture).len()), (2, 8));
    fixture.submit(12, gang(4, 1, None));
    fixture.round();
    assert_eq!(victims(&fixture), NOBODY, "no more in this minute");
}

#[test]
fn a_gang_beyond_its_tenants_limits_ends_nobody() {
    let (mut fixture, _) = full();
    let quota = |max_running_jobs| Quota { max_running_jobs, ..Quota::default() };
    fixture.submit(10, gang(3, 1, None));
    fixture.must(Event::QuotaChanged { tenant: "g".parse().unwrap(), quota: quota(Some(2)) });
    fixture.round();
    assert_eq!(victims(&fixture), NOBODY);
    fixture.must(Event::QuotaChanged { tenant: "g".parse().unwrap(), quota: quota(Some(3)) });
    fixture.round();
    assert_eq!(victims(&fixture).len(), 3);
    // A lower limit gives back what it could not use.
    fixture.must(Event::QuotaChanged { tenant: "g".parse().unwrap(), quota: quota(Some(1)) });
    fixture.round();
    assert_eq!(fixture.scheduler.preemptions().count(), 0);
    assert_eq!(fixture.scheduler.tenant(&"g".parse().unwrap()).unwrap().running, 0);
}

#[test]
fn a_gang_gives_back_what_is_kept_when_it_is_cancelled_or_loses_a_worker() {
    for cancel in [true, false] {
        let (mut fixture, sent) = full();
        fixture.submit(10, gang(4, 1, None));
        fixture.round();
        assert_eq!(fixture.scheduler.preemptions().count(), 4);
        if cancel {
            fixture.must(Event::Cancel { job: id(10), elements: None });
        } else {
            fixture.must(Event::Cordon { worker: sent[0][0].1 });
        }
        fixture.submit(11, Demand { priority: Priority(0), ..spec(1000) });
        end(&mut fixture, &sent[3]);
        assert_eq!(fixture.starts(), [11]);
        assert_eq!(fixture.scheduler.preemptions().count(), 0);
        assert_eq!(fixture.scheduler.tenant(&"g".parse().unwrap()).unwrap().running, 0);
    }
}

#[test]
fn what_is_kept_for_a_gang_survives_a_snapshot() {
    let (mut fixture, sent) = full();
    fixture.submit(10, gang(4, 1, None));
    fixture.round();
    let text = serde_json::to_string(&fixture.scheduler.snapshot()).unwrap();
    fixture.scheduler = Scheduler::restore(serde_json::from_str(&text).unwrap(), Config::default()).unwrap();
    assert_eq!(fixture.scheduler.preemptions().count(), 4);
    sent.iter().for_each(|sent| end(&mut fixture, sent));
    assert_eq!(fixture.starts(), [10; 4]);
}
