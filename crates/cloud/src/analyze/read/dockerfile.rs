//! Dockerfiles: stages, base images, variables, commands. Owns the line format and the substitution of `ARG`s; builds
//! nothing.

use std::collections::BTreeMap;

use orlop_core::hardware::Arch;

use super::super::fact::{At, Finding, HARD, SOFT, Sink};
use super::image::{self, Use};
use super::{launch, shell};

/// An instruction with its arguments, joined over lines.
struct Instruction<'a> {
    line: usize,
    word: String,
    rest: String,
    first: &'a str,
}

/// Reads a Dockerfile.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let instructions = instructions(text);
    let stages = instructions.iter().filter(|instruction| instruction.word == "FROM").count();
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let mut names: Vec<String> = Vec::new();
    let mut bases: Vec<(String, At<'_>)> = Vec::new();
    for instruction in &instructions {
        let at = At { line: instruction.line, quote: instruction.first };
        let rest = instruction.rest.as_str();
        match instruction.word.as_str() {
            "ARG" => variable(rest, &mut variables),
            "FROM" => {
                let (platform, base, name) = from(rest);
                let base = substitute(base, &variables);
                if let Some(arch) = platform.and_then(arch_of) {
                    sink.add(at, "arch-of-platform", Finding::Arch(arch), HARD);
                }
                // A stage that builds on a former one has that one's base.
                let known = names
                    .iter()
                    .rposition(|known| known.eq_ignore_ascii_case(&base))
                    .and_then(|index| bases.get(index));
                let base = known.cloned().unwrap_or((base, at));
                names.push(name.unwrap_or_default().to_owned());
                bases.push(base);
            }
            "ENV" => environment(rest, at, sink),
            "RUN" => shell::judge(&substitute(rest, &variables), at, sink),
            "CMD" | "ENTRYPOINT" => {
                let command = substitute(rest, &variables);
                launch::judge(&launch::words(&command), at, sink);
            }
            _ => {}
        }
    }
    for (index, (base, at)) in bases.iter().enumerate() {
        let used = if index + 1 == stages { Use::Run } else { Use::Beside };
        image::judge(base, used, *at, sink);
    }
}

fn instructions(text: &str) -> Vec<Instruction<'_>> {
    let mut found: Vec<Instruction<'_>> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.starts_with('#') || (trimmed.is_empty() && open) {
            continue;
        }
        let (part, more) = match trimmed.strip_suffix('\\').or_else(|| trimmed.strip_suffix('`')) {
            Some(part) => (part, true),
            None => (trimmed, false),
        };
        if open {
            if let Some(last) = found.last_mut()
                && last.rest.len() < 65_536
            {
                last.rest.push(' ');
                last.rest.push_str(part);
            }
        } else if let Some((word, rest)) = part.split_once(char::is_whitespace) {
            found.push(Instruction {
                line: index + 1,
                word: word.to_uppercase(),
                rest: rest.trim().to_owned(),
                first: line,
            });
        } else if !part.is_empty() {
            found.push(Instruction { line: index + 1, word: part.to_uppercase(), rest: String::new(), first: line });
        }
        open = more;
    }
    found
}

fn variable(rest: &str, variables: &mut BTreeMap<String, String>) {
    if let Some((name, value)) = rest.split_once('=')
        && variables.len() < 256
    {
        let value = substitute(value.trim().trim_matches(['"', '\'']), variables);
        variables.insert(name.trim().to_owned(), value.chars().take(512).collect());
    }
}

/// Replaces `$NAME`, `${NAME}` and `${NAME:-default}`, once; what is unknown becomes its default or nothing.
fn substitute(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        out.push_str(rest.get(..start).unwrap_or_default());
        let after = rest.get(start + 1..).unwrap_or_default();
        let (name, tail) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, tail)) => (name, tail),
            None => {
                let end = after.find(|ch: char| !(ch.is_ascii_alphanumeric() || ch == '_')).unwrap_or(after.len());
                after.split_at_checked(end).unwrap_or((after, ""))
            }
        };
        let (name, default) = name.split_once(":-").unwrap_or((name, ""));
        out.push_str(variables.get(name).map_or(default, String::as_str));
        rest = tail;
        if out.len() > 65_536 {
            return out;
        }
    }
    out.push_str(rest);
    out
}

/// Platform, image and name of a stage.
fn from(rest: &str) -> (Option<&str>, &str, Option<&str>) {
    let mut words = rest.split_whitespace();
    let mut platform = None;
    let mut word = words.next().unwrap_or_default();
    while let Some(option) = word.strip_prefix("--") {
        platform = option.strip_prefix("platform=").or(platform);
        word = words.next().unwrap_or_default();
    }
    let name = words.next().filter(|word| word.eq_ignore_ascii_case("as")).and_then(|_| words.next());
    (platform, word, name)
}

pub(super) fn arch_of(platform: &str) -> Option<Arch> {
    match platform.trim_matches(['"', '\'']) {
        "linux/arm64" | "linux/arm64/v8" | "linux/aarch64" => Some(Arch::Arm64),
        "linux/amd64" | "linux/x86_64" => Some(Arch::Amd64),
        _ => None,
    }
}

/// `CUDA_VISIBLE_DEVICES` without any device.
pub(super) fn environment(text: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let Some((_, rest)) = text.split_once("CUDA_VISIBLE_DEVICES") else { return };
    let value = rest.trim_start_matches(['=', ' ', ':']);
    let value = value.split(char::is_whitespace).next().unwrap_or_default();
    let given = rest.starts_with(['=', ' ', ':']);
    let value = value.trim_matches(['"', '\'']);
    if given && (value.is_empty() || value == "-1") {
        sink.add(at, "no-visible-devices", Finding::CpuOnly, SOFT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("Dockerfile", &mut facts, &mut notes));
        let facts = facts.iter().map(|fact| format!("{} {} {:?}", fact.line, fact.rule, fact.finding));
        facts.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_last_stage_gives_the_system_and_all_stages_the_cards() {
        let text = "ARG TAG=12.1.0-devel-ubuntu20.04\nFROM nvidia/cuda:${TAG} AS build\nRUN make\nFROM python:3.10-bookworm\nCOPY --from=build /x /x\n";
        insta::assert_snapshot!(reported(text), @r"
        2 cuda-image Gpu(Some(Nvidia))
        2 cuda-image Cuda(Version { major: 12, minor: 1 })
        4 os-of-image Os(Os { kind: Ubuntu, version: Version { major: 24, minor: 4 }, mapped: true })
        4 python-of-image Python(Version { major: 3, minor: 10 })
        ");
    }

    #[test]
    fn a_stage_on_a_stage_has_its_base() {
        let text = "FROM --platform=linux/arm64 ubuntu:22.04 AS base\nFROM base\nRUN apt-get install -y \\\n  # a comment\n  openjdk-17-jdk\n";
        insta::assert_snapshot!(reported(text), @r"
        1 arch-of-platform Arch(Arm64)
        3 class-of-system-package Class(Compiled)
        1 os-of-image Os(Os { kind: Ubuntu, version: Version { major: 22, minor: 4 }, mapped: false })
        ");
    }

    #[test]
    fn no_visible_devices_is_a_veto() {
        for text in [
            "ENV CUDA_VISIBLE_DEVICES=\"\"",
            "ENV CUDA_VISIBLE_DEVICES -1",
            "ENV CUDA_VISIBLE_DEVICES=-1 X=1",
            "ENV CUDA_VISIBLE_DEVICES=",
        ] {
            assert!(reported(text).contains("CpuOnly"), "{text}");
        }
        assert_eq!(reported("ENV CUDA_VISIBLE_DEVICES=0,1"), "");
    }

    #[test]
    fn variables_are_replaced_once_and_unknown_ones_are_empty() {
        let variables = BTreeMap::from([("A".to_owned(), "$B".to_owned()), ("B".to_owned(), "x".to_owned())]);
        assert_eq!(substitute("$A-${B}-${C:-d}-$C-$", &variables), "$B-x-d--");
    }
}
