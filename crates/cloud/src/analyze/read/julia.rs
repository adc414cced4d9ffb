//! `Project.toml` of Julia and `DESCRIPTION` of R: what a package is made of.

use orlop_core::hardware::gpu::Vendor;
use toml::{Table, Value};

use super::super::fact::{Finding, SOFT, Sink};
use super::super::sizing::Class;
use super::{locate, unreadable};

/// Reads a `Project.toml`: what it depends on, not what it can be extended by.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return unreadable(sink, error.message()),
    };
    sink.add(locate(text, "["), "class-of-project", Finding::Class(Class::Numeric), SOFT);
    let own = table.get("name").and_then(Value::as_str).into_iter();
    let used = table.get("deps").and_then(Value::as_table).into_iter().flatten().map(|(name, _)| name.as_str());
    for name in own.chain(used) {
        let vendor = match name {
            "CUDA" | "CUDA_Driver_jll" | "cuDNN" => Some(Vendor::Nvidia),
            "AMDGPU" => Some(Vendor::Amd),
            "Flux" | "Lux" | "Knet" => None,
            _ => continue,
        };
        sink.add(locate(text, name), "gpu-julia-package", Finding::Gpu(vendor), SOFT);
        sink.add(locate(text, name), "class-of-package", Finding::Class(Class::DeepLearning), SOFT);
    }
}

/// Reads a `DESCRIPTION`: the fields that name packages, each over several lines.
pub(super) fn read_r(text: &str, sink: &mut Sink<'_>) {
    if !text.lines().any(|line| line.starts_with("Package:")) {
        return;
    }
    sink.add(locate(text, "Package:"), "class-of-project", Finding::Class(Class::Numeric), SOFT);
    let mut is_list = false;
    for line in text.lines() {
        let mut names = line;
        if !line.starts_with([' ', '\t'])
            && let Some((field, rest)) = line.split_once(':')
        {
            is_list = ["Imports", "Depends", "LinkingTo"].contains(&field);
            names = rest;
        }
        if !is_list {
            continue;
        }
        for name in names.split(',').filter_map(|entry| entry.split_whitespace().next()) {
            if ["torch", "tensorflow", "keras", "keras3", "luz", "tabnet"].contains(&name) {
                sink.add(locate(text, name), "gpu-r-package", Finding::Gpu(None), SOFT);
                sink.add(locate(text, name), "class-of-package", Finding::Class(Class::DeepLearning), SOFT);
            }
        }
    }
}
