//! CMake, make and Meson: languages, packages, compilers. Owns the patterns and what stands within an option that is off;
//! the files are programs, and none is run.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::gpu::Vendor;

use super::super::fact::{At, Finding, HARD, SOFT, Sink, WEAK};
use super::super::sizing::Class;
use super::super::version::Version;

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
    let is_list = |path: &str| path.to_lowercase().ends_with("cmakelists.txt");
    if !files.iter().any(|(path, _)| is_list(path)) {
        return BTreeSet::new();
    }
    let edges = edges(files);
    let is_off =
        |path: &str| edges.iter().any(|edge| edge.to == path) && edges.iter().all(|edge| edge.to != path || edge.off);
    let modules = files.iter().map(|(path, _)| *path).filter(|path| path.to_lowercase().ends_with(".cmake"));
    let modules: BTreeSet<&str> = modules.collect();
    let mut on: BTreeSet<&str> =
        files.iter().map(|(path, _)| *path).filter(|path| !modules.contains(path) && !is_off(path)).collect();
    loop {
        let more = edges.iter().filter(|edge| !edge.off && on.contains(edge.from) && !on.contains(edge.to));
        let more: Vec<&str> = more.map(|edge| edge.to).collect();
        if more.is_empty() {
            break;
        }
        on.extend(more);
    }
    files.iter().map(|(path, _)| *path).filter(|path| !on.contains(path)).map(str::to_owned).collect()
}

/// A build file that another one brings in.
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    /// Whether within an option that is off.
    off: bool,
}

/// Names of build files that are followed.
const MAX_EDGES: usize = 2000;

fn edges<'a>(files: &[(&'a str, &str)]) -> Vec<Edge<'a>> {
    let mut found = Vec::new();
    let mut looked: usize = 0;
    for (from, text) in files {
        let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut conditions = Conditions::default();
        for line in text.lines() {
            let small = line.split('#').next().unwrap_or_default().trim().to_lowercase();
            if conditions.line(&small) || looked >= MAX_EDGES {
                continue;
            }
            let named = ["include(", "add_subdirectory("].iter().find_map(|word| small.strip_prefix(word));
            let Some(named) = named.and_then(|rest| rest.split([')', ' ']).next()) else { continue };
            looked += 1;
            let to = files.iter().map(|(path, _)| *path).filter(|to| to != from && brings_in(named, folder, to));
            found.extend(to.map(|to| Edge { from, to, off: conditions.is_off() }));
        }
    }
    found
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
        let is_message = ["message", "set_property", "return"].iter().any(|word| small.starts_with(word));
        if conditions.line(&small) || is_message {
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

/// The name of an option and whether it is off by default: `option(USE_CUDA "…" OFF)`, `option('cuda', value: false)`.
fn option(small: &str) -> Option<(&str, bool)> {
    let rest = small.strip_prefix("option(").or_else(|| small.strip_prefix("option ("))?;
    let name = rest.trim_start().trim_start_matches('\'').split([' ', ',', '\'', '"', ')']).next()?;
    let end = small.trim_end().trim_end_matches(')').trim_end();
    let off = end.ends_with(" off")
        || end.ends_with("\"off")
        || end.ends_with('"')
        || small.contains("value: false")
        || small.contains("value: 'disabled'");
    Some((name, off))
}

/// Options that are off and the blocks that ask for them.
#[derive(Default)]
struct Conditions {
    /// Options by name, and whether each is off.
    options: BTreeMap<String, bool>,
    /// For each open `if`, whether it asks for an option that is off, or for cards without being asked for.
    open: Vec<bool>,
}

impl Conditions {
    /// Takes in a line in lower case; whether it was an option or a condition and says nothing itself.
    fn line(&mut self, small: &str) -> bool {
        if let Some((name, off)) = option(small) {
            if self.options.len() < 1000 {
                self.options.insert(name.to_owned(), off);
            }
            return true;
        }
        let word: String = small.chars().take_while(char::is_ascii_alphanumeric).collect();
        match word.as_str() {
            "if" | "ifdef" | "ifndef" | "ifeq" | "ifneq" => {
                let off = self.asks_for_off(small, &word);
                if self.open.len() < 256 {
                    self.open.push(off);
                }
            }
            "endif" => drop(self.open.pop()),
            "else" | "elseif" => {
                let off = word == "elseif" && self.asks_for_off(small, &word);
                if let Some(last) = self.open.last_mut() {
                    *last = off;
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether a condition holds only where somebody wants or has cards.
    fn asks_for_off(&self, small: &str, word: &str) -> bool {
        let negated = small.contains("not ") || word == "ifneq" || word == "ifndef";
        let mut names = small.split(|ch: char| !(ch.is_ascii_alphanumeric() || ch == '_')).skip(1);
        !negated
            && names.any(|name| match self.options.get(name) {
                Some(off) => *off,
                None => name.split('_').any(|part| CARD_WORDS.contains(&part)),
            })
    }

    fn is_off(&self) -> bool {
        self.open.iter().any(|off| *off)
    }
}

/// Parts of the names of conditions that are about cards.
const CARD_WORDS: [&str; 9] = ["cuda", "cudatoolkit", "gpu", "hip", "rocm", "nvidia", "nvcc", "opencl", "amd"];

fn cards(small: &str, within_off: bool, at: At<'_>, sink: &mut Sink<'_>) {
    let how = if within_off { WEAK } else { HARD };
    let languages = small.starts_with("languages") || small.starts_with("project");
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
        || words("nvcc");
    // Its own list, not one that is passed on.
    let listed_for =
        small.split_once("set(cmake_cuda_architectures").map(|(_, rest)| rest.trim_start_matches([' ', '"']));
    if listed_for.is_some_and(|rest| rest.starts_with(|ch: char| ch.is_ascii_digit())) && !nvidia {
        sink.add(at, "cuda-architectures", Finding::Gpu(Some(Vendor::Nvidia)), how);
    }
    if let Some(oldest) = listed_for.and_then(oldest) {
        sink.add(at, "cuda-architectures", Finding::Capability(oldest), how);
    }
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

/// The oldest of the architectures of a list such as `70;80;90a`.
fn oldest(list: &str) -> Option<Version> {
    let list = list.split([')', '"']).next().unwrap_or_default();
    let numbers = list.split([';', ' ']).filter_map(|one| {
        let digits = one.split(|ch: char| !ch.is_ascii_digit()).next()?;
        digits.parse::<u32>().ok().filter(|number| (30..200).contains(number))
    });
    numbers.min().map(|number| Version::new(number / 10, number % 10))
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

    fn reported(file: &str, text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new(file, &mut facts, &mut notes));
        facts
            .iter()
            .map(|fact| format!("{} {:?} {:?}", fact.line, fact.strength, fact.finding))
            .collect::<Vec<_>>()
            .join(" · ")
    }

    #[test]
    fn cuda_in_a_build_file_is_hard() {
        for line in [
            "project(x LANGUAGES CXX CUDA)",
            "enable_language(CUDA)",
            "find_package(CUDAToolkit REQUIRED)",
            "find_package(CUDA)",
            "set(CMAKE_CUDA_ARCHITECTURES 70 80)",
            "cuda_add_executable(x x.cu)",
        ] {
            assert!(reported("CMakeLists.txt", line).contains("Hard Gpu(Some(Nvidia))"), "{line}");
        }
        assert!(reported("Makefile", "NVCC = nvcc\n").contains("Hard Gpu(Some(Nvidia))"));
        assert!(reported("Makefile", "\thipcc -o x x.cpp\n").contains("Hard Gpu(Some(Amd))"));
        assert!(reported("CMakeLists.txt", "find_package(hip REQUIRED)").contains("Hard Gpu(Some(Amd))"));
        assert!(reported("CMakeLists.txt", "# enable_language(CUDA)").starts_with("1 Target Class(Compiled)"));
    }

    #[test]
    fn cuda_within_an_option_that_is_off_is_weak() {
        let text = "option(USE_CUDA \"with CUDA\" OFF)\nif(USE_CUDA)\n  enable_language(CUDA)\nendif()\nproject(x)\n";
        assert!(reported("CMakeLists.txt", text).contains("3 Weak Gpu(Some(Nvidia))"));
        let on = text.replace("OFF", "ON");
        assert!(reported("CMakeLists.txt", &on).contains("3 Hard Gpu(Some(Nvidia))"));
        let other =
            "option(USE_CUDA \"x\" OFF)\nif(USE_CUDA)\nelse()\nenable_language(CUDA)\nendif()\nenable_language(CUDA)";
        assert!(reported("CMakeLists.txt", other).contains("6 Hard Gpu"), "after the block it counts");
    }

    #[test]
    fn libraries_as_large_as_llvm() {
        for line in ["find_package(LLVM REQUIRED CONFIG)", "find_package(Boost 1.70)", "find_package(ROOT)"] {
            assert!(reported("CMakeLists.txt", line).contains("Class(LargeCompiled)"), "{line}");
        }
    }

    #[test]
    fn a_makefile_that_compiles_nothing_is_none() {
        assert_eq!(reported("Makefile", "test:\n\tpytest\n"), "");
        assert_eq!(reported("Makefile", "all:\n\tgcc x.c\n"), "1 Target Class(Compiled)");
    }
}
