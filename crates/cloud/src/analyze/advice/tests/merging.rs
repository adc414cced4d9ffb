//! What advice may change, row by row of the contract's table (4.3), and its laws.

use proptest::prelude::*;
use serde_json::json;

use super::{Pick, answer, merged};
use crate::analyze::advice::{Advised, Quoted};
use crate::analyze::merge::{candidates, final_image, hours, merge};
use crate::analyze::tests::repositories;
use crate::analyze::tests::{analysed, scanned};
use crate::catalog::image::Image;

#[test]
fn numbers_are_raised_within_bounds_and_never_lowered() {
    let files = [("requirements.txt", "torch\n")];
    let with = |keys: &[(&str, serde_json::Value)]| {
        let r = merged(&files, &answer(keys)).1.requirements;
        let of = |need: &crate::analyze::Need<u32>| need.target.unwrap_or(0);
        [of(&r.cpu_cores), of(&r.ram_gb), of(&r.disk_gb), of(&r.gpu_memory_gb), of(&r.gpu_count)]
    };
    let all =
        |number: u64| ["cpu_cores", "ram_gb", "disk_gb", "gpu_memory_gb", "gpu_count"].map(|key| (key, json!(number)));
    assert_eq!(with(&[]), [4, 16, 50, 8, 1]);
    assert_eq!(with(&all(1)), [4, 16, 50, 8, 1], "lower is nothing");
    assert_eq!(with(&all(3)), [4, 64, 50, 8, 3], "more cards want more memory");
    assert_eq!(with(&all(9_999_999)), [16, 256, 200, 32, 4], "four times the rule, and memory for the cards");
    assert_eq!(with(&[("cpu_cores", json!(7))]), [8, 16, 50, 8, 1], "cores are even");
    assert_eq!(with(&[("ram_gb", json!(40))]), [4, 64, 50, 8, 1], "memory is of a usual size");
    let huge = [("README.md", "Requires 200 cores, 700 GB RAM, 9000 GB of disk.\n"), ("requirements.txt", "vllm\n")];
    let (rules, merged) = merged(&huge, &answer(&all(9_999_999)));
    let r = merged.requirements;
    assert_eq!(
        (r.cpu_cores.target, r.ram_gb.target, r.disk_gb.target),
        (Some(256), Some(1024), rules.requirements.disk_gb.target)
    );
    assert_eq!((r.gpu_memory_gb.target, r.gpu_count.target), (Some(80), Some(4)));
}

#[test]
fn a_gpu_stays_and_comes_only_with_evidence_that_stands() {
    let no = answer(&[("gpu_required", json!(false))]);
    assert!(merged(&[("requirements.txt", "torch\n")], &no).1.requirements.wants_gpu(), "true stays true");
    let yes = |file: &str, line: u32, quote: &str| {
        answer(&[("gpu_required", json!(true)), ("evidence", json!([{"file": file, "line": line, "quote": quote}]))])
    };
    let weak = [("requirements.txt", "numpy\nnumba==0.59\n"), ("README.md", "It is fast.\n")];
    let taken = |files: &[(&str, &str)], text: &str| {
        let merged = merged(files, text).1;
        assert_eq!(merged.requirements.gpu_required.hard, None);
        merged.requirements.wants_gpu()
    };
    assert!(taken(&weak, &yes("requirements.txt", 2, "numba==0.59")));
    assert!(taken(&weak, &yes("README.md", 1, " It is fast. ")), "any line that stands");
    for (file, line, quote) in [
        ("requirements.txt", 1, "numba==0.59"),
        ("requirements.txt", 2, "numba"),
        ("requirements.txt", 0, "numba==0.59"),
        ("requirements.txt", 99, "numba==0.59"),
        ("other.txt", 2, "numba==0.59"),
        ("requirements.txt", 2, ""),
    ] {
        assert!(!taken(&weak, &yes(file, line, quote)), "{file}:{line} {quote}");
    }
    assert!(!taken(&weak, &answer(&[("gpu_required", json!(true))])), "no evidence at all");
    let prose = [("requirements.txt", "numpy\n"), ("README.md", "There is support for a GPU, tested on a V100 GPU.\n")];
    assert!(
        !taken(&prose, &yes("requirements.txt", 1, "numpy")),
        "evidence of the rules in documents alone is not enough"
    );
    let vetoed = [("requirements.txt", "torch==2.1.0\n"), ("README.md", "CPU only.\n")];
    let (_, merged) = merged(&vetoed, &yes("requirements.txt", 1, "torch==2.1.0"));
    let r = merged.requirements;
    assert_eq!((r.wants_gpu(), r.gpu_memory_gb.target, r.gpu_count.target), (true, Some(8), Some(1)));
    assert_eq!(
        r.cuda_version.target.map(|version| version.to_string()).as_deref(),
        Some("12.1"),
        "the rest follows by rules"
    );
    insta::assert_snapshot!(merged.notes.join("\n"));
}

#[test]
fn system_and_python_count_where_the_rules_are_unsure() {
    let os = |files: &[(&str, &str)], kind: serde_json::Value, version: &str, python: &str| {
        let keys = [("os_type", kind), ("os_version", json!(version)), ("python_version", json!(python))];
        let r = merged(files, &answer(&keys)).1.requirements;
        let (kind, version) = (r.os_type.target.unwrap().name(), r.os_version.target.unwrap());
        format!("{kind} {version} {}", r.python_version.target.unwrap())
    };
    let plain = [("requirements.txt", "flask\n")];
    let reported = [
        os(&plain, json!("ubuntu"), "24.04", ""),
        os(&plain, json!("centos"), "9", ""),
        os(&plain, json!(null), "24.04", "3.11"),
        os(&plain, json!("ubuntu"), "20.04", "2.7"),
        os(&plain, json!("ubuntu"), "99.04", "3.99"),
        os(&plain, json!("windows"), "11", "four"),
        os(&plain, json!("debian"), "12", "3.12.1"),
        os(&[("Dockerfile", "FROM python:3.9-bullseye\n")], json!("ubuntu"), "24.04", "3.12"),
        os(&[("requirements.txt", "torch==1.12.1+cu113\n")], json!("ubuntu"), "24.04", ""),
    ];
    insta::assert_snapshot!(reported.join("\n"), @r"
    ubuntu 24.04 3.12
    centos 9 3.9
    ubuntu 24.04 3.11
    ubuntu 22.04 3.10
    ubuntu 22.04 3.10
    ubuntu 22.04 3.10
    ubuntu 22.04 3.12
    ubuntu 22.04 3.9
    ubuntu 22.04 3.10
    ");
}

#[test]
fn images_are_taken_from_the_offered_list_only() {
    let images: Vec<Image> =
        ["A", "B", "c", "D", "E", "F"].iter().map(|name| Image { name: (*name).into(), ..Image::default() }).collect();
    let offered: Vec<&Image> = images.iter().collect();
    let name = |name: &str| Pick::Name(name.into());
    assert_eq!(
        candidates(&offered, &[Pick::Index(3), Pick::Index(99), Pick::Index(3), name("a"), name("zzz")]),
        [3, 0]
    );
    assert_eq!(candidates(&offered, &[]), [0, 1, 2, 3, 4]);
    assert_eq!(candidates(&offered, &(0..40).map(Pick::Index).collect::<Vec<_>>()), [0, 1, 2, 3, 4]);
    assert_eq!(candidates(&[], &[Pick::Index(0)]), [0; 0]);
    assert_eq!(final_image(&offered, Some(&Pick::Index(2))), Some(2));
    assert_eq!(final_image(&offered, Some(&Pick::Index(6))), Some(0));
    assert_eq!(final_image(&offered, None), Some(0));
    assert_eq!(final_image(&[], Some(&Pick::Index(0))), None);
}

#[test]
fn hours_are_between_1_and_168_and_not_less_than_a_run_time() {
    let plain = analysed(&[("requirements.txt", "flask\n")]).requirements;
    assert_eq!(
        [None, Some(1), Some(36), Some(169), Some(u32::MAX)].map(|advice| hours(&plain, advice)),
        [24, 1, 36, 168, 168]
    );
    let long = analysed(&[("README.md", "Training takes 30 hours.\n")]).requirements;
    assert_eq!([None, Some(1), Some(100)].map(|advice| hours(&long, advice)), [47, 47, 100]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_advice_lowers_a_minimum_drops_a_gpu_or_exceeds_a_cap(
        which in 0_usize..76, numbers in proptest::array::uniform5(proptest::option::of(0_u32..2_000_000)), gpu: bool, line in 0_u32..4,
        system in "ubuntu|centos|arch|", version in "[0-9]{1,2}(\\.[0-9]{2})?", python in "[0-9](\\.[0-9]{1,2})?",
    ) {
        let all = repositories::all();
        let (_, files, _) = all[which % all.len()];
        let (scan, analysis) = (scanned(files), analysed(files));
        let file = files[line as usize % files.len()].0;
        let quote = files[line as usize % files.len()].1.lines().next().unwrap_or_default();
        let advised = Advised {
            cores: numbers[0], ram_gib: numbers[1], disk_gb: numbers[2], gpu_count: numbers[3], gpu_memory_gb: numbers[4], gpu,
            os_type: Some(system), os_version: Some(version), python: Some(python),
            evidence: vec![Quoted { file: file.to_owned(), line: 1, quote: quote.to_owned() }],
            ..Advised::default()
        };
        let merged = merge(&scan, &analysis, &advised);
        super::hostile::within_bounds(&analysis, &merged.requirements)?;
        prop_assert_eq!(&merged, &merge(&scan, &analysis, &advised), "the same every time");
    }
}
