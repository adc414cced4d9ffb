//! What the saga takes and gives: events in, effects out. Owns both as values; carries out nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use orlop_core::error::Class;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::catalog::window::Allocation;
use crate::exit::Exit;
use crate::openstack::port::{
    CloudError, FloatingIp, Keypair, Lease, Limits, NetPort, Network, NewFloatingIp, NewLease, NewServer,
    SecurityGroup, Server,
};
use crate::provision::hostkey::HostKey;
use crate::provision::join::Boot;
use crate::provision::journal::{Entry, Kind};
use crate::provision::order::Expects;

/// What happens to a saga.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The plan was confirmed.
    Start,
    /// A call was answered.
    Answered(Box<Answer>),
    /// The time that was waited for has come, or any other.
    Woke,
    /// Somebody wants it to stop: by rolling back, or by keeping everything as it is.
    Interrupt(Stop),
    /// Somebody wants it to be gone.
    Destroy,
    /// The same, but for the key that was made: it is not this deployment's any more.
    DestroyKeepingKey,
    /// It is taken up again after its journal was read.
    Resume,
    /// The lease gets another end.
    Extend {
        /// Which.
        end: Time,
    },
    /// Somebody looks whether it is still there.
    Look,
}

/// How to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Remove what was made.
    RollBack,
    /// Leave it.
    Keep,
}

/// A look at the machine from within.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Who signs in.
    pub user: String,
    /// What it was planned to have, if the plan says.
    pub expects: Option<Expects>,
    /// Its host keys as its console shows them; none if that was not seen.
    pub host_keys: Vec<HostKey>,
}

/// What is asked of a cloud; exactly one at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Look at a keypair.
    Keypair(String),
    /// Import a public key under a name.
    ImportKeypair(String, String),
    /// List security groups.
    Groups,
    /// Make a security group of a name and words.
    CreateGroup(String, String),
    /// Let SSH into a group from somewhere.
    AllowSsh(String, String),
    /// Look again at network, limits, image and flavor.
    Recheck {
        /// The image's id.
        image: String,
        /// The flavor's id.
        flavor: String,
    },
    /// List leases.
    Leases,
    /// Look at a lease.
    Lease(String),
    /// Make a lease.
    CreateLease(Box<NewLease>),
    /// Give a lease another end.
    ExtendLease(String, Time),
    /// List servers of this deployment.
    Servers,
    /// Look at a server.
    Server(String),
    /// Make a server; with what it does first to join a fleet.
    CreateServer(Box<NewServer>, Option<Box<Boot>>),
    /// Start a server.
    StartServer(String),
    /// Read the end of a console.
    Console(String),
    /// List ports of a server.
    Ports(String),
    /// List floating IPs.
    Addresses,
    /// Look at a floating IP.
    Address(String),
    /// Make a floating IP.
    CreateAddress(Box<NewFloatingIp>),
    /// Bind a floating IP to a port.
    Bind(String, String),
    /// Ask when hosts are taken, here and at the other sites that may be used.
    Allocations,
    /// See whether the machine answers.
    Probe {
        /// Where.
        address: String,
        /// Who signs in and what is expected there, if that is looked at.
        login: Option<Login>,
    },
    /// See whether the machine's worker has joined its fleet.
    Joined,
    /// List everything that may be this deployment's.
    Inventory {
        /// Of these kinds.
        kinds: BTreeSet<Kind>,
        /// Servers whose ports are looked for.
        devices: BTreeSet<String>,
        /// The keypair, if it may have been made.
        key: Option<String>,
    },
    /// Delete something.
    Delete(Kind, String),
}

/// What a network, an image and a flavor look like now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Networks that can be seen.
    pub networks: Vec<Network>,
    /// What the project may have.
    pub limits: Limits,
    /// Whether the image is there.
    pub image: bool,
    /// Whether the flavor is there.
    pub flavor: bool,
}

/// Everything that may be a deployment's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Floating IPs.
    pub addresses: Vec<FloatingIp>,
    /// Servers.
    pub servers: Vec<Server>,
    /// Ports.
    pub ports: Vec<NetPort>,
    /// Security groups.
    pub groups: Vec<SecurityGroup>,
    /// Leases.
    pub leases: Vec<Lease>,
    /// The keypair.
    pub key: Option<Keypair>,
    /// What could not be listed.
    pub failed: Vec<CloudError>,
}

/// What the machine said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// It answers.
    Answered,
    /// It does not, yet.
    Silent,
    /// It answers, and has less than planned: how, in words.
    Differs(String),
    /// Somebody answers who is not this machine: how that is known, in words.
    Stranger(String),
}

/// When the hosts of the deployment's own site are taken.
#[derive(Debug, Clone, PartialEq)]
pub enum Here {
    /// At these times.
    Known(Vec<Allocation>),
    /// The site keeps it to itself.
    Hidden,
    /// It could not be asked.
    Failed(CloudError),
}

/// Other sites where the deployment could be made, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// One where a host is free.
    pub free: Option<String>,
    /// One that keeps to itself whether a host is free.
    pub unknown: Option<String>,
}

/// Where room is.
#[derive(Debug, Clone, PartialEq)]
pub struct AvailableCapacity {
    /// At the deployment's own site.
    pub here: Here,
    /// At others.
    pub elsewhere: Elsewhere,
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It failed.
    Failed(CloudError),
    /// It was done.
    Done,
    /// A keypair.
    Keypair(Keypair),
    /// Security groups.
    Groups(Vec<SecurityGroup>),
    /// What is there now.
    Rechecked(Facts),
    /// Leases.
    Leases(Vec<Lease>),
    /// A lease.
    Lease(Lease),
    /// Servers.
    Servers(Vec<Server>),
    /// A server.
    Server(Server),
    /// A server was made and has this id.
    ServerMade(String),
    /// Text of a console.
    Console(Option<String>),
    /// Ports.
    Ports(Vec<NetPort>),
    /// Floating IPs.
    Addresses(Vec<FloatingIp>),
    /// A floating IP.
    Address(FloatingIp),
    /// Where room is.
    Capacity(AvailableCapacity),
    /// What the machine said.
    Probed(Probe),
    /// Whether its worker has joined, or why nobody knows.
    Joined(Result<bool, String>),
    /// Everything that may be this deployment's.
    Inventory(Box<Inventory>),
}

/// What is to be done, in this order; a call comes last.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write this down; it has to be durable before the next.
    Record(Entry),
    /// Remember that something is not available.
    Remember(FailedOffering),
    /// Keep the text of a console beside the journal.
    KeepConsole(String),
    /// Ask the cloud.
    Call {
        /// Deployment, mark and state: the same however often it is asked.
        key: String,
        /// What.
        call: Box<Call>,
    },
    /// Nothing follows.
    End,
}

/// Why a deployment fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The exit code of a program.
    #[serde(deserialize_with = "exit")]
    pub exit: Exit,
    /// A word for programs.
    pub code: String,
    /// What went wrong, for people.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// The request's id, if a service gave one.
    pub request_id: Option<String>,
}

/// The word for a deployment that was given up because another site has room.
pub const ELSEWHERE: &str = "room_elsewhere";

/// Why there is no machine, in the words of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason<'a> {
    /// The exit code of a program.
    pub exit: Exit,
    /// What kind of trouble it is.
    pub class: Class,
    /// A word for programs.
    pub code: &'a str,
}

impl Reason<'_> {
    /// Whether another site may give what this one could not: room, quota, a lease that starts, a server that runs. What the
    /// user's own budget forbids is forbidden everywhere.
    #[must_use]
    pub fn is_of_the_site(&self) -> bool {
        match self.exit {
            Exit::Quota => self.code != "budget",
            Exit::Failed => self.class != Class::Fatal,
            Exit::Usage => self.code == "unknown_type",
            _ => false,
        }
    }

    /// Whether there is no room now, so that waiting may help: neither a quota nor a budget is used up, and the hardware exists.
    #[must_use]
    pub fn is_about_capacity(&self) -> bool {
        self.exit == Exit::Quota && matches!(self.code, "capacity" | "no_capacity" | ELSEWHERE)
    }
}

/// An exit code as a journal holds it: by its name, or as the number that it had before all programs shared one table.
fn exit<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Exit, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Number(u8),
        Name(Exit),
    }
    Ok(match Stored::deserialize(deserializer)? {
        Stored::Name(exit) => exit,
        Stored::Number(0) => Exit::Done,
        Stored::Number(2) => Exit::Usage,
        Stored::Number(3 | 8) => Exit::Denied,
        Stored::Number(5..=7) => Exit::Quota,
        Stored::Number(9) => Exit::Unreachable,
        Stored::Number(11) => Exit::Leftovers,
        Stored::Number(12) => Exit::Unusable,
        Stored::Number(13) => Exit::Conflict,
        Stored::Number(130) => Exit::Interrupted,
        Stored::Number(143) => Exit::Terminated,
        Stored::Number(_) => Exit::Failed,
    })
}

impl Failure {
    /// A failure in words.
    #[must_use]
    pub fn new(exit: Exit, code: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), hint: hint.into(), request_id: None }
    }

    /// The same in the words of programs.
    #[must_use]
    pub fn reason(&self) -> Reason<'_> {
        Reason { exit: self.exit, class: self.class(), code: &self.code }
    }

    /// What kind of trouble it is.
    #[must_use]
    pub fn class(&self) -> Class {
        match self.exit {
            Exit::Failed if self.code == "internal" => Class::Fatal,
            Exit::Denied => Class::Denied,
            Exit::Quota => Class::Capacity,
            Exit::Conflict => Class::Conflict,
            Exit::NotFound => Class::NotFound,
            Exit::Usage | Exit::Refused => Class::Invalid,
            _ => Class::Transient,
        }
    }
}

/// Something that was not available, and for how long it is not tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedOffering {
    /// The site.
    pub site: String,
    /// The type, or the filter of one host.
    pub what: String,
    /// The hour of the start.
    pub hour: i64,
    /// The hours it lasts.
    pub hours: u32,
    /// A word for why.
    pub why: String,
    /// Until when.
    pub until: Time,
}

/// How long a reason lasts.
pub(super) const CAPACITY: Duration = Duration::from_secs(180);
/// How long a broken host is left alone.
pub(super) const HOST: Duration = Duration::from_secs(24 * 3600);
/// How long a network without room is left alone.
pub(super) const NETWORK: Duration = Duration::from_secs(600);
