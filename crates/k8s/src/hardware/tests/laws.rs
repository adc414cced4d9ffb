//! Laws of pods: what is written reads back, what a user says stays, and a node that a pod takes satisfies the need.
//! `PROPTEST_CASES` sets how many cases. Owns no production code.

use orlop_core::hardware::gpu::Catalogue;
use orlop_core::hardware::{
    GpuFacts, HardwareFacts, HardwareInput, Machine, Substrate, Tables, describe, resolve, satisfies,
};
use orlop_core::resource::{Bytes, CpuMilli};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::bare;
use crate::hardware::{node, read, translate};

const TYPES: &[&str] = &[
    "nvidia",
    "a100",
    "A100-SXM4-40GB",
    "a100-80gb-nvlink",
    "t4",
    "h100",
    "24gb",
    "mig-1g.5gb",
    "a100-mig-3g.20gb",
    "amd",
    "mi300x",
    "amd-64gb",
    "intel",
    "flex170",
];

fn input() -> impl Strategy<Value = HardwareInput> {
    let tee = proptest::option::weighted(0.3, select(&["sgx", "tdx", "sev", "snp", "se"][..]));
    let gpu = (proptest::option::of(select(TYPES)), proptest::option::of(1..4_i32));
    (gpu, tee, any::<bool>()).prop_map(|((kind, gpu_count), tee, required)| HardwareInput {
        gpu_type: kind.map(str::to_owned),
        gpu_count,
        tee_required: tee.is_some().then_some(required),
        tee_type: tee.map(str::to_owned),
        ..HardwareInput::default()
    })
}

fn facts() -> impl Strategy<Value = HardwareFacts> {
    let names = [
        "A100-SXM4-40GB",
        "A100-SXM4-80GB",
        "A100-PCIE-40GB",
        "H100 PCIe",
        "Tesla T4",
        "AMD Instinct MI300X",
        "Flex_170",
    ];
    (select(names.to_vec()), 0..4_usize, any::<bool>(), any::<bool>()).prop_map(|(name, count, cut, tee)| {
        let (model, product) = Catalogue::built_in().product_named(name).unwrap();
        let profile = product.mig.first().filter(|_| cut);
        let gpu = GpuFacts {
            vendor: model.vendor,
            model: product.name.clone(),
            memory_gib: product.memory_gib,
            mig: profile.map(|profile| (*profile, 2)).into_iter().collect(),
            nvlink_group: product.nvlink.then_some(0),
            users: 1,
            confidential: false,
        };
        HardwareFacts {
            arch: "amd64".parse().unwrap(),
            cpu_milli: CpuMilli(64_000),
            memory_bytes: Bytes(256 << 30),
            disk_bytes: Bytes(1 << 40),
            gpus: vec![gpu; count],
            tees: tee.then(|| "tdx".parse().unwrap()).into_iter().collect(),
            labels: Default::default(),
            taints: Vec::new(),
        }
    })
}

/// A machine as the API server tells of it.
fn object(machine: &Machine) -> Value {
    json!({
        "metadata": {"name": machine.name, "labels": machine.labels},
        "spec": {"taints": machine.taints},
        "status": {"allocatable": machine.allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn user() -> impl Strategy<Value = Value> {
    let expression = (select(&["zone", "kubernetes.io/arch"][..]), select(&["In", "NotIn", "Exists"][..])).prop_map(
        |(key, operator)| {
            if operator == "Exists" {
                json!({"key": key, "operator": operator})
            } else {
                json!({"key": key, "operator": operator, "values": ["amd64", "b"]})
            }
        },
    );
    let terms = proptest::collection::vec(proptest::collection::vec(expression, 0..3), 1..3);
    (proptest::option::of(terms), any::<bool>()).prop_map(|(terms, selects)| {
        let mut pod = bare();
        if let Some(terms) = terms {
            let terms: Vec<Value> = terms.into_iter().map(|all| json!({"matchExpressions": all})).collect();
            pod["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        }
        if selects {
            pod["nodeSelector"] = json!({"kubernetes.io/arch": "amd64"});
        }
        pod
    })
}

proptest! {
    #[test]
    fn a_written_pod_reads_back_and_is_not_written_again(input in input(), user in user()) {
        let tables = Tables::default();
        let words = tables.vocabulary(Substrate::Kubernetes);
        let Ok(need) = input.requirements(&tables).and_then(|needs| resolve(&needs, &tables)) else { return Ok(()) };
        let Ok((pod, merged)) = translate(&user, "performer", &need, &words, "claim") else { return Ok(()) };
        prop_assert_eq!(read(&pod, "performer").unwrap(), merged.as_user());
        let (again, _) = translate(&pod, "performer", &need, &words, "claim").unwrap();
        prop_assert_eq!(again, pod);
    }

    #[test]
    fn a_node_that_a_written_pod_takes_satisfies_the_need(input in input(), user in user(), facts in facts()) {
        let tables = Tables::default();
        let words = tables.vocabulary(Substrate::Kubernetes);
        let Ok(need) = input.requirements(&tables).and_then(|needs| resolve(&needs, &tables)) else { return Ok(()) };
        let Ok((pod, _)) = translate(&user, "performer", &need, &words, "claim") else { return Ok(()) };
        let machine = node(&object(&describe(&facts, &words))).unwrap().machine;
        // Judged by what stands in the pod, as a scheduler judges it.
        let written = read(&pod, "performer").unwrap();
        let labels = written.node_selector.iter().all(|(key, value)| machine.labels.get(key) == Some(value))
            && written.required.iter().all(|terms| terms.iter().any(|term| term.matches(&machine)));
        let takes = labels && written.requests.fits(&machine.allocatable);
        prop_assert!(!takes || satisfies(&facts, &need), "{pod} takes {machine:#?}");
    }
}
