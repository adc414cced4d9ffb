//! Where a file stands and what kind of sentence it is: what decides, what is a hint, and what is reported instead of guessed.

use super::{analysed, expect};

#[test]
fn a_container_for_arm_beside_the_main_one_is_an_alternative() {
    let files = [
        ("requirements.txt", "torch>=2.0\n"),
        ("docker/Dockerfile", "FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime\n"),
        ("docker/Dockerfile-arm64", "FROM arm64v8/ubuntu:22.04\n"),
    ];
    expect("variant", &files, "gpu! nvidia cuda=12.1 arch=x86_64 alternative=Dockerfile-arm64");
    expect("alone", &files[2..], "arch=aarch64");
    expect("no other container", &[files[0], files[2]], "gpu arch=x86_64 alternative=Dockerfile-arm64");
}

#[test]
fn an_old_container_for_cards_is_an_alternative_of_a_project_that_needs_none() {
    let files = [
        ("pyproject.toml", "[project]\nname='x'\ndependencies=['numpy']\n"),
        ("docker/gpu/dockerfile.gpu", "FROM nvidia/cuda:8.0-cudnn5-devel\n"),
    ];
    expect("variant", &files, "cpu cuda=? alternative=dockerfile.gpu noflag=gpu-unknown");
    expect("alone", &files[1..], "gpu! nvidia cuda=8.0");
}

#[test]
fn a_minimum_of_a_part_is_a_wish_that_is_reported() {
    let files = [("setup.py", "setup(install_requires=['numpy'])\n"), ("serving/requirements.txt", "vllm\n")];
    expect("part", &files, "gpu nvidia vram=24 note=serving/requirements.txt:1");
    let words = [("README.md", "# x\n"), ("serving/README.md", "Requires 64 GB of RAM.\n"), ("a.py", "")];
    expect("words", &words, "cpu ram!=4 ram=64 note=serving/README.md:1");
}

#[test]
fn the_variant_that_the_readme_builds_is_the_demand() {
    let files = [
        ("Dockerfile.gpu", "FROM nvidia/cuda:12.1.0-base-ubuntu22.04\n"),
        ("requirements.txt", "numpy\n"),
        ("README.md", "Build it:\n```\ndocker build -f Dockerfile.gpu .\n```\n"),
    ];
    expect("named", &files, "gpu! nvidia cuda=12.1");
    let packages = [
        ("requirements-rocm.txt", "--index-url https://download.pytorch.org/whl/rocm5.7\ntorch\n"),
        ("requirements.txt", "-r requirements-base.txt\ntorch\n"),
        ("requirements-base.txt", "vllm\n"),
        ("README.md", "Run `pip install -r requirements.txt`, on AMD cards `pip install -r requirements-rocm.txt`.\n"),
    ];
    expect("included", &packages, "gpu! nvidia alternative=requirements-rocm.txt");
}

#[test]
fn a_sum_that_is_written_out_is_no_minimum_of_a_card() {
    let text = "Fine-tuning a 7B model requires about 7 x 4 x 4 = 112 GB of VRAM. We used 4 A100 80G GPUs.\n";
    expect("sum", &[("requirements.txt", "torch\n"), ("README.md", text)], "gpu nvidia vram=80 vram!=? cards=4");
    let total = "Training requires 8 GPUs with 320 GB of GPU memory in total.\n";
    expect("total", &[("requirements.txt", "torch\n"), ("README.md", total)], "gpu vram=40 cards=8");
    let alone = "Training requires 320 GB of GPU memory in total.\n";
    expect("no count", &[("requirements.txt", "torch\n"), ("README.md", alone)], "gpu vram=8 vram!=?");
}

#[test]
fn documents_below_examples_and_blogs_are_hints_that_are_reported() {
    for folder in ["examples/big", "blogs/llama", "benchmarks", "tutorials/a", "tests", "docs/notes"] {
        let path = format!("{folder}/README.md");
        let files = [
            ("requirements.txt", "torch\n"),
            (path.as_str(), "It would require >=180GB GPU. Training takes 54 days on 64 H100 GPUs.\n"),
        ];
        expect(folder, &files, "gpu vram=8 vram!=? cards=1 hours=24 note=180GB");
    }
}

#[test]
fn a_row_of_a_table_of_variants_is_no_minimum() {
    let text = "| Container | Base | For |\n|---|---|---|\n| `x:a` | some | most users |\n| `x:b200` | nvcr.io/nvidia/pytorch:25.04-py3 | B200 systems that require the newer one |\n";
    expect("row", &[("requirements.txt", "torch\n"), ("README.md", text)], "gpu vram=8 vram!=?");
    let sizes = "| Size | Required VRAM | Speed |\n|---|---|---|\n| small | ~1 GB | 10 |\n| large | ~10 GB | 1 |\n";
    expect("column", &[("requirements.txt", "torch\n"), ("README.md", sizes)], "gpu vram=10 vram!=?");
}

#[test]
fn an_example_beside_a_general_sentence_is_none() {
    let text = "At least 32GB of RAM is recommended. For example, two 13 hour recordings each required around 300 GB of RAM.\n";
    expect("example", &[("requirements.txt", "numpy\n"), ("README.md", text)], "cpu ram!=32 ram=32");
    let alone = "For example, one recording required 100 GB of RAM.\n";
    expect("alone", &[("requirements.txt", "numpy\n"), ("README.md", alone)], "cpu ram!=4 ram=128");
    let full = "For a full reproduction approximately 4 TiB of available storage is needed.\n";
    expect("full", &[("requirements.txt", "numpy\n"), ("README.md", full)], "cpu disk!=20 disk=50 note=TiB");
}

#[test]
fn packages_of_the_install_block_and_imports_count_as_soft_evidence() {
    let block = "# x\n```\nconda install pytorch==1.6.0 torchvision==0.7.0 cudatoolkit=10.1 -c pytorch\n```\n";
    expect("block", &[("README.md", block)], "gpu nvidia cuda=10.1 ram=16");
    expect("words", &[("README.md", "The code requires `python>=3.8`, as well as `pytorch>=1.7`.\n")], "gpu nvidia");
    expect("import", &[("net/model.py", "import os\nimport torch.nn as nn\n")], "gpu nvidia ram=16");
    expect("from", &[("run.py", "from jax import numpy\n")], "gpu nvidia");
    let notebook = "{\"cells\":[{\"source\":[\"import tensorflow as tf\\n\"]}]}";
    expect("notebook", &[("a.ipynb", notebook)], "gpu nvidia");
    expect("try", &[("run.py", "try:\n    import torch\nexcept ImportError:\n    torch = None\n")], "cpu");
    expect("test", &[("setup.py", "setup(install_requires=['numpy'])\n"), ("tests/x.py", "import torch\n")], "cpu");
    expect("sources", &[("run.py", "import csv\n")], "cpu noflag=gpu-unknown");
}

#[test]
fn where_nothing_tells_of_software_that_is_said() {
    expect("nothing", &[(".vimrc", "set nu\n"), ("install.sh", "x\n")], "cpu flag=gpu-unknown flag=low");
    expect("words", &[("README.md", "# Thoughts\nHello.\n")], "cpu flag=gpu-unknown");
    expect("list", &[("requirements.txt", "flask\n")], "cpu noflag=gpu-unknown");
    expect("ruby", &[("Gemfile", "gem 'rails'\n")], "cpu flag=not-understood:Gemfile");
}

#[test]
fn the_maker_of_cards_is_the_one_with_more_evidence() {
    let hip = "HIPCC=$(HIP_PATH)/bin/hipcc\nall:\n\t$(HIPCC) x.cpp\n";
    let burn = "ifeq (${HIP_PLATFORM}, nvcc)\n\tF=-lcublas\nendif\nall:\n\t$(HIPCC) b.cpp\n";
    expect("hip", &[("a/Makefile", hip), ("b/Makefile", hip), ("burn/Makefile", burn)], "gpu! amd rocm");
    let packages =
        "project(b CXX)\nfind_package(hip REQUIRED)\nrocm_package_add_dependencies(DEPENDS \"hip-nvcc >= 3.5.0\")\n";
    expect("name", &[("CMakeLists.txt", packages)], "gpu! amd rocm");
    let cuda = [("a/Makefile", "all:\n\tnvcc a.cu\n"), ("b/Makefile", "all:\n\tnvcc b.cu\n"), ("c/Makefile", hip)];
    expect("cuda", &cuda, "gpu! nvidia note=AMD alternative=amd");
}

#[test]
fn a_choice_without_a_card_vetoes_nothing() {
    let torch = ("requirements.txt", "torch\n");
    let choice =
        "If you want a smaller CPU-only install, choose the second option.\n\nGPU Recommended: at least 8GB VRAM.\n";
    expect("choice", &[torch, ("README.md", choice)], "gpu nvidia vram=8");
    let possible = "Requirements: 1 CUDA enabled GPU.\n\nIt is possible to train on smaller machines, and without GPUs, but doing so may take considerable time.\n";
    expect("possible", &[torch, ("README.md", possible)], "gpu nvidia");
    let beats = "A GPU is recommended. It runs on CPU.\n";
    expect("recommended", &[torch, ("README.md", beats)], "gpu nvidia");
    expect("whole", &[torch, ("README.md", "No GPU needed.\n")], "cpu");
}

#[test]
fn packages_for_development_tests_and_documents_are_weak() {
    for path in ["requirements-dev.txt", "dev-requirements.txt", "tests/requirements.txt", "requirements/tests.txt"] {
        expect(
            path,
            &[("setup.py", "setup(install_requires=['numpy'])\n"), (path, "bitsandbytes\nvllm\n")],
            "cpu ram=16",
        );
    }
    expect("docs", &[("requirements.txt", "numpy\n"), ("docs/requirements.txt", "torch\n")], "cpu ram=16");
    expect(
        "example",
        &[
            ("pyproject.toml", "[project]\nname='x'\ndependencies=['jax']\n"),
            ("examples/a/requirements.txt", "jax[cuda11_cudnn805]\n"),
        ],
        "gpu cuda=?",
    );
}

#[test]
fn optional_features_with_all_they_include_are_weak() {
    let cargo = "[workspace]\nmembers=['a']\n[workspace.dependencies]\ncudarc='0.13'\n";
    let member = "[package]\nname='a'\n[dependencies]\ncudarc={workspace=true, optional=true}\n";
    expect("cargo", &[("Cargo.toml", cargo), ("a/Cargo.toml", member)], "cpu cores!=4");
    let used = member.replace(", optional=true", "");
    expect("used", &[("Cargo.toml", cargo), ("a/Cargo.toml", &used)], "gpu nvidia");
    let cmake = "option(G_GPU \"use cards\" OFF)\nproject(x CXX)\nif(G_GPU)\n  include(cmake/gCuda.cmake)\n  add_subdirectory(cards)\nendif()\n";
    let files = [
        ("CMakeLists.txt", cmake),
        ("cmake/gCuda.cmake", "enable_language(CUDA)\n"),
        ("cards/CMakeLists.txt", "find_package(CUDAToolkit REQUIRED)\n"),
    ];
    expect("include", &files, "cpu cores!=4");
    let on = cmake.replace("OFF", "ON");
    expect("on", &[("CMakeLists.txt", &on), files[1]], "gpu! nvidia");
}

#[test]
fn a_tpu_is_reported_as_one_that_no_site_has() {
    expect("package", &[("requirements.txt", "jax[tpu]\n")], "flag=TPU");
    expect("words", &[("requirements.txt", "jax\n"), ("README.md", "You need a TPU v5e-8.\n")], "flag=TPU");
    expect("none", &[("requirements.txt", "jax\n"), ("README.md", "It also runs on TPUs.\n")], "noflag=TPU");
}

#[test]
fn other_languages_and_workflows_are_read() {
    expect("julia", &[("Project.toml", "[deps]\nCUDA = \"0\"\nFlux = \"1\"\n")], "gpu nvidia ram=16");
    expect("julia without", &[("Project.toml", "[deps]\nLinearAlgebra = \"0\"\n[weakdeps]\nCUDA = \"1\"\n")], "cpu");
    expect("julia amd", &[("Project.toml", "[deps]\nAMDGPU = \"0\"\n")], "gpu amd");
    expect("r", &[("DESCRIPTION", "Package: x\nImports:\n    ggplot2,\n    torch (>= 0.9)\n")], "gpu ram=16");
    expect("r without", &[("DESCRIPTION", "Package: x\nImports: ggplot2\n")], "cpu ram=16");
    let nextflow = [
        ("nextflow.config", "params { x = 1 }\n"),
        (
            "conf/base.config",
            "process {\n  withLabel:high {\n    cpus = { 12 * task.attempt }\n    memory = { 72.GB * task.attempt }\n    time = 16.h\n  }\n}\n",
        ),
        (".devcontainer/devcontainer.json", "{\"hostRequirements\":{\"memory\":\"16gb\"}}"),
    ];
    expect("nextflow", &nextflow, "cpu ram=96 cores=12 hours=26");
    // Settings of a label count where a process bears it.
    let module = |labels: &'static str| [nextflow[0], nextflow[1], ("modules/align/main.nf", labels)];
    expect(
        "a label that is borne",
        &module("process ALIGN {\n  label 'low'\n  label 'high'\n}\n"),
        "ram=96 cores=12 hours=26",
    );
    expect("none that is borne", &module("process ALIGN {\n  label 'low'\n  cpus 6\n}\n"), "ram=16 cores=6 hours=24");
    expect("no labels at all", &module("process ALIGN {\n  memory '20.GB'\n}\n"), "ram=32 cores=4 hours=24");
    let snake = "rule a:\n    threads: 24\n    resources: mem_mb=98304, disk_mb=300000\n    shell: 'x'\n";
    expect("snakemake", &[("workflow/Snakefile", snake)], "cpu cores=24 ram=96 disk=500");
}

#[test]
fn run_times_and_machines_of_somebodys_own_run_are_understood() {
    let said = |text: &str, wanted: &str| expect(text, &[("README.md", text), ("main.py", "")], wanted);
    said("Simulations were run on 4 nodes with 128 cores each and 512 GB RAM.", "cores=128 cores!=2 ram=512 ram!=4");
    said("It trains for about 4 days. The demo takes about 3 minutes.", "hours=146");
    said("This will run for about 4 days using several cards.", "hours=146");
    said("The demo takes about 3 minutes.", "hours=24");
    said("All experiments take 2 days to finish.", "hours=74");
}

#[test]
fn what_stands_at_the_top_is_never_weakened_by_what_stands_below() {
    let top = [("requirements.txt", "vllm\n"), ("README.md", "Requires 64 GB of RAM and a GPU with 40 GB of VRAM.\n")];
    let below = [
        ("examples/a/README.md", "CPU only. For example 2 GB of RAM.\n"),
        ("examples/a/requirements.txt", "--index-url https://download.pytorch.org/whl/cpu\ntorch\n"),
        ("requirements-cpu.txt", "torch==2.1.0+cpu\n"),
        ("Dockerfile-cpu", "FROM python:3.11\n"),
    ];
    let all: Vec<_> = top.iter().chain(&below).copied().collect();
    expect("all", &all, "gpu! nvidia ram!=64 vram!=40");
    let (less, more) = (analysed(&top).requirements, analysed(&all).requirements);
    assert_eq!((less.ram_gb.hard, less.gpu_count.hard), (more.ram_gb.hard, more.gpu_count.hard));
}

#[test]
fn sentences_that_speak_of_something_else_ask_for_nothing() {
    let card = "B200 support requires a newer PyTorch.\n";
    expect("subject", &[("requirements.txt", "torch\n"), ("README.md", card)], "gpu vram=8 vram!=?");
    let both = "## Requirements\n- NVIDIA: Pascal, Volta and Ampere\n- AMD: MI100 and MI200\n";
    expect("makers", &[("requirements.txt", "torch\n"), ("README.md", both)], "gpu nvidia vram=8 note=neither");
    let minimalist = "A minimalist framework, including GPU support.\n";
    expect("minimalist", &[("Cargo.toml", "[package]\nname='a'\n"), ("README.md", minimalist)], "cpu");
    let tokens = "A 20B model trained on 300B tokens of text.\n";
    expect("tokens", &[("requirements.txt", "transformers\n"), ("README.md", tokens)], "gpu vram=24 cards=1");
    let script = [("Cargo.toml", "[package]\nname='a'\n"), ("bindings/e5.py", "import torch\n")];
    expect("script", &script, "cpu");
    let module =
        [("CMakeLists.txt", "project(x CXX)\ninclude(x${GPU})\n"), ("cmake/xCuda.cmake", "enable_language(CUDA)\n")];
    expect("module", &module, "cpu cores!=4 alternative=xCuda.cmake");
    let may = "At least 32 GB of RAM is recommended. Longer ones may require more RAM (128 GB or more).\n";
    expect("may", &[("requirements.txt", "numpy\n"), ("README.md", may)], "cpu ram!=32 ram=32");
    let ideal = "It requires at least 16 GB of RAM, ideally 32 GB.\n";
    expect("ideal", &[("Makefile", "all:\n\tg++ x.cpp\n"), ("README.md", ideal)], "cpu ram!=16 ram=32");
    let cluster = "Evaluated on 16,000 H100 GPUs.\n";
    expect("cluster", &[("requirements.txt", "torch\n"), ("README.md", cluster)], "gpu vram=8 cards=1");
    let sizes = "You need at least 8 GB of RAM to run the 7B models and 32 GB to run the 33B models.\n";
    expect("sizes", &[("go.mod", "module x\n"), ("README.md", sizes)], "cpu ram!=32");
    let artifact = "## Hardware dependencies\n- 200 GB of free disk space\n";
    expect("artifact", &[("README.md", artifact), ("a.py", "")], "disk!=200");
    let only = "### CPU Only\nThis requires 60 GB of memory and no GPU.\n\n### GPU\nIt requires 14 GB of GPU memory.\n";
    expect("section", &[("requirements.txt", "torch\n"), ("README.md", only)], "gpu vram!=14 vram=14 ram!=4");
}
