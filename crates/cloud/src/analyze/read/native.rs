//! CMake, make and Meson: languages, packages, compilers. Owns the patterns and what stands within an option that is off;
//! the files are programs, and none is run.

use std::collections::BTreeSet;

use orlop_core::hardware::gpu::Vendor;

use super::super::fact::{At, Finding, HARD, SOFT, Sink, WEAK};
use super::super::sizing::Class;

/// Reads a file that is not understood: something is built or run with it.
pub(super) fn read_other(text: &str, sink: &mut Sink<'_>) {
    let name = sink.file().rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let scripted =
        ["gemfile", "composer.json", "mix.exs", "pubspec.yaml"].contains(&name.as_str()) || name.ends_with(".gemspec");
    let at = At { line: 1, quote: text.lines().next().unwrap_or_default() };
    let class = if scripted { Class::Plain } else { Class::Compiled };
    sink.add(at, "class-of-project", Finding::Class(class), SOFT);
}

/// Build files that only an option brings in which is off, by their paths: such that `include` or `add_subdirectory` names within
/// it and nowhere else.
pub(in super::super) fn optional(files: &[(&str, &str)]) -> BTreeSet<String> {
    let (mut on, mut off): (BTreeSet<String>, BTreeSet<String>) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in files {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut conditions = Conditions::default();
        for line in text.lines() {
            let small = line.split('#').next().unwrap_or_default().trim().to_lowercase();
            if conditions.line(&small) {
                continue;
            }
            let named = ["include(", "add_subdirectory("].iter().find_map(|word| small.strip_prefix(word));
            let Some(named) = named.and_then(|rest| rest.split([')', ' ']).next()) else { continue };
            let within = conditions.is_off();
            for (other, _) in files.iter().filter(|(other, _)| brings_in(named, folder, other)) {
                if within {
                    off.insert((*other).to_owned())
                } else {
                    on.insert((*other).to_owned())
                };
            }
        }
    }
    off.difference(&on).cloned().collect()
}

/// Whether a name in a build file in a folder stands for a file: by its path from there or the top, or as a module.
fn brings_in(named: &str, folder: &str, other: &str) -> bool {
    let other = other.to_lowercase();
    let folder = folder.to_lowercase();
    let named = named.trim_matches('"').trim_start_matches("${cmake_current_source_dir}/").trim_start_matches("./");
    let here = if folder.is_empty() { named.to_owned() } else { format!("{folder}/{named}") };
    let is = |path: &str| other == path || other == format!("{path}.cmake") || other.starts_with(&format!("{path}/"));
    !named.is_empty() && (is(&here) || is(named) || other.ends_with(&format!("/{named}.cmake")))
}

/// Reads a file that only says that something is compiled.
pub(super) fn read_compiled(text: &str, sink: &mut Sink<'_>) {
    let at = At { line: 1, quote: text.lines().next().unwrap_or_default() };
    sink.add(at, "class-of-project", Finding::Class(Class::Compiled), SOFT);
}

/// Reads a build file.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let is_make = sink.file().to_lowercase().ends_with("makefile");
    let mut conditions = Conditions::default();
    let mut compiles = !is_make;
    for (index, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default();
        let small = code.trim().to_lowercase();
        let at = At { line: index + 1, quote: line };
        if conditions.line(&small) {
            continue;
        }
        cards(&small, conditions.is_off(), at, sink);
        if is_large(&small) {
            sink.add(at, "large-library", Finding::Class(Class::LargeCompiled), SOFT);
        }
        compiles |= ["gcc", "g++", "clang", "$(cc)", "$(cxx)", "nvcc", "hipcc", "gfortran"]
            .iter()
            .any(|tool| small.contains(tool));
    }
    if compiles {
        read_compiled(text, sink);
    }
}

/// The name of an option that is off by default: `option(USE_CUDA "…" OFF)`, `option('cuda', value: false)`.
fn option_off(small: &str) -> Option<String> {
    let rest = small.strip_prefix("option(").or_else(|| small.strip_prefix("option ("))?;
    let name = rest.trim_start().trim_start_matches('\'').split([' ', ',', '\'', '"', ')']).next()?;
    let end = small.trim_end().trim_end_matches(')').trim_end();
    let off = end.ends_with(" off")
        || end.ends_with("\"off")
        || end.ends_with('"')
        || small.contains("value: false")
        || small.contains("value: 'disabled'");
    off.then(|| name.to_owned())
}

/// Options that are off and the blocks that ask for them.
#[derive(Default)]
struct Conditions {
    options_off: BTreeSet<String>,
    /// For each open `if`, whether it asks for an option that is off, or for a compiler that may be there.
    open: Vec<bool>,
}

impl Conditions {
    /// Takes in a line in small letters; whether it was an option or a condition and says nothing itself.
    fn line(&mut self, small: &str) -> bool {
        if let Some(name) = option_off(small) {
            self.options_off.insert(name);
            return true;
        }
        blocks(small, &self.options_off, &mut self.open);
        ["ifeq", "ifneq", "ifdef", "ifndef"].iter().any(|word| small.starts_with(word))
    }

    fn is_off(&self) -> bool {
        self.open.iter().any(|off| *off)
    }
}

fn blocks(small: &str, options_off: &BTreeSet<String>, open: &mut Vec<bool>) {
    let word: String = small.chars().take_while(char::is_ascii_alphanumeric).collect();
    match word.as_str() {
        "if" | "ifdef" | "ifeq" | "ifneq" => {
            let names = small.split(|ch: char| !(ch.is_ascii_alphanumeric() || ch == '_'));
            let off = names.into_iter().any(|name| {
                options_off.contains(name) || name.ends_with("_found") || name.starts_with("cmake_cuda_compiler")
            }) || word == "ifdef" && small.contains("cuda");
            let negated = small.contains("not ") || word == "ifneq";
            if open.len() < 256 {
                open.push(off && !negated);
            }
        }
        "endif" => {
            open.pop();
        }
        "else" | "elseif" => {
            if let Some(last) = open.last_mut() {
                *last = false;
            }
        }
        _ => {}
    }
}

fn cards(small: &str, within_off: bool, at: At<'_>, sink: &mut Sink<'_>) {
    let how = if within_off { WEAK } else { HARD };
    let languages = small.contains("languages") || small.starts_with("project");
    let listed = languages && small.split(|ch: char| !ch.is_ascii_alphanumeric()).any(|word| word == "cuda");
    let words = |wanted: &str| {
        small.split(|ch: char| !(ch.is_ascii_alphanumeric() || "_-".contains(ch))).any(|word| word == wanted)
    };
    let is_project = small.starts_with("project") && listed && !small.contains("project(cuda");
    let nvidia = is_project
        || listed && !small.starts_with("project")
        || small.contains("enable_language(cuda)")
        || small.contains("find_package(cuda")
        || small.contains("cuda_add_")
        || small.contains("cmake_cuda_architectures")
        || words("nvcc");
    let quiet = small.contains("find_package(cuda") && small.contains("quiet");
    if nvidia {
        sink.add(at, "cuda-build-file", Finding::Gpu(Some(Vendor::Nvidia)), if quiet { WEAK } else { how });
    }
    let amd = words("hipcc")
        || small.contains("find_package(hip")
        || small.contains("enable_language(hip)")
        || languages && words("hip")
        || small.contains("hip_add_");
    if amd {
        sink.add(at, "hip-build-file", Finding::Gpu(Some(Vendor::Amd)), how);
    }
    if small.contains("find_package(opencl") {
        sink.add(at, "opencl-build-file", Finding::Gpu(None), WEAK);
    }
}

fn is_large(small: &str) -> bool {
    [
        "find_package(llvm",
        "find_package(boost",
        "find_package(root",
        "find_package(clang",
        "dependency('llvm'",
        "dependency('boost'",
    ]
    .iter()
    .any(|package| small.contains(package))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(file: &str, text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new(file, &mut facts, &mut notes));
        facts
            .iter()
            .map(|fact| format!("{} {:?} {:?}", fact.line, fact.strength, fact.finding))
            .collect::<Vec<_>>()
            .join(" · ")
    }

    #[test]
    fn s3_2_cuda_in_a_build_file_is_hard() {
        for line in [
            "project(x LANGUAGES CXX CUDA)",
            "enable_language(CUDA)",
            "find_package(CUDAToolkit REQUIRED)",
            "find_package(CUDA)",
            "set(CMAKE_CUDA_ARCHITECTURES 70 80)",
            "cuda_add_executable(x x.cu)",
        ] {
            assert!(told("CMakeLists.txt", line).contains("Hard Gpu(Some(Nvidia))"), "{line}");
        }
        assert!(told("Makefile", "NVCC = nvcc\n").contains("Hard Gpu(Some(Nvidia))"));
        assert!(told("Makefile", "\thipcc -o x x.cpp\n").contains("Hard Gpu(Some(Amd))"));
        assert!(told("CMakeLists.txt", "find_package(hip REQUIRED)").contains("Hard Gpu(Some(Amd))"));
        assert!(told("CMakeLists.txt", "# enable_language(CUDA)").starts_with("1 Target Class(Compiled)"));
    }

    #[test]
    fn s3_2_cuda_within_an_option_that_is_off_is_weak() {
        let text = "option(USE_CUDA \"with CUDA\" OFF)\nif(USE_CUDA)\n  enable_language(CUDA)\nendif()\nproject(x)\n";
        assert!(told("CMakeLists.txt", text).contains("3 Weak Gpu(Some(Nvidia))"));
        let on = text.replace("OFF", "ON");
        assert!(told("CMakeLists.txt", &on).contains("3 Hard Gpu(Some(Nvidia))"));
        let other =
            "option(USE_CUDA \"x\" OFF)\nif(USE_CUDA)\nelse()\nenable_language(CUDA)\nendif()\nenable_language(CUDA)";
        assert!(told("CMakeLists.txt", other).contains("6 Hard Gpu"), "after the block it counts");
    }

    #[test]
    fn s3_4_libraries_as_large_as_llvm() {
        for line in ["find_package(LLVM REQUIRED CONFIG)", "find_package(Boost 1.70)", "find_package(ROOT)"] {
            assert!(told("CMakeLists.txt", line).contains("Class(LargeCompiled)"), "{line}");
        }
    }

    #[test]
    fn a_makefile_that_compiles_nothing_is_none() {
        assert_eq!(told("Makefile", "test:\n\tpytest\n"), "");
        assert_eq!(told("Makefile", "all:\n\tgcc x.c\n"), "1 Target Class(Compiled)");
    }
}
