//! Answers, frames, merging, and models that are hostile.

mod answers;
mod containment;
mod hostile;
mod merging;

use super::*;
use crate::analyze::Analysis;
use crate::analyze::merge::{self, Merged};
use crate::analyze::tests::{analysed, scanned};

/// A repository with advice in the form of an answer.
fn merged(files: &[(&str, &str)], answer: &str) -> (Analysis, Merged) {
    let (scan, analysis) = (scanned(files), analysed(files));
    let merged = match read(Point::Requirements, answer).unwrap() {
        Answer::Requirements(advised) => merge::merge(&scan, &analysis, &advised),
        other => panic!("{other:?}"),
    };
    (analysis, merged)
}

/// An answer to the first question, with some of its keys set.
fn answer(keys: &[(&str, serde_json::Value)]) -> String {
    let mut answer = serde_json::json!({
        "cpu_cores": null, "ram_gb": null, "disk_gb": null, "gpu_required": false, "gpu_count": null, "gpu_memory_gb": null,
        "cuda_required": false, "os_type": null, "os_version": null, "python_version": null, "special_requirements": [],
        "evidence": [], "reasoning": "because",
    });
    for (key, value) in keys {
        answer[*key] = value.clone();
    }
    answer.to_string()
}
