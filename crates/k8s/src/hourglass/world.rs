//! What is known of the cluster beside the objects of one namespace: nodes, runtime classes, devices. Owns reading it from
//! what watches show, and which changes of it matter.

use std::collections::BTreeMap;

use orlop_core::hardware::gpu::Catalogue;
use orlop_core::hardware::merge::RuntimeClass;
use orlop_core::time::Time;
use serde_json::Value;

use crate::api::Kind;
use crate::hardware::{DeviceFacts, Node, node, runtime_class, slices};
use crate::value::{item, text, time, word};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// What it offers.
    pub node: Node,
    /// Since when it is not ready.
    pub unready_since: Option<Time>,
}

impl Host {
    /// Reads a node; one that cannot be read offers nothing.
    fn of(object: &Value) -> Option<Self> {
        let node = match node(object) {
            Ok(node) => node,
            Err(error) => {
                tracing::warn!(%error, node = word(object, "/metadata/name"), "a node cannot be read and does not count");
                return None;
            }
        };
        let unready =
            item(object, "/status/conditions", "type", "Ready").filter(|ready| word(ready, "/status") != "True");
        Some(Self { node, unready_since: unready.and_then(|ready| time(ready, "/lastTransitionTime")) })
    }
}

/// What is known of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Nodes by name; none where they may not be read.
    pub nodes: Option<BTreeMap<String, Host>>,
    /// Runtime classes by name; none where they may not be read.
    pub runtime_classes: Option<BTreeMap<String, RuntimeClass>>,
    /// What the cluster says about devices.
    pub devices: DeviceFacts,
}

impl World {
    /// All nodes, as what decides about fit.
    #[must_use]
    pub fn hosts(&self) -> Vec<Node> {
        self.nodes.iter().flatten().map(|(_, host)| host.node.clone()).collect()
    }

    /// Takes in an object that exists. Whether that matters to anybody.
    pub fn seen(&mut self, kind: Kind, object: &Value, catalogue: &Catalogue) -> bool {
        let name = text(object, "/metadata/name");
        match kind {
            Kind::Node => {
                let Some(mut host) = Host::of(object) else { return false };
                let nodes = self.nodes.get_or_insert_default();
                let before = nodes.get(&name);
                // Devices come from slices.
                host.node.machine.devices = before.map(|host| host.node.machine.devices.clone()).unwrap_or_default();
                let changed = before != Some(&host);
                nodes.insert(name, host);
                changed
            }
            Kind::RuntimeClass => {
                let class = runtime_class(object).unwrap_or_default();
                self.runtime_classes.get_or_insert_default().insert(name, class.clone()) != Some(class)
            }
            Kind::DeviceClass => self.devices.classes.insert(name),
            Kind::ResourceSlice => {
                let driver = text(object, "/spec/driver");
                let new = self.devices.drivers.insert(driver);
                let Some((node, devices)) = slices(object, catalogue) else { return new };
                let host = self.nodes.get_or_insert_default().get_mut(&node);
                let Some(host) = host.filter(|host| host.node.machine.devices != devices) else { return new };
                host.node.machine.devices = devices;
                true
            }
            _ => false,
        }
    }

    /// Takes out an object that is gone. Whether that matters to anybody.
    pub fn gone(&mut self, kind: Kind, object: &Value) -> bool {
        let name = word(object, "/metadata/name");
        match kind {
            Kind::Node => self.nodes.as_mut().is_some_and(|nodes| nodes.remove(name).is_some()),
            Kind::RuntimeClass => self.runtime_classes.as_mut().is_some_and(|known| known.remove(name).is_some()),
            Kind::DeviceClass => self.devices.classes.remove(name),
            _ => false,
        }
    }

    /// All objects of a kind may be read, also where there are none.
    pub fn readable(&mut self, kind: Kind) {
        match kind {
            Kind::Node => drop(self.nodes.get_or_insert_default()),
            Kind::RuntimeClass => drop(self.runtime_classes.get_or_insert_default()),
            Kind::DeviceClass => drop(self.devices.versions.insert("v1".to_owned())),
            _ => {}
        }
    }

    /// Whether a node has been lost at this time: it is gone, or not ready for more than two minutes.
    #[must_use]
    pub fn lost(&self, node: &str, now: Time) -> bool {
        self.lost_at(node).is_some_and(|at| at <= now)
    }

    /// When a node counts as lost, if nothing changes.
    #[must_use]
    pub fn lost_at(&self, node: &str) -> Option<Time> {
        let nodes = self.nodes.as_ref()?;
        match nodes.get(node) {
            None => Some(Time::EPOCH),
            Some(host) => Some(host.unready_since?.plus(UNREADY)),
        }
    }
}

/// How long a node may be not ready before its pods count as lost.
const UNREADY: std::time::Duration = std::time::Duration::from_millis(120_001);
