//! Repositories that are compiled, and front ends.

use super::Repository;

pub(super) const ALL: &[Repository] = &[
    (
        "rust library",
        &[
            ("Cargo.toml", "[package]\nname='a'\nversion='0.1.0'\n[dependencies]\nserde='1'\n"),
            ("Cargo.lock", "version = 3\n"),
            ("rust-toolchain.toml", "[toolchain]\nchannel='1.80'\n"),
        ],
        "cpu cores!=4 ram!=8 cores=4 ram=8 disk=20",
    ),
    (
        "rust on cards",
        &[("Cargo.toml", "[package]\nname='a'\n[dependencies]\ncudarc={version='0.11',features=['driver']}\n")],
        "gpu! nvidia cores!=4 ram!=8 vram=8",
    ),
    (
        "rust with windows on any card",
        &[("Cargo.toml", "[package]\nname='a'\n[dependencies]\nwgpu='0.19'\n"), ("README.md", "Draws.\n")],
        "cpu cores!=4 ram!=8 disk=20",
    ),
    (
        "go service",
        &[
            ("go.mod", "module example.org/x\ngo 1.22\n"),
            ("Dockerfile", "FROM golang:1.22 AS build\nRUN go build\nFROM gcr.io/distroless/static\n"),
        ],
        "cpu cores!=4 ram!=8 cores=4 ram=8 hours=24",
    ),
    (
        "cuda project",
        &[
            (
                "CMakeLists.txt",
                "cmake_minimum_required(VERSION 3.18)\nproject(k LANGUAGES CXX CUDA)\nset(CMAKE_CUDA_ARCHITECTURES 80)\n",
            ),
            ("src/a.cu", ""),
            ("src/b.cuh", ""),
        ],
        "gpu! nvidia cores!=4 ram!=8 vram=8 ram=16",
    ),
    (
        "cuda that is off by default",
        &[(
            "CMakeLists.txt",
            "option(USE_CUDA \"use it\" OFF)\nproject(k CXX)\nif(USE_CUDA)\n  enable_language(CUDA)\nendif()\n",
        )],
        "cpu cores!=4 ram!=8 cores=4",
    ),
    (
        "hip project",
        &[
            ("CMakeLists.txt", "project(k CXX)\nfind_package(hip REQUIRED)\nadd_executable(k k.hip)\n"),
            ("k.hip", ""),
            ("README.md", "Ran on AMD MI100 GPUs.\n"),
        ],
        "gpu! amd rocm vram=32 cores!=4",
    ),
    (
        "compiler of its own",
        &[
            ("CMakeLists.txt", "project(c CXX)\nfind_package(LLVM REQUIRED CONFIG)\n"),
            ("README.md", "Building needs at least 16 cores.\n"),
        ],
        "cpu cores!=16 cores=16 ram=32 disk=100",
    ),
    (
        "makefile with nvcc",
        &[
            ("Makefile", "all: k\nk: k.cu\n\tnvcc -O3 -arch=sm_70 -o k k.cu\n"),
            ("k.cu", ""),
            ("README.md", "Requires CUDA 11.4.\n"),
        ],
        "gpu! nvidia cuda=11.4 os=ubuntu-22.04 ram!=8",
    ),
    (
        "meson project",
        &[("meson.build", "project('x', 'c')\n"), ("README.md", "Tested on Debian 12.\n")],
        "cpu cores!=4 ram!=8 os=ubuntu-24.04",
    ),
    (
        "spark job",
        &[
            (
                "pom.xml",
                "<project><dependencies><dependency><artifactId>spark-core_2.12</artifactId></dependency></dependencies></project>",
            ),
            (".mvn/jvm.config", "-Xmx12g\n"),
        ],
        "cpu cores!=4 ram!=8 ram=16..32",
    ),
    (
        "gradle with a large heap",
        &[("build.gradle.kts", "plugins { java }\n"), ("gradle.properties", "org.gradle.jvmargs=-Xmx20g\n")],
        "cpu cores!=4 ram=32 disk=20..50 hours=24",
    ),
    (
        "scala build",
        &[("build.sbt", "name := \"x\"\nscalaVersion := \"3.3.1\"\n"), ("README.md", "# x\n")],
        "cpu cores!=4 ram!=8 ram=8",
    ),
    (
        "front end",
        &[("package.json", "{\"engines\":{\"node\":\">=20\"},\"dependencies\":{\"next\":\"14\",\"react\":\"18\"}}")],
        "cpu cores=4 ram=8 disk=20 hours=24",
    ),
    (
        "front end with a browser",
        &[
            ("package.json", "{\"dependencies\":{\"vite\":\"5\"},\"devDependencies\":{\"puppeteer\":\"22\"}}"),
            ("README.md", "# p\n"),
        ],
        "cpu cores=4 ram=16 disk=20 hours=24",
    ),
    (
        "node on cards",
        &[("package.json", "{\"dependencies\":{\"@tensorflow/tfjs-node-gpu\":\"4\"}}")],
        "gpu! nvidia vram=8 ram=16 cards=1",
    ),
];
