//! Merging a placement with what the user's own pod specification asks for. Owns the rules: both hold, neither is weakened, and
//! a contradiction is an error that names both sides.

mod contradiction;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::HardwareError;
use super::TeeKind;
use super::device::{DeviceClaim, DeviceNeed};
use super::machine::Machine;
use super::placement::{
    Alternative, Clause, LabelExpr, Note, Operator, Placement, Preference, RuntimeNeed, Toleration, untolerated,
};
use super::verdict::{Failure, MachineFit};
use crate::resource::ResourceVector;
pub use terms::TERMS_MAX;

/// Conditions on labels and on fields of a node that hold together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Term {
    /// On labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expressions: Vec<LabelExpr>,
    /// On fields; `metadata.name` is the only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<LabelExpr>,
}

impl Term {
    /// Whether a machine meets it; a term without conditions is met by none.
    #[must_use]
    pub fn matches(&self, machine: &Machine) -> bool {
        let fields = BTreeMap::from([("metadata.name".to_owned(), machine.name.clone())]);
        !(self.expressions.is_empty() && self.fields.is_empty())
            && self.expressions.iter().all(|expression| expression.matches(&machine.labels))
            && self.fields.iter().all(|field| field.matches(&fields))
    }

    fn clause(&self) -> Alternative {
        Alternative { all_of: self.expressions.iter().chain(&self.fields).cloned().collect() }
    }
}

/// The constraints of the user's own pod specification. Pod affinity and everything else stays as it is in the pod.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UserConstraints {
    /// Labels a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Terms of which a node must meet one; absent, none is asked for.
    pub required: Option<Vec<Term>>,
    /// Terms that are preferred, with their weight, 1 to 100.
    pub preferred: Vec<(u8, Term)>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
    /// Requests.
    pub requests: ResourceVector,
    /// Limits.
    pub limits: ResourceVector,
    /// The runtime class.
    pub runtime_class: Option<String>,
}

/// Both as one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[must_use]
pub struct Merged {
    /// Labels a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Terms of which a node must meet one; none, none is asked for.
    pub required: Vec<Term>,
    /// Terms that are preferred, with their weight, 1 to 100.
    pub preferred: Vec<(u8, Term)>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
    /// Requests.
    pub requests: ResourceVector,
    /// Limits.
    pub limits: ResourceVector,
    /// The runtime class.
    pub runtime_class: Option<String>,
    /// What the runtime takes; counts for fit and quota, never rendered.
    pub overhead: ResourceVector,
    /// Devices.
    pub device: Option<DeviceNeed>,
    /// Claims on devices.
    pub claims: Vec<DeviceClaim>,
    /// The architecture among the labels.
    pub arch: Option<LabelExpr>,
    /// What the user should know.
    pub notes: std::collections::BTreeSet<Note>,
}

/// An existing runtime class, as far as it says where its pods may run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuntimeClass {
    /// Labels a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
}

/// Merges a placement into what a user asks for.
///
/// # Errors
/// Both cannot hold, or they ask for two kinds of devices.
pub fn merge(user: &UserConstraints, placement: &Placement) -> Result<Merged, HardwareError> {
    let node_selector = selector(user, placement)?;
    let clauses: Vec<&Clause> =
        placement.required.iter().filter(|clause| clause.only().and_then(LabelExpr::equality).is_none()).collect();
    let required = terms::required(user.required.as_deref(), &clauses, &node_selector)?;
    let (requests, limits) = resources(user, placement)?;
    let mut notes = placement.notes.clone();
    let runtime_class = runtime(user, placement.runtime.as_ref(), placement.tee, &mut notes)?;
    let generated = placement.preferred.iter().map(|Preference { weight, alternative }| {
        (*weight, Term { expressions: alternative.all_of.clone(), fields: Vec::new() })
    });
    Ok(Merged {
        node_selector,
        required,
        preferred: union(&user.preferred, generated),
        tolerations: union(&user.tolerations, placement.tolerations.iter().cloned()),
        requests,
        limits,
        runtime_class,
        overhead: placement.overhead.clone(),
        device: placement.device.clone(),
        claims: placement.claims.clone(),
        arch: placement.arch.clone(),
        notes,
    })
}

/// The user's entries, then those that are not among them.
fn union<T: PartialEq + Clone>(user: &[T], generated: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = user.to_vec();
    for entry in generated {
        if !all.contains(&entry) {
            all.push(entry);
        }
    }
    all
}

/// The user's labels, and what is generated as plain equality.
fn selector(user: &UserConstraints, placement: &Placement) -> Result<BTreeMap<String, String>, HardwareError> {
    let mut all = user.node_selector.clone();
    for expression in placement.required.iter().filter_map(Clause::only).chain(&placement.arch) {
        let own = |value: &str| BTreeMap::from([(expression.key.clone(), value.to_owned())]);
        match (all.get(&expression.key), expression.equality()) {
            (Some(value), _) if !expression.matches(&own(value)) => {
                return Err(HardwareError::LabelConflict {
                    key: expression.key.clone(),
                    user: value.clone(),
                    generated: generated(expression),
                });
            }
            (None, Some(value)) => {
                all.insert(expression.key.clone(), value.to_owned());
            }
            _ => {}
        }
    }
    Ok(all)
}

/// What is asked of a label, without its key.
fn generated(expression: &LabelExpr) -> String {
    if expression.op == Operator::In && expression.values.len() > 1 {
        let values: Vec<&str> = expression.values.iter().map(String::as_str).collect();
        return format!("one of {}", values.join(", "));
    }
    let text = expression.to_string();
    let bare = text.strip_prefix(&expression.key).unwrap_or(&text).trim_start();
    bare.strip_prefix("= ").unwrap_or(bare).to_owned()
}

/// Whether a resource stands for GPUs, or shares of them.
#[must_use]
pub fn is_gpu(name: &str) -> bool {
    let nvidia = |rest: &str| rest.starts_with("mig-") || rest.starts_with("gpu") || rest.starts_with("pgpu");
    name == "amd.com/gpu"
        || name.strip_prefix("nvidia.com/").is_some_and(nvidia)
        || name.starts_with("gpu.intel.com/")
        || name.starts_with("habana.ai/")
}

/// Refuses a second kind of devices.
pub(super) fn one_device<'a>(
    names: impl IntoIterator<Item = &'a str>,
    claims: &[DeviceClaim],
) -> Result<(), HardwareError> {
    let mut only: Option<&str> = claims.first().map(|claim| claim.class.as_str());
    for name in names.into_iter().filter(|name| is_gpu(name)) {
        match only.replace(name) {
            Some(other) if other != name => {
                return Err(HardwareError::ResourceConflict { user: name.to_owned(), generated: other.to_owned() });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Requests and limits: per name the larger; what is not plain has equal ones.
fn resources(user: &UserConstraints, placement: &Placement) -> Result<(ResourceVector, ResourceVector), HardwareError> {
    let names = |all: &ResourceVector| -> Vec<String> { all.iter().map(|(name, _)| name.to_string()).collect() };
    let (asked, limited) = (names(&user.requests), names(&user.limits));
    let own = names(&placement.resources);
    one_device(own.iter().chain(&asked).chain(&limited).map(String::as_str), &placement.claims)?;
    let generated = &placement.resources;
    let mut requests = user.requests.larger_of(generated);
    let mut limits = user.limits.clone();
    for (name, amount) in generated.iter() {
        let larger = amount.max(requests.get(name.as_str())).max(limits.get(name.as_str()));
        limits.set(name.clone(), larger);
    }
    for name in asked.iter().chain(&limited).chain(&own) {
        // An amount of which there is only a limit is requested as much.
        let (request, limit) = (requests.get(name), limits.get(name));
        let Ok(key) = name.parse::<crate::resource::ResourceName>() else { continue };
        if name.contains('/') {
            let both = request.max(limit);
            requests.set(key.clone(), both);
            limits.set(key, both);
        } else if request == 0 {
            requests.set(key, limit);
        } else if limit != 0 && limit < request {
            limits.set(key, request);
        }
    }
    Ok((requests, limits))
}

fn runtime(
    user: &UserConstraints,
    needed: Option<&RuntimeNeed>,
    tee: Option<TeeKind>,
    notes: &mut std::collections::BTreeSet<Note>,
) -> Result<Option<String>, HardwareError> {
    let Some(class) = &user.runtime_class else { return Ok(needed.map(|need| need.name.clone())) };
    let overridden = match needed {
        Some(need) if *class == need.name => false,
        Some(need) if need.any || need.accepted.contains(class) => true,
        Some(need) => {
            let would: Vec<&str> = std::iter::once(&need.name).chain(&need.accepted).map(String::as_str).collect();
            let accepted = would.join(" or ");
            return Err(HardwareError::RuntimeClassConflict { user: class.clone(), accepted });
        }
        None => tee == Some(TeeKind::Sgx),
    };
    if overridden {
        notes.insert(Note::RuntimeClassOverridden);
    }
    Ok(Some(class.clone()))
}

impl Merged {
    /// As a user would have asked for it: merging the same placement into it again changes nothing.
    #[must_use]
    pub fn as_user(&self) -> UserConstraints {
        UserConstraints {
            node_selector: self.node_selector.clone(),
            required: (!self.required.is_empty()).then(|| self.required.clone()),
            preferred: self.preferred.clone(),
            tolerations: self.tolerations.clone(),
            requests: self.requests.clone(),
            limits: self.limits.clone(),
            runtime_class: self.runtime_class.clone(),
        }
    }

    /// What an existing runtime class adds: its labels and taints count for fit, as admission will merge them.
    ///
    /// # Errors
    /// The class asks for another value of a label.
    pub fn under(mut self, class: &RuntimeClass) -> Result<Self, HardwareError> {
        for (key, value) in &class.node_selector {
            match self.node_selector.insert(key.clone(), value.clone()) {
                Some(other) if other != *value => {
                    let (user, generated) = (other, value.clone());
                    return Err(HardwareError::LabelConflict { key: key.clone(), user, generated });
                }
                _ => {}
            }
        }
        self.tolerations = union(&self.tolerations, class.tolerations.iter().cloned());
        Ok(self)
    }

    /// Whether a machine fits, and every reason why it does not.
    pub fn check(&self, machine: &Machine) -> MachineFit {
        let mut failures = Vec::new();
        for (key, value) in &self.node_selector {
            let expression = LabelExpr::equal(key, value);
            if expression.matches(&machine.labels) {
                continue;
            }
            let is_arch = self.arch.as_ref().is_some_and(|arch| arch.key == *key);
            failures.push(if is_arch {
                Failure::arch(&expression, machine)
            } else {
                Failure::label(expression.into(), machine)
            });
        }
        if !self.required.is_empty() && !self.required.iter().any(|term| term.matches(machine)) {
            let asked = Clause { any_of: self.required.iter().map(Term::clause).collect() };
            failures.push(Failure::label(asked, machine));
        }
        failures.extend(untolerated(&self.tolerations, &machine.taints).cloned().map(Failure::Taint));
        let asked = self.requests.saturating_add(&self.overhead);
        failures.extend(asked.lacking(&machine.allocatable).into_iter().map(Failure::Resource));
        failures.extend(self.device.as_ref().and_then(|need| need.lack(&machine.devices)).map(Failure::Device));
        MachineFit { machine: machine.name.clone(), failures }
    }
}
