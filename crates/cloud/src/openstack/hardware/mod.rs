//! Hardware needs on a site's node catalogue: which hosts fit, and the exact filters by
//! which they are reserved. Owns that choice; it asks no service. Comparisons of the reservation service are textual and know
//! no alternatives, so what it is sent names a type or a host and nothing else.

mod document;
mod node;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::placement::{DeviceClass, Note, Placement};
use orlop_core::hardware::{HardwareError, Machine, MachineFit, Resolved, Resources, Substrate, Tables, place};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use document::Document;
pub use node::{NodeError, SiteNode};

/// A way to reserve a host that fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The filter of the reservation: `["=", "$node_type", "<type>"]` or `["=", "$uid", "<uid>"]`.
    pub filter: Value,
    /// The type or the host.
    pub name: String,
    /// Memory of GPUs that is left over, in GiB.
    pub spare_gpu_gib: u64,
    /// Threads that are left over.
    pub spare_threads: u64,
}

/// What a need comes to on a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Ways to reserve a host, the one that wastes least first.
    pub candidates: Vec<Candidate>,
    /// What the user should know.
    pub notes: BTreeSet<Note>,
    /// What is said of each usable host, of its nearest entry of devices.
    pub verdicts: Vec<MachineFit>,
}

/// The hosts of a site that fit a need, as filters of a reservation.
///
/// # Errors
/// The site has no words for the need, or no usable host fits.
pub fn choose(
    resolved: &Resolved,
    resources: &Resources,
    tables: &Tables,
    nodes: &[SiteNode],
) -> Result<Choice, HardwareError> {
    let choice = survey(resolved, resources, tables, nodes)?;
    if choice.candidates.is_empty() {
        return Err(HardwareError::NoMatchingHardware { best: MachineFit::nearest(choice.verdicts) });
    }
    Ok(choice)
}

/// What is said of every usable host of a site, for who explains it: no candidate where none fits.
///
/// # Errors
/// The site has no words for the need.
pub fn survey(
    resolved: &Resolved,
    resources: &Resources,
    tables: &Tables,
    nodes: &[SiteNode],
) -> Result<Choice, HardwareError> {
    let words = tables.vocabulary(Substrate::OpenStack);
    let mut placement = place(resolved, resources, &words)?;
    let slices = placement.device.as_ref().is_some_and(|need| matches!(need.class, DeviceClass::Slice(_)));
    if slices {
        placement.notes.insert(Note::Narrowed);
    }
    let mut types: BTreeMap<&str, Vec<(&SiteNode, bool)>> = BTreeMap::new();
    let mut verdicts = Vec::new();
    for node in nodes.iter().filter(|node| node.usable) {
        let verdict = judge(&placement, node, tables);
        types.entry(node.node_type.as_str()).or_default().push((node, verdict.fits()));
        verdicts.push(verdict);
    }
    let mut candidates: Vec<Candidate> = Vec::new();
    for (name, hosts) in types {
        let fitting: Vec<&SiteNode> = hosts.iter().filter(|(_, fits)| *fits).map(|(node, _)| *node).collect();
        if fitting.len() == hosts.len() && !name.is_empty() {
            let tightest = fitting.iter().map(|node| spare(&placement, node)).min();
            candidates.extend(tightest.map(|(gpu_gib, threads)| candidate("$node_type", name, gpu_gib, threads)));
        } else {
            candidates.extend(fitting.iter().map(|node| {
                let (gpu_gib, threads) = spare(&placement, node);
                candidate("$uid", &node.uid, gpu_gib, threads)
            }));
        }
    }
    candidates
        .sort_by(|a, b| (a.spare_gpu_gib, a.spare_threads, &a.name).cmp(&(b.spare_gpu_gib, b.spare_threads, &b.name)));
    Ok(Choice { candidates, notes: placement.notes, verdicts })
}

fn candidate(key: &str, name: &str, spare_gpu_gib: u64, spare_threads: u64) -> Candidate {
    Candidate { filter: json!(["=", key, name]), name: name.to_owned(), spare_gpu_gib, spare_threads }
}

/// Judges a host by the one of its device entries that comes nearest.
fn judge(placement: &Placement, node: &SiteNode, tables: &Tables) -> MachineFit {
    let partition = placement.device.as_ref().and_then(|need| match need.class {
        DeviceClass::Slice(profile) => Some(profile),
        _ => None,
    });
    let machines: Vec<Machine> = node.machines(partition, &tables.catalogue);
    let verdicts = machines.iter().map(|machine| placement.check(machine));
    let nearest = verdicts.min_by_key(|verdict| verdict.failures.len());
    nearest.unwrap_or_else(|| placement.check(&Machine::default()))
}

/// Memory of GPUs and threads that a host has beyond the need.
fn spare(placement: &Placement, node: &SiteNode) -> (u64, u64) {
    let sum = node.entries.iter().flatten().map(|device| u64::from(device.memory_gib.unwrap_or(0))).sum::<u64>();
    let asked = placement.device.as_ref().map_or(0, |need| {
        let each = match need.class {
            DeviceClass::Slice(profile) => u32::from(profile.memory_gb),
            _ => need.memory_gib.unwrap_or(0),
        };
        u64::from(each) * u64::from(need.count)
    });
    let threads = placement.resources.cpu().0.div_ceil(1000);
    (sum.saturating_sub(asked), node.threads.saturating_sub(threads))
}
