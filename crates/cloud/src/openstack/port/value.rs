//! What the ports to a cloud speak in: views of its objects, and what is asked to be made. Owns the values; a field that a
//! service left out or garbled is empty, and decides nothing.

use std::collections::BTreeMap;

use orlop_core::machine::lease::{LeaseState, ReservationState};
use orlop_core::machine::server::ServerStatus;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

/// As whom one signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The project.
    pub project_id: String,
    /// The user.
    pub user_id: String,
    /// Whether it was with an application credential.
    pub application_credential: bool,
    /// Whether that one is restricted, so that no lease can be made with it.
    pub restricted: bool,
    /// Names of roles.
    pub roles: Vec<String>,
    /// Until when it lasts.
    pub expires: Option<Time>,
    /// The region that was taken.
    pub region: String,
}

/// What a project may have, and has: used and most; no most means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Servers.
    pub instances: (u64, Option<u64>),
    /// Threads.
    pub cores: (u64, Option<u64>),
    /// Memory in MiB.
    pub ram_mib: (u64, Option<u64>),
}

impl Limits {
    /// Whether another server is available.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.instances.1.is_none_or(|most| self.instances.0 < most)
    }

    /// Whether a virtual machine of so many threads and GiB is available.
    #[must_use]
    pub fn has_room_for(&self, threads: u32, ram_gib: u32) -> bool {
        let has =
            |(used, most): (u64, Option<u64>), more: u64| most.is_none_or(|most| used.saturating_add(more) <= most);
        self.has_room() && has(self.cores, u64::from(threads)) && has(self.ram_mib, u64::from(ram_gib) * 1024)
    }
}

/// A keypair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keypair {
    /// Its name.
    pub name: String,
    /// Its public half.
    pub public_key: String,
    /// Its fingerprint.
    pub fingerprint: String,
}

impl Keypair {
    /// Whether a public key is this one: the same type and the same bits, whatever the comment.
    #[must_use]
    pub fn is(&self, public_key: &str) -> bool {
        let bits = |key: &str| key.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>();
        let own = bits(&self.public_key);
        own.len() == 2 && own == bits(public_key)
    }
}

/// An address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub address: String,
    /// 4 or 6.
    pub version: u8,
    /// Whether it floats.
    pub floating: bool,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its status; one that nobody knows is `UNKNOWN`.
    pub status: ServerStatus,
    /// What is being done with it.
    pub task: Option<String>,
    /// Why it failed.
    pub fault: Option<String>,
    /// When it was made.
    pub created: Option<Time>,
    /// Its labels.
    pub metadata: BTreeMap<String, String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its addresses.
    pub addresses: Vec<Address>,
}

/// A network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Whether it is up and has subnets.
    pub usable: bool,
    /// Whether everybody may use it.
    pub shared: bool,
    /// Whose it is.
    pub project_id: String,
    /// Whether it leads outside.
    pub external: bool,
}

/// A port of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetPort {
    /// Its id.
    pub id: String,
    /// Its device.
    pub device: String,
    /// Its fixed addresses.
    pub addresses: Vec<String>,
}

impl NetPort {
    /// Its first address of version 4.
    #[must_use]
    pub fn ipv4(&self) -> Option<&str> {
        self.addresses.iter().map(String::as_str).find(|address| address.contains('.'))
    }
}

/// A floating IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FloatingIp {
    /// Its id.
    pub id: String,
    /// The address.
    pub address: String,
    /// The port it is bound to.
    pub port: Option<String>,
    /// The words that go with it.
    pub description: String,
    /// Its tags; one of a reservation belongs to that.
    pub tags: Vec<String>,
    /// When it was made.
    pub created: Option<Time>,
}

/// A security group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityGroup {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The words that go with it.
    pub description: String,
    /// When it was made.
    pub created: Option<Time>,
}

/// A reservation of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Its id, which servers name.
    pub id: String,
    /// Its state; nothing if nobody knows it.
    pub status: Option<ReservationState>,
    /// Whether it lost a host.
    pub missing_resources: bool,
    /// The filter on hypervisor properties it was made with, if that is known.
    pub hypervisor_properties: String,
    /// The filter on resource properties it was made with, if that is known.
    pub resource_properties: String,
    /// The flavor it gives, if it is one of virtual machines.
    pub flavor_id: Option<String>,
}

/// A lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Its id.
    pub id: String,
    /// Its name, which others may have too.
    pub name: String,
    /// Its state; nothing if nobody knows it.
    pub status: Option<LeaseState>,
    /// Whether it lost something.
    pub degraded: bool,
    /// Its start.
    pub start: Option<Time>,
    /// Its end.
    pub end: Option<Time>,
    /// When it was made.
    pub created: Option<Time>,
    /// Whose it is.
    pub project_id: String,
    /// What it reserves.
    pub reservations: Vec<Reservation>,
}

/// What a lease reserves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reserve {
    /// One host.
    Host {
        /// The filter on hypervisor properties, or nothing.
        hypervisor_properties: String,
        /// The filter on resource properties, or nothing.
        resource_properties: String,
    },
    /// One virtual machine of a flavor.
    Flavor {
        /// The flavor's id.
        flavor_id: String,
    },
}

/// A lease that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLease {
    /// Its name.
    pub name: String,
    /// Its start; nothing for now.
    pub start: Option<Time>,
    /// Its end.
    pub end: Time,
    /// What it reserves.
    pub reserve: Reserve,
}

/// What a server runs first, in base64. It may hold what nobody else is to know, so `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct UserData(String);

impl UserData {
    /// User data, encoded.
    #[must_use]
    pub const fn new(encoded: String) -> Self {
        Self(encoded)
    }

    /// The encoded text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for UserData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UserData({} bytes)", self.0.len())
    }
}

/// A server that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewServer {
    /// Its name.
    pub name: String,
    /// The image's id.
    pub image: String,
    /// The flavor's id.
    pub flavor: String,
    /// The keypair.
    pub key: String,
    /// The network's id.
    pub network: String,
    /// The reservation's id, unless the flavor is one of a reservation.
    pub reservation: Option<String>,
    /// Security groups by name.
    pub groups: Vec<String>,
    /// The deployment's id, which becomes tag and label.
    pub deployment: String,
    /// The attempt.
    pub attempt: u32,
    /// What it runs first.
    pub user_data: Option<UserData>,
}

/// A floating IP that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFloatingIp {
    /// The external network's id.
    pub network: String,
    /// The port it is bound to.
    pub port: Option<String>,
    /// The words that go with it.
    pub description: String,
}
