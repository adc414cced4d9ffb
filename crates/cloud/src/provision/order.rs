//! What is carried out: a plan with everything a deployment needs beside it, fixed from the first line of the journal on. Owns
//! the values and their limits.

use std::time::Duration;

use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use super::mark::DeploymentId;
use super::plan::PlannedOffering;
use crate::openstack::port::Reserve;

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
}

impl Choice {
    /// What a plan offers, with what only a site knows: the flavor's id, and hosts that would do. Nothing if the plan has no
    /// image of the site.
    #[must_use]
    pub fn of(offering: &PlannedOffering, hours: u32, flavor: &str, hosts: Vec<String>) -> Option<Self> {
        let image = OrderImage {
            id: offering.image.id.clone()?,
            name: offering.image.name.clone(),
            user: offering.image.user.clone(),
        };
        Some(Self {
            site: offering.site.clone(),
            node_type: offering.node_type.clone(),
            reserve: Some(Reserve::Host {
                hypervisor_properties: offering.hypervisor_properties.clone(),
                resource_properties: offering.resource_properties.clone(),
            }),
            hosts,
            start: offering.start.parse().ok(),
            hours,
            images: vec![image],
            flavor: flavor.to_owned(),
            su_milli: offering.su_milli,
        })
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
}

impl Default for Pace {
    /// The defaults of the contract.
    fn default() -> Self {
        Self {
            lease_poll: Duration::from_secs(10),
            lease_timeout: Duration::from_secs(300),
            server_poll: Duration::from_secs(30),
            server_timeout: Duration::from_secs(1800),
            deadline: Duration::from_secs(4500),
            capacity: None,
        }
    }
}

/// What is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
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
    /// How many of them at most.
    pub max_attempts: u32,
    /// What is checked at the end.
    pub verify: Verify,
    /// How long things may take.
    pub pace: Pace,
    /// Whether a failure leaves everything as it is.
    pub keep_on_failure: bool,
    /// What the server runs first, in base64.
    pub user_data: Option<String>,
    /// The user's budget in service units.
    pub max_su: Option<u64>,
    /// The user's own cap of the whole lease in hours.
    pub max_hours: Option<u32>,
}

impl Order {
    /// An order that has nothing but a name: enough to find and remove what a lost deployment left.
    #[must_use]
    pub fn to_remove(id: DeploymentId, project_id: &str) -> Self {
        Self {
            id,
            server_name: String::new(),
            lease_name: None,
            project_id: project_id.to_owned(),
            key: KeyOrder { name: String::new(), public_key: None, must_match: false, made_file: None },
            network: (String::new(), String::new()),
            external: None,
            ssh_from: None,
            groups: Vec::new(),
            choices: Vec::new(),
            max_attempts: 0,
            verify: Verify::None,
            pace: Pace::default(),
            keep_on_failure: false,
            user_data: None,
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
