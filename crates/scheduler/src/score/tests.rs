//! The search against a plain reading of every worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::hardware::gpu::Vendor;
use proptest::prelude::*;

use super::{Candidate, Search, Shortlist};
use crate::class::{Classes, Requests};
use crate::config::Policy;
use crate::event::{Capabilities, GpuDevices};
use crate::fleet::dims::Dims;
use crate::fleet::kind::Kinds;
use crate::fleet::table::Table;
use crate::job::{Demand, Runtime};

/// A fleet of a few sizes and zones with random use, and a class that asks something of it.
#[derive(Debug, Clone)]
struct Case {
    workers: Vec<(u8, u8, u8, bool)>,
    cpu_m: u64,
    memory_mib: u64,
    run: u32,
    seed: u64,
    picky: bool,
    /// Devices of any kind that the class asks for, and of how many counters one; with them there are 16 dimensions.
    gpus: u32,
    counters: usize,
}

/// Counters that fill up the dimensions beside cpu, memory, slots and two kinds of devices.
const COUNTERS: usize = 11;

fn cases() -> impl Strategy<Value = Case> {
    let worker = (0..4_u8, 0..=8_u8, 0..=8_u8, prop::bool::weighted(0.9));
    let workers = prop::collection::vec(worker, 0..300);
    let asks = (1..5000_u64, 0..9000_u64, 0..3_u32, prop_oneof![Just(0), Just(0), 1..=COUNTERS]);
    (workers, asks, 1..40_u32, any::<u64>(), any::<bool>()).prop_map(
        |(workers, (cpu_m, memory_mib, gpus, counters), run, seed, picky)| Case {
            workers,
            cpu_m,
            memory_mib,
            run,
            seed,
            picky,
            gpus,
            counters,
        },
    )
}

/// Devices of a worker: none, of one of two kinds, or of both.
fn devices(at: u32) -> Vec<GpuDevices> {
    let device = |model: &str, count| GpuDevices {
        vendor: Vendor::Nvidia,
        model: model.parse().unwrap(),
        memory_bytes: 40 << 30,
        count,
    };
    let (a, h) = (at % 4, at / 4 % 3);
    [device("a100", a), device("h100", h)].into_iter().filter(|devices| devices.count > 0).collect()
}

struct Fleet {
    table: Table,
    classes: Classes,
    requests: Requests,
    kinds: Kinds,
}

fn build(case: &Case) -> Fleet {
    let (mut dims, mut kinds, mut table) = (Dims::default(), Kinds::default(), Table::default());
    let wide = case.gpus > 0 || case.counters > 0;
    table.widen(if wide { 16 } else { 3 });
    for (at, (size, cpu, memory, open)) in (0_u32..).zip(&case.workers) {
        let size = u64::from(*size) + 1;
        let offer = Capabilities {
            cpu_m: 2000 * size,
            memory_bytes: (size << 32) * 3 / 4,
            max_jobs: 40,
            runtimes: [Runtime::Process].into(),
            labels: BTreeMap::from([("zone".to_owned(), (at % 3).to_string())]),
            gpus: if wide { devices(at) } else { Vec::new() },
            extras: (0..COUNTERS).filter(|_| wide).map(|n| (format!("x{n}"), u64::from(at % 5) + size)).collect(),
            ..Capabilities::default()
        };
        let total = dims.capacity(&offer, &[]).unwrap().0;
        let (kind, _) = kinds.intern(&offer);
        let place = table.enter(at, kind, &total);
        table.set_open(place, true);
        let (cpu, memory) = (total[0] / 8 * i32::from(*cpu), total[1] / 8 * i32::from(*memory));
        table.charge(place, &[(0, cpu), (1, memory)], 1);
        // Some of everything else is taken too, of each worker something else.
        for dim in (3..dims.len()).filter(|dim| (at as usize + dim).is_multiple_of(3)) {
            table.charge(place, &[(dim as u8, total[dim] / 2)], 1);
        }
        table.set_open(place, *open);
    }
    let mut spec = Demand::new("t".parse().unwrap());
    spec.resources.cpu_m = case.cpu_m;
    spec.resources.memory_bytes = case.memory_mib << 20;
    spec.resources.gpus.count = case.gpus;
    spec.resources.extras = (0..case.counters).map(|n| (format!("x{n}"), 1)).collect();
    if case.picky {
        let (key, op) = ("zone".to_owned(), orlop_core::hardware::placement::Operator::NotIn);
        let values = ["1".to_owned()].into();
        spec.requires.labels.push(orlop_core::hardware::placement::LabelExpr { key, op, values });
    }
    let (mut classes, mut requests) = (Classes::default(), Requests::default());
    classes.intern(&Arc::new(spec), None, (&kinds, &dims, &mut requests));
    Fleet { table, classes, requests, kinds }
}

/// The first of the candidates that the run will use, in order.
fn used(found: &Shortlist, run: u32) -> Vec<Candidate> {
    let mut left = i64::from(run);
    let mut list = Vec::new();
    for candidate in found.iter() {
        if left > 0 {
            list.push(candidate);
            left -= i64::from(candidate.hosts);
        }
    }
    list
}

proptest! {
    #[test]
    fn skipping_chooses_what_a_full_scan_chooses(case in cases()) {
        let fleet = build(&case);
        let class = fleet.classes.get(0).unwrap();
        let scale = super::scale(&fleet.table);
        let score = |kind: u32| fleet.kinds.get(kind).map_or(0, |kind| u32::from(kind.labels["zone"] == "2"));
        for policy in [Policy::BestFit, Policy::MostAllocated, Policy::FirstFit, Policy::Spread, Policy::DotProduct] {
            for preferred in [false, true] {
                let search = Search {
                    policy,
                    class,
                    numbers: &class.requests,
                    requests: &fleet.requests,
                    scale: &scale,
                    seed: case.seed,
                    run: if policy.fills() { case.run } else { 1 },
                    avoid: 70,
                    preference: (preferred && policy != Policy::FirstFit).then_some(&score),
                    scorer: None,
                };
                let (mut skipping, mut plain) = (Shortlist::default(), Shortlist::default());
                search.everywhere(&fleet.table, &mut skipping, &mut Vec::new());
                search.plainly(&fleet.table, &mut plain);
                prop_assert_eq!(used(&skipping, search.run), used(&plain, search.run), "{:?}", policy);
            }
        }
    }

    #[test]
    fn a_bound_is_never_above_a_score(case in cases()) {
        let fleet = build(&case);
        // Nobody may have what is asked for.
        let Some(request) = fleet.requests.get(0) else { return Ok(()) };
        let scale = super::scale(&fleet.table);
        for policy in [Policy::BestFit, Policy::MostAllocated, Policy::Spread] {
            for (block, known) in fleet.table.blocks().iter().enumerate() {
                let bound = super::bound(policy, &fleet.table, block, request, &scale);
                let scores = super::block_scores(policy, &fleet.table, block, request, &scale);
                for (lane, score) in scores.iter().enumerate() {
                    let place = (block * 64 + lane) as u32;
                    if known.open >> lane & 1 == 1 && fleet.table.hosts(place, &request.need) > 0 {
                        prop_assert!(bound <= *score, "{policy:?}: {bound} above {score}");
                        let alone = super::of_place(policy, &fleet.table, place, request, &scale);
                        prop_assert_eq!(alone, super::fixed(*score), "{:?}", policy);
                    }
                }
            }
        }
    }
}
