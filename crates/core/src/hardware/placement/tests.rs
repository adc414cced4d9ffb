//! Tests of expressions, clauses, taints and the neutral value's JSON. Owns no production code.

use serde_json::json;

use super::*;
use crate::hardware::Device;
use crate::hardware::gpu::{Catalogue, Vendor};
use crate::hardware::verdict::LabelLack;
use crate::resource::Rounding;

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn expression(key: &str, op: Operator, values: &[&str]) -> LabelExpr {
    LabelExpr { key: key.to_owned(), op, values: values.iter().map(|value| (*value).to_owned()).collect() }
}

#[test]
fn what_a_machine_lacks_is_said_by_the_labels_that_it_has() {
    let models = |key: &str, count: usize| LabelExpr::new(key, Operator::In, (0..count).map(|at| format!("m{at}")));
    let clause = Clause {
        any_of: vec![
            Alternative { all_of: vec![models("vendor/product", 9)] },
            Alternative { all_of: vec![models("cloud/name", 2), models("cloud/kind", 1)] },
        ],
    };
    let said = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        LabelLack::new(clause.clone(), &labels).to_string()
    };
    insta::assert_snapshot!(said(&[("vendor/product", "L4"), ("zone", "a")]), @"needs vendor/product in {m0, m1, m2, m3, m4, m5 and 3 more}, has vendor/product = L4");
    insta::assert_snapshot!(said(&[("cloud/name", "l4")]), @"needs cloud/name in {m0, m1} and cloud/kind = m0, has cloud/name = l4");
    insta::assert_snapshot!(said(&[]), @"needs vendor/product in {m0, m1, m2, m3, m4, m5 and 3 more}, or cloud/name in {m0, m1} and cloud/kind = m0");
}

#[test]
fn in_exists_gt_lt_need_the_key_and_their_opposites_hold_without_it() {
    let has = labels([("gpu", "a100"), ("memory", "81920")]);
    let none = labels([]);
    let cases = [
        (expression("gpu", Operator::In, &["a100", "h100"]), true, false),
        (expression("gpu", Operator::NotIn, &["a100"]), false, true),
        (expression("gpu", Operator::NotIn, &["t4"]), true, true),
        (expression("gpu", Operator::Exists, &[]), true, false),
        (expression("gpu", Operator::DoesNotExist, &[]), false, true),
        (expression("memory", Operator::Gt, &["73728"]), true, false),
        (expression("memory", Operator::Gt, &["81920"]), false, false),
        (expression("memory", Operator::Lt, &["81921"]), true, false),
        (expression("gpu", Operator::Gt, &["1"]), false, false),
        (expression("memory", Operator::Gt, &["-1"]), true, false),
        (expression("memory", Operator::Gt, &["1", "2"]), false, false),
        (expression("memory", Operator::Lt, &["9223372036854775808"]), false, false),
    ];
    for (expression, with, without) in cases {
        assert_eq!((expression.matches(&has), expression.matches(&none)), (with, without), "{expression:?}");
    }
}

#[test]
fn clauses_are_anded_and_their_alternatives_ored() {
    let is = |key: &str| Alternative { all_of: vec![expression(key, Operator::Exists, &[])] };
    let placement = Placement {
        required: vec![Clause { any_of: vec![is("a"), is("b")] }, Clause { any_of: vec![is("c")] }],
        ..Placement::default()
    };
    assert!(placement.admits_labels(&labels([("b", ""), ("c", "")])));
    assert!(!placement.admits_labels(&labels([("a", ""), ("b", "")])));
    assert!(Placement::default().admits_labels(&labels([])));
    assert!(!Clause::default().matches(&labels([])));
    assert!(Alternative::default().matches(&labels([])));
}

#[test]
fn every_noschedule_and_noexecute_taint_must_be_tolerated() {
    let taint = |key: &str, effect| Taint { key: key.to_owned(), value: "x".to_owned(), effect };
    let taints = [
        taint("nvidia.com/gpu", TaintEffect::NoSchedule),
        taint("nvidia.com/gpu", TaintEffect::NoExecute),
        taint("busy", TaintEffect::PreferNoSchedule),
    ];
    let placement = Placement { tolerations: vec![Toleration::of_key("nvidia.com/gpu")], ..Placement::default() };
    assert_eq!(placement.untolerated(&taints).collect::<Vec<_>>(), [&taints[1]]);
    let any = Placement { tolerations: vec![Toleration::default()], ..Placement::default() };
    assert_eq!(any.untolerated(&taints).count(), 0);
    let other = Toleration { value: Some("y".to_owned()), ..Toleration::of_key("nvidia.com/gpu") };
    assert!(!other.tolerates(&taints[0]));
}

#[test]
fn check_lists_every_dimension_that_fails_and_counts_overhead() {
    let amounts = |pairs: &[(&str, &str)]| ResourceVector::parse(pairs.iter().copied(), Rounding::Up).unwrap();
    let need = serde_json::from_value(json!({"vendor": "nvidia", "class": "whole", "count": 2, "source": "inventory"}));
    let mut placement = Placement {
        arch: Some(LabelExpr::equal("arch", "amd64")),
        required: vec![LabelExpr::equal("rack", "r7").into(), LabelExpr::equal("zone", "a").into()],
        resources: amounts(&[("cpu", "2"), ("memory", "1Gi")]),
        overhead: amounts(&[("cpu", "1")]),
        device: Some(need.unwrap()),
        ..Placement::default()
    };
    let mut machine = Machine {
        name: "m".to_owned(),
        labels: labels([("arch", "arm64"), ("zone", "b")]),
        taints: vec![Taint { key: "busy".to_owned(), value: String::new(), effect: TaintEffect::NoSchedule }],
        allocatable: amounts(&[("cpu", "2"), ("memory", "1Mi")]),
        devices: vec![Device::named(Catalogue::built_in(), Vendor::Nvidia, "Tesla T4")],
    };
    let verdict = placement.check(&machine);
    let dimensions: Vec<&str> = verdict.failures.iter().map(Failure::dimension).collect();
    assert_eq!(dimensions, ["Arch", "Label", "Label", "Taint", "Resource", "Resource", "Device"]);
    insta::assert_snapshot!(verdict, @"m: needs CPU architecture amd64, has arm64, needs rack = r7, needs zone = a, has zone = b, does not tolerate busy:NoSchedule, cpu: needs 3, has 2, memory: needs 1Gi, has 1Mi, needs 2 nvidia GPUs, has 1");
    machine.labels = labels([("arch", "amd64"), ("rack", "r7"), ("zone", "a")]);
    machine.taints[0].effect = TaintEffect::PreferNoSchedule;
    machine.allocatable = amounts(&[("cpu", "3"), ("memory", "1Gi")]);
    machine.devices.push(machine.devices[0].clone());
    insta::assert_snapshot!(placement.check(&machine), @"m fits");
    machine.devices[1].taken = true;
    insta::assert_snapshot!(placement.check(&machine), @"m: needs 2 nvidia GPUs, has 1");
    // Where labels vouch for devices, no list of them is looked at.
    placement.device.iter_mut().for_each(|need| need.source = DeviceSource::Labels);
    assert!(placement.check(&machine).fits());
}

#[test]
fn json_reads_back() {
    let placement = Placement {
        required: vec![Clause { any_of: vec![Alternative { all_of: vec![expression("a", Operator::In, &["b"])] }] }],
        preferred: vec![Preference { weight: 50, alternative: Alternative::default() }],
        tolerations: vec![Toleration::of_key("k")],
        notes: BTreeSet::from([Note::Narrowed]),
        ..Placement::default()
    };
    let json = serde_json::to_string(&placement).unwrap();
    insta::assert_snapshot!(json, @r#"{"required":[{"anyOf":[{"allOf":[{"key":"a","op":"In","values":["b"]}]}]}],"preferred":[{"weight":50,"alternative":{"allOf":[]}}],"tolerations":[{"key":"k","effect":"NoSchedule"}],"notes":["Narrowed"]}"#);
    assert_eq!(serde_json::from_str::<Placement>(&json).unwrap(), placement);
    assert_eq!(serde_json::to_string(&Placement::default()).unwrap(), "{}");
}
