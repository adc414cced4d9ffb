//! Explanations and unmet demand: section 2.9.

use std::collections::BTreeMap;

use super::bed::{Bed, id, offer, spec};
use crate::config::Config;
use crate::engine::Misfit;
use crate::event::{ArraySpec, Event, Gate};

#[test]
fn s2_9_every_worker_says_its_first_failing_filter_with_numbers() {
    let mut bed = Bed::new(Config::default());
    bed.worker("w1", offer(8000));
    let cordoned = bed.worker("w2", offer(8000));
    bed.must(Event::Cordon { worker: cordoned });
    bed.worker("w3", offer(1000));
    let mut other = offer(8000);
    other.tenants.insert("x".parse().unwrap());
    bed.worker("w4", other);
    bed.submit(1, spec(6500));
    assert_eq!(bed.starts(), [1]);
    bed.submit(2, spec(4000));
    bed.submit(3, spec(4000));
    bed.now = 7;
    bed.round();
    let why = bed.scheduler.explain(id(3)).unwrap();
    let misfits: Vec<_> = why.workers.iter().map(|fit| fit.misfit.unwrap().to_string()).collect();
    assert_eq!(misfits, ["capacity", "cordoned", "never fits", "tenant"]);
    let lacking: Vec<String> = why.workers[0].lacking.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lacking.join("; "), @"cpu: needs 4000m, free 1500m of 8000m");
    assert_eq!((why.position, why.blocked_since, why.nearest), (Some(1), Some(7), Some(why.workers[0].worker)));
    assert_eq!(why.counts[&Misfit::Tenant], 1);
    assert!(!why.is_hopeless());
    bed.submit(4, spec(9000));
    assert!(bed.scheduler.explain(id(4)).unwrap().counts.contains_key(&Misfit::NeverFits));
    assert!(bed.scheduler.explain(id(9)).is_none());
}

#[test]
fn s2_9_what_no_registered_worker_could_hold_is_taken_and_called_hopeless() {
    let mut bed = Bed::new(Config::default());
    bed.worker("w1", offer(1000));
    let mut job = spec(1000);
    job.requires.features.insert("tee:sev-snp".to_owned());
    bed.submit(1, job);
    bed.round();
    let why = bed.scheduler.explain(id(1)).unwrap();
    assert!(why.is_hopeless());
    assert_eq!(why.counts, BTreeMap::from([(Misfit::Features, 1)]));
}

#[test]
fn s2_1_unmet_demand_is_counted_by_class() {
    let mut bed = Bed::new(Config::default());
    bed.worker("w1", offer(1000));
    bed.submit(1, spec(2000));
    let array = ArraySpec { indices: vec![(0, 9)], ..ArraySpec::default() };
    bed.must(Event::SubmitArray { job: id(2), spec: spec(2000).into(), gate: Gate::default(), array });
    bed.submit(3, spec(500));
    assert_eq!(bed.starts(), [3]);
    let demand = bed.scheduler.demand();
    assert_eq!((demand.len(), demand[0].waiting, demand[0].resources.cpu_m), (1, 11, 2000));
}
