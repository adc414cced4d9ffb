//! `Cargo.toml` and `Cargo.lock`: how much is compiled, and crates that drive a GPU.

use orlop_core::hardware::gpu::Vendor;
use toml::{Table, Value};

use super::super::fact::{Finding, HARD, SOFT, Sink, WEAK};
use super::super::sizing::Class;
use super::{locate, unreadable};

/// Members from which a workspace is large.
const MANY_MEMBERS: usize = 30;

/// Reads a `Cargo.toml`.
pub(super) fn read(text: &str, sink: &mut Sink<'_>) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return unreadable(sink, error.message()),
    };
    let members = table.get("workspace").and_then(|workspace| workspace.get("members")?.as_array()).map_or(0, Vec::len);
    let class = if members >= MANY_MEMBERS { Class::LargeCompiled } else { Class::Compiled };
    sink.add(locate(text, "["), "class-of-project", Finding::Class(class), SOFT);
    let workspace = table.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    // A version that a workspace fixes is used by nobody yet.
    for (table, is_fixed) in [(table.get("dependencies"), false), (workspace, true)] {
        for (name, value) in table.and_then(Value::as_table).into_iter().flatten() {
            let optional = value.get("optional").and_then(Value::as_bool).unwrap_or(false);
            gpu_crate(name, optional || is_fixed, text, sink);
        }
    }
    let features = table.get("features").and_then(Value::as_table);
    let default = features.and_then(|features| features.get("default")?.as_array()).into_iter().flatten();
    if default.filter_map(Value::as_str).any(|feature| feature == "cuda") {
        sink.add(locate(text, "default"), "cuda-feature", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
    } else if features.is_some_and(|features| features.contains_key("cuda")) {
        sink.add(locate(text, "cuda"), "cuda-feature", Finding::Gpu(None), WEAK);
    }
}

fn gpu_crate(name: &str, optional: bool, text: &str, sink: &mut Sink<'_>) {
    let at = locate(text, name);
    match name {
        "cudarc" | "cust" | "rustacuda" | "cuda-sys" if !optional => {
            sink.add(at, "cuda-crate", Finding::Gpu(Some(Vendor::Nvidia)), HARD);
        }
        "cudarc" | "cust" | "rustacuda" | "cuda-sys" | "wgpu" | "ocl" | "opencl3" => {
            sink.add(at, "gpu-crate", Finding::Gpu(None), WEAK);
        }
        _ => {}
    }
}

/// Reads a `Cargo.lock`: crates without a source are members.
pub(super) fn read_lock(text: &str, sink: &mut Sink<'_>) {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return unreadable(sink, error.message()),
    };
    let packages = table.get("package").and_then(Value::as_array).into_iter().flatten();
    if packages.filter(|package| package.get("source").is_none()).count() >= MANY_MEMBERS {
        sink.add(locate(text, "[[package]]"), "class-of-lock", Finding::Class(Class::LargeCompiled), SOFT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(read: fn(&str, &mut Sink<'_>), text: &str) -> String {
        let (mut facts, mut notes) = (Vec::new(), Vec::new());
        read(text, &mut Sink::new("Cargo.toml", &mut facts, &mut notes));
        facts.iter().map(|fact| format!("{:?} {:?}", fact.strength, fact.finding)).collect::<Vec<_>>().join(" · ")
    }

    #[test]
    fn cargo_toml() {
        let table = [
            ("[package]\nname='a'", "Target Class(Compiled)"),
            ("[dependencies]\ncudarc='0.1'", "Target Class(Compiled) · Hard Gpu(Some(Nvidia))"),
            ("[dependencies]\ncust={version='1', optional=true}", "Target Class(Compiled) · Weak Gpu(None)"),
            ("[dependencies]\nwgpu='1'", "Target Class(Compiled) · Weak Gpu(None)"),
            ("[features]\ndefault=['cuda']\ncuda=[]", "Target Class(Compiled) · Hard Gpu(Some(Nvidia))"),
            ("[features]\ncuda=[]", "Target Class(Compiled) · Weak Gpu(None)"),
            ("[x", ""),
        ];
        for (text, wanted) in table {
            assert_eq!(reported(read, text), wanted, "{text}");
        }
    }

    #[test]
    fn thirty_members_are_large() {
        let members = |count: usize| format!("[workspace]\nmembers=[{}]", "'a',".repeat(count));
        assert_eq!(reported(read, &members(29)), "Target Class(Compiled)");
        assert_eq!(reported(read, &members(30)), "Target Class(LargeCompiled)");
        let lock = |count: usize| "[[package]]\nname='a'\nversion='1'\n".repeat(count);
        assert_eq!(reported(read_lock, &lock(29)), "");
        assert_eq!(reported(read_lock, &lock(30)), "Target Class(LargeCompiled)");
    }
}
