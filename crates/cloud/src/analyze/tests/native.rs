//! Repositories that are compiled: Rust, Go, C, C++, CUDA, the JVM; and front ends.

use super::expect;

#[test]
fn compiled_projects_have_a_floor() {
    expect("rust", &[("Cargo.toml", "[package]\nname='a'\n")], "cpu cores!=4 ram!=8 cores=4 ram=8 disk=20");
    expect("go", &[("go.mod", "module x\n")], "cpu cores!=4 ram!=8");
    expect("cmake", &[("CMakeLists.txt", "project(x CXX)\n")], "cpu cores!=4 ram!=8");
    expect("maven", &[("pom.xml", "<project/>")], "cpu ram!=8");
    expect("gradle", &[("build.gradle", "plugins {}")], "cpu ram!=8");
    expect("sbt", &[("build.sbt", "name := \"x\"")], "cpu ram!=8");
    expect("meson", &[("meson.build", "project('x', 'c')")], "cpu ram!=8");
}

#[test]
fn large_projects() {
    let many = format!("[workspace]\nmembers=[{}]\n", "'a',".repeat(30));
    expect("workspace", &[("Cargo.toml", &many)], "cpu cores=8 ram=32 disk=100");
    expect(
        "llvm",
        &[("CMakeLists.txt", "project(x CXX)\nfind_package(LLVM REQUIRED)\n")],
        "cpu cores=8 ram=32 disk=100",
    );
}

#[test]
fn cuda_languages_and_packages() {
    expect("language", &[("CMakeLists.txt", "project(x LANGUAGES CXX CUDA)\n")], "gpu! nvidia ram=16");
    expect("package", &[("CMakeLists.txt", "find_package(CUDAToolkit REQUIRED)\n")], "gpu! nvidia");
    expect("make", &[("Makefile", "x: x.cu\n\tnvcc -o x x.cu\n")], "gpu! nvidia");
}

#[test]
fn cuda_within_an_option_that_is_off() {
    let text = "option(WITH_CUDA \"CUDA\" OFF)\nproject(x CXX)\nif(WITH_CUDA)\nfind_package(CUDA REQUIRED)\nendif()\n";
    expect("off", &[("CMakeLists.txt", text)], "cpu");
    expect("on", &[("CMakeLists.txt", &text.replace("OFF", "ON"))], "gpu!");
}

#[test]
fn cuda_sources_count_when_the_build_names_them() {
    let built = [("CMakeLists.txt", "project(x CXX)\nadd_library(k src/kernel.cu)\n"), ("src/kernel.cu", "")];
    expect("built", &built, "gpu! nvidia");
    expect("deep", &[("Makefile", "SRC=a/b/c/d/*.cu\nall:\n\tgcc x.c\n"), ("a/b/c/d/k.cu", "")], "gpu! nvidia");
    let loose = [("Makefile", "all:\n\tgcc x.c\n"), ("lib/kernel.cu", "")];
    expect("loose", &loose, "gpu nvidia");
    expect("sample", &[loose[0], ("samples/kernel.cu", "")], "cpu");
}

#[test]
fn hip() {
    expect("hipcc", &[("Makefile", "all:\n\thipcc -o x x.cpp\n")], "gpu! amd rocm");
    expect("find", &[("CMakeLists.txt", "find_package(hip REQUIRED)\n")], "gpu! amd");
    expect("source", &[("CMakeLists.txt", "add_library(k k.hip)\n"), ("k.hip", "")], "gpu! amd");
}

#[test]
fn crates_for_gpus() {
    expect("cudarc", &[("Cargo.toml", "[dependencies]\ncudarc='0.12'\n")], "gpu! nvidia cores!=4");
    expect("feature", &[("Cargo.toml", "[features]\ndefault=['cuda']\ncuda=[]\n")], "gpu! nvidia");
    expect("wgpu", &[("Cargo.toml", "[dependencies]\nwgpu='22'\n")], "cpu");
    expect("optional", &[("Cargo.toml", "[dependencies]\ncust={version='0.3', optional=true}\n")], "cpu");
}

#[test]
fn the_jvm() {
    expect("spark", &[("build.sbt", "libraryDependencies += \"org.apache.spark\" %% \"spark-core\"")], "cpu ram=16");
    expect("heap", &[("gradle.properties", "org.gradle.jvmargs=-Xmx20g\n")], "cpu ram=32");
    expect("config", &[(".mvn/jvm.config", "-Xmx2g\n"), ("pom.xml", "<project/>")], "cpu ram=8");
}

#[test]
fn front_ends() {
    expect("next", &[("package.json", "{\"dependencies\":{\"next\":\"14\"}}")], "cpu cores=4 ram=8 disk=20");
    expect("browser", &[("package.json", "{\"devDependencies\":{\"puppeteer\":\"22\"}}")], "cpu ram=16");
    expect("tfjs", &[("package.json", "{\"dependencies\":{\"@tensorflow/tfjs-node-gpu\":\"4\"}}")], "gpu! nvidia");
    expect("engine", &[("package.json", "{\"engines\":{\"node\":\">=18\"}}")], "special=node->=18");
}

#[test]
fn opencl_is_weak() {
    expect("opencl", &[("CMakeLists.txt", "project(x C)\nfind_package(OpenCL REQUIRED)\n")], "cpu");
    expect("pyopencl", &[("requirements.txt", "pyopencl\n")], "cpu");
}
