//! Whom the policy `dot-product` passes over, and how often.

use orlop_core::machine::job::JobState;

use super::fixture::{Fixture, offer, spec};
use crate::config::{Config, Policy};
use crate::event::{Capabilities, Outcome};
use crate::job::Priority;

#[test]
fn dot_product_takes_the_class_that_points_where_the_worker_has_room() {
    let mut fixture = Fixture::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    let mut lean = offer(8000);
    lean.memory_bytes = 4 << 30;
    fixture.worker("w1", lean);
    // The first head is rich in memory, the second in cpu, of which the worker has more.
    let mut rich = spec(500);
    rich.resources.memory_bytes = 2 << 30;
    fixture.submit(1, rich);
    let mut busy = spec(4000);
    busy.resources.memory_bytes = 256 << 20;
    fixture.submit(2, busy);
    assert_eq!(fixture.starts(), [2, 1]);
}

#[test]
fn dot_product_passes_a_head_over_sixteen_times_at_most() {
    let mut fixture = Fixture::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    let mut lean = offer(64_000);
    lean.memory_bytes = 256 << 30;
    fixture.worker("w1", lean);
    fixture.submit(1, spec(100));
    (2..60).for_each(|number| fixture.submit(number, spec(1000)));
    assert_eq!(fixture.starts().iter().position(|number| *number == 1), Some(16));
}

#[test]
fn dot_product_passes_no_head_over_more_often_wherever_it_stands() {
    let mut fixture = Fixture::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    let mut lean = offer(64_000);
    lean.memory_bytes = 256 << 30;
    fixture.worker("w1", lean);
    fixture.submit(1, spec(100));
    (2..60).for_each(|number| fixture.submit(number, spec(1000)));
    let mut effects = Vec::new();
    assert_eq!(fixture.scheduler.round(fixture.now, 10, &mut effects).placed, 10);
    // A head that is more urgent comes and is fresh; the one behind it has been passed over ten times already.
    let mut urgent = spec(101);
    urgent.priority = Priority(4);
    fixture.submit(100, urgent);
    let at = fixture.starts().iter().position(|number| *number == 1).unwrap();
    assert!(at <= 7, "six more may pass it, and the urgent one: it started as number {at}");
}

#[test]
fn dot_product_does_not_forget_passes_when_another_of_the_queue_is_chosen() {
    let mut fixture = Fixture::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    fixture.worker("w1", Capabilities { memory_bytes: 256 << 30, ..offer(64_000) });
    fixture.submit(1, spec(100));
    (2..12).for_each(|number| fixture.submit(number, spec(1000)));
    let mut effects = Vec::new();
    assert_eq!(fixture.scheduler.round(fixture.now, 10, &mut effects).placed, 10);
    let mut urgent = spec(100);
    urgent.priority = Priority(4);
    fixture.submit(100, urgent);
    assert_eq!(fixture.scheduler.round(fixture.now, 1, &mut effects).placed, 1);
    assert_eq!(fixture.state(100), JobState::Assigned);
    (12..40).for_each(|number| fixture.submit(number, spec(1000)));
    assert_eq!(fixture.starts().iter().position(|number| *number == 1), Some(6), "it was passed ten times before");
}

#[test]
fn dot_product_does_not_forget_passes_when_the_chosen_head_does_not_fit() {
    let mut fixture = Fixture::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    fixture.worker("w1", Capabilities { memory_bytes: 256 << 30, ..offer(10_000) });
    fixture.submit(1, spec(100));
    (2..12).for_each(|number| fixture.submit(number, spec(1000)));
    let started = fixture.round();
    assert_eq!((started.len(), fixture.state(1)), (10, JobState::Queued), "it is chosen in the end, and fits nowhere");
    for (attempt, worker) in started {
        fixture.start(attempt, worker);
        fixture.result(attempt, worker, Outcome::Succeeded);
    }
    (12..22).for_each(|number| fixture.submit(number, spec(1000)));
    assert_eq!(fixture.starts().iter().position(|number| *number == 1), Some(6), "it was passed ten times before");
}

#[test]
fn dot_product_does_not_forget_passes_when_a_worker_names_the_tenant() {
    let mut fixture = Fixture::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    fixture.worker("w1", Capabilities { memory_bytes: 256 << 30, ..offer(64_000) });
    fixture.submit(1, spec(100));
    (2..40).for_each(|number| fixture.submit(number, spec(1000)));
    fixture.effects.clear();
    assert_eq!(fixture.scheduler.round(fixture.now, 10, &mut fixture.effects).placed, 10);
    let (attempt, worker) = fixture.assigned()[0];
    // From here on its jobs have a class of their own.
    fixture.worker("w2", Capabilities { tenants: ["t".parse().unwrap()].into(), ..offer(0) });
    fixture.result(attempt, worker, Outcome::Succeeded);
    assert_eq!(fixture.starts().iter().position(|number| *number == 1), Some(6), "it was passed ten times before");
}
