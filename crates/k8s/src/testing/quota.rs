//! ResourceQuota: whether a new object still fits the quotas of its namespace. Usage is counted from what is stored.

use serde_json::Value;

use super::kind::{Builtin, Kind};
use super::object::{Object, at, meta, text};
use super::refusal::{Refusal, Result};
use super::state::State;

/// Refuses an object for which a quota has no room.
pub(crate) fn check(state: &State, kind: &Kind, object: &Object) -> Result<()> {
    if !kind.namespaced || kind.habits.builtin == Builtin::Quota {
        return Ok(());
    }
    let Some(quotas) = state.table_named("", "resourcequotas").and_then(|table| state.tables.get(table)) else {
        return Ok(());
    };
    let prefix = format!("{}/", meta(object, "namespace"));
    for (_, quota) in quotas.within(&prefix) {
        let Some(hard) = at(&quota.object, &["spec", "hard"]).and_then(Value::as_object) else { continue };
        let mut over = Vec::new();
        for (resource, limit) in hard {
            let Some(asked) = demand(kind, object, resource).filter(|asked| *asked > 0.0) else { continue };
            let used = used(state, kind, &prefix, resource);
            let limit_text = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
            if used + asked > quantity(&limit_text) {
                over.push((resource.clone(), shown(asked), shown(used), limit_text));
            }
        }
        if !over.is_empty() {
            over.sort();
            let part = |pick: fn(&(String, String, String, String)) -> &String| {
                over.iter().map(|entry| format!("{}={}", entry.0, pick(entry))).collect::<Vec<String>>().join(",")
            };
            let name = meta(&quota.object, "name");
            let (asked, used, limited) = (part(|entry| &entry.1), part(|entry| &entry.2), part(|entry| &entry.3));
            let why = format!("exceeded quota: {name}, requested: {asked}, used: {used}, limited: {limited}");
            return Err(Refusal::forbidden(kind, meta(object, "name"), &why));
        }
    }
    Ok(())
}

/// How much of a resource an object takes; `None` where it takes none of it by its kind.
fn demand(kind: &Kind, object: &Object, resource: &str) -> Option<f64> {
    let counted = match resource.strip_prefix("count/") {
        Some(name) => name == kind.qualified(),
        None => resource == kind.plural && kind.group.is_empty(),
    };
    if kind.habits.builtin == Builtin::Pod {
        let ended = matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed");
        if ended && !resource.starts_with("count/") {
            return Some(0.0);
        }
        let (section, name) = match resource.split_once('.') {
            Some(("requests", name)) => ("requests", name),
            Some(("limits", name)) => ("limits", name),
            _ if matches!(resource, "cpu" | "memory") => ("requests", resource),
            _ => return counted.then_some(1.0),
        };
        let containers = super::object::list(object, &["spec", "containers"]);
        let amount = |container: &Value| container.pointer(&format!("/resources/{section}"))?.get(name).map(amount_of);
        return Some(containers.iter().filter_map(amount).sum());
    }
    counted.then_some(1.0)
}

fn amount_of(value: &Value) -> f64 {
    value.as_str().map_or_else(|| value.as_f64().unwrap_or_default(), quantity)
}

fn used(state: &State, kind: &Kind, prefix: &str, resource: &str) -> f64 {
    let table = state.tables.iter().find(|table| table.kind.group == kind.group && table.kind.plural == kind.plural);
    table.map_or(0.0, |table| {
        table.within(prefix).filter_map(|(_, stored)| demand(kind, &stored.object, resource)).sum()
    })
}

/// A quantity as a number of units.
pub(crate) fn quantity(text: &str) -> f64 {
    const SUFFIXES: &[(&str, f64)] = &[
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("m", 0.001),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
    ];
    let (number, factor) =
        SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor))).unwrap_or((text, 1.0));
    number.parse::<f64>().unwrap_or_default() * factor
}

fn shown(amount: f64) -> String {
    if amount.fract() == 0.0 { format!("{amount}") } else { format!("{}m", (amount * 1000.0).round()) }
}
