//! Repositories with containers: Dockerfiles, compose, dev containers.

use super::expect;

#[test]
fn cuda_base_images() {
    expect(
        "devel",
        &[("Dockerfile", "FROM nvidia/cuda:12.2.0-devel-ubuntu22.04\n")],
        "gpu! nvidia cuda=12.2 os=ubuntu-22.04 vram=8",
    );
    expect("ubi", &[("Dockerfile", "FROM nvidia/cuda:11.8.0-base-rockylinux8\n")], "gpu! cuda=11.8 os=centos-9");
    expect("nvcr", &[("Dockerfile", "FROM nvcr.io/nvidia/pytorch:23.10-py3\n")], "gpu! nvidia");
}

#[test]
fn pytorch_images_name_their_cuda() {
    expect("pytorch", &[("Dockerfile", "FROM pytorch/pytorch:2.1.0-cuda11.8-cudnn8-devel\n")], "gpu! cuda=11.8 ram=16");
}

#[test]
fn rocm_images() {
    expect("rocm", &[("Dockerfile", "FROM rocm/pytorch:latest\n")], "gpu! amd rocm");
}

#[test]
fn a_build_stage_with_cuda_and_a_last_stage_without() {
    let text = "FROM nvidia/cuda:12.1.0-devel-ubuntu20.04 AS build\nRUN nvcc -o x x.cu\nFROM debian:bookworm\nCOPY --from=build /x /x\n";
    expect("stages", &[("Dockerfile", text)], "gpu! cuda=12.1 os=ubuntu-24.04 note=used");
}

#[test]
fn systems_of_containers() {
    for (base, os) in [
        ("ubuntu:18.04", "ubuntu-18.04"),
        ("debian:bullseye-slim", "ubuntu-22.04"),
        ("python:3.8-buster", "ubuntu-20.04"),
        ("alpine:3.18", "ubuntu-24.04"),
        ("centos:7", "centos-7"),
        ("almalinux:9", "centos-9"),
        ("fedora:38", "ubuntu-24.04"),
        ("scratch", "ubuntu-22.04"),
    ] {
        let text = format!("FROM {base}\n");
        expect(base, &[("Dockerfile", &text)], &format!("cpu os={os}"));
    }
}

#[test]
fn the_container_outranks_the_readme_and_that_the_workflow() {
    let all = [
        ("Dockerfile", "FROM ubuntu:20.04\n"),
        ("README.md", "Tested on Ubuntu 18.04.\n"),
        (".github/workflows/a.yml", "runs-on: ubuntu-24.04\n"),
    ];
    expect("all", &all, "os=ubuntu-20.04");
    expect("readme", &all[1..], "os=ubuntu-18.04");
    expect("workflow", &all[2..], "os=ubuntu-24.04");
}

#[test]
fn commands_within_images() {
    expect(
        "pip",
        &[(
            "Dockerfile",
            "FROM python:3.10\nRUN pip install torch --index-url https://download.pytorch.org/whl/cu121\n",
        )],
        "gpu! cuda=12.1 py=3.10",
    );
    expect(
        "apt",
        &[("Dockerfile", "FROM ubuntu:22.04\nRUN apt-get update && apt-get install -y nvidia-cuda-toolkit\n")],
        "gpu! nvidia",
    );
    expect(
        "conda",
        &[("Dockerfile", "FROM continuumio/miniconda3\nRUN conda install -y cudatoolkit=11.3\n")],
        "gpu! cuda=11.3",
    );
}

#[test]
fn no_visible_devices() {
    expect(
        "veto",
        &[("Dockerfile", "FROM python:3.9\nENV CUDA_VISIBLE_DEVICES=-1\nRUN pip install torch\n")],
        "cpu py=3.9",
    );
}

#[test]
fn compose_reservations_are_hard() {
    let text = "services:\n  a:\n    image: x\n    deploy:\n      resources:\n        reservations:\n          cpus: '6'\n          memory: 24G\n          devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]\n";
    expect(
        "reservation",
        &[("docker-compose.yml", text)],
        "gpu! nvidia cards!=2 cores!=6 ram!=24 cores=6..8 ram=32..64",
    );
    expect("runtime", &[("compose.yaml", "services: {a: {image: x, runtime: nvidia}}")], "gpu! nvidia");
    expect("gpus", &[("compose.yaml", "services: {a: {image: x, gpus: all}}")], "gpu! nvidia");
}

#[test]
fn services_are_added() {
    let text = "services:\n  es: {image: 'elasticsearch:8'}\n  kafka: {image: 'confluentinc/cp-kafka'}\n  db: {image: 'postgres:15'}\n  redis: {image: redis}\n  app: {build: .}\n";
    // 8 + 4 + 2 + 1 + 1 + 1 + 4 = 21; they share threads; 20 + 30 + 30 + 5 + 5 + 5 = 95.
    expect("stack", &[("docker-compose.yml", text)], "cpu ram=32 cores=4 disk=100");
    let said = [("docker-compose.yml", text), ("README.md", "The stack needs at least 12 CPU cores.\n")];
    expect("what the documentation says", &said, "cpu cores=12");
}

#[test]
fn a_heap_replaces_the_memory_of_its_service() {
    let text = "services:\n  es:\n    image: elasticsearch:8\n    environment: ['ES_JAVA_OPTS=-Xmx8g']\n";
    // 8 + 12 + 4 = 24.
    expect("heap", &[("docker-compose.yml", text)], "ram=32 disk=50");
    let small = "services: {es: {image: 'elasticsearch:8', environment: ['ES_JAVA_OPTS=-Xmx1g']}}";
    // 8 + 2 + 4 = 14.
    expect("small", &[("docker-compose.yml", small)], "ram=16");
}

#[test]
fn the_same_service_in_two_files_counts_once() {
    let files = [
        ("docker-compose.yml", "services: {db: {image: 'postgres:15'}}"),
        ("docker-compose.override.yml", "services: {db: {image: 'postgres:15'}}"),
    ];
    expect("twice", &files, "ram=16 disk=40 cores=4");
}

#[test]
fn dev_containers() {
    let text = "{\"image\":\"ubuntu:22.04\",\"runArgs\":[\"--gpus\",\"all\"],\"hostRequirements\":{\"cpus\":8,\"memory\":\"64gb\",\"storage\":\"200gb\"}}";
    expect("host", &[(".devcontainer/devcontainer.json", text)], "gpu! cores!=8 ram!=64 os=ubuntu-22.04 disk=500");
    let optional = "{\"hostRequirements\":{\"gpu\":\"optional\"}}";
    expect("optional", &[(".devcontainer/devcontainer.json", optional)], "cpu");
    let memory = "{\"hostRequirements\":{\"gpu\":{\"memory\":\"24gb\"}}}";
    expect("memory", &[(".devcontainer/devcontainer.json", memory)], "gpu! vram!=24 vram=24");
}

#[test]
fn images_for_arm() {
    expect("arm", &[("Dockerfile", "FROM arm64v8/ubuntu:22.04\n")], "arch=aarch64");
    expect(
        "both",
        &[
            ("Dockerfile", "FROM --platform=linux/amd64 ubuntu:22.04\n"),
            ("b/Dockerfile", "FROM --platform=linux/arm64 ubuntu:22.04\n"),
        ],
        "arch=x86_64",
    );
}

#[test]
fn a_variant_for_gpus_beside_one_without() {
    let files = [
        ("Dockerfile", "FROM python:3.11-slim-bookworm\n"),
        ("Dockerfile.gpu", "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\n"),
    ];
    expect("variant", &files, "cpu py=3.11 alternative=Dockerfile.gpu alternative=12.4");
}
