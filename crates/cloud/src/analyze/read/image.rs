//! Names of container images: system, CUDA, Python, maker of the cards. Owns what well-known images stand for.

use orlop_core::hardware::Arch;
use orlop_core::hardware::gpu::Vendor;

use super::super::fact::{At, Finding, HARD, PINNED, SOFT, Sink};
use super::super::os::Os;
use super::super::python::{self, Package};
use super::super::sizing::Class;
use super::super::version::Version;

/// Where an image is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The work runs in it, so its system counts.
    Run,
    /// It is built in, or a service beside the work.
    Beside,
}

/// An image by its parts.
struct Name {
    /// Registry and path, in lower case.
    path: String,
    /// The tag, in lower case.
    tag: String,
}

fn parts(image: &str) -> Name {
    let image = image.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    let image = image.split('@').next().unwrap_or_default();
    let (path, tag) = match image.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, tag),
        _ => (image, ""),
    };
    let path = path.strip_prefix("docker.io/").unwrap_or(path);
    let path = path.strip_prefix("library/").unwrap_or(path);
    Name { path: path.to_owned(), tag: tag.to_owned() }
}

/// Judges an image by its name.
pub(super) fn judge(image: &str, used: Use, at: At<'_>, sink: &mut Sink<'_>) {
    let name = parts(image);
    cards(&name, at, sink);
    let last = name.path.rsplit('/').next().unwrap_or_default();
    if name.path.starts_with("arm64v8/")
        || name.path.starts_with("aarch64/")
        || name.tag.contains("arm64")
        || name.tag.contains("aarch64")
    {
        sink.add(at, "arch-of-image", Finding::Arch(Arch::Arm64), HARD);
    }
    if used == Use::Run {
        if let Some(os) = system(last, &name.tag) {
            sink.add(at, "os-of-image", Finding::Os(os), PINNED);
        }
        if let Some(version) = python(last, &name.tag) {
            sink.add(at, "python-of-image", Finding::Python(version), PINNED);
        }
    }
    if let Some(class) = class(&name.path, last) {
        sink.add(at, "class-of-image", Finding::Class(class), SOFT);
    }
}

fn cards(name: &Name, at: At<'_>, sink: &mut Sink<'_>) {
    let (path, tag) = (name.path.as_str(), name.tag.as_str());
    let starts =
        |front: &str| path.starts_with(front) || path.split_once('/').is_some_and(|(_, rest)| rest.starts_with(front));
    let cuda = tag.split(['-', '_']).find_map(|part| {
        let version = part.strip_prefix("cuda")?;
        Version::read(version).filter(|version| version.major > 0 && version.major < 100)
    });
    let hard = |vendor| Finding::Gpu(Some(vendor));
    if starts("nvidia/cuda") || starts("nvidia/cudagl") {
        sink.add(at, "cuda-image", hard(Vendor::Nvidia), HARD);
        if let Some(version) = Version::read(tag).filter(|version| version.major > 0) {
            sink.add(at, "cuda-image", Finding::Cuda(version), HARD);
        }
    } else if path.starts_with("nvcr.io/")
        || path.starts_with("rapidsai/")
        || path.starts_with("vllm/")
        || starts("nvidia/")
    {
        sink.add(at, "nvidia-image", hard(Vendor::Nvidia), HARD);
    } else if path.starts_with("rocm/") || tag.contains("rocm") {
        sink.add(at, "rocm-image", hard(Vendor::Amd), HARD);
    } else if cuda.is_some()
        || tag.ends_with("-gpu")
        || tag.contains("-gpu-")
        || tag == "gpu"
        || path.ends_with("-gpu")
        || tag.contains("cuda")
    {
        sink.add(at, "gpu-image", hard(Vendor::Nvidia), HARD);
    } else if path == "pytorch/pytorch" {
        sink.add(at, "gpu-image", Finding::Gpu(None), SOFT);
    }
    if let Some(version) = cuda {
        sink.add(at, "cuda-image", Finding::Cuda(version), HARD);
    }
    if path == "tensorflow/tensorflow" {
        let package = Package {
            name: "tensorflow".to_owned(),
            version: Some(tag.to_owned()),
            optional: true,
            ..Package::default()
        };
        if tag.contains("gpu") {
            python::judge(&package, at, sink);
        }
    }
}

fn system(last: &str, tag: &str) -> Option<Os> {
    let words: Vec<&str> = tag.split(['-', '_']).collect();
    let in_tag = words.iter().find_map(|word| {
        let end = word.find(|ch: char| ch.is_ascii_digit())?;
        let (name, version) = word.split_at_checked(end)?;
        (name.len() > 2).then(|| Os::of(name, version)).flatten()
    });
    let code_name = words.iter().find_map(|word| Os::of_code_name(word));
    let bare = words.contains(&"alpine").then(|| Os::of("alpine", "")).flatten();
    Os::of(last, words.first().copied().unwrap_or_default())
        .or(in_tag)
        .or(code_name)
        .or(bare)
        .or_else(|| last.starts_with("ubi").then(|| Os::of("ubi", "")).flatten())
}

fn python(last: &str, tag: &str) -> Option<Version> {
    let version = match last {
        "python" | "pypy" => Version::read(tag)?,
        _ => {
            let at = tag.find("python").map(|at| at + 6).or_else(|| tag.find("py3").map(|at| at + 2))?;
            let rest = tag.get(at..)?;
            match rest.split_once('.') {
                Some(_) => Version::read(rest)?,
                None => {
                    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                    Version::new(3, digits.strip_prefix('3').filter(|minor| !minor.is_empty())?.parse().ok()?)
                }
            }
        }
    };
    (version.major == 3 || version.major == 2).then_some(version).filter(|version| *version != Version::new(3, 0))
}

fn class(path: &str, last: &str) -> Option<Class> {
    if path.starts_with("vllm/") || path.contains("text-generation-inference") || path.contains("ollama") {
        return Some(Class::LanguageModel);
    }
    if [
        "pytorch/",
        "tensorflow/",
        "nvcr.io/nvidia/pytorch",
        "nvcr.io/nvidia/tensorflow",
        "rocm/pytorch",
        "rocm/tensorflow",
    ]
    .iter()
    .any(|front| path.starts_with(front))
    {
        return Some(Class::DeepLearning);
    }
    if path.starts_with("jupyter/")
        || path.contains("miniconda")
        || path.contains("mambaforge")
        || path.starts_with("rocker/")
    {
        return Some(Class::Numeric);
    }
    let compiled = ["rust", "golang", "gcc", "openjdk", "eclipse-temurin", "maven", "gradle", "amazoncorretto", "sbt"];
    compiled.contains(&last).then_some(Class::Compiled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(image: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        judge(image, Use::Run, At { line: 1, quote: "" }, &mut Sink::new("f", &mut facts, &mut notes));
        let one = |finding: &Finding| match finding {
            Finding::Gpu(Some(vendor)) => vendor.to_string(),
            Finding::Gpu(None) => "gpu".to_owned(),
            Finding::Cuda(version) => format!("cuda {version}"),
            Finding::Python(version) => format!("python {version}"),
            Finding::Os(os) => format!("{} {}", os.kind.name(), os.version_text()),
            Finding::Class(class) => class.name().to_owned(),
            Finding::Arch(arch) => arch.to_string(),
            other => format!("{other:?}"),
        };
        facts.iter().map(|fact| one(&fact.finding)).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn base_images_say_system_cuda_python_and_maker() {
        let images = [
            "nvidia/cuda:12.1.0-cudnn8-devel-ubuntu22.04",
            "docker.io/nvidia/cuda:11.8.0-base-ubi8",
            "nvcr.io/nvidia/pytorch:23.10-py3",
            "nvcr.io/nvidia/cuda:12.2.0-runtime-ubuntu20.04",
            "pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime",
            "pytorch/pytorch",
            "rocm/pytorch:rocm5.7_ubuntu22.04_py3.10_pytorch_2.0.1",
            "tensorflow/tensorflow:2.15.0-gpu",
            "tensorflow/tensorflow:2.15.0",
            "python:3.8-slim-bullseye",
            "python:3.11",
            "python:3.9-alpine",
            "python:3",
            "ubuntu:20.04",
            "Ubuntu",
            "debian:bookworm-slim",
            "rockylinux:9",
            "registry.access.redhat.com/ubi9/ubi",
            "arm64v8/ubuntu:22.04",
            "rust:1.75-bookworm",
            "openjdk:17-jdk-buster",
            "localhost:5000/x/y",
            "a@sha256:00",
            "scratch",
        ];
        let lines = images.map(|image| format!("{image}: {}", reported(image))).join("\n");
        insta::assert_snapshot!(lines, @r"
        nvidia/cuda:12.1.0-cudnn8-devel-ubuntu22.04: nvidia, cuda 12.1, ubuntu 22.04
        docker.io/nvidia/cuda:11.8.0-base-ubi8: nvidia, cuda 11.8, centos 9
        nvcr.io/nvidia/pytorch:23.10-py3: nvidia, deep-learning
        nvcr.io/nvidia/cuda:12.2.0-runtime-ubuntu20.04: nvidia, cuda 12.2, ubuntu 20.04
        pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime: nvidia, cuda 12.1, deep-learning
        pytorch/pytorch: gpu, deep-learning
        rocm/pytorch:rocm5.7_ubuntu22.04_py3.10_pytorch_2.0.1: amd, ubuntu 22.04, python 3.10, deep-learning
        tensorflow/tensorflow:2.15.0-gpu: nvidia, gpu, cuda 12.2, deep-learning
        tensorflow/tensorflow:2.15.0: deep-learning
        python:3.8-slim-bullseye: ubuntu 22.04, python 3.8
        python:3.11: python 3.11
        python:3.9-alpine: ubuntu 22.04, python 3.9
        python:3: 
        ubuntu:20.04: ubuntu 20.04
        Ubuntu: ubuntu 22.04
        debian:bookworm-slim: ubuntu 24.04
        rockylinux:9: centos 9
        registry.access.redhat.com/ubi9/ubi: centos 9
        arm64v8/ubuntu:22.04: arm64, ubuntu 22.04
        rust:1.75-bookworm: ubuntu 24.04, compiled
        openjdk:17-jdk-buster: ubuntu 20.04, compiled
        localhost:5000/x/y: 
        a@sha256:00: 
        scratch: 
        ");
    }
}
