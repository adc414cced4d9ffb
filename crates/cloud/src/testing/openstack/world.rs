//! What the double holds, and how it changes with time. Owns objects and their lives; the services only ask and tell it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orlop_core::time::Time;
use serde_json::{Value, json};

/// The project everybody works in.
pub(super) const PROJECT: &str = "project";
/// The network of servers.
pub const NETWORK: &str = "net-shared";
/// The network that leads outside.
pub const EXTERNAL: &str = "net-public";

/// A host.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its id.
    pub id: String,
    /// Its type.
    pub node_type: String,
    /// Its document, as the reservation service lists it.
    pub document: Value,
    /// Why every server on it fails.
    pub fails: Option<String>,
}

/// How servers are built.
#[derive(Debug, Clone)]
pub struct Build {
    /// How long it takes.
    pub takes: Duration,
    /// Why the next so many fail.
    pub fails: Option<(String, usize)>,
    /// The status they end in when they do not fail.
    pub ends: &'static str,
}

/// How leases start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseStart {
    /// As they should.
    Active,
    /// They never do.
    Never,
    /// They end in ERROR.
    Error,
    /// They start without their host.
    Degraded,
}

#[derive(Debug, Clone)]
pub(super) struct FakeLease {
    pub(super) document: Value,
    pub(super) host: Option<String>,
    /// The flavor that a virtual machine of it is like.
    pub(super) flavor: Option<String>,
    pub(super) start: Time,
    pub(super) end: Time,
    pub(super) starts: LeaseStart,
    pub(super) since: Time,
}

#[derive(Debug, Clone)]
pub(super) struct FakeServer {
    pub(super) document: Value,
    pub(super) ready: Time,
    pub(super) fault: Option<String>,
    pub(super) ends: &'static str,
    pub(super) gone: Option<Time>,
    pub(super) reservation: String,
}

/// What it still holds, by kind: ids with names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remains {
    /// Keypairs.
    pub keypairs: Vec<String>,
    /// Leases that did not end.
    pub leases: Vec<String>,
    /// Servers.
    pub servers: Vec<String>,
    /// Floating IPs.
    pub addresses: Vec<String>,
    /// Security groups.
    pub groups: Vec<String>,
}

/// What the double holds.
#[derive(Debug, Clone)]
pub struct World {
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Images, as documents.
    pub images: Vec<Value>,
    /// Flavors, as documents.
    pub flavors: Vec<Value>,
    /// Virtual machines that fit on its hosts at a time.
    pub slots: usize,
    /// Threads that a project may have, if that is limited.
    pub most_cores: Option<u64>,
    /// How servers are built.
    pub build: Build,
    /// How leases start.
    pub lease_start: LeaseStart,
    /// Floating IPs that exist.
    pub pool: usize,
    /// What the addresses of floating IPs begin with.
    pub address_front: String,
    /// Most floating IPs, servers that a project may have.
    pub quota: (usize, usize),
    /// What the next new leases are answered with instead, the last one first.
    pub refuse_leases: Vec<(u16, String)>,
    /// How far its clock is ahead of everybody's, in seconds.
    pub clock_ahead: i64,
    /// Hosts that somebody else has, and until when.
    pub taken: BTreeMap<String, Time>,
    /// Whether its port takes an address.
    pub port_is_routed: bool,
    /// Time between two looks of the reservation service at its leases.
    pub tick: Duration,
    /// How long a token lasts.
    pub token_lasts: Duration,
    /// Where its services say that they are.
    pub address: String,
    /// The newest version that the compute service takes, whatever it says of itself.
    pub compute_version: (u32, u32),
    /// Whether there is a service of reservations.
    pub reserves: bool,
    /// Whether the application credential is restricted.
    pub restricted: bool,
    /// What consoles of servers show.
    pub console: String,
    /// What servers were to run first, in base64, the latest last.
    pub user_data: Vec<String>,
    pub(super) now: Time,
    pub(super) served: u64,
    pub(super) number: u64,
    pub(super) tokens: BTreeMap<String, Time>,
    pub(super) keypairs: BTreeMap<String, String>,
    pub(super) groups: BTreeMap<String, Value>,
    pub(super) leases: BTreeMap<String, FakeLease>,
    pub(super) servers: BTreeMap<String, FakeServer>,
    pub(super) ports: BTreeMap<String, Value>,
    pub(super) addresses: BTreeMap<String, Value>,
    pub(super) hidden: BTreeMap<String, Time>,
}

/// Time between two looks of the reservation service at its leases.
const TICK: Duration = Duration::from_secs(10);

fn host(id: &str, node_type: &str, gpu: Option<&str>) -> Host {
    let mut document = json!({
        "id": id, "uid": format!("uid-{id}"), "hypervisor_hostname": format!("host-{id}"), "node_type": node_type,
        "reservable": true, "architecture.platform_type": "x86_64", "architecture.smt_size": "48",
        "main_memory.ram_size": "137438953472", "storage_devices.0.size": "250000000000", "su_factor": "1.0",
    });
    if let Some(model) = gpu {
        document["gpu.gpu"] = json!("True");
        document["gpu.gpu_count"] = json!("1");
        document["gpu.gpu_model"] = json!(model);
    }
    Host { id: id.to_owned(), node_type: node_type.to_owned(), document, fails: None }
}

fn image(id: &str, name: &str) -> Value {
    json!({
        "id": id, "name": name, "status": "active", "visibility": "public", "min_disk": 10, "min_ram": 0, "size": 21,
        "created_at": "2026-01-01T00:00:00Z", "build-repo": "https://github.com/ChameleonCloud/cc-images", "os_hidden": false,
    })
}

impl World {
    pub(super) fn new() -> Self {
        let names = ["CC-Ubuntu22.04", "CC-Ubuntu22.04-CUDA", "CC-Ubuntu24.04"];
        Self {
            hosts: vec![
                host("1", "compute_haswell", None),
                host("2", "compute_haswell", None),
                host("3", "gpu_rtx_6000", Some("Quadro RTX 6000")),
            ],
            images: names.iter().enumerate().map(|(number, name)| image(&format!("image-{number}"), name)).collect(),
            flavors: vec![json!({"id": "baremetal", "name": "baremetal", "vcpus": 48, "ram": 131_072, "disk": 250})],
            slots: 4,
            most_cores: None,
            build: Build { takes: Duration::from_secs(300), fails: None, ends: "ACTIVE" },
            lease_start: LeaseStart::Active,
            pool: 4,
            address_front: "192.5.87.".to_owned(),
            quota: (50, 10),
            refuse_leases: Vec::new(),
            clock_ahead: 0,
            taken: BTreeMap::new(),
            port_is_routed: true,
            tick: TICK,
            token_lasts: Duration::from_secs(3600),
            address: super::ADDRESS.to_owned(),
            compute_version: (2, 100),
            reserves: true,
            restricted: false,
            console: "login:".to_owned(),
            user_data: Vec::new(),
            now: Time::EPOCH,
            served: 0,
            number: 0,
            tokens: BTreeMap::new(),
            keypairs: BTreeMap::new(),
            groups: BTreeMap::new(),
            leases: BTreeMap::new(),
            servers: BTreeMap::new(),
            ports: BTreeMap::new(),
            addresses: BTreeMap::new(),
            hidden: BTreeMap::new(),
        }
    }

    pub(super) fn id(&mut self, kind: &str) -> String {
        self.number += 1;
        format!("{kind}-{:04}", self.number)
    }

    /// The time of its own clock.
    pub(super) fn time(&self, now: Time) -> Time {
        Time::from_millis(now.millis() + self.clock_ahead * 1000)
    }

    /// Lets everything be as it is at a time.
    pub fn advance(&mut self, now: Time) {
        self.now = now;
        self.hidden.retain(|_, until| *until > now);
        for lease in self.leases.values_mut() {
            lease.advance(now, self.tick);
        }
        let active: BTreeMap<String, bool> =
            self.leases.values().map(|lease| (lease.reservation(), lease.is_running())).collect();
        for server in self.servers.values_mut() {
            server.advance(now, active.get(&server.reservation).copied().unwrap_or(false));
        }
        let servers = &self.servers;
        let gone = |id: &str| servers.get(id).is_none_or(|server| server.gone.is_some_and(|gone| gone <= now));
        let lost: Vec<String> = self.servers.keys().filter(|id| gone(id)).cloned().collect();
        let ports: Vec<String> = self
            .ports
            .iter()
            .filter(|(_, port)| port.get("device_id").and_then(Value::as_str).is_some_and(gone))
            .map(|(id, _)| id.clone())
            .collect();
        for id in lost {
            self.servers.remove(&id);
        }
        for id in ports {
            self.remove_port(&id);
        }
    }

    pub(super) fn remove_port(&mut self, id: &str) {
        self.ports.remove(id);
        for address in self.addresses.values_mut() {
            if address.get("port_id").and_then(Value::as_str) == Some(id) {
                address["port_id"] = Value::Null;
            }
        }
    }

    /// Whether an object can be seen.
    pub(super) fn sees(&self, id: &str) -> bool {
        !self.hidden.contains_key(id)
    }

    /// Ids and names of everything.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        let maps = self.leases.keys().chain(self.servers.keys()).chain(self.addresses.keys()).chain(self.groups.keys());
        maps.chain(self.keypairs.keys()).cloned().collect()
    }

    /// Shows no server for so long, as it may be with new ones.
    pub fn hide_servers(&mut self, lasting: Duration) {
        let until = self.now.plus(lasting);
        self.hidden.extend(self.servers.keys().map(|id| (id.clone(), until)));
    }

    /// Hides what is new until a time.
    pub(super) fn hide_but(&mut self, before: &BTreeSet<String>, until: Time) {
        for key in self.keys().difference(before) {
            self.hidden.insert(key.clone(), until);
        }
    }

    /// What is still there; what ended by itself does not count.
    #[must_use]
    pub fn remains(&self) -> Remains {
        let named = |document: &Value, id: &String| format!("{id} {}", super::text(document, "name"));
        let leases = self.leases.iter().filter(|(_, lease)| super::text(&lease.document, "status") != "TERMINATED");
        Remains {
            keypairs: self.keypairs.keys().cloned().collect(),
            leases: leases.map(|(id, lease)| named(&lease.document, id)).collect(),
            servers: self.servers.iter().map(|(id, server)| named(&server.document, id)).collect(),
            addresses: self
                .addresses
                .iter()
                .map(|(id, one)| format!("{id} {}", super::text(one, "description")))
                .collect(),
            groups: self.groups.iter().map(|(id, one)| named(one, id)).collect(),
        }
    }

    /// Ends all builds that are under way.
    pub fn finish_servers(&mut self) {
        let now = self.now;
        for server in self.servers.values_mut() {
            server.ready = server.ready.min(now);
        }
    }

    /// Takes a server away behind everybody's back.
    pub fn lose_servers(&mut self) {
        let now = self.now;
        for server in self.servers.values_mut() {
            server.gone = Some(now);
        }
    }

    /// Takes all leases away behind everybody's back, with the servers on their hosts.
    pub fn lose_leases(&mut self) {
        self.leases.clear();
        self.lose_servers();
    }

    /// Lets all leases end now.
    pub fn end_leases(&mut self) {
        let now = self.now;
        for lease in self.leases.values_mut() {
            lease.end = lease.end.min(now);
        }
    }

    /// Makes an address of somebody else, with these words and tags.
    pub fn add_address(&mut self, description: &str, tags: &[&str]) -> String {
        let id = self.id("fip");
        let document = json!({
            "id": id, "floating_ip_address": format!("192.0.2.{}", self.number), "port_id": null, "description": description,
            "tags": tags, "status": "DOWN", "created_at": self.now.to_string(),
        });
        self.addresses.insert(id.clone(), document);
        id
    }

    /// Public keys of all keypairs.
    #[must_use]
    pub fn public_keys(&self) -> Vec<String> {
        self.keypairs.values().cloned().collect()
    }

    /// Makes a keypair of somebody else.
    pub fn add_keypair(&mut self, name: &str, public_key: &str) {
        self.keypairs.insert(name.to_owned(), public_key.to_owned());
    }

    /// Gives it flavors of virtual machines: `m1.medium`, `m1.xlarge`, and `g1.h100` with a card.
    pub fn add_machines(&mut self) {
        let flavor = |id: &str, name: &str, vcpus: u32, ram: u32, specs: Value| json!({"id": id, "name": name, "vcpus": vcpus, "ram": ram, "disk": 80, "extra_specs": specs});
        self.flavors.extend([
            flavor("3", "m1.medium", 4, 8192, json!({})),
            flavor("5", "m1.xlarge", 16, 65_536, json!({})),
            flavor("9", "g1.h100", 16, 131_072, json!({"pci_passthrough:alias": "h100:1"})),
        ]);
    }

    /// Whether there is room for another virtual machine in a time.
    pub(super) fn has_slot(&self, start: Time, end: Time) -> bool {
        let overlaps = |lease: &&FakeLease| lease.flavor.is_some() && lease.end > start && lease.start < end;
        self.leases.values().filter(overlaps).count() < self.slots
    }

    /// Gives all hosts to somebody else until a time.
    pub fn take_all(&mut self, until: Time) {
        self.taken = self.hosts.iter().map(|host| (host.id.clone(), until)).collect();
    }

    /// Lets all tokens end.
    pub fn end_tokens(&mut self) {
        self.tokens.clear();
    }

    /// Lets all leases be degraded.
    pub fn degrade(&mut self) {
        for lease in self.leases.values_mut() {
            lease.document["degraded"] = json!(true);
        }
    }
}

impl FakeLease {
    pub(super) fn reservation(&self) -> String {
        let first = self.document.get("reservations").and_then(|all| all.get(0));
        first.map(|one| super::text(one, "id")).unwrap_or_default()
    }

    fn is_running(&self) -> bool {
        ["ACTIVE", "UPDATING"].contains(&super::text(&self.document, "status").as_str())
    }

    fn set(&mut self, status: &str, reservation: &str) {
        self.document["status"] = json!(status);
        self.document["reservations"][0]["status"] = json!(reservation);
    }

    fn advance(&mut self, now: Time, tick: Duration) {
        let status = super::text(&self.document, "status");
        let due = self.start.max(self.since).plus(tick);
        match (status.as_str(), self.starts) {
            ("UPDATING", _) => self.set("ACTIVE", "active"),
            ("PENDING", LeaseStart::Never) => {}
            ("PENDING" | "STARTING", LeaseStart::Error) if now >= due => self.set("ERROR", "pending"),
            ("PENDING" | "STARTING", starts) if now >= due => {
                self.set("ACTIVE", "active");
                if starts == LeaseStart::Degraded {
                    self.document["degraded"] = json!(true);
                    self.document["reservations"][0]["missing_resources"] = json!(true);
                }
            }
            ("PENDING", _) if now >= self.start && now.plus(tick) >= due => self.set("STARTING", "pending"),
            _ => {}
        }
        if self.is_running() && now >= self.end {
            self.set("TERMINATED", "deleted");
        }
    }
}

impl FakeServer {
    fn advance(&mut self, now: Time, leased: bool) {
        if !self.reservation.is_empty() && !leased && super::text(&self.document, "status") == "ACTIVE" {
            self.gone = self.gone.or(Some(now));
        }
        if super::text(&self.document, "status") != "BUILD" || now < self.ready {
            return;
        }
        match &self.fault {
            Some(fault) => {
                self.document["status"] = json!("ERROR");
                self.document["fault"] = json!({"code": 500, "message": fault, "created": now.to_string()});
            }
            None => self.document["status"] = json!(self.ends),
        }
        self.document["OS-EXT-STS:task_state"] = Value::Null;
    }
}
