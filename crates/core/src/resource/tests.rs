//! Tests of resource vectors: reading, errors, and the laws of their arithmetic. Owns no production code.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::{Bytes, CpuMilli, Lack, ResourceName, ResourceVector, Rounding, Share};

fn vector<const N: usize>(map: [(&str, &str); N]) -> ResourceVector {
    ResourceVector::parse(map, Rounding::Up).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn kubernetes_maps_are_read_in_the_steps_of_each_resource() {
    let pod = vector([("cpu", "0.5"), ("memory", "1.5Gi"), ("nvidia.com/gpu", "2"), ("hugepages-2Mi", "4Mi")]);
    assert_eq!((pod.cpu(), pod.memory()), (CpuMilli(500), Bytes::mebi(1536)));
    assert_eq!((pod.get("nvidia.com/gpu"), pod.get("hugepages-2Mi"), pod.get("fpga")), (20_000, 4 << 20, 0));
    assert_eq!(pod.to_string(), "cpu 500m, hugepages-2Mi 4Mi, memory 1536Mi, nvidia.com/gpu 2");
    assert_eq!(vector([("cpu", "0")]), ResourceVector::new());
    assert_eq!(vector([("cpu", "1"), ("cpu", "1")]).cpu(), CpuMilli::cores(2));
    assert_eq!(vector([]).to_string(), "nothing");
}

#[test]
fn requests_round_up_and_capacities_round_down() {
    let map = [("cpu", "1500u"), ("memory", "1.1Ki")];
    assert_eq!(ResourceVector::parse(map, Rounding::Up).unwrap().to_string(), "cpu 2m, memory 1127");
    assert_eq!(ResourceVector::parse(map, Rounding::Down).unwrap().to_string(), "cpu 1m, memory 1126");
}

#[test]
fn errors_name_the_resource() {
    let error = |key, value| ResourceVector::parse([(key, value)], Rounding::Up).unwrap_err().to_string();
    insta::assert_snapshot!(error("c pu", "1"), @"resource name `c pu` is not valid: character ' ' at position 2 is not allowed; use letters, digits, `-`, `_` and `.`");
    insta::assert_snapshot!(error("memory", "1GB"), @"resource memory: quantity `1GB` ends in `GB`, which is not a valid suffix; allowed are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3 (use `G` or `Gi`)");
    insta::assert_snapshot!(error("cpu", "-1"), @"resource cpu: `-1` is below zero; use 0 or more");
}

#[test]
fn every_lacking_dimension_is_named() {
    let job = vector([("cpu", "4"), ("memory", "1Gi"), ("nvidia.com/gpu", "1")]);
    let free = vector([("cpu", "1500m"), ("memory", "2Gi")]);
    let lacks: Vec<String> = job.lacking(&free).iter().map(Lack::to_string).collect();
    assert_eq!(lacks, ["cpu: needs 4, has 1500m", "nvidia.com/gpu: needs 1, has 0"]);
}

#[test]
fn the_dominant_share_is_the_greatest_of_all_dimensions() {
    let fleet = vector([("cpu", "100"), ("memory", "1000Gi")]);
    assert_eq!(vector([("cpu", "10"), ("memory", "50Gi")]).dominant_share(&fleet), Share::new(1, 10));
    assert_eq!(vector([("cpu", "1"), ("memory", "50Gi")]).dominant_share(&fleet), Share::new(1, 20));
    assert_eq!(vector([("nvidia.com/gpu", "1")]).dominant_share(&fleet), Share::INFINITE);
    assert_eq!(vector([]).dominant_share(&fleet), Share::ZERO);
    let weight = NonZeroU32::new(2).unwrap();
    assert_eq!(vector([("cpu", "10")]).dominant_share(&fleet).per_weight(weight), Share::new(1, 20));
}

#[test]
fn json_is_the_map_of_kubernetes() {
    let pod = vector([("memory", "1Gi"), ("cpu", "1.5"), ("nvidia.com/gpu", "1")]);
    let json = serde_json::to_string(&pod).unwrap();
    assert_eq!(json, r#"{"cpu":"1500m","memory":"1Gi","nvidia.com/gpu":"1"}"#);
    assert_eq!(serde_json::from_str::<ResourceVector>(&json).unwrap(), pod);
    assert_eq!(serde_json::from_str::<ResourceVector>(r#"{"cpu": 1.5}"#).unwrap().cpu(), CpuMilli(1500));
    assert!(serde_json::from_str::<ResourceVector>(r#"{"cpu": "-1"}"#).is_err());
    assert_eq!(pod.to_quantities().get("cpu").map(ToString::to_string).as_deref(), Some("1500m"));
}

fn any_vector() -> impl Strategy<Value = ResourceVector> {
    let steps = prop_oneof![0..50_u64, any::<u64>()];
    proptest::collection::btree_map(proptest::sample::select(vec!["cpu", "memory", "a.b/gpu", "x"]), steps, 0..4)
        .prop_map(|map| {
            let mut vector = ResourceVector::new();
            for (name, steps) in map {
                vector.set(ResourceName::new(name).unwrap(), steps);
            }
            vector
        })
}

proptest! {
    #[test]
    fn law_what_fits_can_be_taken_and_given_back(a in any_vector(), b in any_vector()) {
        prop_assert_eq!(b.fits(&a), a.checked_sub(&b).is_some());
        prop_assert_eq!(b.fits(&a), b.lacking(&a).is_empty());
        if let Some(rest) = a.checked_sub(&b) {
            prop_assert_eq!(rest.checked_add(&b), Some(a.clone()));
            prop_assert_eq!(a.saturating_sub(&b), rest);
            prop_assert_eq!(a.larger_of(&b), a);
        }
    }

    #[test]
    fn law_sums_are_commutative_and_never_less(a in any_vector(), b in any_vector()) {
        prop_assert_eq!(a.checked_add(&b), b.checked_add(&a));
        let sum = a.saturating_add(&b);
        prop_assert!(a.fits(&sum) && b.fits(&sum) && a.larger_of(&b).fits(&sum));
        if let Some(exact) = a.checked_add(&b) {
            prop_assert_eq!(&exact, &sum);
            prop_assert_eq!(exact.checked_sub(&b), Some(a.clone()));
        }
        prop_assert_eq!(a.saturating_mul(2), a.saturating_add(&a));
        prop_assert!(a.saturating_mul(0).is_zero());
    }

    #[test]
    fn law_json_reads_back(a in any_vector()) {
        let json = serde_json::to_string(&a).unwrap();
        prop_assert_eq!(serde_json::from_str::<ResourceVector>(&json).unwrap(), a.clone());
        prop_assert_eq!(ResourceVector::from_quantities(a.to_quantities(), Rounding::Down).unwrap(), a);
    }

    #[test]
    fn law_who_fits_has_a_share_of_at_most_one(a in any_vector(), total in any_vector()) {
        prop_assert_eq!(a.fits(&total), a.dominant_share(&total) <= Share::new(1, 1));
    }
}
