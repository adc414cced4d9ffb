//! Reservations of tenants for who waits for their limits.

use orlop_core::task::TaskRef;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::Config;
use crate::engine::{Obstacle, Scheduler};
use crate::event::{ArraySpec, Capabilities, Event, Outcome, Quota, StartWindow};
use crate::job::{Demand, Gang, Priority};
use crate::token::WorkerKey;

/// What a tenant `t` may use of a worker of 8000m.
fn limited(quota: Quota) -> (Fixture, WorkerKey) {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(8000));
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota });
    (fixture, worker)
}

fn cpu(max_cpu_m: u64) -> Quota {
    Quota { max_cpu_m: Some(max_cpu_m), ..Quota::default() }
}

/// Four of 1000m run, which is all that the tenant may, one of 3000m was stopped at 0, and more of 1000m wait.
fn stopped() -> (Fixture, WorkerKey, Vec<TaskRef>) {
    let (mut fixture, worker) = limited(cpu(4000));
    (1..=4).for_each(|number| fixture.submit(number, spec(1000)));
    let sent: Vec<TaskRef> = fixture.round().into_iter().map(|(attempt, _)| attempt).collect();
    sent.iter().for_each(|attempt| fixture.start(*attempt, worker));
    fixture.submit(10, spec(3000));
    (20..30).for_each(|number| fixture.submit(number, spec(1000)));
    assert_eq!(fixture.starts(), [0_u64; 0]);
    (fixture, worker, sent)
}

/// Time passes in which the worker is heard, and a round.
fn pass(fixture: &mut Fixture, worker: WorkerKey, millis: u64) -> Vec<u64> {
    fixture.wait(millis);
    fixture.must(Event::Heartbeat { worker });
    fixture.starts()
}

fn end_all(fixture: &mut Fixture, worker: WorkerKey, sent: &[TaskRef]) {
    for attempt in sent {
        fixture.result(*attempt, worker, Outcome::Succeeded);
    }
}

fn reserved_for(scheduler: &Scheduler) -> Vec<u64> {
    scheduler.quota_reservations().map(|(_, job)| job.counter()).collect()
}

#[test]
fn a_tenant_reserves_for_its_first_job_that_its_limits_stopped_for_long() {
    let (mut fixture, worker, sent) = stopped();
    assert_eq!((pass(&mut fixture, worker, 9_999), reserved_for(&fixture.scheduler)), (vec![], vec![]));
    assert_eq!(fixture.scheduler.next_deadline(), Some(10_000), "a timer says when, nobody asks");
    assert_eq!((pass(&mut fixture, worker, 1), reserved_for(&fixture.scheduler)), (vec![], vec![10]));
    for (at, attempt) in sent.iter().enumerate() {
        fixture.result(*attempt, worker, Outcome::Succeeded);
        let expected: &[u64] = [&[][..], &[], &[10], &[20]][at];
        assert_eq!(fixture.starts(), expected, "after {at} ends");
    }
    assert_eq!(reserved_for(&fixture.scheduler), [0_u64; 0]);
}

#[test]
fn until_then_its_own_smaller_jobs_go_on() {
    let (mut fixture, worker, sent) = stopped();
    pass(&mut fixture, worker, 9_000);
    fixture.result(sent[0], worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [20]);
}

#[test]
fn who_fits_beside_all_that_is_reserved_still_starts() {
    let (mut fixture, worker) = limited(Quota { max_cpu_m: Some(5000), max_running_jobs: Some(6), ..Quota::default() });
    fixture.submit(1, spec(4000));
    let (first, _) = fixture.round()[0];
    fixture.start(first, worker);
    let gang = Gang { size: 2, max_per_worker: None, same_label: None };
    fixture.submit(10, Demand { gang: Some(gang), ..spec(2000) });
    assert_eq!((fixture.starts(), pass(&mut fixture, worker, 10_000)), (vec![], vec![]));
    fixture.submit(20, spec(1000));
    assert_eq!(
        (fixture.starts(), reserved_for(&fixture.scheduler)),
        (vec![], vec![10]),
        "both members are reserved for"
    );
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota: cpu(9000) });
    assert_eq!(fixture.starts(), [10, 10], "its members enter, and with them the worker is full");
    fixture.result(first, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [20]);
}

#[test]
fn other_tenants_and_other_limits_are_not_reserved() {
    let (mut fixture, worker, _) = stopped();
    pass(&mut fixture, worker, 10_000);
    fixture.submit(40, Demand { tenant: "u".parse().unwrap(), ..spec(1000) });
    assert_eq!(fixture.starts(), [40]);
}

#[test]
fn quota_reservations_end_with_the_job_with_its_place_and_with_its_chance() {
    for end in 0..4 {
        let (mut fixture, worker, sent) = stopped();
        pass(&mut fixture, worker, 10_000);
        match end {
            0 => fixture.must(Event::Cancel { job: id(10), elements: None }),
            1 => fixture.submit(50, Demand { priority: Priority(4), ..spec(500) }),
            2 => fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota: cpu(2999) }),
            _ => fixture.must(Event::Updated { worker, capabilities: offer(2000).into() }),
        }
        fixture.round();
        assert_eq!(reserved_for(&fixture.scheduler), [0_u64; 0], "end {end}");
        end_all(&mut fixture, worker, &sent[..3]);
        let starts = fixture.starts();
        assert_eq!(starts.first(), Some(&if end == 1 { 50 } else { 20 }), "end {end}: {starts:?}");
    }
}

#[test]
fn the_longest_waiting_is_reserved_for_first_and_then_the_next() {
    let (mut fixture, worker, sent) = stopped();
    pass(&mut fixture, worker, 1_000);
    fixture.submit(5, Demand { priority: Priority(0), ..spec(4000) });
    assert_eq!(
        (fixture.starts(), pass(&mut fixture, worker, 9_000), reserved_for(&fixture.scheduler)),
        (vec![], vec![], vec![10])
    );
    pass(&mut fixture, worker, 5_000);
    end_all(&mut fixture, worker, &sent);
    let started: Vec<TaskRef> = fixture.round().into_iter().map(|(attempt, _)| attempt).collect();
    let numbers: Vec<u64> = started.iter().map(|attempt| attempt.job.counter()).collect();
    assert_eq!((numbers, reserved_for(&fixture.scheduler)), (vec![10, 20], vec![5]));
    fixture.result(started[1], worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [0_u64; 0]);
    fixture.result(started[0], worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [5]);
}

/// Others of its tenant, alike or smaller, would use the limits up for ever on the worker that it avoids.
#[test]
fn a_tenant_reserves_for_a_task_also_while_this_lets_others_pass() {
    for fellow in [1000, 500] {
        let (mut fixture, bad) = limited(Quota { max_running_jobs: Some(1), ..Quota::default() });
        fixture.must(Event::Updated { worker: bad, capabilities: offer(1000).into() });
        fixture.submit(1, spec(1000));
        let attempt = fixture.round()[0].0;
        let mut machine = offer(1000);
        machine.features.insert("good".to_owned());
        let good = fixture.worker("good", machine);
        let mut other = Demand { tenant: "u".parse().unwrap(), ..spec(100) };
        other.resources.memory_bytes = 1 << 20;
        other.requires.features.insert("good".to_owned());
        (101..111).for_each(|number| fixture.submit(2 * number, other.clone()));
        let mut others = fixture.round();
        assert_eq!(others.len(), 10, "the good worker is full");
        fixture.result(attempt, bad, Outcome::CannotStart { exit_code: 127 });
        fixture.submit(3, spec(fellow));
        let mut own = fixture.round();
        let started = (201..400).find(|number| {
            fixture.wait(1000);
            [bad, good].iter().for_each(|worker| fixture.must(Event::Heartbeat { worker: *worker }));
            let (oldest, on) = others.remove(0);
            for (attempt, worker) in own.drain(..).chain([(oldest, on)]) {
                fixture.result(attempt, worker, Outcome::Succeeded);
            }
            fixture.submit(2 * number, other.clone());
            fixture.submit(2 * number + 1, spec(fellow));
            for (attempt, worker) in fixture.round() {
                let list = if attempt.job.counter() % 2 == 1 { &mut own } else { &mut others };
                list.push((attempt, worker));
            }
            own.iter().any(|(attempt, _)| attempt.job == id(1))
        });
        assert!(started.is_some(), "it waits for ever beside others of {fellow}m");
        assert_eq!(own.iter().map(|(_, worker)| *worker).collect::<Vec<_>>(), [good]);
    }
}

#[test]
fn an_array_is_reserved_for_element_by_element() {
    let (mut fixture, worker) = limited(cpu(3000));
    fixture.submit(1, spec(1000));
    let (first, _) = fixture.round()[0];
    fixture.start(first, worker);
    let array = ArraySpec { indices: vec![(0, 2)], ..ArraySpec::default() };
    fixture.must(Event::SubmitArray { job: id(10), spec: spec(2500).into(), gate: StartWindow::default(), array });
    fixture.submit(20, spec(1000));
    assert_eq!((fixture.starts(), pass(&mut fixture, worker, 8_000)), (vec![20], vec![]));
    pass(&mut fixture, worker, 2_000);
    fixture.submit(21, spec(1000));
    assert_eq!((fixture.starts(), reserved_for(&fixture.scheduler)), (vec![], vec![10]));
    fixture.result(first, worker, Outcome::Succeeded);
    let second = TaskRef { job: id(20), ..first };
    fixture.result(second, worker, Outcome::Succeeded);
    assert_eq!((fixture.starts(), reserved_for(&fixture.scheduler)), (vec![10], vec![]));
}

#[test]
fn quota_reservations_survive_a_snapshot() {
    let (mut fixture, worker, sent) = stopped();
    pass(&mut fixture, worker, 10_000);
    let text = serde_json::to_string(&fixture.scheduler.snapshot()).unwrap();
    fixture.scheduler = Scheduler::restore(serde_json::from_str(&text).unwrap(), Config::default()).unwrap();
    fixture.result(sent[0], worker, Outcome::Succeeded);
    assert_eq!((fixture.starts(), reserved_for(&fixture.scheduler)), (vec![], vec![10]));
}

#[test]
fn an_explanation_tells_whom_the_tenant_reserves_for() {
    let (mut fixture, worker, sent) = stopped();
    pass(&mut fixture, worker, 10_000);
    let obstacle = |fixture: &Fixture, number| fixture.scheduler.explain(id(number)).unwrap().obstacle;
    assert!(matches!(obstacle(&fixture, 20), Some(Obstacle::Quota(_))), "nothing is left for it either way");
    fixture.result(sent[0], worker, Outcome::Succeeded);
    assert_eq!(obstacle(&fixture, 20), Some(Obstacle::QuotaReserved(id(10))));
    assert!(matches!(obstacle(&fixture, 10), Some(Obstacle::Quota(_))));
}

#[test]
fn a_job_that_no_worker_could_hold_is_not_reserved_for() {
    let (mut fixture, worker) = limited(cpu(9500));
    fixture.submit(1, spec(1000));
    let (first, _) = fixture.round()[0];
    fixture.start(first, worker);
    fixture.submit(10, spec(9000));
    assert_eq!(
        (fixture.starts(), pass(&mut fixture, worker, 10_000), reserved_for(&fixture.scheduler)),
        (vec![], vec![], vec![])
    );
    let other = fixture.worker("w2", offer(9000));
    fixture.starts();
    assert_eq!(pass(&mut fixture, other, 10_000), [0_u64; 0]);
    assert_eq!(reserved_for(&fixture.scheduler), [10], "there is one now");
}

#[test]
fn who_the_limits_could_never_allow_stands_in_nobodys_way() {
    let (mut fixture, worker) = limited(cpu(6000));
    (1..=4).for_each(|number| fixture.submit(number, spec(1000)));
    let sent: Vec<TaskRef> = fixture.round().into_iter().map(|(attempt, _)| attempt).collect();
    sent.iter().for_each(|attempt| fixture.start(*attempt, worker));
    fixture.submit(9, spec(5000));
    let change =
        |fixture: &mut Fixture, quota| fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota });
    change(&mut fixture, cpu(4000));
    fixture.submit(10, spec(3000));
    (20..30).for_each(|number| fixture.submit(number, spec(1000)));
    assert_eq!(fixture.starts(), [0_u64; 0]);
    assert_eq!((pass(&mut fixture, worker, 10_000), reserved_for(&fixture.scheduler)), (vec![], vec![10]));
    // With other limits the one before it comes first again, as soon as these are known.
    change(&mut fixture, cpu(6000));
    assert_eq!(reserved_for(&fixture.scheduler), [0_u64; 0]);
    assert_eq!(fixture.scheduler.sanity_check(), Ok(()));
}

#[test]
fn who_no_worker_could_hold_stands_in_nobodys_way() {
    let (mut fixture, worker) = limited(cpu(4000));
    (1..=4).for_each(|number| fixture.submit(number, spec(1000)));
    let sent: Vec<TaskRef> = fixture.round().into_iter().map(|(attempt, _)| attempt).collect();
    sent.iter().for_each(|attempt| fixture.start(*attempt, worker));
    let mut nowhere = spec(2000);
    nowhere.requires.features.insert("tee:sev-snp".to_owned());
    fixture.submit(9, nowhere);
    fixture.submit(10, spec(3000));
    (20..30).for_each(|number| fixture.submit(number, spec(1000)));
    assert_eq!(fixture.starts(), [0_u64; 0]);
    assert_eq!((pass(&mut fixture, worker, 10_000), reserved_for(&fixture.scheduler)), (vec![], vec![10]));
    // Where there is a worker for it, it comes first again.
    let able = Capabilities { features: ["tee:sev-snp".to_owned()].into(), ..offer(8000) };
    fixture.worker("w2", able);
    fixture.starts();
    assert_eq!(reserved_for(&fixture.scheduler), [0_u64; 0]);
}

#[test]
fn who_becomes_the_first_ends_what_is_reserved_until_it_has_started() {
    let (mut fixture, worker, mut sent) = stopped();
    let last = sent.pop().unwrap();
    fixture.must(Event::Cancel { job: id(10), elements: None });
    let mut nowhere = spec(500);
    nowhere.requires.features.insert("tee:sev-snp".to_owned());
    let array = ArraySpec { indices: vec![(0, 1)], max_parallel: Some(1), ..ArraySpec::default() };
    fixture.must(Event::SubmitArray { job: id(30), spec: nowhere.into(), gate: StartWindow::default(), array });
    (20..30).for_each(|number| fixture.must(Event::Cancel { job: id(number), elements: None }));
    fixture.submit(31, spec(3000));
    fixture.submit(32, Demand { priority: Priority(0), ..spec(500) });
    assert_eq!(
        (fixture.starts(), pass(&mut fixture, worker, 10_000), reserved_for(&fixture.scheduler)),
        (vec![], vec![], vec![31])
    );
    fixture.result(last, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [0_u64; 0], "1000m are left, and reserved");
    // An element that comes before it can start now, and so can who is more urgent; then it is the first again.
    let able = Capabilities { features: ["tee:sev-snp".to_owned()].into(), ..offer(8000) };
    fixture.worker("w2", able);
    assert_eq!((fixture.starts(), reserved_for(&fixture.scheduler)), (vec![32, 30], vec![31]));
    end_all(&mut fixture, worker, &sent);
    assert_eq!(fixture.starts(), [31]);
}
