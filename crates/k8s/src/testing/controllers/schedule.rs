//! The scheduler, played: which node a pod gets. Owns what fits; binding is the player's.

use std::collections::BTreeSet;

use orlop_core::hardware::merge;
use orlop_core::hardware::placement::Placement;
use serde_json::Value;

use super::super::object::{Object, at, list, meta, text};
use super::super::state::State;
use super::Tables;
use crate::hardware::{node, read};

/// Where a pod goes.
pub(super) enum Choice {
    /// To this node.
    Node(String),
    /// Nowhere: none of so many nodes takes it.
    Nowhere(usize),
}

/// Chooses a node that works: of those that fit, each in its turn. A cluster without nodes has one for everybody.
pub(super) fn choose(state: &State, tables: Tables, lost: &BTreeSet<String>, turn: usize, pod: &Object) -> Choice {
    let nodes: Vec<&Object> = state
        .tables
        .get(tables.nodes)
        .map(|table| {
            table.all().map(|stored| &stored.object).filter(|node| !lost.contains(meta(node, "name"))).collect()
        })
        .unwrap_or_default();
    if nodes.is_empty() {
        return Choice::Node("node-0".to_owned());
    }
    let fit: Vec<&&Object> = nodes.iter().filter(|node| fits(state, tables, node, pod)).collect();
    let chosen = turn.checked_rem(fit.len()).and_then(|turn| fit.get(turn));
    chosen.map_or(Choice::Nowhere(nodes.len()), |node| Choice::Node(meta(node, "name").to_owned()))
}

/// Whether a node takes a pod. One that does not say what it has takes every pod.
fn fits(state: &State, tables: Tables, host: &Object, pod: &Object) -> bool {
    if at(host, &["status", "allocatable"]).is_none() {
        return true;
    }
    let asks = |pod: &Object| {
        let container = list(pod, &["spec", "containers"]).first()?.get("name")?.as_str()?;
        read(pod.get("spec")?, container).ok()
    };
    let (Ok(host), Some(user)) = (node(&Value::Object(host.clone())), asks(pod)) else { return false };
    let Ok(merged) = merge(&user, &Placement::default()) else { return false };
    let mut machine = host.machine;
    let pods = state.tables.get(tables.pods).into_iter().flat_map(super::super::store::Table::all);
    for other in pods.filter(|other| text(&other.object, &["spec", "nodeName"]) == machine.name) {
        let ended = matches!(text(&other.object, &["status", "phase"]), "Succeeded" | "Failed");
        if let Some(used) = asks(&other.object).filter(|_| !ended) {
            machine.allocatable = machine.allocatable.saturating_sub(&used.requests);
        }
    }
    host.ready && host.schedulable && merged.check(&machine).fits()
}
