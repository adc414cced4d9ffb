//! Repositories whose containers say what they need.

use super::Repository;

pub(super) const ALL: &[Repository] = &[
    (
        "search engine and a broker",
        &[
            (
                "docker-compose.yml",
                "services:\n  es: {image: 'elasticsearch:8.12.0'}\n  mq: {image: 'confluentinc/cp-kafka:7.5.0'}\n  web: {build: .}\n",
            ),
            ("requirements.txt", "fastapi\n"),
        ],
        "cpu cores=4 ram=32 disk=100 hours=24",
    ),
    (
        "database beside an application",
        &[
            (
                "compose.yaml",
                "services:\n  db: {image: 'postgres:16', environment: {POSTGRES_PASSWORD: planted-in-compose}}\n  app: {build: .}\n",
            ),
            ("package.json", "{}"),
        ],
        "cpu ram=16 disk=40..50 cores=4 hours=24",
    ),
    (
        "reservations of a service",
        &[(
            "docker-compose.yml",
            "services:\n  a:\n    image: x\n    deploy: {resources: {reservations: {cpus: '24', memory: 96G}}}\n",
        )],
        "cpu cores!=24 ram!=96 cores=24 ram=96",
    ),
    (
        "cards of a service",
        &[(
            "docker-compose.yml",
            "services:\n  a:\n    image: x\n    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 2, capabilities: [gpu]}]}}}\n",
        )],
        "gpu! nvidia cards=2 cards!=2 vram=8",
    ),
    (
        "runtime of nvidia",
        &[("docker-compose.gpu.yml", "services: {a: {image: x, runtime: nvidia}}\n"), ("main.py", "")],
        "gpu! nvidia vram=8 cards=1",
    ),
    (
        "heap in the environment",
        &[(
            "docker-compose.yml",
            "services:\n  s: {image: 'opensearchproject/opensearch:2', environment: ['OPENSEARCH_JAVA_OPTS=-Xms8g -Xmx8g']}\n",
        )],
        "cpu ram=32 cores=4..8 disk=40..100",
    ),
    (
        "development container with a card",
        &[(
            ".devcontainer/devcontainer.json",
            "{\"image\":\"mcr.microsoft.com/devcontainers/base:jammy\",\"hostRequirements\":{\"cpus\":16,\"memory\":\"64gb\",\"storage\":\"200gb\",\"gpu\":true}}",
        )],
        "gpu! cores!=16 ram!=64 disk!=215",
    ),
    (
        "development container without",
        &[
            (".devcontainer/devcontainer.json", "{\"image\":\"ubuntu:24.04\",\"hostRequirements\":{\"cpus\":8}}"),
            ("go.mod", "module x\n"),
        ],
        "cpu cores!=8 cores=8 ram!=8",
    ),
    (
        "container of rocky",
        &[("Dockerfile", "FROM rockylinux:9\nRUN dnf install -y gcc\n"), ("Makefile", "all:\n\tgcc x.c\n")],
        "cpu os=centos-9 cores!=4 ram!=8 note=used",
    ),
    (
        "container at the end of its life",
        &[("Dockerfile", "FROM ubuntu:18.04\nRUN apt-get install -y python3\n"), ("main.py", "")],
        "cpu os=ubuntu-18.04 cores=4 ram=8",
    ),
    (
        "deep learning container",
        &[("Containerfile", "FROM pytorch/pytorch:2.3.0-cuda12.1-cudnn8-devel\nRUN pip install deepspeed\n")],
        "gpu! nvidia cuda=12.1 ram=16..64 vram=8..24",
    ),
    (
        "build stage with cards, last stage without",
        &[(
            "Dockerfile",
            "FROM nvidia/cuda:11.8.0-devel-ubuntu22.04 AS build\nRUN nvcc -o k k.cu\nFROM ubuntu:22.04\nCOPY --from=build /k /k\n",
        )],
        "gpu! nvidia cuda=11.8 os=ubuntu-22.04 vram=8",
    ),
];
