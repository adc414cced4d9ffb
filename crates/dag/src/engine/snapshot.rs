//! Snapshots: the recorded state as bytes, and back. Owns the versioned form; everything derived is rebuilt, so it cannot
//! disagree with the records.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::exact;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::index::Index;
use super::state::{Flow, Group, Node, State};
use crate::plan::Plan;

/// Version of the form.
const VERSION: u32 = 1;

/// Bytes are not a snapshot of this plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes are no snapshot, or a damaged one.
    #[error("the snapshot cannot be read: {0}")]
    Unreadable(String),
    /// The snapshot has a form this version does not know.
    #[error("the snapshot has form {found}, this version reads form {VERSION}; use the version that wrote it")]
    Version {
        /// Its form.
        found: u32,
    },
    /// The snapshot is of another plan.
    #[error("the snapshot is of a flow with {found} steps, the plan has {expected}")]
    OtherPlan {
        /// Steps in the snapshot.
        found: usize,
        /// Steps in the plan.
        expected: usize,
    },
}

/// Only steps something has happened to are written.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    version: u32,
    steps: usize,
    flow: std::borrow::Cow<'a, Flow>,
    nodes: Vec<(u32, std::borrow::Cow<'a, Node>)>,
    groups: Vec<(u32, StoredGroup<'a>)>,
}

#[derive(Serialize, Deserialize)]
struct StoredGroup<'a> {
    items: Option<Arc<Vec<Value>>>,
    nodes: std::borrow::Cow<'a, [Node]>,
}

/// The state as bytes. A flow that is restored from them and gets the same events goes on as if it had never stopped. Equal states
/// give equal bytes.
///
/// ```
/// use orlop_dag::engine::{restore, snapshot};
/// use orlop_dag::prelude::*;
/// let plan = Plan::build(FlowSpec::new([Step::new("a")]).into())?;
/// let (mut effects, now) = (Vec::new(), Time::EPOCH);
/// let mut state = init(&plan, &FlowMeta::default(), now, &mut effects);
/// apply(&plan, &mut state, &FlowEvent::Admit, now, &mut effects);
/// let bytes = snapshot(&state);
/// assert_eq!(snapshot(&restore(&plan, &bytes)?), bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn snapshot(state: &State) -> Vec<u8> {
    let fresh = Node::default();
    let nodes = (0..).zip(&state.nodes).filter(|(_, node)| **node != fresh);
    let groups = state.groups.iter().map(|(step, group)| {
        let nodes = std::borrow::Cow::Borrowed(group.nodes.as_slice());
        (*step, StoredGroup { items: group.items.clone(), nodes })
    });
    let stored = Stored {
        version: VERSION,
        steps: state.nodes.len(),
        flow: std::borrow::Cow::Borrowed(&state.flow),
        nodes: nodes.map(|(step, node)| (step, std::borrow::Cow::Borrowed(node))).collect(),
        groups: groups.collect(),
    };
    // Every part of a state has string keys and finite numbers, so writing it as JSON cannot fail.
    serde_json::to_vec(&stored).unwrap_or_default()
}

/// Restores a state from bytes of [`snapshot`].
///
/// # Errors
/// When the bytes are not a snapshot, are of a later form, or are of another plan.
pub fn restore(plan: &Plan, bytes: &[u8]) -> Result<State, RestoreError> {
    let stored: Stored<'_> = exact::from_slice(bytes).map_err(|error| RestoreError::Unreadable(error.to_string()))?;
    if stored.version != VERSION {
        return Err(RestoreError::Version { found: stored.version });
    }
    if stored.steps != plan.len() {
        return Err(RestoreError::OtherPlan { found: stored.steps, expected: plan.len() });
    }
    let mut nodes = vec![Node::default(); plan.len()];
    for (step, node) in stored.nodes {
        if let Some(place) = nodes.get_mut(step as usize) {
            *place = node.into_owned();
        }
    }
    let mut groups = BTreeMap::new();
    for (step, group) in stored.groups {
        if plan.get(step).is_some_and(|step| step.fan_out.is_some()) {
            groups.insert(step, Group { items: group.items, nodes: group.nodes.into_owned() });
        }
    }
    let index = Index::rebuild(plan, &nodes, &groups);
    let mut state = State { flow: stored.flow.into_owned(), nodes, groups, index };
    state.drop_dead_timers(plan);
    Ok(state)
}
