//! GPUs: alternatives and their conditions (1.1), limits by count and kind, other limits of submits (1.2); and preferences.

use std::collections::BTreeMap;

use orlop_core::hardware::gpu::{ModelKey, Vendor};
use orlop_core::hardware::placement::{LabelExpr, Operator};

use super::fixture::{Fixture, id, offer, spec};
use crate::config::{Config, Policy};
use crate::effect::{Effect, Limit, Refusal};
use crate::engine::{Misfit, Obstacle, ResourceUse};
use crate::event::{ArraySpec, Capabilities, Event, GpuDevices, OnExceed, Outcome, Quota, StartWindow, TenantSettings};
use crate::job::{Demand, GpuKind, Prefer};
use crate::token::WorkerKey;

fn model(name: &str) -> ModelKey {
    ModelKey::new(name).unwrap()
}

fn devices(vendor: Vendor, name: &str, gib: u64, count: u32) -> GpuDevices {
    GpuDevices { vendor, model: model(name), memory_bytes: gib << 30, count }
}

pub(super) fn machine(gpus: &[(&str, u32)]) -> Capabilities {
    let gpus = gpus.iter().map(|(name, count)| devices(Vendor::Nvidia, name, 40, *count)).collect();
    Capabilities { gpus, ..offer(16_000) }
}

pub(super) fn kind(name: &str) -> GpuKind {
    GpuKind { vendor: Vendor::Nvidia, model: Some(model(name)), memory_min: None }
}

/// A job that takes so many GPUs, of one of these kinds; none = of any.
fn gpus(count: u32, any_of: &[GpuKind]) -> Demand {
    let mut spec = spec(100);
    (spec.resources.gpus.count, spec.resources.gpus.any_of) = (count, any_of.to_vec());
    spec
}

fn quota(fixture: &mut Fixture, quota: Quota) {
    fixture.must(Event::QuotaChanged { tenant: "t".parse().unwrap(), quota });
}

fn refused(fixture: &mut Fixture, event: Event) -> Option<Refusal> {
    fixture.effects.clear();
    fixture.must(event);
    fixture.effects.iter().find_map(|effect| match effect {
        Effect::Refused { reason, .. } => Some(*reason),
        _ => None,
    })
}

fn submit(number: u64, spec: Demand) -> Event {
    Event::Submit { job: id(number), spec: spec.into(), gate: StartWindow::default() }
}

fn by_kind(limits: &[(&str, u64)]) -> BTreeMap<ModelKey, u64> {
    limits.iter().map(|(name, most)| (model(name), *most)).collect()
}

#[test]
fn max_gpus_counts_gpus_of_all_kinds_that_are_held() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", machine(&[("a100", 2), ("h100", 2)]));
    quota(&mut fixture, Quota { max_gpus: Some(3), ..Quota::default() });
    fixture.submit(1, gpus(2, &[kind("a100")]));
    fixture.submit(2, gpus(1, &[kind("h100")]));
    fixture.submit(3, gpus(1, &[kind("h100")]));
    fixture.submit(4, spec(100));
    let sent = fixture.round();
    assert_eq!(sent.iter().map(|(attempt, _)| attempt.job.counter()).collect::<Vec<_>>(), [1, 2, 4]);
    assert!(fixture.effects.iter().any(|effect| matches!(effect, Effect::Quota { stopped: true, .. })));
    let why = fixture.scheduler.explain(id(3)).unwrap();
    let Some(Obstacle::Quota(limits)) = &why.obstacle else { panic!("{why:?}") };
    insta::assert_snapshot!(limits[0], @"max_gpus: needs 1, 3 of 3 are used");
    fixture.result(sent[0].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts(), [3]);
}

#[test]
fn max_gpus_by_kind_counts_each_kind_and_leaves_the_others() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", machine(&[("a100", 4), ("h100", 4)]));
    quota(&mut fixture, Quota { max_gpus_by_kind: by_kind(&[("a100", 1), ("h100", 2)]), ..Quota::default() });
    (1..=3).for_each(|number| fixture.submit(number, gpus(1, &[kind("a100")])));
    let sent = fixture.round();
    assert_eq!(sent.len(), 1);
    // Of several kinds those that still may be held are taken.
    (4..=7).for_each(|number| fixture.submit(number, gpus(1, &[kind("a100"), kind("h100")])));
    assert_eq!(fixture.starts(), [4, 5]);
    fixture.result(sent[0].0, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts().len(), 1, "one of the first kind is free again");
    quota(&mut fixture, Quota::default());
    assert_eq!(fixture.starts().len(), 3);
}

#[test]
fn more_gpus_than_a_tenant_may_ever_hold_are_refused_at_submit() {
    let mut fixture = Fixture::new(Config::default());
    let limits = by_kind(&[("a100", 1), ("h100", 2)]);
    quota(&mut fixture, Quota { max_gpus: Some(4), max_gpus_by_kind: limits, ..Quota::default() });
    let never = |what, asked, limit| Some(Refusal::NeverFits { what, asked, limit });
    assert_eq!(refused(&mut fixture, submit(1, gpus(5, &[]))), never(Limit::Gpus, 5, 4));
    let both = [kind("a100"), kind("h100")];
    assert_eq!(refused(&mut fixture, submit(1, gpus(3, &both))), never(Limit::GpusByKind, 3, 2));
    assert_eq!(refused(&mut fixture, submit(1, gpus(2, &both))), None, "one of the kinds will do");
    assert_eq!(refused(&mut fixture, submit(2, gpus(4, &[kind("l40")]))), None, "this kind has no limit of its own");
    assert_eq!(refused(&mut fixture, submit(3, gpus(4, &[]))), None, "nor has any kind");
    quota(&mut fixture, Quota { max_gpus: Some(4), on_exceed: OnExceed::Deny, ..Quota::default() });
    let demand = Refusal::Demand { what: Limit::Gpus, used: 11, limit: 4 };
    assert_eq!(refused(&mut fixture, submit(4, gpus(1, &[]))), Some(demand), "2, 4 and 4 are asked for already");
}

#[test]
fn arrays_and_time_limits_beyond_a_tenants_are_refused_at_submit() {
    let mut fixture = Fixture::new(Config::default());
    let of = |number, indices| {
        let array = ArraySpec { indices, ..ArraySpec::default() };
        Event::SubmitArray {
            job: id(number),
            spec: Demand { timeout_ms: 5000, ..spec(1) }.into(),
            gate: StartWindow::default(),
            array,
        }
    };
    quota(&mut fixture, Quota { max_array: Some(10), max_timeout_ms: Some(5000), ..Quota::default() });
    let never = |what, asked, limit| Some(Refusal::NeverFits { what, asked, limit });
    assert_eq!(refused(&mut fixture, of(1, vec![(0, 4), (10, 15)])), never(Limit::Array, 11, 10));
    assert_eq!(refused(&mut fixture, of(1, vec![(0, 4), (11, 15)])), None);
    assert_eq!(
        refused(&mut fixture, submit(2, Demand { timeout_ms: 5001, ..spec(1) })),
        never(Limit::Timeout, 5001, 5000)
    );
    assert_eq!(refused(&mut fixture, submit(2, Demand { timeout_ms: 5000, ..spec(1) })), None);
    assert_eq!(
        refused(&mut fixture, submit(3, spec(1))),
        never(Limit::Timeout, u64::MAX, 5000),
        "none is more than any"
    );
    quota(&mut fixture, Quota { max_array: Some(0), ..Quota::default() });
    assert_eq!(refused(&mut fixture, submit(3, spec(1))), None, "it is no array");
    insta::assert_snapshot!(
        never(Limit::Array, 11, 10).unwrap(),
        @"it asks 11 of `max_array`, the tenant may have 10 at all; ask less or raise the quota"
    );
}

#[test]
fn a_gpu_will_do_by_vendor_model_and_memory() {
    let any = GpuKind { vendor: Vendor::Nvidia, model: None, memory_min: None };
    for (wanted, expected) in [
        (vec![any.clone()], "w1"),
        (vec![GpuKind { vendor: Vendor::Amd, ..any.clone() }], "w2"),
        (vec![GpuKind { memory_min: Some(41 << 30), ..any.clone() }], "w3"),
        (vec![GpuKind { memory_min: Some(80 << 30), ..any.clone() }], "w3"),
        (vec![kind("none"), kind("northis"), kind("northat"), kind("h100")], "w3"),
    ] {
        let mut fixture = Fixture::new(Config { policy: Policy::FirstFit, ..Config::default() });
        fixture.worker("w1", machine(&[("a100", 1)]));
        fixture.worker("w2", Capabilities { gpus: vec![devices(Vendor::Amd, "mi300x", 192, 1)], ..offer(16_000) });
        fixture.worker("w3", Capabilities { gpus: vec![devices(Vendor::Nvidia, "h100", 80, 1)], ..offer(16_000) });
        fixture.submit(1, gpus(1, &wanted));
        let sent = fixture.round();
        assert_eq!(fixture.scheduler.worker_view(sent[0].1).unwrap().id.to_string(), expected, "{wanted:?}");
    }
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", machine(&[("a100", 1)]));
    fixture.submit(1, gpus(1, &[GpuKind { memory_min: Some((40 << 30) + 1), ..any }]));
    assert!(fixture.starts().is_empty());
    assert!(fixture.scheduler.explain(id(1)).unwrap().is_infeasible());
}

#[test]
fn a_slice_is_for_those_who_name_its_model() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", machine(&[("a100mig1g10gb", 2)]));
    fixture.submit(1, gpus(1, &[]));
    fixture.submit(2, gpus(1, &[GpuKind { vendor: Vendor::Nvidia, model: None, memory_min: None }]));
    assert!(fixture.starts().is_empty(), "they asked for whole devices");
    fixture.submit(3, gpus(1, &[kind("a100mig1g10gb")]));
    assert_eq!(fixture.starts(), [3]);
}

#[test]
fn an_attempt_has_whole_gpus_of_one_kind_and_at_most_four_alternatives() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", machine(&[("a100", 1), ("h100", 1)]));
    fixture.submit(1, gpus(2, &[]));
    assert!(fixture.starts().is_empty(), "there are two, but not of one kind");
    fixture.must(Event::Updated { worker, capabilities: machine(&[("a100", 1), ("h100", 2)]).into() });
    assert_eq!(fixture.starts(), [1]);
    let five = ["a", "b", "c", "d", "e"].map(kind);
    insta::assert_snapshot!(
        fixture.apply(submit(2, gpus(1, &five))).unwrap_err(),
        @"job j0000100000002: resources.gpus.any_of is 5; use at most 4 kinds"
    );
}

#[test]
fn a_job_without_gpus_leaves_workers_with_free_gpus_alone_if_it_can() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", machine(&[("a100", 4)]));
    let plain = fixture.worker("w2", offer(64_000));
    fixture.submit(1, spec(1000));
    assert_eq!(fixture.round()[0].1, plain, "though the other would be tighter");
}

fn labelled(cpu_m: u64, labels: &[(&str, &str)]) -> Capabilities {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Capabilities { labels, ..offer(cpu_m) }
}

fn prefers(list: &[(&str, u8)]) -> Demand {
    let prefer = |(key, weight): &(&str, u8)| Prefer {
        label: LabelExpr { key: (*key).to_owned(), op: Operator::Exists, values: [].into() },
        weight: *weight,
    };
    Demand { prefers: list.iter().map(prefer).collect(), ..spec(1000) }
}

/// Sixteen equal workers but for a label of one of them; which one a job gets.
fn one_of_sixteen(seed: u64, liked: usize, job: Demand) -> (WorkerKey, WorkerKey) {
    let mut fixture = Fixture::new(Config::default());
    fixture.scheduler = crate::engine::Scheduler::new(Config::default(), seed).unwrap();
    let keys: Vec<WorkerKey> = (0..16)
        .map(|at| {
            fixture
                .worker(&format!("w{at}"), labelled(4000, if at == liked { &[("ssd", "")] } else { &[("disk", "")] }))
        })
        .collect();
    fixture.submit(1, job);
    (fixture.round()[0].1, keys[liked])
}

#[test]
fn among_equals_the_one_that_is_liked_best_then_one_by_the_seed() {
    for liked in [0, 7, 15] {
        let (chosen, expected) = one_of_sixteen(1, liked, prefers(&[("ssd", 1)]));
        assert_eq!(chosen, expected);
    }
    let by_seed: Vec<WorkerKey> = (0..16).map(|seed| one_of_sixteen(seed, 0, spec(1000)).0).collect();
    let again: Vec<WorkerKey> = (0..16).map(|seed| one_of_sixteen(seed, 0, spec(1000)).0).collect();
    assert_eq!(by_seed, again, "equal seeds choose equally");
    let different: std::collections::BTreeSet<_> = by_seed.iter().collect();
    assert!(different.len() > 4, "the seed decides between equals: {different:?}");
}

#[test]
fn preferences_add_up_and_never_filter_nor_outweigh_the_policy() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", labelled(4000, &[("ssd", "")]));
    let both = fixture.worker("w2", labelled(4000, &[("near", ""), ("quiet", "")]));
    fixture.submit(1, prefers(&[("ssd", 50), ("near", 30), ("quiet", 21)]));
    assert_eq!(fixture.round()[0].1, both, "30 and 21 are more than 50");
    // Nobody has what is liked: it starts all the same.
    fixture.submit(2, prefers(&[("gold", 100)]));
    assert_eq!(fixture.starts(), [2]);
    // Fit comes first.
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", labelled(8000, &[("ssd", "")]));
    let tight = fixture.worker("w2", labelled(1000, &[]));
    fixture.submit(1, prefers(&[("ssd", 100)]));
    assert_eq!(fixture.round()[0].1, tight);
}

#[test]
fn of_several_alternatives_the_one_that_lacks_least_speaks() {
    let mut fixture = Fixture::new(Config::default());
    let worker = fixture.worker("w1", machine(&[("a100", 1), ("h100", 8)]));
    fixture.submit(1, gpus(6, &[kind("h100")]));
    assert_eq!(fixture.starts(), [1]);
    // Four a100 are more than there are at all, four h100 are not: the worker is busy, not useless.
    fixture.submit(2, gpus(4, &[kind("a100"), kind("h100")]));
    fixture.round();
    let why = fixture.scheduler.explain(id(2)).unwrap();
    assert!(!why.is_infeasible());
    assert_eq!((why.workers[0].misfit, why.nearest), (Some(Misfit::Capacity), Some(worker)));
    let lacking: Vec<_> = why.workers[0].lacking.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lacking.join("; "), @"gpu nvidia/h100: needs 4, free 2 of 8");
    fixture.submit(3, gpus(9, &[kind("a100"), kind("h100")]));
    assert!(fixture.scheduler.explain(id(3)).unwrap().is_infeasible());
}

#[test]
fn whose_limits_never_allow_one_kind_of_device_reserves_by_the_other() {
    let mut fixture = Fixture::new(Config::default());
    let workers = [("w1", "l4"), ("w2", "a100")].map(|(name, gpu)| fixture.worker(name, machine(&[(gpu, 2)])));
    quota(&mut fixture, Quota { max_gpus_by_kind: by_kind(&[("a100", 0)]), ..Quota::default() });
    let short = || Demand { timeout_ms: 60_000, grace_ms: 0, ..gpus(1, &[kind("l4")]) };
    (1..=2).for_each(|number| fixture.submit(number, short()));
    let sent = fixture.round();
    sent.iter().for_each(|(attempt, worker)| fixture.start(*attempt, *worker));
    fixture.submit(10, gpus(2, &[kind("a100"), kind("l4")]));
    assert!(fixture.starts().is_empty());
    fixture.now = 10_000;
    workers.into_iter().for_each(|worker| fixture.must(Event::Heartbeat { worker }));
    fixture.round();
    assert_eq!(fixture.scheduler.reservations().collect::<Vec<_>>(), [(id(10), workers[0], Some(60_000))]);
    // Others keep coming.
    for (at, (attempt, worker)) in sent.into_iter().enumerate() {
        fixture.submit(20 + at as u64, short());
        fixture.result(attempt, worker, Outcome::Succeeded);
        let expected: &[u64] = [&[][..], &[10]][at];
        assert_eq!(fixture.starts(), expected);
    }
}

#[test]
fn whose_limits_allow_a_kind_of_device_that_is_new_starts_there() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", machine(&[("l4", 1)]));
    quota(&mut fixture, Quota { max_gpus_by_kind: by_kind(&[("l4", 0)]), ..Quota::default() });
    fixture.submit(1, gpus(1, &[]));
    assert!(fixture.starts().is_empty());
    fixture.worker("w2", machine(&[("a100", 1)]));
    assert_eq!(fixture.starts(), [1]);
}

#[test]
fn what_a_tenant_and_a_worker_hold_is_reported_by_kind_and_shares_plainly() {
    let mut fixture = Fixture::new(Config::default());
    let mut offer = machine(&[("a100", 4), ("h100", 2)]);
    offer.extras.insert("licence".to_owned(), 10);
    let worker = fixture.worker("w1", offer);
    let settings = TenantSettings { weight: 200, ..TenantSettings::default() };
    fixture.must(Event::TenantChanged { tenant: "t".parse().unwrap(), settings });
    let mut job = gpus(1, &[kind("a100")]);
    job.resources.extras.insert("licence".to_owned(), 2);
    fixture.submit(1, job);
    assert_eq!(fixture.starts(), [1]);
    let tenant = fixture.scheduler.tenant(&"t".parse().unwrap()).unwrap();
    assert_eq!((tenant.share, tenant.weighted_share), (0.25, 0.25 / 200.0), "a quarter of all a100");
    assert_eq!(tenant.gpus, BTreeMap::from([(model("a100"), 1)]));
    let held = |what: &str, allocated, total| ResourceUse { what: what.to_owned(), allocated, total };
    let mut further = fixture.scheduler.worker_view(worker).unwrap().further;
    further.sort_by(|one, other| one.what.cmp(&other.what));
    assert_eq!(further, [held("extra:licence", 2, 10), held("gpu:nvidia/a100", 1, 4), held("gpu:nvidia/h100", 0, 2)]);
}
