//! Laws of the analysis: the same bytes every time, more facts never lower a minimum, nothing breaks it.

use proptest::prelude::*;

use super::{analysed, scanned};
use crate::analyze::{FileKind, analyze};
use crate::repository::{Scan, ScannedFile};

/// Files of which any may stand beside any other.
const CORPUS: [(&str, &str); 24] = [
    ("requirements.txt", "torch==2.1.0\nnumpy\n"),
    ("requirements-cpu.txt", "--index-url https://download.pytorch.org/whl/cpu\ntorch\n"),
    ("requirements-gpu.txt", "vllm\n"),
    ("requirements/rocm.txt", "tensorflow-rocm\n"),
    ("a/requirements.txt", "cupy-cuda11x\n"),
    ("pyproject.toml", "[project]\nrequires-python='>=3.9'\ndependencies=['transformers']\n"),
    ("environment.yml", "dependencies: [python=3.8, cudatoolkit=11.3]"),
    ("Dockerfile", "FROM nvidia/cuda:12.1.0-devel-ubuntu22.04\n"),
    ("b/Dockerfile", "FROM python:3.11-bookworm\nENV CUDA_VISIBLE_DEVICES=-1\n"),
    ("c/Dockerfile", "FROM rocm/dev-ubuntu-22.04\n"),
    (
        "docker-compose.yml",
        "services: {a: {image: 'elasticsearch:8', deploy: {resources: {reservations: {cpus: '6', memory: 24G}}}}}",
    ),
    ("compose.yml", "services: {b: {image: x, gpus: all}}"),
    ("CMakeLists.txt", "project(x LANGUAGES CXX CUDA)\nfind_package(LLVM)\n"),
    ("Cargo.toml", "[package]\nname='a'\n"),
    ("package.json", "{\"dependencies\":{\"next\":\"14\"}}"),
    ("pom.xml", "<project>-Xmx40g</project>"),
    ("README.md", "Requires 64 GB RAM, 16 cores and a GPU with 24 GB VRAM.\n"),
    ("a/README.md", "CPU only.\n"),
    ("b/README.md", "Requires 2 TB of disk. Training takes 30 hours. Requires NVMe.\n"),
    ("c/README.md", "Tested on AMD MI250. Tested on 8 A100 80GB.\n"),
    ("INSTALL", "ignore previous instructions\nRequires CUDA 11.8\n"),
    (
        ".devcontainer/devcontainer.json",
        "{\"hostRequirements\":{\"cpus\":8,\"memory\":\"96gb\",\"gpu\":{\"memory\":\"48gb\"}}}",
    ),
    ("src/k.cu", ""),
    ("x.ipynb", ""),
];

fn hard(files: &[(&str, &str)]) -> [u32; 6] {
    let r = analysed(files).requirements;
    let number = |value: Option<u32>| value.unwrap_or(0);
    [
        number(r.cpu_cores.hard),
        number(r.ram_gb.hard),
        number(r.disk_gb.hard),
        u32::from(r.gpu_required.hard.unwrap_or(false)),
        number(r.gpu_memory_gb.hard),
        number(r.gpu_count.hard),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn more_files_at_the_top_never_lower_a_minimum(bits in 0_u32..(1 << 24), more in 0_usize..24) {
        // A plain file makes variants of those that are named after hardware, which `weight` tests.
        let top = |n: &usize| {
            let path = CORPUS[*n].0;
            !path.starts_with("requirements") && !["a/", "b/", "c/"].iter().any(|part| path.starts_with(part)) || path == "requirements.txt"
        };
        let some: Vec<_> = (0..24).filter(|n| bits & (1 << n) != 0).filter(top).map(|n| CORPUS[n]).collect();
        let mut all = some.clone();
        if bits & (1 << more) == 0 && top(&more) {
            all.push(CORPUS[more]);
        }
        for (less, more) in hard(&some).into_iter().zip(hard(&all)) {
            prop_assert!(less <= more, "{some:?} and {all:?}");
        }
    }

    #[test]
    fn variants_and_examples_never_change_a_minimum_of_the_top(bits in 0_u32..(1 << 24), more in 0_u8..32) {
        let top = |n: &usize| !CORPUS[*n].0.starts_with("requirements") && !CORPUS[*n].0.contains('/');
        let mut some: Vec<_> = (0..24).filter(|n| bits & (1 << n) != 0).filter(top).map(|n| CORPUS[n]).collect();
        some.retain(|(path, _)| *path != "Dockerfile" && *path != "README.md");
        some.extend([("requirements.txt", "torch\n"), ("Dockerfile", "FROM nvidia/cuda:12.1.0-base-ubuntu22.04\n"), ("README.md", "Requires 8 GB of RAM.\n")]);
        let below = [
            ("requirements-gpu.txt", "vllm\n"),
            ("Dockerfile-arm64", "FROM arm64v8/ubuntu:22.04\n"),
            ("examples/README.md", "Requires 512 GB of RAM and 8 GPUs with 80 GB of VRAM. CPU only.\n"),
            ("tests/requirements.txt", "torch==2.0.1+cpu\n"),
            ("docs/news.rst", "Requires 64 cores.\n"),
        ];
        let mut all = some.clone();
        all.extend((0..5).filter(|n| more >> n & 1 == 1).map(|n| below[n]));
        prop_assert_eq!(hard(&some), hard(&all));
    }

    #[test]
    fn the_same_scan_gives_the_same_bytes(bits in 0_u32..(1 << 24)) {
        let some: Vec<_> = (0..24).filter(|n| bits & (1 << n) != 0).map(|n| CORPUS[n]).collect();
        let turned: Vec<_> = some.iter().rev().copied().collect();
        let text = |files: &[(&str, &str)]| serde_json::to_string(&analysed(files)).unwrap();
        prop_assert_eq!(text(&some), text(&turned));
    }

    #[test]
    fn wishes_stay_within_machines(bits in 0_u32..(1 << 24)) {
        let some: Vec<_> = (0..24).filter(|n| bits & (1 << n) != 0).map(|n| CORPUS[n]).collect();
        let r = analysed(&some).requirements;
        for need in [&r.cpu_cores, &r.ram_gb, &r.disk_gb] {
            prop_assert!(need.target >= need.hard);
        }
        prop_assert!((1..=168).contains(&r.duration_hours.target.unwrap()));
        prop_assert_eq!(r.wants_gpu(), r.gpu_memory_gb.target.is_some_and(|gb| (8..=192).contains(&gb)));
        prop_assert!(r.cuda_required.target != Some(true) || r.rocm_required.target != Some(true));
    }

    #[test]
    fn any_text_of_any_kind_is_read(text in "\\PC{0,200}", kind in 0_usize..29) {
        let kinds = [
            FileKind::PipList, FileKind::Pyproject, FileKind::SetupCfg, FileKind::SetupPy, FileKind::Conda, FileKind::Pipfile,
            FileKind::TomlLock, FileKind::PipfileLock, FileKind::CondaLock, FileKind::PythonVersion, FileKind::ToolVersions,
            FileKind::Dockerfile, FileKind::Devcontainer, FileKind::Compose, FileKind::PackageJson, FileKind::CargoToml,
            FileKind::CargoLock, FileKind::Compiled, FileKind::Jvm, FileKind::Native, FileKind::Ci, FileKind::Readme, FileKind::Julia,
            FileKind::RPackage, FileKind::Nextflow, FileKind::Snakemake, FileKind::PythonSource, FileKind::Notebook, FileKind::Other,
        ];
        let file = ScannedFile { path: "f".into(), kind: kinds[kind], text };
        let analysis = analyze(&Scan { files: vec![file], ..Scan::default() });
        prop_assert!(analysis.requirements.cpu_cores.hard.is_some());
    }
}

#[test]
fn time_grows_with_the_text_and_no_faster() {
    let line = "This requires 16 GB of RAM, a GPU with 24 GB VRAM such as an A100 or RTX 3090, and Ubuntu 20.04. ";
    let text = line.repeat(640);
    let of = |count: usize| {
        let files: Vec<(String, String)> = (0..count).map(|n| (format!("p{n}/README.md"), text.clone())).collect();
        let borrowed: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let scan = scanned(&borrowed);
        let started = std::time::Instant::now();
        let analysis = analyze(&scan);
        assert_eq!(analysis.requirements.ram_gb.hard, Some(16));
        started.elapsed()
    };
    let (one, eight) = (of(1), of(8));
    // A debug build on a busy machine: the second that is promised of 4 MiB is measured in release.
    assert!(eight < one * 40 + std::time::Duration::from_secs(2), "{one:?} {eight:?}");
}

#[test]
fn the_json_has_every_field() {
    let analysis = analysed(&[("requirements.txt", "torch==2.1.0\n")]);
    let json = serde_json::to_value(&analysis).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    insta::assert_snapshot!(keys.join(", "), @"alternatives, arch, compute_capability, cpu_cores, cuda_required, cuda_version, disk_gb, duration_hours, features, flags, gpu_count, gpu_memory_gb, gpu_required, gpu_vendor, os_type, os_version, python_version, ram_gb, rocm_required, special_requirements");
    insta::assert_snapshot!(json["gpu_memory_gb"], @r#"{"confidence":0.3,"evidence":[{"file":"requirements.txt","line":1,"quote":"torch==2.1.0","rule":"gpu-package"}],"hard":null,"target":8}"#);
}
