//! Python packages as evidence: which names mean a GPU, whose, and which CUDA. Owns the tables;
//! the files that name packages are read elsewhere.

use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;

use super::fact::{At, Finding, HARD, PINNED, SOFT, Sink, WEAK};
use super::sizing::Class;
use super::version::Version;

/// A package that a file asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Package {
    /// Its name in one spelling: small letters, `-` between words.
    pub(super) name: String,
    /// Extras, in the same spelling.
    pub(super) extras: Vec<String>,
    /// Its version, if only one or those compatible with one will do.
    pub(super) version: Option<String>,
    /// Asked for by an extra of the project only.
    pub(super) optional: bool,
    /// From a lock file, where it may have been brought by another package.
    pub(super) locked: bool,
}

/// One spelling of a package's name.
pub(super) fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for ch in name.trim().chars() {
        match ch {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            ch => normal.extend(ch.to_lowercase()),
        }
    }
    normal
}

/// Names that cannot be installed or are of no use without an NVIDIA card.
const NVIDIA: [&str; 40] = [
    "tensorflow-gpu",
    "cupy",
    "flash-attn",
    "bitsandbytes",
    "xformers",
    "vllm",
    "apex",
    "nvidia-apex",
    "tensorrt",
    "faiss-gpu",
    "onnxruntime-gpu",
    "pycuda",
    "cudf",
    "cuml",
    "cugraph",
    "cuspatial",
    "cuxfilter",
    "cucim",
    "rmm",
    "dask-cuda",
    "dask-cudf",
    "raft-dask",
    "pylibraft",
    "cuvs",
    "nvtabular",
    "paddlepaddle-gpu",
    "auto-gptq",
    "autoawq",
    "transformer-engine",
    "nvidia-dali",
    "pynvjpeg",
    "nccl4py",
    "cuda-python",
    "warp-lang",
    "spconv",
    "numba-cuda",
    "torch-tensorrt",
    "sglang",
    "mamba-ssm",
    "exllamav2",
];

/// Beginnings of such names.
const NVIDIA_FAMILIES: [&str; 17] = [
    "cupy-cuda",
    "tensorrt-",
    "faiss-gpu-",
    "dgl-cu",
    "cudf-cu",
    "cuml-cu",
    "cugraph-cu",
    "rmm-cu",
    "mxnet-cu",
    "spconv-cu",
    "nvidia-dali-cuda",
    "cucim-cu",
    "dask-cudf-cu",
    "cuvs-cu",
    "jax-cuda",
    "pylibraft-cu",
    "raft-dask-cu",
];

/// Names that work on a GPU where there is one.
const SOFT_NAMES: [&str; 34] = [
    "torch",
    "torchvision",
    "torchaudio",
    "pytorch",
    "tensorflow",
    "keras",
    "jax",
    "jaxlib",
    "flax",
    "mxnet",
    "paddlepaddle",
    "lightning",
    "pytorch-lightning",
    "transformers",
    "accelerate",
    "peft",
    "diffusers",
    "timm",
    "detectron2",
    "mmcv",
    "mmcv-full",
    "mmdet",
    "ultralytics",
    "deepspeed",
    "fastai",
    "sentence-transformers",
    "trl",
    "unsloth",
    "axolotl",
    "openai-whisper",
    "faster-whisper",
    "whisperx",
    "coqui-tts",
    "nerfstudio",
];

/// Names of work with language models.
const LANGUAGE: [&str; 17] = [
    "transformers",
    "peft",
    "trl",
    "vllm",
    "deepspeed",
    "bitsandbytes",
    "flash-attn",
    "unsloth",
    "axolotl",
    "auto-gptq",
    "autoawq",
    "sglang",
    "llama-cpp-python",
    "exllamav2",
    "lmdeploy",
    "text-generation",
    "ctransformers",
];

const NUMERIC: [&str; 22] = [
    "numpy",
    "scipy",
    "pandas",
    "scikit-learn",
    "matplotlib",
    "jupyter",
    "jupyterlab",
    "notebook",
    "ipykernel",
    "numba",
    "dask",
    "xarray",
    "polars",
    "statsmodels",
    "seaborn",
    "networkx",
    "sympy",
    "astropy",
    "scikit-image",
    "opencv-python",
    "xgboost",
    "lightgbm",
];

/// Judges one package.
pub(super) fn judge(package: &Package, at: At<'_>, sink: &mut Sink<'_>) {
    let name = package.name.as_str();
    let local = package
        .version
        .as_deref()
        .and_then(|version| version.split_once('+'))
        .map(|(_, local)| local.to_ascii_lowercase());
    if let Some(local) = &local {
        build_tag(local, at, sink);
    }
    if !package.optional {
        class(name, at, sink);
    }
    if local.is_some_and(|local| local.contains("aarch64")) {
        sink.add(at, "arch-of-wheel", Finding::Arch(Arch::Arm64), HARD);
    }
    if ["torch-xla", "libtpu", "libtpu-nightly", "tensorflow-tpu"].contains(&name)
        || package.extras.iter().any(|extra| extra == "tpu")
    {
        sink.add(at, "tpu-package", Finding::Tpu, if package.optional { WEAK } else { SOFT });
    }
    let cpu = name == "cpuonly"
        || name == "tensorflow-cpu"
        || name == "jax-cpu"
        || package.extras.iter().any(|extra| extra == "cpu") && name.starts_with("jax");
    if cpu {
        sink.add(at, "cpu-package", Finding::CpuOnly, SOFT);
        return;
    }
    if let Some((vendor, rule)) = hard_vendor(package) {
        let how = if package.optional { WEAK } else { HARD };
        sink.add(at, rule, Finding::Gpu(Some(vendor)), how);
        if vendor == Vendor::Nvidia
            && let Some(cuda) = cuda_of_name(package)
        {
            sink.add(at, "cuda-of-package", Finding::Cuda(cuda), how);
        }
    } else if is_soft(name) {
        let how = if package.optional { WEAK } else { SOFT };
        sink.add(at, "gpu-package", Finding::Gpu(None), how);
    } else if ["numba", "pyopencl", "opencl", "wgpu"].contains(&name) {
        sink.add(at, "gpu-possible", Finding::Gpu(None), WEAK);
    } else if name.starts_with("nvidia-")
        && let Some(cuda) = cuda_of_name(package)
    {
        // Wheels that torch brings along, and one that is loaded where cards are, say which CUDA, not that a card is needed.
        let how = if package.locked || name.starts_with("nvidia-nccl-") { PINNED } else { HARD };
        sink.add(at, "cuda-of-package", Finding::Cuda(cuda), how);
    }
    if let Some(cuda) =
        package.version.as_deref().and_then(Version::read).and_then(|version| cuda_of_framework(name, version))
    {
        sink.add(at, "cuda-of-framework", Finding::Cuda(cuda), SOFT);
    }
}

/// What the tag of a build says: `cpu`, `cu121`, `rocm5.6`.
pub(super) fn build_tag(tag: &str, at: At<'_>, sink: &mut Sink<'_>) {
    if tag == "cpu" || tag.starts_with("cpu.") {
        sink.add(at, "cpu-build", Finding::CpuOnly, HARD);
    } else if let Some(rest) = tag.strip_prefix("cu").filter(|rest| rest.starts_with(|ch: char| ch.is_ascii_digit())) {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        sink.add(at, "cuda-build", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
        if let Some(cuda) = Version::of_digits(&digits) {
            sink.add(at, "cuda-build", Finding::Cuda(cuda), HARD);
        }
    } else if tag.starts_with("rocm") {
        sink.add(at, "rocm-build", Finding::Gpu(Some(Vendor::Amd)), HARD);
    }
}

/// What the address of an index says: `…/whl/cu121`.
pub(super) fn index(url: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let small = url.to_ascii_lowercase();
    for part in small.split(['/', '?', '#', '"', '\'', ' ']) {
        build_tag(part, at, sink);
    }
}

/// What the name of a wheel says: its build, and whether it is for Arm.
pub(super) fn wheel(file: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let small = file.to_ascii_lowercase().replace("%2b", "+");
    let name = small.rsplit('/').next().unwrap_or_default();
    if let Some((_, local)) = name.split_once('+') {
        build_tag(local.split('-').next().unwrap_or_default(), at, sink);
    }
    if name.contains("aarch64.whl") || name.contains("arm64.whl") {
        sink.add(at, "arch-of-wheel", Finding::Arch(Arch::Arm64), HARD);
    }
}

fn class(name: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let class = if LANGUAGE.contains(&name) {
        Class::LanguageModel
    } else if is_soft(name) || NVIDIA.contains(&name) || name == "tensorflow-cpu" {
        Class::DeepLearning
    } else if NUMERIC.contains(&name) {
        Class::Numeric
    } else {
        return;
    };
    sink.add(at, "class-of-package", Finding::Class(class), SOFT);
}

fn is_soft(name: &str) -> bool {
    SOFT_NAMES.contains(&name) || name.starts_with("mmcv-") || name.starts_with("tf-nightly")
}

fn hard_vendor(package: &Package) -> Option<(Vendor, &'static str)> {
    let name = package.name.as_str();
    let extra = |wanted: &str| package.extras.iter().any(|extra| extra.contains(wanted));
    let framework = ["jax", "jaxlib", "tensorflow", "paddlepaddle"].contains(&name);
    if ["tensorflow-rocm", "pytorch-triton-rocm", "onnxruntime-rocm", "jax-rocm"].contains(&name)
        || name.starts_with("jax-rocm")
        || name.starts_with("cupy-rocm")
        || framework && extra("rocm")
    {
        return Some((Vendor::Amd, "rocm-package"));
    }
    let nvidia = NVIDIA.contains(&name)
        || NVIDIA_FAMILIES.iter().any(|family| name.starts_with(family))
        || framework && extra("cuda")
        || name.starts_with("nvidia-cuda-") && !package.locked
        || name.starts_with("nvidia-cudnn-") && !package.locked;
    nvidia.then_some((Vendor::Nvidia, "cuda-package"))
}

/// The CUDA that stands in a package's name or extra: `cupy-cuda12x`, `nvidia-cublas-cu11`, `jax[cuda12]`.
fn cuda_of_name(package: &Package) -> Option<Version> {
    let texts = package.extras.iter().chain([&package.name]);
    texts
        .filter_map(|text| {
            let at = text.rfind("cuda").map(|at| at + 4).or_else(|| text.rfind("-cu").map(|at| at + 3))?;
            let digits: String = text.get(at..)?.chars().take_while(char::is_ascii_digit).collect();
            Version::of_digits(&digits).filter(|version| (8..=20).contains(&version.major))
        })
        .max()
}

/// The CUDA that a release of a framework is built for.
fn cuda_of_framework(name: &str, version: Version) -> Option<Version> {
    let v = Version::new;
    match (name, version.major, version.minor) {
        ("tensorflow" | "tensorflow-gpu", 2, 4) => Some(v(11, 0)),
        ("tensorflow" | "tensorflow-gpu", 2, 5..=11) => Some(v(11, 2)),
        ("tensorflow", 2, 12..=14) => Some(v(11, 8)),
        ("tensorflow", 2, 15) => Some(v(12, 2)),
        ("tensorflow", 2, 16..) => Some(v(12, 3)),
        ("torch" | "pytorch", 1, _) => Some(v(11, 0)),
        ("torch" | "pytorch", 2, 0) => Some(v(11, 8)),
        ("torch" | "pytorch", 2, 1..=3) => Some(v(12, 1)),
        ("torch" | "pytorch", 2, 4..) => Some(v(12, 4)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::fact::{Fact, Strength};

    fn facts(package: Package) -> Vec<Fact> {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        judge(&package, At { line: 1, quote: "" }, &mut Sink::new("f", &mut facts, &mut notes));
        facts
    }

    fn gpu(name: &str, extras: &[&str], version: Option<&str>) -> Vec<(Strength, Option<Vendor>)> {
        let extras = extras.iter().map(|extra| (*extra).to_owned()).collect();
        let package =
            Package { name: name.to_owned(), extras, version: version.map(str::to_owned), ..Package::default() };
        facts(package)
            .into_iter()
            .filter_map(|fact| match fact.finding {
                Finding::Gpu(vendor) => Some((fact.strength, vendor)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn hard_evidence_for_nvidia() {
        for name in [
            "tensorflow-gpu",
            "cupy-cuda11x",
            "cupy-cuda12x",
            "flash-attn",
            "bitsandbytes",
            "xformers",
            "vllm",
            "apex",
            "tensorrt",
            "tensorrt-cu12",
            "faiss-gpu",
            "faiss-gpu-cu12",
            "onnxruntime-gpu",
            "cudf",
            "cuml-cu12",
            "dgl-cu117",
            "pycuda",
        ] {
            assert_eq!(gpu(name, &[], None), [(Strength::Hard, Some(Vendor::Nvidia))], "{name}");
        }
        assert_eq!(gpu("jax", &["cuda12-pip"], None), [(Strength::Hard, Some(Vendor::Nvidia))]);
        assert_eq!(gpu("torch", &[], Some("2.1.0+cu121"))[0], (Strength::Hard, Some(Vendor::Nvidia)));
    }

    #[test]
    fn hard_evidence_for_amd() {
        assert_eq!(gpu("tensorflow-rocm", &[], None), [(Strength::Hard, Some(Vendor::Amd))]);
        assert_eq!(gpu("jax", &["rocm"], None), [(Strength::Hard, Some(Vendor::Amd))]);
        assert_eq!(gpu("torch", &[], Some("2.0.1+rocm5.4.2"))[0], (Strength::Hard, Some(Vendor::Amd)));
    }

    #[test]
    fn soft_and_weak_evidence() {
        for name in [
            "torch",
            "tensorflow",
            "keras",
            "jax",
            "mxnet",
            "paddlepaddle",
            "lightning",
            "transformers",
            "accelerate",
            "peft",
            "diffusers",
            "timm",
            "detectron2",
            "mmcv",
            "mmcv-full",
            "ultralytics",
            "deepspeed",
        ] {
            assert_eq!(gpu(name, &[], None), [(Strength::Target, None)], "{name}");
        }
        assert_eq!(gpu("numba", &[], None), [(Strength::Weak, None)]);
        assert_eq!(gpu("pyopencl", &[], None), [(Strength::Weak, None)]);
        assert!(gpu("numpy", &[], None).is_empty());
        let optional = Package { name: "cupy-cuda12x".into(), optional: true, ..Package::default() };
        assert!(facts(optional).iter().all(|fact| fact.strength == Strength::Weak));
    }

    #[test]
    fn vetoes() {
        for (name, version) in [("tensorflow-cpu", None), ("cpuonly", None), ("torch", Some("2.1.0+cpu"))] {
            let package = Package { name: name.into(), version: version.map(str::to_owned), ..Package::default() };
            assert!(facts(package).iter().any(|fact| fact.finding == Finding::CpuOnly), "{name}");
        }
    }

    #[test]
    fn the_cuda_of_frameworks_at_their_boundaries() {
        let row = |name: &str, minors: &[(u32, u32)]| {
            let of = |(major, minor): &(u32, u32)| match cuda_of_framework(name, Version::new(*major, *minor)) {
                Some(cuda) => format!("{major}.{minor}={cuda}"),
                None => format!("{major}.{minor}=?"),
            };
            minors.iter().map(of).collect::<Vec<_>>().join(" ")
        };
        insta::assert_snapshot!(row("tensorflow", &[(1, 15), (2, 3), (2, 4), (2, 5), (2, 11), (2, 12), (2, 14), (2, 15), (2, 16), (2, 20)]), @"1.15=? 2.3=? 2.4=11.0 2.5=11.2 2.11=11.2 2.12=11.8 2.14=11.8 2.15=12.2 2.16=12.3 2.20=12.3");
        insta::assert_snapshot!(row("torch", &[(1, 0), (1, 13), (2, 0), (2, 1), (2, 3), (2, 4), (2, 9)]), @"1.0=11.0 1.13=11.0 2.0=11.8 2.1=12.1 2.3=12.1 2.4=12.4 2.9=12.4");
    }

    #[test]
    fn names_have_one_spelling() {
        assert_eq!(normal("Flash_Attn"), "flash-attn");
        assert_eq!(normal(" zope.interface "), "zope-interface");
        assert_eq!(normal("a-_.b"), "a-b");
    }

    #[test]
    fn a_lock_of_torch_with_its_wheels_says_the_cuda_and_no_more() {
        let package = Package {
            name: "nvidia-cublas-cu12".into(),
            version: Some("12.1.3.1".into()),
            locked: true,
            ..Package::default()
        };
        let facts = facts(package);
        assert_eq!(facts.len(), 1);
        assert_eq!((&facts[0].finding, facts[0].strength), (&Finding::Cuda(Version::new(12, 0)), Strength::Target));
    }
}
