//! Tests of expressions, clauses, taints and the neutral value's JSON. Owns no production code.

use super::*;

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn expression(key: &str, op: Operator, values: &[&str]) -> LabelExpr {
    LabelExpr { key: key.to_owned(), op, values: values.iter().map(|value| (*value).to_owned()).collect() }
}

#[test]
fn s1_2_in_exists_gt_lt_need_the_key_and_their_opposites_hold_without_it() {
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
fn s1_2_clauses_are_anded_and_their_alternatives_ored() {
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
fn s1_5_every_noschedule_and_noexecute_taint_must_be_tolerated() {
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
