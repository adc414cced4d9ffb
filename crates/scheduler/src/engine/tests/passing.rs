//! Whom the policy `dot-product` passes over, and how often.

use orlop_core::machine::job::JobState;

use super::bed::{Bed, offer, spec};
use crate::config::{Config, Policy};
use crate::event::{Capabilities, Outcome};
use crate::job::Priority;

#[test]
fn dot_product_takes_the_class_that_points_where_the_worker_has_room() {
    let mut bed = Bed::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    let mut lean = offer(8000);
    lean.memory_bytes = 4 << 30;
    bed.worker("w1", lean);
    // The first head is rich in memory, the second in cpu, of which the worker has more.
    let mut rich = spec(500);
    rich.resources.memory_bytes = 2 << 30;
    bed.submit(1, rich);
    let mut busy = spec(4000);
    busy.resources.memory_bytes = 256 << 20;
    bed.submit(2, busy);
    assert_eq!(bed.starts(), [2, 1]);
}

#[test]
fn dot_product_passes_a_head_over_sixteen_times_at_most() {
    let mut bed = Bed::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    let mut lean = offer(64_000);
    lean.memory_bytes = 256 << 30;
    bed.worker("w1", lean);
    bed.submit(1, spec(100));
    (2..60).for_each(|number| bed.submit(number, spec(1000)));
    assert_eq!(bed.starts().iter().position(|number| *number == 1), Some(16));
}

#[test]
fn dot_product_passes_no_head_over_more_often_wherever_it_stands() {
    let mut bed = Bed::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    let mut lean = offer(64_000);
    lean.memory_bytes = 256 << 30;
    bed.worker("w1", lean);
    bed.submit(1, spec(100));
    (2..60).for_each(|number| bed.submit(number, spec(1000)));
    let mut effects = Vec::new();
    assert_eq!(bed.scheduler.round(bed.now, 10, &mut effects).placed, 10);
    // A head that is more urgent comes and is fresh; the one behind it has been passed over ten times already.
    let mut urgent = spec(101);
    urgent.priority = Priority(4);
    bed.submit(100, urgent);
    let at = bed.starts().iter().position(|number| *number == 1).unwrap();
    assert!(at <= 7, "six more may pass it, and the urgent one: it started as number {at}");
}

#[test]
fn dot_product_does_not_forget_passes_when_another_of_the_queue_is_chosen() {
    let mut bed = Bed::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    bed.worker("w1", Capabilities { memory_bytes: 256 << 30, ..offer(64_000) });
    bed.submit(1, spec(100));
    (2..12).for_each(|number| bed.submit(number, spec(1000)));
    let mut effects = Vec::new();
    assert_eq!(bed.scheduler.round(bed.now, 10, &mut effects).placed, 10);
    let mut urgent = spec(100);
    urgent.priority = Priority(4);
    bed.submit(100, urgent);
    assert_eq!(bed.scheduler.round(bed.now, 1, &mut effects).placed, 1);
    assert_eq!(bed.state(100), JobState::Assigned);
    (12..40).for_each(|number| bed.submit(number, spec(1000)));
    assert_eq!(bed.starts().iter().position(|number| *number == 1), Some(6), "it was passed ten times before");
}

#[test]
fn dot_product_does_not_forget_passes_when_the_chosen_head_does_not_fit() {
    let mut bed = Bed::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    bed.worker("w1", Capabilities { memory_bytes: 256 << 30, ..offer(10_000) });
    bed.submit(1, spec(100));
    (2..12).for_each(|number| bed.submit(number, spec(1000)));
    let started = bed.round();
    assert_eq!((started.len(), bed.state(1)), (10, JobState::Queued), "it is chosen in the end, and fits nowhere");
    for (attempt, worker) in started {
        bed.start(attempt, worker);
        bed.result(attempt, worker, Outcome::Succeeded);
    }
    (12..22).for_each(|number| bed.submit(number, spec(1000)));
    assert_eq!(bed.starts().iter().position(|number| *number == 1), Some(6), "it was passed ten times before");
}

#[test]
fn dot_product_does_not_forget_passes_when_a_worker_names_the_tenant() {
    let mut bed = Bed::new(Config { policy: Policy::DotProduct, run_max: 1, ..Config::default() });
    bed.worker("w1", Capabilities { memory_bytes: 256 << 30, ..offer(64_000) });
    bed.submit(1, spec(100));
    (2..40).for_each(|number| bed.submit(number, spec(1000)));
    bed.effects.clear();
    assert_eq!(bed.scheduler.round(bed.now, 10, &mut bed.effects).placed, 10);
    let (attempt, worker) = bed.assigned()[0];
    // From here on its jobs have a class of their own.
    bed.worker("w2", Capabilities { tenants: ["t".parse().unwrap()].into(), ..offer(0) });
    bed.result(attempt, worker, Outcome::Succeeded);
    assert_eq!(bed.starts().iter().position(|number| *number == 1), Some(6), "it was passed ten times before");
}
