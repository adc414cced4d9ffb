//! What each kind of file says. Owns the dispatch; each reader parses and never executes, and
//! takes a file it cannot parse for one that says nothing, with a note.

mod batch;
mod cargo;
mod ci;
mod compose;
mod conda;
mod devcontainer;
mod dockerfile;
mod image;
mod julia;
mod jvm;
mod launch;
mod lock;
pub(super) mod native;
mod node;
mod pip;
mod pyproject;
mod readme;
mod sentence;
mod setup;
mod shell;
mod size;
mod source;
mod workflow;

use super::fact::{At, Sink};
use super::kind::FileKind;
pub(super) use workflow::settle;

/// Reads one file into facts. `text` is without suspicious lines.
pub(super) fn read(kind: FileKind, text: &str, sink: &mut Sink<'_>) {
    match kind {
        FileKind::PipList => pip::read(text, sink),
        FileKind::Pyproject => pyproject::read(text, sink),
        FileKind::Pipfile => pyproject::read_pipfile(text, sink),
        FileKind::SetupCfg => setup::read_cfg(text, sink),
        FileKind::SetupPy => setup::read_py(text, sink),
        FileKind::Conda => conda::read(text, sink),
        FileKind::CondaLock => conda::read_lock(text, sink),
        FileKind::TomlLock => lock::read_toml(text, sink),
        FileKind::PipfileLock => lock::read_pipfile(text, sink),
        FileKind::PythonVersion => setup::read_version(text, sink),
        FileKind::ToolVersions => setup::read_tools(text, sink),
        FileKind::Dockerfile => dockerfile::read(text, sink),
        FileKind::Devcontainer => devcontainer::read(text, sink),
        FileKind::Compose => compose::read(text, sink),
        FileKind::PackageJson => node::read(text, sink),
        FileKind::CargoToml => cargo::read(text, sink),
        FileKind::CargoLock => cargo::read_lock(text, sink),
        FileKind::Compiled => native::read_compiled(text, sink),
        FileKind::Jvm => jvm::read(text, sink),
        FileKind::Native => native::read(text, sink),
        FileKind::Ci => ci::read(text, sink),
        FileKind::Julia => julia::read(text, sink),
        FileKind::RPackage => julia::read_r(text, sink),
        FileKind::Nextflow => workflow::read_nextflow(text, sink),
        FileKind::Snakemake => workflow::read_snakemake(text, sink),
        FileKind::PythonSource => source::read(text, sink),
        FileKind::Notebook => source::read_notebook(text, sink),
        FileKind::BatchScript | FileKind::Shell => batch::read(text, sink),
        FileKind::Other => native::read_other(text, sink),
        FileKind::Readme => readme::read(text, sink),
    }
}

/// Reads YAML. Files of services repeat a block by an alias a hundred times; what all of them unfold to is bounded.
fn yaml(text: &str) -> Result<serde_json::Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { alias_anchor_ratio_multiplier: 1000 },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// The first line of a text that holds some words, with its number from 1; line 0 if none does.
fn locate<'a>(text: &'a str, needle: &str) -> At<'a> {
    let found = text.lines().enumerate().find(|(_, line)| !needle.is_empty() && line.contains(needle));
    found.map_or(At { line: 0, quote: "" }, |(index, line)| At { line: index + 1, quote: line })
}

/// Says that a file could not be read; it then gives nothing.
fn unreadable(sink: &mut Sink<'_>, why: &str) {
    let why = super::fact::quoted(why);
    let file = sink.file();
    sink.note(format!("{file} cannot be read and is ignored: {why}"));
}
