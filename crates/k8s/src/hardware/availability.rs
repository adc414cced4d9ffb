//! Whether a cluster has hardware for a pod at all, and if not, why. Owns the condition's reason and message; writes none.

use std::collections::BTreeMap;

use orlop_core::hardware::merge::Merged;
use orlop_core::hardware::placement::DeviceSource;
use orlop_core::hardware::{Failure, MachineFit};

use super::node::Node;

/// The reason of the condition `HardwareAvailable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Nothing special is asked for.
    NotRequired,
    /// There are nodes.
    NodesMatch,
    /// No node has the labels, or the architecture.
    NoMatchingLabels,
    /// No node has that much, or that many devices.
    InsufficientAllocatable,
    /// Nodes keep the pod away.
    UntoleratedTaint,
}

impl Reason {
    /// Its text in conditions.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotRequired => "NotRequired",
            Self::NodesMatch => "NodesMatch",
            Self::NoMatchingLabels => "NoMatchingLabels",
            Self::InsufficientAllocatable => "InsufficientAllocatable",
            Self::UntoleratedTaint => "UntoleratedTaint",
        }
    }
}

/// What the condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// Whether a node matches.
    pub available: bool,
    /// Why.
    pub reason: Reason,
    /// The same for people: how many nodes, and how many each dimension excludes.
    pub message: String,
    /// What is said of each node that counts.
    pub verdicts: Vec<MachineFit>,
}

const fn reason(failure: &Failure) -> Reason {
    match failure {
        Failure::Taint(_) => Reason::UntoleratedTaint,
        Failure::Label(_) | Failure::Arch { .. } => Reason::NoMatchingLabels,
        _ => Reason::InsufficientAllocatable,
    }
}

/// Whether any ready and schedulable node could run a pod if it were empty.
#[must_use]
pub fn availability(merged: &Merged, nodes: &[Node]) -> Availability {
    let counted: Vec<&Node> = nodes.iter().filter(|node| node.ready && node.schedulable).collect();
    let verdicts: Vec<MachineFit> = counted.iter().map(|node| merged.check(&node.machine)).collect();
    let matching = verdicts.iter().filter(|verdict| verdict.fits()).count();
    let all = counted.len();
    if matching > 0 {
        let message = format!("{matching} of {all} nodes match");
        return Availability { available: true, reason: Reason::NodesMatch, message, verdicts };
    }
    let mut excluded: BTreeMap<Reason, usize> = BTreeMap::new();
    for verdict in &verdicts {
        let reasons: std::collections::BTreeSet<Reason> = verdict.failures.iter().map(reason).collect();
        reasons.into_iter().for_each(|reason| *excluded.entry(reason).or_default() += 1);
    }
    let most = excluded.iter().max_by_key(|(reason, count)| (**count, std::cmp::Reverse(**reason)));
    let asks = merged.device.as_ref().is_some_and(|need| need.source == DeviceSource::Inventory);
    let reason = match most {
        Some((reason, _)) => *reason,
        None if asks => Reason::InsufficientAllocatable,
        None => Reason::NoMatchingLabels,
    };
    let counts: Vec<String> = excluded.iter().map(|(reason, count)| format!("{} {count}", reason.as_str())).collect();
    let why = if counts.is_empty() { String::new() } else { format!(": {}", counts.join(", ")) };
    Availability { available: false, reason, message: format!("0 of {all} nodes match{why}"), verdicts }
}
