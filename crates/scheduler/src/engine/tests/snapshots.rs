//! Snapshots.

use super::fixture::{Fixture, offer, spec};
use crate::config::{Config, Policy};
use crate::engine::{Scheduler, Snapshot};
use crate::error::EventError;
use crate::testing::{Choices, Shape, World};

#[test]
fn a_restored_scheduler_goes_on_as_the_original() {
    for seed in 0..40 {
        let shape = Shape { policy: Policy::ALL[seed as usize % 6], preemption: seed % 2 == 1, ..Shape::default() };
        let live = |snapshots| {
            let mut world = World::new(Shape { snapshots, ..shape }, Choices::from_seed(seed)).unwrap();
            (0..120).for_each(|_| world.step().unwrap());
            world.hash
        };
        assert_eq!(live(true), live(false), "seed {seed}");
    }
}

#[test]
fn a_snapshot_is_checked_when_it_is_read() {
    let mut fixture = Fixture::new(Config::default());
    fixture.worker("w1", offer(1000));
    fixture.submit(1, spec(1000));
    let text = serde_json::to_string(&fixture.scheduler.snapshot()).unwrap();
    let read = |text: &str| Scheduler::restore(serde_json::from_str::<Snapshot>(text).unwrap(), Config::default());
    assert!(read(&text).is_ok());
    let newer = text.replacen("\"version\":3", "\"version\":4", 1);
    assert!(matches!(read(&newer), Err(EventError::Fatal(_))));
    let wrong = text.replacen("\"pending\":1", "\"pending\":2", 1);
    assert_eq!(
        read(&wrong).unwrap_err().to_string(),
        "internal error: a tenant's waiting jobs are miscounted; please report it with the events that led here"
    );
    let config = Config { run_max: 0, ..Config::default() };
    assert!(Scheduler::restore(serde_json::from_str(&text).unwrap(), config).is_err());
}
