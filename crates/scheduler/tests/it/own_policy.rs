//! Policies of users: what they are asked, and that a built-in policy asked through one decides as it does by itself.

use std::sync::Arc;

use orlop_scheduler::job::Prefer;
use orlop_scheduler::prelude::*;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

fn scheduler(policy: Policy) -> Scheduler {
    let mut config = Config::without_timeouts();
    config.policy = policy;
    Scheduler::new(config, 11).unwrap()
}

fn placed(scheduler: &mut Scheduler, now: u64) -> Vec<Placement> {
    let mut effects = Vec::new();
    let _ = scheduler.round(now, u32::MAX, &mut effects);
    scheduler.sanity_check().unwrap();
    effects.iter().filter_map(Effect::placement).collect()
}

fn zone(number: u8) -> String {
    format!("z{}", number % 3)
}

/// What one job asks: millicores in hundreds, gibibytes, GPUs, whether it prefers a zone, and how many jobs end before it comes.
type Asked = (u64, u64, u32, bool, usize);

/// Where jobs go, in order, and what is left running.
fn course(mut scheduler: Scheduler, workers: &[(u64, u8, u32)], jobs: &[Asked]) -> Vec<Placement> {
    let mut effects = Vec::new();
    for (number, (cores, place, gpus)) in workers.iter().enumerate() {
        let mut offer = Capabilities::new(cores * 1000, cores * 2 * GIB).label("zone", zone(*place));
        if *gpus > 0 {
            offer = offer.gpus(GpuDevices::new("nvidia/a100", 40 * GIB, *gpus).unwrap());
        }
        scheduler.join(0, format!("w{number}").parse().unwrap(), offer, &mut effects).unwrap();
    }
    let (mut all, mut running) = (Vec::new(), Vec::new());
    for (now, (cpu, gib, gpus, picky, ends)) in (1..).zip(jobs) {
        let mut demand = Demand::new("t".parse().unwrap());
        (demand.resources.cpu_m, demand.resources.memory_bytes) = (cpu * 100, gib * GIB);
        demand.resources.gpus.count = *gpus;
        if *picky {
            let op = orlop_scheduler::job::Operator::In;
            let label =
                orlop_scheduler::job::LabelExpr { key: "zone".to_owned(), op, values: ["z1".to_owned()].into() };
            demand.prefers = vec![Prefer { label, weight: 50 }];
        }
        let array = ArraySpec::range(0, 3);
        scheduler.submit(now, Submission::new(JobId::from_u64(now), demand).array(array), &mut effects).unwrap();
        for placement in running.drain(..(*ends).min(running.len())) {
            scheduler.finish(now, placement, Outcome::Succeeded, &mut effects).unwrap();
        }
        let new = placed(&mut scheduler, now);
        running.extend(&new);
        all.extend(new);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    #[test]
    fn a_built_in_policy_asked_by_a_rule_decides_as_by_itself(
        workers in proptest::collection::vec((1..16_u64, 0..3_u8, prop_oneof![Just(0), 0..4_u32]), 1..150),
        jobs in proptest::collection::vec((1..80_u64, 0..8_u64, prop_oneof![Just(0), 0..2_u32], any::<bool>(), 0..6_usize), 1..40),
    ) {
        for policy in [Policy::BestFit, Policy::MostAllocated, Policy::FirstFit, Policy::Balanced] {
            // By itself, `first-fit` leaves preferences to decide, since all scores are equal.
            let plain = |(cpu, gib, gpus, picky, ends): &Asked| {
                (*cpu, *gib, *gpus, *picky && policy != Policy::FirstFit, *ends)
            };
            let jobs: Vec<Asked> = jobs.iter().map(plain).collect();
            let by_itself = course(scheduler(policy), &workers, &jobs);
            let mut asked = scheduler(Policy::Spread);
            asked.set_placement_policy(Some(Arc::new(policy)));
            prop_assert_eq!(course(asked, &workers, &jobs), by_itself, "{:?}", policy);
        }
    }
}

#[test]
fn a_rule_sees_amounts_as_they_were_offered_and_asked() {
    let mut scheduler = scheduler(Policy::BestFit);
    let mut effects = Vec::new();
    let offer = Capabilities::new(8000, 32 * GIB)
        .gpus(GpuDevices::new("nvidia/a100", 40 * GIB, 2).unwrap())
        .gpus(GpuDevices::new("nvidia/h100", 80 * GIB, 1).unwrap())
        .extra("disk", 1 << 40)
        .label("zone", "b")
        .max_jobs(9);
    let worker = scheduler.join(0, "w1".parse().unwrap(), offer, &mut effects).unwrap();
    let small = Capabilities::new(64_000, 256 * GIB).extra("disk", 1);
    scheduler.join(0, "w2".parse().unwrap(), small, &mut effects).unwrap();
    scheduler.set_placement_policy(Some(Arc::new(move |site: &Site<'_>| {
        assert_eq!((site.worker(), site.id().unwrap().as_str(), site.labels()["zone"].as_str()), (worker, "w1", "b"));
        let room = |free, total, asked| Room { free, total, asked };
        assert_eq!(site.cpu(), room(8000, 8000, 3000));
        assert_eq!(site.memory(), room(32 * GIB, 32 * GIB, 8 * GIB));
        assert_eq!(site.memory().part_left(), 49_152);
        assert_eq!(site.slots(), room(9, 9, 1));
        assert_eq!(site.gpus(), room(3, 3, 2));
        assert_eq!(site.extra("disk"), room(1 << 40, 1 << 40, 1 << 30));
        assert_eq!(site.extra("licence"), Room::default());
        assert_eq!((site.resources().cpu_m, site.preferred()), (3000, 0));
        assert!(format!("{site:?}").starts_with("Site { worker: "));
        u32::MAX
    })));
    let mut demand = Demand::new("t".parse().unwrap());
    (demand.resources.cpu_m, demand.resources.memory_bytes) = (3000, 8 * GIB);
    demand.resources.gpus.count = 2;
    demand.resources.extras.insert("disk".to_owned(), 1 << 30);
    scheduler.submit(0, Submission::new(JobId::from_u64(1), demand), &mut effects).unwrap();
    assert_eq!(placed(&mut scheduler, 0).len(), 1, "the worst score is a score");
}

/// A rule and the configured policy in turn; a snapshot knows nothing of the rule.
#[test]
fn a_rule_holds_until_it_is_taken_back_and_is_told_again_after_a_restart() {
    let last: Arc<dyn PlacementPolicy> =
        Arc::new(|site: &Site<'_>| u32::from(site.id().is_none_or(|id| id.as_str() != "w3")));
    let (mut scheduler, mut effects) = (scheduler(Policy::FirstFit), Vec::new());
    let names = ["w1", "w2", "w3"];
    let keys = names
        .map(|name| scheduler.join(0, name.parse().unwrap(), Capabilities::new(9000, 9 * GIB), &mut effects).unwrap());
    let mut next = 0;
    let mut goes = |scheduler: &mut Scheduler| {
        next += 1;
        let job = Submission::new(JobId::from_u64(next), Demand::new("t".parse().unwrap()));
        scheduler.submit(next, job, &mut Vec::new()).unwrap();
        placed(scheduler, next).first().map(|placement| placement.worker)
    };
    assert_eq!(goes(&mut scheduler), Some(keys[0]));
    scheduler.set_placement_policy(Some(Arc::clone(&last)));
    assert_eq!(goes(&mut scheduler), Some(keys[2]));
    assert_eq!(goes(&mut scheduler.clone()), Some(keys[2]));
    let mut restored = Scheduler::restore(scheduler.snapshot(), scheduler.config().clone()).unwrap();
    assert_eq!(goes(&mut restored), Some(keys[0]));
    restored.set_placement_policy(Some(last));
    assert_eq!(goes(&mut restored), Some(keys[2]));
    scheduler.set_placement_policy(None);
    assert_eq!(goes(&mut scheduler), Some(keys[0]));
}
