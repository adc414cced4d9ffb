//! Sources and notebooks in Python: what they import. Owns the names of modules; runs nothing.

use std::collections::BTreeSet;

use super::super::fact::{At, Finding, SOFT, Sink};
use super::super::python::{self, Package, normal};

/// Lines of a source that are looked at.
const MAX_LINES: usize = 2000;

/// Reads a source: imports at the margin, since those within a block may fail.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let mut seen = BTreeSet::new();
    for (index, line) in text.lines().take(MAX_LINES).enumerate() {
        let at = At { line: index + 1, quote: line };
        import(line, at, &mut seen, sink);
        resources(line, at, sink);
    }
}

/// Reads a notebook: the same of the lines of its cells, and what they install.
pub(super) fn read_notebook(text: &str, sink: &mut Sink<'_>) {
    let mut seen = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        // Each line of a cell is a text in quotes.
        for piece in line.split('"') {
            let code = piece.trim_end_matches("\\n");
            let at = At { line: index + 1, quote: code };
            if let Some(command) = code.strip_prefix(['!', '%']) {
                let mark = sink.mark();
                super::shell::judge(command, at, sink);
                sink.soften(mark);
            } else {
                import(code, at, &mut seen, sink);
            }
        }
    }
}

/// What a program asks its cluster of this machine for: `ray.init(num_cpus=48, num_gpus=4)`.
fn resources(line: &str, at: At<'_>, sink: &mut Sink<'_>) {
    let Some((_, options)) = line.split_once("ray.init(") else { return };
    for part in options.split([',', ')']) {
        let Some((key, value)) = part.split_once('=') else { continue };
        let Ok(count) = value.trim().parse::<u32>() else { continue };
        match key.trim() {
            "num_cpus" => sink.add(at, "launch-cores", Finding::Cores(count), SOFT),
            "num_gpus" if count > 0 => {
                sink.add(at, "launch-cards", Finding::Gpu(None), SOFT);
                sink.add(at, "launch-cards", Finding::GpuCount(count), SOFT);
            }
            _ => {}
        }
    }
}

/// Judges an import, once for each module: soft evidence for what it needs.
fn import(line: &str, at: At<'_>, seen: &mut BTreeSet<String>, sink: &mut Sink<'_>) {
    let Some(rest) = line.strip_prefix("import ").or_else(|| line.strip_prefix("from ")) else { return };
    let is_from = line.starts_with("from ");
    for module in rest.split(',').take(if is_from { 1 } else { 20 }) {
        let name = module.trim_start().split(['.', ' ', ';', '#']).next().unwrap_or_default();
        let is_name = !name.is_empty() && name.len() < 64 && name.chars().all(|ch| ch.is_alphanumeric() || ch == '_');
        if !is_name || !seen.insert(name.to_owned()) {
            continue;
        }
        let mark = sink.mark();
        python::judge(&Package { name: package(name), ..Package::default() }, at, sink);
        sink.soften(mark);
    }
}

/// The package that a module comes from.
fn package(module: &str) -> String {
    match module {
        "sklearn" => "scikit-learn".to_owned(),
        "skimage" => "scikit-image".to_owned(),
        "cv2" => "opencv-python".to_owned(),
        "paddle" => "paddlepaddle".to_owned(),
        "torch_geometric" | "torch_scatter" | "torchtext" | "fairseq" | "monai" => "torch".to_owned(),
        "haiku" | "optax" | "equinox" => "jax".to_owned(),
        module => normal(module),
    }
}
