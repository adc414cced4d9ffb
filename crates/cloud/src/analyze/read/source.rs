//! Sources and notebooks in Python: what they import. Owns the names of modules; runs nothing.

use std::collections::BTreeSet;

use super::super::fact::{At, Sink};
use super::super::python::{self, Package, normal};

/// Lines of a source that are looked at.
const MAX_LINES: usize = 2000;

/// Reads a source: imports at the margin, since those within a block may fail.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let mut seen = BTreeSet::new();
    for (index, line) in text.lines().take(MAX_LINES).enumerate() {
        import(line, At { line: index + 1, quote: line }, &mut seen, sink);
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
