//! Bad workers and commands that cannot start: what is tried again and where, who is blamed, and how long losses wait.

use std::sync::Arc;

use orlop_core::id::Epoch;
use orlop_core::machine::job::JobState;
use orlop_core::machine::verdict::ReportVerdict;
use orlop_core::machine::worker::WorkerState;
use orlop_core::task::TaskRef;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::effect::{Effect, Reason};
use crate::engine::{Misfit, Scheduler};
use crate::error::EventError;
use crate::event::{ArraySpec, Capabilities, Event, Outcome, StartWindow};
use crate::job::Gang;
use crate::stored::{Body, JobRow, Stored};
use crate::token::WorkerKey;

const NOT_FOUND: Outcome = Outcome::CannotStart { exit_code: 127 };

fn state(fixture: &Fixture, worker: WorkerKey) -> WorkerState {
    fixture.scheduler.worker_view(worker).unwrap().state
}

/// One failed start is enough to distrust a worker.
fn strict() -> Config {
    Config { start_failures: 1, ..Config::default() }
}

fn array(fixture: &mut Fixture, number: u64, cpu_m: u64, count: u32) {
    let array = ArraySpec { indices: vec![(0, count - 1)], ..ArraySpec::default() };
    let (job, spec, gate) = (id(number), Arc::new(spec(cpu_m)), StartWindow::default());
    fixture.must(Event::SubmitArray { job, spec, gate, array });
}

#[test]
fn a_command_that_cannot_start_is_tried_once_more_on_another_worker() {
    let mut fixture = Fixture::new(strict());
    let workers = [fixture.worker("w1", offer(4000)), fixture.worker("w2", offer(4000))];
    fixture.submit(1, spec(1000));
    let (first, bad) = fixture.round()[0];
    assert_eq!(fixture.result(first, bad, NOT_FOUND), ReportVerdict::Accepted);
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Queued, Some(Reason::Command(127))));
    let view = fixture.scheduler.job(id(1), None).unwrap();
    assert_eq!((view.infra, view.retries), (0, 0), "nothing is counted yet");
    assert!(workers.iter().all(|worker| state(&fixture, *worker) == WorkerState::Available));
    let (second, good) = fixture.round()[0];
    assert_ne!(good, bad);
    fixture.start(second, good);
    assert_eq!(state(&fixture, bad), WorkerState::Unhealthy, "another worker could start it");
    assert_eq!(state(&fixture, good), WorkerState::Running);
}

#[test]
fn a_command_that_cannot_start_twice_is_the_jobs_own_failure() {
    let mut fixture = Fixture::new(strict());
    let workers = [fixture.worker("w1", offer(4000)), fixture.worker("w2", offer(4000))];
    fixture.submit(1, spec(1000));
    for _ in 0..2 {
        let (attempt, worker) = fixture.round()[0];
        fixture.result(attempt, worker, NOT_FOUND);
    }
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Failed, Some(Reason::Command(127))));
    assert!(workers.iter().all(|worker| state(&fixture, *worker) == WorkerState::Available), "nobody is blamed");
}

#[test]
fn without_another_worker_a_command_that_cannot_start_fails_at_once() {
    let mut fixture = Fixture::new(strict());
    let worker = fixture.worker("w1", offer(4000));
    let small = fixture.worker("small", offer(500));
    let cordoned = fixture.worker("cordoned", offer(4000));
    fixture.must(Event::Cordon { worker: cordoned });
    fixture.submit(1, spec(1000));
    let (attempt, on) = fixture.round()[0];
    assert_eq!(on, worker);
    fixture.result(attempt, worker, Outcome::CannotStart { exit_code: 126 });
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Failed, Some(Reason::Command(126))));
    assert!([worker, small].iter().all(|worker| state(&fixture, *worker) == WorkerState::Available));
}

#[test]
fn a_command_that_cannot_start_is_retried_where_its_code_is_named() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    for (number, codes, expected) in [
        (1, None, JobState::Failed),
        (2, Some([127].into()), JobState::Backoff),
        (3, Some([1].into()), JobState::Failed),
    ] {
        let mut job = spec(1000);
        (job.retries, job.retry.exit_codes) = (1, codes);
        fixture.submit(number, job);
        let attempt = fixture.round()[0].0;
        fixture.result(attempt, worker, NOT_FOUND);
        assert_eq!(fixture.state(number), expected);
    }
}

#[test]
fn a_second_try_waits_for_a_busy_worker_and_lets_others_use_the_first() {
    for alone in [true, false] {
        let mut fixture = Fixture::new(Config::default());
        let bad = fixture.worker("bad", offer(1000));
        fixture.submit(1, spec(1000));
        let attempt = fixture.round()[0].0;
        let good = fixture.worker("good", offer(1000));
        fixture.submit(2, spec(1000));
        let (busy, on) = fixture.round()[0];
        assert_eq!(on, good);
        fixture.result(attempt, bad, NOT_FOUND);
        assert!(fixture.round().is_empty(), "it waits for the other worker, which is busy");
        let why = fixture.scheduler.explain(id(1)).unwrap();
        let misfit = |worker| why.workers.iter().find(|fit| fit.worker == worker).unwrap().misfit;
        assert_eq!((misfit(bad), misfit(good)), (Some(Misfit::Avoided), Some(Misfit::Capacity)));
        assert_eq!(fixture.scheduler.demand().iter().map(|demand| demand.waiting).sum::<u64>(), 1);
        if !alone {
            fixture.submit(3, spec(1000));
            assert_eq!(fixture.round().iter().map(|(_, worker)| *worker).collect::<Vec<_>>(), [bad]);
        }
        assert!(fixture.round().is_empty());
        fixture.result(busy, good, Outcome::Succeeded);
        let sent = fixture.round();
        assert_eq!((sent[0].0.job, sent[0].1, sent.len()), (id(1), good, 1));
    }
}

/// Others would keep the good worker full for ever.
#[test]
fn a_task_that_is_held_back_gets_a_reservation_like_others_that_wait() {
    for element in [false, true] {
        let mut fixture = Fixture::new(Config::default());
        let bad = fixture.worker("bad", offer(1000));
        if element {
            array(&mut fixture, 1, 1000, 1);
        } else {
            fixture.submit(1, spec(1000));
        }
        let attempt = fixture.round()[0].0;
        let mut machine = offer(1000);
        machine.features.insert("good".to_owned());
        let good = fixture.worker("good", machine);
        let small = || {
            let mut small = spec(100);
            small.resources.memory_bytes = 1 << 20;
            small.requires.features.insert("good".to_owned());
            small
        };
        (2..12).for_each(|number| fixture.submit(number, small()));
        let mut runs = fixture.round();
        assert_eq!(runs.iter().filter(|(_, worker)| *worker == good).count(), 10, "it is full");
        fixture.result(attempt, bad, NOT_FOUND);
        let mut number = 100;
        let started = (0..200).find(|_| {
            fixture.now += 1000;
            [bad, good].iter().for_each(|worker| fixture.must(Event::Heartbeat { worker: *worker }));
            let (attempt, worker) = runs.remove(0);
            fixture.result(attempt, worker, Outcome::Succeeded);
            number += 1;
            fixture.submit(number, small());
            runs.extend(fixture.round());
            runs.iter().any(|(attempt, _)| attempt.job == id(1))
        });
        assert!(started.is_some(), "it waits for ever");
        let (_, on) = runs.iter().find(|(attempt, _)| attempt.job == id(1)).unwrap();
        assert_eq!(*on, good);
    }
}

#[test]
fn a_task_that_is_held_back_waits_on_where_its_tenant_gets_classes_of_its_own() {
    for element in [false, true] {
        let mut fixture = Fixture::new(Config::default());
        let bad = fixture.worker("bad", offer(1000));
        if element {
            array(&mut fixture, 1, 1000, 1);
        } else {
            fixture.submit(1, spec(1000));
        }
        let attempt = fixture.round()[0].0;
        let good = fixture.worker("good", offer(1000));
        fixture.submit(2, spec(1000));
        let (busy, _) = fixture.round()[0];
        fixture.result(attempt, bad, NOT_FOUND);
        assert!(fixture.round().is_empty());
        fixture.worker("own", Capabilities { tenants: ["t".parse().unwrap()].into(), ..offer(500) });
        assert_eq!(fixture.scheduler.sanity_check(), Ok(()));
        assert!(fixture.round().is_empty());
        fixture.result(busy, good, Outcome::Succeeded);
        let sent: Vec<u64> = (0..3).flat_map(|_| fixture.round()).map(|(attempt, _)| attempt.job.counter()).collect();
        assert_eq!((sent, fixture.scheduler.sanity_check()), (vec![1], Ok(())), "once");
    }
}

#[test]
fn a_worker_is_avoided_only_while_another_could_hold_the_job() {
    let mut fixture = Fixture::new(Config::default());
    let bad = fixture.worker("bad", offer(1000));
    fixture.submit(1, spec(1000));
    let attempt = fixture.round()[0].0;
    let good = fixture.worker("good", offer(1000));
    fixture.submit(2, spec(1000));
    fixture.round();
    fixture.result(attempt, bad, NOT_FOUND);
    assert!(fixture.round().is_empty());
    fixture.must(Event::Cordon { worker: good });
    assert_eq!(fixture.round().iter().map(|(_, worker)| *worker).collect::<Vec<_>>(), [bad]);
}

#[test]
fn an_operator_places_what_is_held_back_only_where_it_has_not_failed() {
    for element in [false, true] {
        let mut fixture = Fixture::new(Config::default());
        let bad = fixture.worker("bad", offer(1000));
        if element {
            array(&mut fixture, 1, 1000, 1);
        } else {
            fixture.submit(1, spec(1000));
        }
        let attempt = fixture.round()[0].0;
        let good = fixture.worker("good", offer(1000));
        fixture.submit(2, spec(1000));
        let (busy, _) = fixture.round()[0];
        fixture.result(attempt, bad, NOT_FOUND);
        assert!(fixture.round().is_empty());
        let asked = |worker| Event::AssignJob { job: id(1), worker };
        assert!(matches!(fixture.apply(asked(bad)), Err(EventError::NotAssigned { .. })));
        fixture.result(busy, good, Outcome::Succeeded);
        // Elements return to their array in a round.
        let sent = if element {
            fixture.round()
        } else {
            fixture.must(asked(good));
            fixture.assigned()
        };
        assert_eq!(sent.iter().map(|(_, worker)| *worker).collect::<Vec<_>>(), [good]);
    }
}

#[test]
fn what_is_held_back_is_counted_as_waiting() {
    let mut fixture = Fixture::new(Config::default());
    let bad = fixture.worker("bad", offer(2000));
    array(&mut fixture, 1, 1000, 2);
    let sent = fixture.round();
    fixture.worker("good", offer(1000));
    fixture.submit(2, spec(1000));
    fixture.round();
    sent.iter().for_each(|(attempt, _)| assert_eq!(fixture.result(*attempt, bad, NOT_FOUND), ReportVerdict::Accepted));
    assert!(fixture.round().is_empty());
    assert_eq!(fixture.scheduler.waiting().blocked, [0, 1, 0], "an array counts as one");
    let queues = fixture.scheduler.queues();
    assert_eq!(queues.iter().map(|queue| queue.blocked).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_task_that_is_held_back_can_be_cancelled() {
    let mut fixture = Fixture::new(Config::default());
    let bad = fixture.worker("bad", offer(1000));
    array(&mut fixture, 1, 1000, 1);
    let attempt = fixture.round()[0].0;
    fixture.worker("good", offer(1000));
    fixture.submit(2, spec(1000));
    fixture.round();
    fixture.result(attempt, bad, NOT_FOUND);
    assert!(fixture.round().is_empty());
    fixture.must(Event::Cancel { job: id(1), elements: None });
    assert_eq!(fixture.scheduler.job(id(1), Some(0)).unwrap().state, JobState::Cancelled);
    assert!(fixture.round().is_empty());
}

#[test]
fn a_gang_is_tried_once_more_without_the_worker_that_could_not_start_it() {
    let mut fixture = Fixture::new(strict());
    let workers = ["w1", "w2", "w3"].map(|name| fixture.worker(name, offer(1000)));
    let mut job = spec(1000);
    job.gang = Some(Gang { size: 2, max_per_worker: None, same_label: None });
    fixture.submit(1, job);
    let sent = fixture.round();
    let bad = sent[0].1;
    fixture.result(sent[0].0, bad, NOT_FOUND);
    fixture.must(Event::Revoked { attempt: sent[1].0, worker: sent[1].1 });
    assert_eq!(fixture.state(1), JobState::Queued);
    let again = fixture.round();
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|(_, worker)| *worker != bad));
    fixture.result(again[0].0, again[0].1, NOT_FOUND);
    fixture.must(Event::Revoked { attempt: again[1].0, worker: again[1].1 });
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Failed, Some(Reason::Command(127))));
    assert!(workers.iter().all(|worker| state(&fixture, *worker) == WorkerState::Available));
}

#[test]
fn elements_of_one_array_count_singly_against_a_worker() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(10_000));
    array(&mut fixture, 1, 1000, 10);
    let sent = fixture.round();
    assert_eq!(sent.len(), 10);
    for (number, (attempt, _)) in (1..).zip(sent) {
        fixture.result(attempt, worker, Outcome::StartFailed { permanent: false });
        let expected = if number < 10 { WorkerState::Running } else { WorkerState::Unhealthy };
        assert_eq!(state(&fixture, worker), expected, "{number} of different elements");
    }
}

#[test]
fn one_task_counts_once_and_a_permanent_cause_never() {
    let mut fixture = Fixture::new(Config { start_failures: 2, max_infra: 9, ..Config::default() });
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    for _ in 0..3 {
        let attempt = fixture.round()[0].0;
        fixture.result(attempt, worker, Outcome::StartFailed { permanent: false });
        fixture.wait(5000);
        fixture.must(Event::Heartbeat { worker });
    }
    fixture.must(Event::Cancel { job: id(1), elements: None });
    for number in 2..5 {
        fixture.submit(number, spec(1000));
        let attempt = fixture.round()[0].0;
        fixture.result(attempt, worker, Outcome::StartFailed { permanent: true });
        assert_eq!((fixture.state(number), fixture.reason()), (JobState::Failed, Some(Reason::Permanent)));
    }
    assert_eq!(state(&fixture, worker), WorkerState::Available);
}

#[test]
fn infrastructure_losses_wait_twice_as_long_each_time() {
    let mut fixture = Fixture::new(Config { max_infra: 9, start_failures: 100, ..Config::default() });
    let worker = fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    for plain in [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000] {
        let attempt = fixture.round()[0].0;
        fixture.result(attempt, worker, Outcome::StartFailed { permanent: false });
        assert_eq!(fixture.state(1), JobState::Backoff);
        let wait = fixture.scheduler.task_row(id(1), None).unwrap().due.unwrap() - fixture.now;
        assert!((plain * 4 / 5..=plain * 6 / 5).contains(&wait), "{wait} after {plain}");
        let due = fixture.now + wait;
        while fixture.now < due {
            assert_eq!(fixture.state(1), JobState::Backoff);
            fixture.wait((due - fixture.now).min(10_000));
            fixture.must(Event::Heartbeat { worker });
        }
        assert_eq!(fixture.state(1), JobState::Queued);
    }
}

#[test]
fn the_first_loss_of_a_worker_is_made_good_at_once() {
    let mut fixture = Fixture::new(Config::default());
    for (name, expected) in [("w1", JobState::Queued), ("w2", JobState::Backoff)] {
        let worker = fixture.worker(name, offer(1000));
        if name == "w1" {
            fixture.submit(1, spec(1000));
        }
        let attempt = fixture.round()[0].0;
        fixture.start(attempt, worker);
        fixture.must(Event::Remove { worker, why: crate::event::Departure::Goodbye });
        assert_eq!(fixture.state(1), expected);
    }
}

#[test]
fn twelve_typos_of_one_user_leave_the_workers_to_everybody() {
    for count in 1..=2 {
        let mut fixture = Fixture::new(Config::default());
        let workers: Vec<_> = (0..count).map(|number| fixture.worker(&format!("w{number}"), offer(1000))).collect();
        for number in 1..=12 {
            fixture.submit(number, spec(1000));
        }
        fixture.submit(13, spec(1000));
        loop {
            let sent = fixture.round();
            if sent.is_empty() {
                break;
            }
            for (attempt, worker) in sent {
                if attempt.job == id(13) {
                    fixture.start(attempt, worker);
                    fixture.result(attempt, worker, Outcome::Succeeded);
                } else {
                    fixture.result(attempt, worker, NOT_FOUND);
                }
            }
        }
        assert_eq!((fixture.state(13), fixture.now), (JobState::Completed, 0));
        assert!((1..=12).all(|number| fixture.state(number) == JobState::Failed));
        assert!(workers.iter().all(|worker| state(&fixture, *worker) == WorkerState::Available));
    }
}

#[test]
fn a_bad_worker_beside_a_good_one_fails_no_element() {
    let mut fixture = Fixture::new(Config::default());
    let bad = fixture.worker("bad", offer(2000));
    let good = fixture.worker("good", offer(2000));
    array(&mut fixture, 1, 500, 200);
    let mut runs: Vec<TaskRef> = Vec::new();
    for _ in 0..10_000 {
        for (attempt, worker) in fixture.round() {
            if worker == bad {
                fixture.result(attempt, worker, NOT_FOUND);
            } else {
                fixture.start(attempt, worker);
                runs.push(attempt);
            }
        }
        if let Some(attempt) = runs.pop() {
            fixture.now += 10;
            fixture.must(Event::Heartbeat { worker: bad });
            fixture.result(attempt, good, Outcome::Succeeded);
        }
        if fixture.state(1).is_terminal() {
            break;
        }
    }
    assert_eq!(fixture.state(1), JobState::Completed);
    assert_eq!(state(&fixture, good), WorkerState::Available);
    assert_eq!(state(&fixture, bad), WorkerState::Unhealthy, "ten of its elements ran elsewhere");
}

#[test]
fn a_second_try_is_still_one_after_a_restart() {
    let mut fixture = Fixture::new(strict());
    let workers = [fixture.worker("w1", offer(1000)), fixture.worker("w2", offer(1000))];
    fixture.submit(1, spec(1000));
    let (attempt, bad) = fixture.round()[0];
    fixture.result(attempt, bad, NOT_FOUND);
    let task = fixture.scheduler.task_row(id(1), None).unwrap();
    assert!(task.second_try && task.avoid.is_some());
    let (submitted, not_before, expires) = (0, None, None);
    let job = JobRow { job: id(1), spec: Arc::new(spec(1000)), submitted, not_before, expires, body: Body::One(task) };
    let rows = workers.iter().filter_map(|worker| fixture.scheduler.worker_row(*worker)).collect();
    let stored = Stored { workers: rows, jobs: vec![job], ..Stored::default() };
    let bad_id = fixture.scheduler.worker_view(bad).unwrap().id.clone();
    fixture.scheduler = Scheduler::rebuild(strict(), 1, (Epoch(2), fixture.now), stored, &mut fixture.effects).unwrap();
    for name in ["w1", "w2"] {
        let worker = fixture.scheduler.worker_key(&name.parse().unwrap()).unwrap();
        fixture.must(Event::Connected { worker, kept: vec![] });
    }
    let (attempt, other) = fixture.round()[0];
    assert_ne!(fixture.scheduler.worker_view(other).unwrap().id, bad_id);
    fixture.result(attempt, other, NOT_FOUND);
    assert_eq!((fixture.state(1), fixture.reason()), (JobState::Failed, Some(Reason::Command(127))));
    assert!(
        !fixture
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::WorkerChanged { to: WorkerState::Unhealthy, .. }))
    );
}
