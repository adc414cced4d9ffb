//! Counters and GPUs of any magnitude and of any number of kinds over time, as a user of the crate sees them.

use orlop_scheduler::prelude::*;

const GIGA: u64 = 1_000_000_000;
const TERA: u64 = 1000 * GIGA;
const GIB: u64 = 1 << 30;

struct World {
    scheduler: Scheduler,
    effects: Vec<Effect>,
}

fn offer() -> Capabilities {
    Capabilities::new(64_000, 256 * GIB)
}

impl World {
    fn new() -> Self {
        Self { scheduler: Scheduler::new(Config::without_timeouts(), 5).unwrap(), effects: Vec::new() }
    }

    fn join(&mut self, id: &str, offer: Capabilities) -> WorkerKey {
        self.scheduler.join(0, id.parse().unwrap(), offer, &mut self.effects).unwrap()
    }

    fn submit(&mut self, number: u64, change: impl FnOnce(&mut Demand)) {
        let mut demand = Demand::new("t".parse().unwrap());
        demand.resources.cpu_m = 10;
        demand.resources.memory_bytes = 1 << 20;
        change(&mut demand);
        let job = Submission::new(JobId::from_u64(number), demand);
        self.scheduler.submit(0, job, &mut self.effects).unwrap();
    }

    fn asking(&mut self, number: u64, counter: &str, amount: u64) {
        self.submit(number, |demand| demand.resources.extras.extend([(counter.to_owned(), amount)]));
    }

    fn round(&mut self) -> Vec<Placement> {
        self.effects.clear();
        let _ = self.scheduler.round(0, u32::MAX, &mut self.effects);
        self.effects.iter().filter_map(Effect::placement).collect()
    }

    fn starts(&mut self) -> Vec<u64> {
        self.scheduler.sanity_check().unwrap();
        self.round().into_iter().map(|placement| placement.attempt.job.as_u64()).collect()
    }

    fn remove(&mut self, worker: WorkerKey) {
        let event = Event::Remove { worker, why: Departure::Goodbye };
        self.scheduler.apply(0, event, &mut self.effects).unwrap();
    }

    fn restart(&mut self) {
        let written = serde_json::to_string(&self.scheduler.snapshot()).unwrap();
        let config = self.scheduler.config().clone();
        self.scheduler = Scheduler::restore(serde_json::from_str(&written).unwrap(), config).unwrap();
    }

    /// What a job lacks, worker by worker.
    fn lacking(&self, number: u64) -> String {
        let why = self.scheduler.explain(JobId::from_u64(number)).unwrap();
        let lacking = why.workers.iter().flat_map(|worker| &worker.lacking).map(ToString::to_string);
        lacking.collect::<Vec<_>>().join("; ")
    }
}

#[test]
fn a_counter_of_terabytes_takes_jobs_of_gigabytes() {
    let mut world = World::new();
    world.join("w1", offer().extra("disk", 4 * TERA));
    world.asking(1, "disk", 3 * GIGA);
    assert_eq!(world.starts(), [1]);
    (2..=11).for_each(|number| world.asking(number, "disk", GIGA));
    assert_eq!(world.starts().len(), 10, "at once");
    world.asking(12, "disk", 4 * TERA);
    assert!(world.starts().is_empty());
    let free = world.lacking(12);
    assert!(free.starts_with("disk: needs 4000000000000, free 39") && free.ends_with(" of 4000000000000"), "{free}");
    world.asking(13, "disk", 5 * TERA + 1);
    assert!(world.starts().is_empty());
    assert!(world.lacking(13).starts_with("disk: needs 5000000000001, free"), "{}", world.lacking(13));
}

#[test]
fn amounts_up_to_the_greatest_are_counted() {
    for most in [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 48, 1 << 31, (1 << 31) - 1] {
        let mut world = World::new();
        world.join("w1", offer().extra("disk", most));
        world.asking(1, "disk", most / 2);
        world.asking(2, "disk", most / 4);
        world.asking(3, "disk", most / 2);
        assert_eq!(world.starts(), [1, 2], "{most}");
        let why = world.lacking(3);
        assert!(why.starts_with(&format!("disk: needs {}, free", most / 2)), "{most}: {why}");
        assert!(why.ends_with(&format!(" of {most}")), "{most}: {why}");
        let why = world.scheduler.explain(JobId::from_u64(3)).unwrap();
        let free = why.workers[0].lacking[0].free;
        let exact = i128::from(most - most / 2 - most / 4);
        // A request takes less than a unit more than it asks for, and units are the coarser the more there is.
        let unit =
            [0, 16, 33].into_iter().find(|shift| most >> shift < i32::MAX as u64).map_or(1 << 33, |shift| 1 << shift);
        assert!(free <= exact && exact - free < 2 * unit, "{most}: {free} of {exact}");
        world.restart();
        assert!(world.starts().is_empty(), "{most}");
    }
}

#[test]
fn workers_have_a_counter_in_magnitudes_of_their_own() {
    let mut world = World::new();
    let small = world.join("small", offer().extra("disk", 10));
    let large = world.join("large", offer().extra("disk", 4 * TERA));
    let vast = world.join("vast", offer().extra("disk", u64::MAX / 2));
    world.asking(1, "disk", 11);
    world.asking(2, "disk", 3 * TERA);
    world.asking(3, "disk", 5 * TERA);
    world.asking(4, "disk", 1 << 60);
    let placed: Vec<(u64, WorkerKey)> =
        world.round().into_iter().map(|placement| (placement.attempt.job.as_u64(), placement.worker)).collect();
    assert_eq!(placed.len(), 4);
    assert!(placed.iter().all(|(_, worker)| *worker != small), "{placed:?}");
    assert!(placed.iter().all(|(job, worker)| *worker == vast || *job < 3), "{placed:?}");
    for worker in [large, vast] {
        world.scheduler.apply(0, Event::Cordon { worker }, &mut world.effects).unwrap();
    }
    (5..=15).for_each(|number| world.asking(number, "disk", 1));
    assert_eq!(world.starts().len(), 10, "one by one on the small one");
}

/// Workers that come one after the other, each with something that nobody had before.
fn one_after_the_other(
    workers: u64,
    restarts: u64,
    offered: impl Fn(u64) -> Capabilities,
    ask: impl Fn(u64, &mut Demand),
) {
    let mut world = World::new();
    for number in 1..=workers {
        let worker = world.join(&format!("w{number}"), offered(number));
        world.submit(number, |demand| ask(number, demand));
        let placed = world.round();
        assert_eq!(placed.len(), 1, "worker {number}");
        if number % restarts == 0 {
            world.restart();
        }
        let verdict = world.scheduler.finish(0, placed[0], Outcome::Succeeded, &mut world.effects).unwrap();
        assert!(verdict.counts());
        world.remove(worker);
    }
    assert_eq!(world.scheduler.fleet_use().workers, 0);
}

#[test]
fn what_left_with_its_worker_uses_nothing_up() {
    for (workers, restarts) in [(20, 1), (1000, 250)] {
        let counter = |number: u64| format!("licence-{number}");
        one_after_the_other(
            workers,
            restarts,
            |number| offer().extra(counter(number), 1),
            |number, demand| demand.resources.extras.extend([(counter(number), 1)]),
        );
        one_after_the_other(
            workers,
            restarts,
            |number| offer().gpus(GpuDevices::new("nvidia/a100", number * GIB, 1).unwrap()),
            |_, demand| demand.resources.gpus.count = 1,
        );
    }
}
