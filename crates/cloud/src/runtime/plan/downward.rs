//! What a pod may learn about itself: `fieldRef` and `resourceFieldRef`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use orlop_core::error::Problem;
use orlop_core::quantity::Quantity;

use super::container::ContainerTemplate;
use super::field::Field;
use super::request::Machine;

/// A field of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldPath {
    /// `metadata.name`.
    Name,
    /// `metadata.namespace`.
    Namespace,
    /// `metadata.uid`.
    Uid,
    /// `metadata.labels`, all of them.
    Labels,
    /// `metadata.annotations`, all of them.
    Annotations,
    /// `metadata.labels['<key>']`.
    Label(String),
    /// `metadata.annotations['<key>']`.
    Annotation(String),
    /// `spec.nodeName`: the name of this machine.
    NodeName,
    /// `spec.serviceAccountName`.
    ServiceAccount,
    /// `status.hostIP`, `status.podIP` and their lists: this machine, seen from itself.
    Address,
}

impl FieldPath {
    pub(super) fn read(field: &Field<'_>) -> Result<Self, Problem> {
        let path = field.get("fieldPath");
        let text = path.required()?;
        let key = |prefix: &str| text.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']").map(str::to_owned);
        Ok(match text {
            "metadata.name" => Self::Name,
            "metadata.namespace" => Self::Namespace,
            "metadata.uid" => Self::Uid,
            "metadata.labels" => Self::Labels,
            "metadata.annotations" => Self::Annotations,
            "spec.nodeName" => Self::NodeName,
            "spec.serviceAccountName" => Self::ServiceAccount,
            "status.hostIP" | "status.hostIPs" | "status.podIP" | "status.podIPs" => Self::Address,
            _ => key("metadata.labels")
                .map(Self::Label)
                .or_else(|| key("metadata.annotations").map(Self::Annotation))
                .ok_or_else(|| path.invalid(&format!("names no field of a pod that can be read: {text}")))?,
        })
    }
}

/// An amount of a container's resources.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRef {
    /// Name of the container; none: the one that asks.
    pub container: Option<String>,
    /// `limits.<name>` or `requests.<name>`.
    pub limit: bool,
    /// Name of the resource.
    pub resource: String,
    /// What the amount is divided by; the result is rounded up.
    pub divisor: Quantity,
}

impl ResourceRef {
    pub(super) fn read(field: &Field<'_>) -> Result<Self, Problem> {
        let resource = field.get("resource");
        let text = resource.required()?;
        let (limit, name) = match text.split_once('.') {
            Some(("limits", name)) => (true, name),
            Some(("requests", name)) => (false, name),
            _ => return Err(resource.invalid("must begin with `limits.` or `requests.`")),
        };
        let divisor = field.get("divisor").quantity()?.filter(|divisor| !divisor.is_zero());
        if divisor.is_some_and(Quantity::is_negative) {
            return Err(field.get("divisor").invalid("must not be negative"));
        }
        Ok(Self {
            container: field.get("containerName").text()?.filter(|name| !name.is_empty()).map(str::to_owned),
            limit,
            resource: name.to_owned(),
            divisor: divisor.unwrap_or(Quantity::from_count(1)),
        })
    }
}

/// What the downward API may show a pod.
#[derive(Clone, Copy, Debug)]
pub struct PodFacts<'a> {
    /// Name of the pod.
    pub name: &'a str,
    /// Namespace of the flow.
    pub namespace: &'a str,
    /// Unique id of the pod.
    pub uid: &'a str,
    /// Labels of the pod.
    pub labels: &'a BTreeMap<String, String>,
    /// Annotations of the pod.
    pub annotations: &'a BTreeMap<String, String>,
    /// Name of the service account.
    pub service_account: &'a str,
    /// Completion index, of an indexed Job.
    pub completion_index: Option<u32>,
    /// The machine.
    pub machine: &'a Machine,
    /// The container that asks.
    pub container: &'a ContainerTemplate,
    /// All containers of the pod.
    pub containers: &'a [&'a ContainerTemplate],
}

impl PodFacts<'_> {
    /// Value of a field; absent labels and annotations are empty.
    #[must_use]
    pub fn field(&self, path: &FieldPath) -> String {
        match path {
            FieldPath::Name => self.name.to_owned(),
            FieldPath::Namespace => self.namespace.to_owned(),
            FieldPath::Uid => self.uid.to_owned(),
            FieldPath::Labels => lines(self.labels),
            FieldPath::Annotations => lines(self.annotations),
            FieldPath::Label(key) => self.labels.get(key).cloned().unwrap_or_default(),
            FieldPath::Annotation(key) => self.annotations.get(key).cloned().unwrap_or_default(),
            FieldPath::NodeName => self.machine.name.clone(),
            FieldPath::ServiceAccount => self.service_account.to_owned(),
            FieldPath::Address => "127.0.0.1".to_owned(),
        }
    }

    /// An amount divided and rounded up. A limit that is not set is what the machine has, a request 0.
    ///
    /// # Errors
    /// Invalid when no container has the name.
    pub fn resource(&self, reference: &ResourceRef, path: &str) -> Result<String, Problem> {
        let wanted = reference.container.as_deref();
        let container = match wanted.filter(|name| *name != self.container.name) {
            None => self.container,
            Some(name) => self.containers.iter().find(|container| container.name == name).ok_or_else(|| {
                let message = format!("{path}.containerName: the pod has no container {name}");
                Problem::new(orlop_core::error::Class::Invalid, message).with_reason("TemplateInvalid")
            })?,
        };
        let amount = if reference.limit {
            let limit = container.resources.limits.get(&reference.resource).copied();
            limit.unwrap_or_else(|| self.machine.amount(&reference.resource))
        } else {
            container.resources.request(&reference.resource).unwrap_or(Quantity::ZERO)
        };
        Ok(divided(amount, reference.divisor).to_string())
    }
}

/// `amount / divisor`, rounded up.
fn divided(amount: Quantity, divisor: Quantity) -> i128 {
    let divisor = divisor.nano().max(1);
    amount.nano().max(0).checked_add(divisor - 1).map_or(i128::MAX / divisor, |sum| sum / divisor)
}

/// Labels as lines `key="value"`, sorted, the value quoted.
fn lines(map: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (key, value) in map {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "{key}={value:?}");
    }
    text
}
