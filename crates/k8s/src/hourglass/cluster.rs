//! The state of the cluster as watches report it: nodes, runtime classes and devices. Says which changes of it matter to plans.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::hardware::gpu::Catalogue;
use orlop_core::hardware::merge::RuntimeClass;
use orlop_core::hardware::{Device, Machine};
use orlop_core::time::Time;
use serde_json::Value;

use crate::api::Kind;
use crate::hardware::{DeviceFacts, Node, node, runtime_class, slices};
use crate::value::{item, text, time, word};

/// Cluster-scoped kinds that the state is made of.
pub const KINDS: [Kind; 6] = [
    Kind::Node,
    Kind::RuntimeClass,
    Kind::DeviceClass,
    Kind::BetaDeviceClass,
    Kind::ResourceSlice,
    Kind::BetaResourceSlice,
];

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// What it offers.
    pub node: Node,
    /// Since when it is not ready.
    pub unready_since: Option<Time>,
}

impl Host {
    /// Reads a node; one that cannot be read offers nothing, but is there.
    fn of(object: &Value) -> Self {
        let node = node(object).unwrap_or_else(|error| {
            tracing::warn!(%error, node = word(object, "/metadata/name"), "a node cannot be read and does not count");
            let machine = Machine { name: text(object, "/metadata/name"), ..Machine::default() };
            Node { machine, ready: false, schedulable: false }
        });
        let unready =
            item(object, "/status/conditions", "type", "Ready").filter(|ready| word(ready, "/status") != "True");
        Self { node, unready_since: unready.and_then(|ready| time(ready, "/lastTransitionTime")) }
    }
}

/// A ResourceSlice: its driver, and devices of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slice {
    driver: String,
    devices: Option<(String, Vec<Device>)>,
}

/// Nodes, runtime classes and devices of the cluster, as observed; plans decide by it where pods fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Nodes by name; none where they may not be read.
    pub nodes: Option<BTreeMap<String, Host>>,
    /// Runtime classes by name; none where they may not be read.
    pub runtime_classes: Option<BTreeMap<String, RuntimeClass>>,
    /// What is known of dynamic resource allocation.
    pub devices: DeviceFacts,
    /// Slices by name. They may be observed before their node is.
    slices: BTreeMap<String, Slice>,
    /// Names by kind and uid: what a list does not show any more is gone.
    names: BTreeMap<(Kind, String), String>,
}

impl Cluster {
    /// What its nodes offer.
    pub fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.nodes.iter().flatten().map(|(_, host)| &host.node.machine)
    }

    /// All nodes with their devices, as what decides about fit.
    #[must_use]
    pub fn hosts(&self) -> Vec<Node> {
        let mut devices: BTreeMap<&str, Vec<Device>> = BTreeMap::new();
        for (name, more) in self.slices.values().filter_map(|slice| slice.devices.as_ref()) {
            devices.entry(name).or_default().extend(more.iter().cloned());
        }
        let mut with_devices = |(name, host): (&String, &Host)| {
            let mut node = host.node.clone();
            node.machine.devices = devices.remove(name.as_str()).unwrap_or_default();
            node
        };
        self.nodes.iter().flatten().map(&mut with_devices).collect()
    }

    /// A node with its devices.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<Node> {
        let mut node = self.nodes.as_ref()?.get(name)?.node.clone();
        let reported = self.slices.values().filter_map(|slice| slice.devices.as_ref());
        let here = reported.filter(|(of, _)| of == name);
        node.machine.devices = here.flat_map(|(_, devices)| devices.iter().cloned()).collect();
        Some(node)
    }

    /// Takes in an object that exists. Whether that matters to anybody.
    pub fn apply(&mut self, kind: Kind, object: &Value, catalogue: &Catalogue) -> bool {
        let name = text(object, "/metadata/name");
        self.names.insert((kind, text(object, "/metadata/uid")), name.clone());
        match kind {
            Kind::Node => self.node(object),
            Kind::RuntimeClass => {
                let class = runtime_class(object).unwrap_or_default();
                self.runtime_classes.get_or_insert_default().insert(name, class.clone()) != Some(class)
            }
            Kind::DeviceClass | Kind::BetaDeviceClass => self.devices.classes.get_or_insert_default().insert(name),
            Kind::ResourceSlice | Kind::BetaResourceSlice => {
                let slice = Slice { driver: text(object, "/spec/driver"), devices: slices(object, catalogue) };
                let before = self.slices.insert(name, slice.clone());
                match &before {
                    Some(before) if before.driver != slice.driver => self.count_drivers(),
                    _ => drop(self.devices.drivers.insert(slice.driver.clone())),
                }
                before != Some(slice)
            }
            _ => false,
        }
    }

    /// Takes in a node. Whether that matters to anybody.
    pub fn node(&mut self, object: &Value) -> bool {
        let host = Host::of(object);
        self.nodes.get_or_insert_default().insert(text(object, "/metadata/name"), host.clone()) != Some(host)
    }

    /// Takes out an object that is gone. Whether that matters to anybody.
    pub fn delete(&mut self, kind: Kind, object: &Value) -> bool {
        self.names.remove(&(kind, text(object, "/metadata/uid")));
        self.forget(kind, word(object, "/metadata/name"))
    }

    fn forget(&mut self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Node => self.nodes.as_mut().is_some_and(|nodes| nodes.remove(name).is_some()),
            Kind::RuntimeClass => self.runtime_classes.as_mut().is_some_and(|known| known.remove(name).is_some()),
            Kind::DeviceClass | Kind::BetaDeviceClass => {
                self.devices.classes.as_mut().is_some_and(|known| known.remove(name))
            }
            Kind::ResourceSlice | Kind::BetaResourceSlice => {
                let was = self.slices.remove(name).is_some();
                self.count_drivers();
                was
            }
            _ => false,
        }
    }

    fn count_drivers(&mut self) {
        self.devices.drivers = self.slices.values().map(|slice| slice.driver.clone()).collect();
    }

    /// All objects of a kind were shown, by uid: they may be read, also where there are none, and others are gone. Whether that
    /// matters to anybody.
    pub fn retain_listed(&mut self, kind: Kind, uids: &BTreeSet<String>) -> bool {
        let of_kind = |(known, _): &(Kind, String)| *known == kind;
        // Another object may have the name of one that is gone.
        let there: BTreeSet<String> = self
            .names
            .iter()
            .filter(|(key, _)| of_kind(key) && uids.contains(&key.1))
            .map(|(_, name)| name.clone())
            .collect();
        let gone: BTreeSet<String> = self
            .names
            .iter()
            .filter(|(key, name)| of_kind(key) && !there.contains(*name))
            .map(|(_, name)| name.clone())
            .collect();
        self.names.retain(|key, _| !of_kind(key) || uids.contains(&key.1));
        let mut served = false;
        match kind {
            Kind::Node => drop(self.nodes.get_or_insert_default()),
            Kind::RuntimeClass => drop(self.runtime_classes.get_or_insert_default()),
            Kind::DeviceClass | Kind::BetaDeviceClass => {
                let _ = self.devices.classes.get_or_insert_default();
                let version = if kind == Kind::DeviceClass { "v1" } else { "v1beta2" };
                served = self.devices.versions.insert(version.to_owned());
            }
            _ => {}
        }
        gone.iter().filter(|name| self.forget(kind, name)).count() > 0 || served
    }

    /// The server does not know a kind, though it would show its objects: there are none. Whether that matters to anybody.
    pub fn set_missing(&mut self, kind: Kind) -> bool {
        let classes = &mut self.devices.classes;
        let news = matches!(kind, Kind::DeviceClass | Kind::BetaDeviceClass) && classes.is_none();
        if news {
            *classes = Some(BTreeSet::new());
        }
        news
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

#[cfg(test)]
mod tests {
    use orlop_core::hardware::Tables;
    use serde_json::json;

    use super::*;

    fn node(name: &str, uid: &str) -> Value {
        json!({"metadata": {"name": name, "uid": uid}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    }

    fn slice(name: &str, node: &str) -> Value {
        let device = json!({"name": "gpu-0", "attributes": {"productName": {"string": "NVIDIA H100 80GB HBM3"}, "type": {"string": "gpu"}}});
        json!({"metadata": {"name": name, "uid": name}, "spec": {"nodeName": node, "driver": "gpu.nvidia.com", "devices": [device]}})
    }

    fn seen(cluster: &mut Cluster, kind: Kind, object: &Value) {
        let catalogue = Tables::default().catalogue;
        assert!(cluster.apply(kind, object, &catalogue), "{object}");
        assert!(!cluster.apply(kind, object, &catalogue), "the same again is no news");
    }

    #[test]
    fn slices_say_nothing_about_which_nodes_there_are() {
        let mut cluster = Cluster::default();
        seen(&mut cluster, Kind::ResourceSlice, &slice("one", "n1"));
        assert!(cluster.nodes.is_none() && !cluster.lost("n1", Time::from_millis(1)), "nodes may not be read");
        seen(&mut cluster, Kind::Node, &node("n1", "u1"));
        seen(&mut cluster, Kind::ResourceSlice, &slice("two", "n1"));
        assert_eq!(cluster.host("n1").unwrap().machine.devices.len(), 2, "each slice tells of its own");
        assert!(cluster.delete(Kind::ResourceSlice, &slice("one", "n1")));
        assert_eq!(cluster.hosts()[0].machine.devices.len(), 1);
        assert!(cluster.delete(Kind::ResourceSlice, &slice("two", "n1")) && cluster.devices.drivers.is_empty());
    }

    #[test]
    fn what_is_served_of_devices_is_known_from_lists() {
        let none = BTreeSet::new;
        for (kind, version) in [(Kind::DeviceClass, "v1"), (Kind::BetaDeviceClass, "v1beta2")] {
            let mut cluster = Cluster::default();
            assert_eq!((cluster.devices.version(), &cluster.devices.classes), (None, &None), "nobody has looked");
            assert!(cluster.set_missing(kind) && !cluster.set_missing(kind), "it is news once");
            assert_eq!((cluster.devices.version(), &cluster.devices.classes), (None, &Some(none())), "there are none");
            assert!(cluster.retain_listed(kind, &none()) && !cluster.retain_listed(kind, &none()));
            assert_eq!(cluster.devices.version(), Some(version));
            let class = json!({"metadata": {"name": "gpu.nvidia.com", "uid": "u"}});
            seen(&mut cluster, kind, &class);
            assert!(cluster.delete(kind, &class) && cluster.devices.classes == Some(none()));
        }
        assert!(!Cluster::default().set_missing(Kind::ResourceSlice), "a list of slices says nothing about classes");
    }

    #[test]
    fn a_node_that_cannot_be_read_is_there_and_takes_nothing() {
        let mut cluster = Cluster::default();
        let mut strange = node("n1", "u1");
        strange["status"]["allocatable"] = json!({"cpu": "many"});
        seen(&mut cluster, Kind::Node, &strange);
        assert!(!cluster.lost("n1", Time::from_millis(1)) && !cluster.hosts()[0].ready);
    }

    #[test]
    fn what_a_list_does_not_show_any_more_is_gone() {
        let mut cluster = Cluster::default();
        for (name, uid) in [("n1", "u1"), ("n2", "u2"), ("n3", "u3")] {
            seen(&mut cluster, Kind::Node, &node(name, uid));
        }
        // The second was made anew, the third is gone, and nobody told.
        cluster.apply(Kind::Node, &node("n2", "u4"), &Tables::default().catalogue);
        let uids = ["u1", "u4"].map(str::to_owned).into();
        assert!(cluster.retain_listed(Kind::Node, &uids) && !cluster.retain_listed(Kind::Node, &uids));
        let names: Vec<String> = cluster.hosts().into_iter().map(|node| node.machine.name).collect();
        assert_eq!(names, ["n1", "n2"]);
        assert!(cluster.runtime_classes.is_none() && !cluster.retain_listed(Kind::RuntimeClass, &BTreeSet::new()));
        assert_eq!(cluster.runtime_classes, Some(BTreeMap::new()));
    }
}
