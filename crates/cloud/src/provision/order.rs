//! What is carried out: a plan with everything a deployment needs beside it, fixed from the first line of the journal on.

use std::time::Duration;

use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use super::join::JoinOrder;
use super::mark::DeploymentId;
use super::plan::{PlannedImage, PlannedOffering};
use crate::openstack::port::{Lease, Reserve};

/// An image that can be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderImage {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Who signs in, if known.
    pub user: Option<String>,
}

/// One thing to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The site.
    pub site: String,
    /// The type of host, or the flavor.
    pub node_type: String,
    /// What is reserved; nothing leaves leases out.
    pub reserve: Option<Reserve>,
    /// Ids of hosts that would do, for looking at allocations.
    pub hosts: Vec<String>,
    /// The start; nothing for now.
    pub start: Option<Time>,
    /// How long, in hours.
    pub hours: u32,
    /// Images, the best first.
    pub images: Vec<OrderImage>,
    /// The flavor's id.
    pub flavor: String,
    /// The cost in thousandths of a service unit.
    pub su_milli: u64,
    /// Whether the rate behind it is the site's; if not, it is at least this much.
    #[serde(default)]
    pub su_known: bool,
    /// What its hosts have, for a look at the machine.
    #[serde(default)]
    pub expects: Option<Expects>,
    /// Whether it was taken when it was planned: it is asked for only once it was seen to be free.
    #[serde(default)]
    pub taken: bool,
    /// The model of its cards, as the site names it.
    #[serde(default)]
    pub gpu_model: Option<String>,
}

/// What a machine was planned to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expects {
    /// Hardware threads.
    pub threads: u32,
    /// Nominal memory in GiB.
    pub ram_gib: u32,
    /// Cards.
    pub gpus: u32,
}

/// Between the start that was asked for and the one a service writes down: it takes its time to answer, and rounds to minutes.
const ROUNDED: Duration = Duration::from_secs(300);

/// Whether two filters say the same, however they are spaced.
fn is_same_filter(one: &str, other: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    one == other || read(one).is_some_and(|one| read(other) == Some(one))
}

impl Choice {
    /// Whether a lease may have been made for this: nothing that is told of its length and its filter says otherwise.
    #[must_use]
    pub fn may_be(&self, lease: &Lease) -> bool {
        let whole = Duration::from_secs(u64::from(self.hours) * 3600);
        let length = lease.start.zip(lease.end).map(|(start, end)| end.since(start));
        if length.is_some_and(|length| length.abs_diff(whole) > ROUNDED) {
            return false;
        }
        let reserved = lease.reservations.first();
        match &self.reserve {
            None => false,
            // Its answer names its own flavor.
            Some(Reserve::Flavor { .. }) => reserved.is_none_or(|one| one.flavor_id.is_some()),
            Some(Reserve::Host { hypervisor_properties, resource_properties }) => reserved.is_none_or(|one| {
                let is_told = !one.hypervisor_properties.is_empty() || !one.resource_properties.is_empty();
                let is_same = is_same_filter(&one.hypervisor_properties, hypervisor_properties)
                    && is_same_filter(&one.resource_properties, resource_properties);
                one.flavor_id.is_none() && (is_same || !is_told)
            }),
        }
    }

    /// Whether it is a virtual machine.
    #[must_use]
    pub const fn is_vm(&self) -> bool {
        !matches!(self.reserve, Some(Reserve::Host { .. }))
    }

    /// What is not to be had if it is refused: the host that is asked for by name, else the type.
    #[must_use]
    pub fn what(&self) -> &str {
        match &self.reserve {
            Some(Reserve::Host { resource_properties, .. }) if resource_properties.contains("$uid") => {
                resource_properties
            }
            _ => &self.node_type,
        }
    }

    /// What a plan offers, with what only a site knows: the flavor's id, and hosts that would do. Nothing if the plan has no
    /// image of the site.
    #[must_use]
    pub fn of(offering: &PlannedOffering, hours: u32, flavor: &str, hosts: Vec<String>) -> Option<Self> {
        let taken = |image: &PlannedImage| {
            Some(OrderImage { id: image.id.clone()?, name: image.name.clone(), user: image.user.clone() })
        };
        let first = taken(&offering.image)?;
        let images = std::iter::once(first).chain(offering.other_images.iter().filter_map(taken)).collect();
        Some(Self {
            site: offering.site.clone(),
            node_type: offering.node_type.clone(),
            reserve: reserve(offering),
            hosts,
            start: offering.start.parse().ok(),
            hours,
            images,
            flavor: offering.flavor.as_ref().map_or(flavor, |flavor| &flavor.id).to_owned(),
            su_milli: offering.su_milli,
            su_known: offering.su_known,
            expects: Some(Expects {
                threads: offering.hardware.threads,
                ram_gib: offering.hardware.ram_gib,
                gpus: offering.hardware.cards.as_ref().map_or(0, |cards| cards.count),
            }),
            taken: offering.is_taken(),
            gpu_model: offering.hardware.cards.as_ref().map(|cards| cards.model.clone()),
        })
    }
}

/// What is reserved for an offering; nothing for a virtual machine without a lease.
fn reserve(offering: &PlannedOffering) -> Option<Reserve> {
    match &offering.flavor {
        None => Some(Reserve::Host {
            hypervisor_properties: offering.hypervisor_properties.clone(),
            resource_properties: offering.resource_properties.clone(),
        }),
        Some(flavor) => flavor.reserved.then(|| Reserve::Flavor { flavor_id: flavor.id.clone() }),
    }
}

/// The key that opens the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyOrder {
    /// Its name in the cloud.
    pub name: String,
    /// The public half, if there is a file; without one only a key that the cloud has will do.
    pub public_key: Option<String>,
    /// Whether a key of that name must be this one: a file was named for it.
    pub must_match: bool,
    /// The private half that was made for this deployment.
    pub made_file: Option<String>,
}

/// What is checked at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verify {
    /// Nothing.
    None,
    /// Whether somebody speaks SSH.
    #[default]
    Port,
    /// Also what the machine has.
    Login,
    /// Also whether its worker joined the fleet.
    Join,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Between two looks at a lease.
    pub lease_poll: Duration,
    /// How long a lease may take from its request on.
    pub lease_timeout: Duration,
    /// Between two looks at a server.
    pub server_poll: Duration,
    /// How long a server may take.
    pub server_timeout: Duration,
    /// Everything up to the end, over all attempts.
    pub deadline: Duration,
    /// How long capacity is waited for.
    pub capacity: Option<Duration>,
    /// What is kept free before and after a lease.
    #[serde(default = "margin")]
    pub margin: Duration,
}

/// What is kept free before and after a lease, unless the user says otherwise.
const fn margin() -> Duration {
    Duration::from_secs(300)
}

impl Default for Pace {
    /// The defaults.
    fn default() -> Self {
        Self {
            lease_poll: Duration::from_secs(10),
            lease_timeout: Duration::from_secs(300),
            server_poll: Duration::from_secs(30),
            server_timeout: Duration::from_secs(1800),
            deadline: Duration::from_secs(4500),
            capacity: None,
            margin: margin(),
        }
    }
}

/// What is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentOrder {
    /// The deployment.
    pub id: DeploymentId,
    /// The server's name.
    pub server_name: String,
    /// A name for the first lease, as given.
    pub lease_name: Option<String>,
    /// The project.
    pub project_id: String,
    /// The key.
    pub key: KeyOrder,
    /// The network, as id and name.
    pub network: (String, String),
    /// The network outside, if an address is wanted.
    pub external: Option<String>,
    /// From where SSH is let in by a security group of the deployment's own.
    pub ssh_from: Option<String>,
    /// Security groups by name.
    pub groups: Vec<String>,
    /// What is tried, in this order.
    pub choices: Vec<Choice>,
    /// How many are tried at most, those at sites before this one included.
    pub max_attempts: u32,
    /// How many were tried at sites before this one.
    #[serde(default)]
    pub tried: u32,
    /// Attempts at all sites together, where another site is tried after this one.
    #[serde(default)]
    pub elsewhere: Option<u32>,
    /// What is checked at the end.
    pub verify: Verify,
    /// How long things may take.
    pub pace: Pace,
    /// Whether a failure leaves everything as it is.
    pub keep_on_failure: bool,
    /// What the server runs first, in base64.
    pub user_data: Option<String>,
    /// Which fleet it joins, if it does.
    #[serde(default)]
    pub join: Option<JoinOrder>,
    /// The user's budget in service units.
    pub max_su: Option<u64>,
    /// The user's own cap of the whole lease in hours.
    pub max_hours: Option<u32>,
}

impl DeploymentOrder {
    /// Whether any of its choices is had by a lease.
    #[must_use]
    pub fn reserves(&self) -> bool {
        self.choices.iter().any(|choice| choice.reserve.is_some())
    }

    /// An order that has nothing but a name: enough to find and remove what a lost deployment left.
    #[must_use]
    pub fn to_remove(id: DeploymentId, project_id: &str) -> Self {
        let key = KeyOrder { name: id.marks().key_name(), public_key: None, must_match: false, made_file: None };
        Self {
            id,
            server_name: String::new(),
            lease_name: None,
            project_id: project_id.to_owned(),
            key,
            network: (String::new(), String::new()),
            external: None,
            ssh_from: None,
            groups: Vec::new(),
            choices: Vec::new(),
            max_attempts: 0,
            tried: 0,
            elsewhere: None,
            verify: Verify::None,
            pace: Pace::default(),
            keep_on_failure: false,
            user_data: None,
            join: None,
            max_su: None,
            max_hours: None,
        }
    }

    /// The name of the lease under a mark. A given one is taken as it is at first.
    #[must_use]
    pub fn lease_name(&self, mark: u32) -> String {
        match &self.lease_name {
            Some(name) if mark <= 1 => name.clone(),
            Some(name) => cut(name, &format!("-a{mark}")),
            None => cut(&self.server_name, &self.id.marks().lease_suffix(mark)),
        }
    }
}

/// A name with its suffix, at most 80 characters together.
fn cut(name: &str, suffix: &str) -> String {
    let room = 80_usize.saturating_sub(suffix.len());
    name.chars().take(room).chain(suffix.chars()).collect()
}
