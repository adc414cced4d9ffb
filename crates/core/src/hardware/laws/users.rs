//! Random users: selectors, terms, tolerations, resources that often meet what is generated. Owns their generators.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use proptest::sample::select;

use crate::hardware::merge::{Term, UserConstraints};
use crate::hardware::placement::{LabelExpr, Operator, TaintEffect, Toleration};
use crate::named::Named as _;
use crate::resource::{ResourceVector, Rounding};

const KEYS: [&str; 6] = [
    "zone",
    "kubernetes.io/arch",
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.product",
    "nvidia.com/gpu.memory",
    "intel.feature.node.kubernetes.io/tdx",
];

const VALUES: [&str; 9] =
    ["a", "b", "true", "amd64", "arm64", "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "Tesla-T4", "81408"];

fn expression() -> impl Strategy<Value = LabelExpr> {
    let values = btree_set(select(&VALUES[..]), 0..4);
    let bound = select(&["-1", "0", "40000", "81407", "9223372036854775807", "much"][..]);
    (select(&KEYS[..]), select(Operator::ALL), values, bound).prop_map(|(key, op, values, bound)| match op {
        Operator::In | Operator::NotIn => LabelExpr::new(key, op, values),
        Operator::Exists | Operator::DoesNotExist => LabelExpr::new(key, op, Vec::<String>::new()),
        Operator::Gt | Operator::Lt => LabelExpr::new(key, op, [bound]),
    })
}

fn term() -> impl Strategy<Value = Term> {
    let name = prop_oneof![4 => Just(Vec::new()), 1 => Just(vec![LabelExpr::equal("metadata.name", "machine")]),
        1 => Just(vec![LabelExpr::equal("metadata.name", "other")])];
    (vec(expression(), 0..3), name).prop_map(|(expressions, fields)| Term { expressions, fields })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let key = proptest::option::of(select(&["nvidia.com/gpu", "tdx", "busy"][..]));
    (key, proptest::option::of(select(TaintEffect::ALL))).prop_map(|(key, effect)| Toleration {
        key: key.map(str::to_owned),
        value: None,
        effect,
    })
}

fn resources() -> impl Strategy<Value = ResourceVector> {
    let names = ["cpu", "memory", "example.com/fpga", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "sgx.intel.com/epc"];
    let one = btree_map(select(names.to_vec()), select(vec!["1", "2", "9", "64"]), 0..2);
    one.prop_map(|map| ResourceVector::parse(map, Rounding::Up).unwrap())
}

pub(super) fn user() -> impl Strategy<Value = UserConstraints> {
    let selector = btree_map(select(&KEYS[..]), select(&VALUES[..]), 0..2);
    let class = proptest::option::weighted(0.2, select(&["kata-qemu-tdx", "kata-cc", "gvisor"][..]));
    let required = proptest::option::weighted(0.6, vec(term(), 0..4));
    (selector, required, vec((1..=100_u8, term()), 0..2), vec(toleration(), 0..2), (resources(), resources()), class)
        .prop_map(|(selector, required, preferred, tolerations, (requests, limits), class)| UserConstraints {
            node_selector: selector
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect::<BTreeMap<_, _>>(),
            required,
            preferred,
            tolerations,
            requests,
            limits,
            runtime_class: class.map(str::to_owned),
        })
}
