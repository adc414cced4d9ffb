//! Who gets what: quotas (1.2), policies (2.4), blocked classes (2.5), bands and tenants (2.6), arrays and gangs.

use std::sync::Arc;

use orlop_core::machine::job::JobState;

use super::fixture::{Fixture, id, offer, spec};
use crate::config::{Config, Policy};
use crate::effect::{Effect, Limit, Refusal};
use crate::event::{
    ArraySpec, Capabilities, Event, OnExceed, Outcome, Quota, StartWindow, TenantSettings, TenantStatus,
};
use crate::job::{Demand, Gang, Priority};

fn quota(fixture: &mut Fixture, quota: Quota) {
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota });
}

/// Submits and tells why it was refused.
fn refusal(fixture: &mut Fixture, number: u64, spec: Demand) -> Option<Refusal> {
    fixture.effects.clear();
    fixture.must(Event::Submit { job: id(number), spec: spec.into(), gate: StartWindow::default() });
    fixture.effects.iter().find_map(|effect| match effect {
        Effect::Refused { reason, .. } => Some(*reason),
        _ => None,
    })
}

fn array(fixture: &mut Fixture, number: u64, spec: Demand, array: ArraySpec) {
    fixture.must(Event::SubmitArray { job: id(number), spec: spec.into(), gate: StartWindow::default(), array });
}

#[test]
fn limits_of_submits() {
    let mut fixture = Fixture::new(Config::default());
    quota(&mut fixture, Quota { max_pending_jobs: Some(1), ..Quota::default() });
    assert_eq!(refusal(&mut fixture, 1, spec(1)), None);
    assert_eq!(refusal(&mut fixture, 2, spec(1)), Some(Refusal::PendingJobs { used: 2, limit: 1 }));
    assert_eq!(fixture.scheduler.job(id(2), None), None);
    quota(&mut fixture, Quota { max_active_jobs: Some(1), ..Quota::unlimited() });
    assert_eq!(refusal(&mut fixture, 2, spec(1)), Some(Refusal::ActiveJobs { used: 2, limit: 1 }));
    quota(&mut fixture, Quota { submit_per_second: Some(2), ..Quota::unlimited() });
    for number in 2..6 {
        assert_eq!(refusal(&mut fixture, number, spec(1)), None, "a burst of two seconds");
    }
    assert_eq!(refusal(&mut fixture, 6, spec(1)), Some(Refusal::RateLimited { retry_after_ms: 500 }));
    fixture.now += 500;
    assert_eq!(refusal(&mut fixture, 6, spec(1)), None);
}

#[test]
fn what_can_never_be_placed_is_refused_at_submit() {
    let mut fixture = Fixture::new(Config::default());
    quota(&mut fixture, Quota { max_cpu_m: Some(500), max_timeout_ms: Some(1000), ..Quota::default() });
    let limits = |limit| Refusal::NeverFits { what: Limit::Cpu, asked: 501, limit };
    let limited = Demand { timeout_ms: 1000, ..spec(501) };
    assert_eq!(refusal(&mut fixture, 1, limited.clone()), Some(limits(500)));
    let endless = Demand { timeout_ms: 0, ..spec(500) };
    let refused = refusal(&mut fixture, 1, endless).unwrap();
    assert!(matches!(refused, Refusal::NeverFits { what: Limit::Timeout, limit: 1000, .. }), "{refused}");
    let settings = TenantSettings { priority_best: 4, ..TenantSettings::default() };
    fixture.must(Event::TenantChanged { tenant: "t".parse().unwrap(), settings });
    let urgent = Demand { priority: Priority(3), timeout_ms: 1, ..spec(1) };
    assert_eq!(refusal(&mut fixture, 1, urgent), Some(Refusal::Priority { given: 3, best: 4 }));
    let settings = TenantSettings { status: TenantStatus::Closing, ..TenantSettings::default() };
    fixture.must(Event::TenantChanged { tenant: "t".parse().unwrap(), settings });
    assert_eq!(refusal(&mut fixture, 1, limited), Some(Refusal::Closing));
}

#[test]
fn deny_refuses_what_would_only_wait() {
    let mut fixture = Fixture::new(Config::default());
    quota(&mut fixture, Quota { max_cpu_m: Some(1500), on_exceed: OnExceed::Deny, ..Quota::default() });
    assert_eq!(refusal(&mut fixture, 1, spec(1000)), None);
    let refused = Refusal::Demand { what: Limit::Cpu, used: 2000, limit: 1500 };
    assert_eq!(refusal(&mut fixture, 2, spec(1000)), Some(refused));
    fixture.must(Event::Cancel { job: id(1), elements: None });
    assert_eq!(refusal(&mut fixture, 2, spec(1000)), None);
}

#[test]
fn limits_of_placements_make_jobs_wait_and_an_end_lets_them_go() {
    for limit in [
        Quota { max_running_jobs: Some(1), ..Quota::default() },
        Quota { max_cpu_m: Some(1500), ..Quota::default() },
        Quota { max_memory_bytes: Some(3 << 29), ..Quota::default() },
    ] {
        let mut fixture = Fixture::new(Config::default());
        let worker = fixture.worker("w1", offer(8000));
        quota(&mut fixture, limit);
        (1..=2).for_each(|number| fixture.submit(number, spec(1000)));
        let sent = fixture.round();
        assert_eq!(sent.len(), 1);
        assert!(fixture.effects.iter().any(|effect| matches!(effect, Effect::Quota { stopped: true, .. })));
        fixture.result(sent[0].0, worker, Outcome::Succeeded);
        assert_eq!(fixture.starts(), [2]);
        // A higher limit lets them go too, a lower one ends nothing.
        fixture.submit(3, spec(1000));
        assert!(fixture.starts().is_empty());
        quota(&mut fixture, Quota::default());
        assert_eq!(fixture.starts(), [3]);
        quota(&mut fixture, Quota { max_running_jobs: Some(0), ..Quota::default() });
        assert_eq!(fixture.state(2), JobState::Assigned);
    }
}

#[test]
fn priority_then_submission_inside_a_tenant_and_band() {
    let mut fixture = Fixture::new(Config { run_max: 1, ..Config::default() });
    fixture.worker("w1", offer(64_000));
    for (number, priority, cpu) in [(1, 6, 1000), (2, 5, 2000), (3, 5, 1000), (4, 4, 2000)] {
        fixture.submit(number, Demand { priority: Priority(priority), ..spec(cpu) });
    }
    assert_eq!(fixture.starts(), [4, 2, 3, 1]);
}

#[test]
fn backed_up_bands_share_and_a_lone_one_takes_all() {
    let mut fixture = Fixture::new(Config { run_max: 1, ..Config::default() });
    fixture.worker("w1", offer(9000));
    for number in 1..=90 {
        let priority = Priority([0, 5, 9][number as usize % 3]);
        fixture.submit(number, Demand { priority, ..spec(100) });
    }
    let _ = fixture.scheduler.round(0, 30, &mut fixture.effects);
    let mut counts = [0; 3];
    fixture.assigned().iter().for_each(|(attempt, _)| counts[attempt.job.counter() as usize % 3] += 1);
    assert!(counts.iter().all(|count| (9..=11).contains(count)), "{counts:?}");
    for strict in [true, false] {
        let shares = if strict { [0.0; 3] } else { [1.0 / 3.0; 3] };
        let mut fixture = Fixture::new(Config { run_max: 1, band_share: shares, ..Config::default() });
        fixture.worker("w1", offer(9000));
        for number in 1..=60 {
            fixture.submit(number, Demand { priority: Priority(if number % 2 == 0 { 0 } else { 9 }), ..spec(100) });
        }
        let _ = fixture.scheduler.round(0, 30, &mut fixture.effects);
        let high = fixture.assigned().iter().filter(|(attempt, _)| attempt.job.counter() % 2 == 0).count();
        assert!(if strict { high == 30 } else { (19..=21).contains(&high) }, "{high}");
    }
}

#[test]
fn tenants_share_by_weight() {
    let mut fixture = Fixture::new(Config { run_max: 1, ..Config::default() });
    fixture.worker("w1", offer(9000));
    for (tenant, weight) in [("a", 100), ("b", 200)] {
        let settings = TenantSettings { weight, ..TenantSettings::default() };
        fixture.must(Event::TenantChanged { tenant: tenant.parse().unwrap(), settings });
    }
    for number in 1..=80 {
        let tenant = if number % 2 == 0 { "a" } else { "b" }.parse().unwrap();
        fixture.submit(number, Demand { tenant, ..spec(100) });
    }
    let _ = fixture.scheduler.round(0, 30, &mut fixture.effects);
    let of_a = fixture.assigned().iter().filter(|(attempt, _)| attempt.job.counter() % 2 == 0).count();
    assert_eq!(of_a, 10);
}

/// Who was away for an hour gets no more than its share once it is back, be it a tenant or a band.
#[test]
fn idle_time_earns_nothing() {
    for bands in [false, true] {
        let mut fixture = Fixture::new(Config { run_max: 1, ..Config::default() });
        let worker = fixture.worker("w1", offer(9000));
        let job = |other: bool| match (bands, other) {
            (false, _) => Demand { tenant: if other { "b" } else { "a" }.parse().unwrap(), ..spec(100) },
            (true, _) => Demand { priority: Priority(if other { 0 } else { 5 }), ..spec(100) },
        };
        for number in 1..=360 {
            fixture.submit(number, job(false));
            let (attempt, _) = fixture.round()[0];
            fixture.wait(10_000);
            fixture.result(attempt, worker, Outcome::Succeeded);
        }
        (1000..1060).for_each(|number| fixture.submit(number, job(number % 2 == 1)));
        fixture.effects.clear();
        let _ = fixture.scheduler.round(fixture.now, 30, &mut fixture.effects);
        let back = fixture.assigned().iter().filter(|(attempt, _)| attempt.job.counter() % 2 == 1).count();
        // Two ready bands share 2 to 1, with what is left over the higher one's; two tenants half and half.
        let expected = if bands { 19..=21 } else { 15..=15 };
        assert!(expected.contains(&back), "{back} of 30, bands: {bands}");
    }
}

#[test]
fn paused_tenants_are_not_ready() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(9000));
    let tenant = |status| Event::TenantChanged {
        tenant: "t".parse().unwrap(),
        settings: TenantSettings { status, ..TenantSettings::default() },
    };
    fixture.must(tenant(TenantStatus::Paused));
    fixture.submit(1, spec(100));
    assert!(fixture.starts().is_empty());
    fixture.must(tenant(TenantStatus::Active));
    assert_eq!(fixture.starts(), [1]);
}

#[test]
fn a_blocked_class_wakes_with_a_hint_when_something_it_fits_ends() {
    let mut fixture = Fixture::new(Config::default());
    let small = fixture.worker("w1", offer(1000));
    let large = fixture.worker("w2", offer(4000));
    fixture.submit(1, spec(1000));
    fixture.submit(2, spec(4000));
    let sent = fixture.round();
    assert_eq!(sent.len(), 2);
    fixture.submit(3, spec(4000));
    assert!(fixture.starts().is_empty());
    let of = |worker| sent.iter().find(|(_, on)| *on == worker).unwrap().0;
    fixture.result(of(small), small, Outcome::Succeeded);
    assert!(fixture.starts().is_empty(), "it does not fit there");
    fixture.result(of(large), large, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [3]);
}

#[test]
fn a_new_kind_of_worker_wakes_what_only_it_can_run() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(8000));
    let mut job = spec(1000);
    job.resources.extras.insert("licence".to_owned(), 2);
    fixture.submit(1, job);
    assert!(fixture.starts().is_empty());
    let mut licensed = offer(1000);
    licensed.extras.insert("licence".to_owned(), 3);
    let worker = fixture.worker("w2", licensed);
    assert_eq!(fixture.round()[0].1, worker);
}

#[test]
fn arrays_run_at_most_max_parallel_and_wait_on_their_own_ends() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(64_000));
    let window = ArraySpec { indices: vec![(0, 9)], max_parallel: Some(3), max_failures: None };
    array(&mut fixture, 1, spec(100), window);
    let sent = fixture.round();
    assert_eq!(sent.iter().map(|(attempt, _)| attempt.index).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(fixture.starts().is_empty());
    fixture.result(sent[1].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.round().iter().map(|(attempt, _)| attempt.index).collect::<Vec<_>>(), [3]);
}

#[test]
fn past_max_failures_the_rest_of_an_array_is_cancelled() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(64_000));
    let window = ArraySpec { indices: vec![(0, 999_999)], max_parallel: Some(2), max_failures: Some(1) };
    array(&mut fixture, 1, spec(100), window);
    let sent = fixture.round();
    fixture.result(sent[0].0, worker, Outcome::Failed { exit_code: Some(1) });
    assert_eq!(fixture.state(1), JobState::Running);
    let next = fixture.round();
    fixture.result(sent[1].0, worker, Outcome::Failed { exit_code: Some(1) });
    assert_eq!(fixture.scheduler.job(id(1), Some(999_999)).unwrap().state, JobState::Cancelled);
    assert_eq!(fixture.scheduler.job(id(1), Some(2)).unwrap().state, JobState::Cancelling);
    fixture.result(next[0].0, worker, Outcome::Cancelled);
    assert_eq!(fixture.state(1), JobState::Failed);
}

#[test]
fn elements_of_an_array_are_checked() {
    let mut fixture = Fixture::new(Config::default());
    for (indices, text) in [
        (vec![], "job j0000100000001: an array needs 1 to 10,000,000 elements"),
        (vec![(0, 10_000_000)], "job j0000100000001: an array needs 1 to 10,000,000 elements"),
        (vec![(0, 5), (5, 9)], "job j0000100000001: an array names an index twice; name each one once"),
        (
            vec![(5, 0)],
            "job j0000100000001: an array has a range that ends before it begins; write the lower index first",
        ),
    ] {
        let array = ArraySpec { indices, ..ArraySpec::default() };
        let event = Event::SubmitArray { job: id(1), spec: Arc::new(spec(1)), gate: StartWindow::default(), array };
        assert_eq!(fixture.apply(event).unwrap_err().to_string(), text);
    }
    let array = ArraySpec { indices: vec![(0, 9)], max_parallel: Some(0), max_failures: None };
    let event = Event::SubmitArray { job: id(1), spec: Arc::new(spec(1)), gate: StartWindow::default(), array };
    insta::assert_snapshot!(fixture.apply(event).unwrap_err(), @"job j0000100000001: an array whose `max_parallel` is 0 runs nothing; use 1 or more, or leave it out");
}

fn gang(size: u32, label: Option<&str>) -> Demand {
    let same_label = label.map(str::to_owned);
    Demand { gang: Some(Gang { size, max_per_worker: None, same_label }), ..spec(1000) }
}

#[test]
fn a_gang_starts_whole_or_not_at_all_on_fewest_workers() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(1000));
    fixture.worker("w2", offer(2000));
    fixture.submit(1, gang(4, None));
    assert!(fixture.starts().is_empty());
    let large = fixture.worker("w3", offer(4000));
    let sent = fixture.round();
    assert_eq!(
        sent.iter().map(|(attempt, on)| (attempt.member, *on)).collect::<Vec<_>>(),
        (0..4).map(|m| (m, large)).collect::<Vec<_>>()
    );
}

#[test]
fn members_share_a_label() {
    let mut fixture = Fixture::new(Config::default());
    for (name, zone) in [("w1", "a"), ("w2", "b"), ("w3", "b")] {
        let mut offer = offer(1000);
        offer.labels.insert("zone".to_owned(), zone.to_owned());
        fixture.worker(name, offer);
    }
    fixture.submit(1, gang(2, Some("zone")));
    let sent = fixture.round();
    let names: Vec<String> =
        sent.iter().map(|(_, worker)| fixture.scheduler.worker_view(*worker).unwrap().id.to_string()).collect();
    assert!(names.len() == 2 && !names.contains(&"w1".to_owned()), "{names:?}");
}

#[test]
fn the_first_failing_member_ends_the_gang_and_one_outcome_counts() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, gang(3, None));
    let sent = fixture.round();
    sent.iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
    fixture.result(sent[0].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.state(1), JobState::Running);
    fixture.result(sent[1].0, worker, Outcome::Failed { exit_code: Some(9) });
    assert!(
        fixture.effects.iter().any(|effect| matches!(effect, Effect::Cancel { attempt, .. } if *attempt == sent[2].0))
    );
    assert_eq!(fixture.state(1), JobState::Running, "one member is still out");
    fixture.result(sent[2].0, worker, Outcome::Cancelled);
    assert_eq!(fixture.state(1), JobState::Failed);
}

#[test]
fn a_gang_is_completed_once_all_its_members_have_succeeded() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, gang(3, None));
    let sent = fixture.round();
    sent.iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
    for (place, (attempt, _)) in sent.iter().enumerate() {
        assert_eq!(fixture.state(1), JobState::Running, "{place} of 3 have succeeded");
        fixture.result(*attempt, worker, Outcome::Succeeded);
    }
    assert_eq!(fixture.state(1), JobState::Completed);
}

#[test]
fn one_rejected_member_revokes_the_rest() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", offer(4000));
    fixture.submit(1, gang(2, None));
    let sent = fixture.round();
    fixture.effects.clear();
    fixture.must(Event::Rejected { attempt: sent[0].0, worker, permanent: false });
    assert!(fixture.effects.contains(&Effect::Revoke { attempt: sent[1].0, worker }));
    fixture.must(Event::Revoked { attempt: sent[1].0, worker });
    assert_eq!(fixture.state(1), JobState::Backoff);
    fixture.wait(1200);
    let again: Vec<u32> = fixture.round().iter().map(|(attempt, _)| attempt.attempt).collect();
    assert_eq!(again, [2, 2], "both members");
}

#[test]
fn policies_choose_as_they_say() {
    for (policy, expected) in
        [(Policy::BestFit, "w2"), (Policy::MostAllocated, "w2"), (Policy::Spread, "w3"), (Policy::FirstFit, "w1")]
    {
        let mut fixture = Fixture::new(Config { policy, ..Config::default() });
        for (name, cpu) in [("w1", 4000), ("w2", 2000), ("w3", 5000)] {
            fixture.worker(name, offer(cpu));
        }
        fixture.submit(1, spec(1000));
        let worker = fixture.round()[0].1;
        let name = fixture.scheduler.worker_view(worker).unwrap().id.to_string();
        assert_eq!(name, expected, "{policy:?}");
    }
}

#[test]
fn three_jobs_of_a_quarter_are_in_the_reported_band() {
    let mut fixture = Fixture::new(Config { policy: Policy::Balanced, ..Config::default() });
    let mut machine = offer(8000);
    machine.memory_bytes = 16 << 30;
    let worker = fixture.worker("w1", machine);
    for number in 1..=3 {
        let mut job = spec(2000);
        job.resources.memory_bytes = 4 << 30;
        fixture.submit(number, job);
    }
    assert_eq!(fixture.starts(), [1, 2, 3]);
    let view = fixture.scheduler.worker_view(worker).unwrap();
    assert_eq!((view.cpu, view.memory), (0.75, 0.75));
    let all = fixture.scheduler.fleet_use();
    assert_eq!((all.below, all.within, all.above, all.cpu), (0, 1, 0, 0.75));
}

#[test]
fn a_run_puts_no_more_on_a_worker_than_it_holds() {
    let mut fixture = Fixture::new(Config::default());
    // A fleet so large that a run is of three jobs, and a worker that fits one of them best.
    let large = fixture.worker("w1", Capabilities { max_jobs: 10_000, ..offer(1_000_000) });
    let small = fixture.worker("w2", offer(1000));
    (1..=3).for_each(|number| fixture.submit(number, spec(1000)));
    let on: Vec<_> = fixture.round().into_iter().map(|(_, worker)| worker).collect();
    assert_eq!(on, [small, large, large]);
}
