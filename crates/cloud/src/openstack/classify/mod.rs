//! What an answer of a service means and what follows from it. Owns
//! the table; total over every service, method, status and body, and pure.

#[cfg(test)]
mod tests;

use std::fmt;

use orlop_core::error::Class;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Keystone.
    Identity,
    /// Glance.
    Image,
    /// Nova.
    Compute,
    /// Neutron.
    Network,
    /// Blazar.
    Reservation,
}

impl Service {
    /// All services.
    pub const ALL: [Self; 5] = [Self::Identity, Self::Image, Self::Compute, Self::Network, Self::Reservation];

    /// Its type in the catalogue of services.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Image => "image",
            Self::Compute => "compute",
            Self::Network => "network",
            Self::Reservation => "reservation",
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Signing in.
    SignIn,
    /// Reading.
    Read,
    /// Creating a keypair.
    CreateKeypair,
    /// Creating anything else.
    Create,
    /// Binding an address to a port.
    Bind,
    /// Changing something that exists.
    Change,
    /// Deleting an own object.
    Delete,
}

impl Call {
    /// Whether something may have been made although the answer says nothing of it.
    const fn creates(self) -> bool {
        matches!(self, Self::Create | Self::CreateKeypair)
    }
}

/// The class of the error, by which a caller decides what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// It was done.
    Done,
    /// No room: the same filter and window are not tried again.
    Capacity,
    /// A quota or the project's allocation is used up.
    Quota,
    /// A rule of the site.
    Policy,
    /// The start lies in the past for the service: computed again once.
    Clock,
    /// Can never work as written.
    Invalid,
    /// The other side shows a certificate that this machine does not trust: asked again twice, then given up.
    Untrusted,
    /// The cloud has no such service.
    Absent,
    /// The service cannot make its trust, if the same is seen once more and nothing is found.
    TrustSuspected,
    /// Not signed in, or not any more.
    Auth,
    /// Another transition is running: wait, then again, bounded.
    Conflict,
    /// The service or the way to it failed: again, later.
    Transient,
    /// The same on a create: whether something was made is unclear.
    Ambiguous,
    /// An own object is gone.
    Gone,
    /// A name is taken: read, compare, adopt or stop.
    Exists,
    /// The image: the next candidate, once.
    Image,
    /// The keypair is not there: it is made again, once.
    Key,
    /// The microversion: one step down, once.
    Microversion,
    /// No floating IP is left: go on without.
    Exhausted,
    /// This port takes no address: the next one.
    NextPort,
    /// Refused and not one of these.
    Refused,
}

impl Meaning {
    /// The class that all adapters share.
    #[must_use]
    pub const fn class(self) -> Option<Class> {
        Some(match self {
            Self::Done => return None,
            Self::Capacity | Self::Quota | Self::Exhausted => Class::Capacity,
            Self::Policy | Self::Auth | Self::TrustSuspected => Class::Denied,
            Self::Clock | Self::Conflict => Class::Conflict,
            Self::Invalid
            | Self::Absent
            | Self::Image
            | Self::Key
            | Self::Microversion
            | Self::NextPort
            | Self::Refused => Class::Invalid,
            Self::Untrusted => Class::Fatal,
            Self::Transient | Self::Ambiguous => Class::Transient,
            Self::Gone => Class::NotFound,
            Self::Exists => Class::Exists,
        })
    }
}

/// An answer, as far as it decides.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// Who answered.
    pub service: Service,
    /// What was asked.
    pub call: Call,
    /// The status; nothing if there was no answer at all.
    pub status: Option<u16>,
    /// The body, possibly cut.
    pub body: &'a str,
    /// Whether the credential is an application credential.
    pub application_credential: bool,
    /// Whether the answer came within ten seconds.
    pub quick: bool,
}

/// Classifies an answer.
#[must_use]
pub fn classify(answer: &Answer<'_>) -> Meaning {
    let lost = if answer.call.creates() { Meaning::Ambiguous } else { Meaning::Transient };
    let Some(status) = answer.status else { return lost };
    if (200..300).contains(&status) {
        return if is_readable(answer, status) { Meaning::Done } else { lost };
    }
    let said = message(answer.body).to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if let Some(meaning) = by_service(answer, status, &has) {
        return meaning;
    }
    match status {
        401 => Meaning::Auth,
        404 | 410 if matches!(answer.call, Call::Read | Call::Delete | Call::Change) => Meaning::Gone,
        404 => Meaning::Invalid,
        408 | 425 | 429 | 500.. => lost,
        409 => Meaning::Conflict,
        403 => Meaning::Policy,
        300..=399 => lost,
        400..=499 => Meaning::Refused,
        _ => lost,
    }
}

/// Whether a success can be believed: one that should carry an object must be JSON; what deletes may be empty.
fn is_readable(answer: &Answer<'_>, status: u16) -> bool {
    let body = answer.body.trim();
    let may_be_empty = matches!(answer.call, Call::Delete | Call::Change | Call::Bind) || status == 204;
    (body.is_empty() && may_be_empty) || serde_json::from_str::<Value>(body).is_ok_and(|value| value.is_object())
}

fn by_service(answer: &Answer<'_>, status: u16, has: &dyn Fn(&[&str]) -> bool) -> Option<Meaning> {
    match answer.service {
        Service::Reservation => reservation(answer, status, has),
        Service::Compute => compute(answer, status, has),
        Service::Network => network(answer, status, has),
        Service::Identity if answer.call == Call::SignIn && matches!(status, 401 | 403 | 404) => Some(Meaning::Auth),
        Service::Identity | Service::Image => None,
    }
}

fn reservation(answer: &Answer<'_>, status: u16, has: &dyn Fn(&[&str]) -> bool) -> Option<Meaning> {
    let lacks = [
        "not enough hosts",
        "not enough resources",
        "not enough networks",
        "not enough floating ips",
        "not enough hosts / resources",
    ];
    match status {
        400 | 409 | 500 if has(&lacks) => Some(Meaning::Capacity),
        400 | 403 if has(&["would spend", "project expiration"]) => Some(Meaning::Quota),
        400 | 403 if has(&["lease duration of", "can only be extended within", "enforcement filter denied"]) => {
            Some(Meaning::Policy)
        }
        403 => Some(Meaning::Policy),
        400 if has(&["start date must be later"]) => Some(Meaning::Clock),
        409 if has(&["flavor"]) && answer.call == Call::Change => Some(Meaning::Policy),
        409 if has(&["already exists"]) => Some(Meaning::Exists),
        500 if has(&["a database error occurred", "resource type is not supported"]) => Some(Meaning::Invalid),
        500 if has(&["invalid lease status"]) && matches!(answer.call, Call::Delete | Call::Change) => {
            Some(Meaning::Conflict)
        }
        500 if has(&["internal server error"])
            && answer.call == Call::Create
            && answer.application_credential
            && answer.quick =>
        {
            Some(Meaning::TrustSuspected)
        }
        400 => Some(Meaning::Invalid),
        _ => None,
    }
}

fn compute(answer: &Answer<'_>, status: u16, has: &dyn Fn(&[&str]) -> bool) -> Option<Meaning> {
    match status {
        403 | 413 if has(&["quota exceeded", "quota"]) => Some(Meaning::Quota),
        403 => Some(Meaning::Policy),
        400 if has(&["can not find requested image", "flavor's disk is", "flavor's memory is"]) => Some(Meaning::Image),
        400 if has(&["invalid key_name"]) => Some(Meaning::Key),
        400 => Some(Meaning::Invalid),
        406 => Some(Meaning::Microversion),
        409 if answer.call == Call::CreateKeypair => Some(Meaning::Exists),
        _ => None,
    }
}

fn network(answer: &Answer<'_>, status: u16, has: &dyn Fn(&[&str]) -> bool) -> Option<Meaning> {
    match status {
        409 if has(&["overquota"]) && has(&["floatingip"]) => Some(Meaning::Exhausted),
        409 if has(&["overquota", "quota exceeded"]) => Some(Meaning::Quota),
        409 if has(&["ipaddressgenerationfailure"]) => Some(Meaning::Exhausted),
        400 if has(&["externalipaddressexhausted"]) => Some(Meaning::Exhausted),
        404 if has(&["externalgatewayforfloatingipnotfound"]) => Some(Meaning::NextPort),
        400 if has(&["no fixed ipv4"]) => Some(Meaning::NextPort),
        409 if has(&["already associated", "already has a floating ip"])
            && matches!(answer.call, Call::Bind | Call::Create) =>
        {
            Some(Meaning::NextPort)
        }
        400 => Some(Meaning::Invalid),
        403 => Some(Meaning::Policy),
        _ => None,
    }
}

/// The words of an error body in any service's form, with the type where one is given; the body itself if it is none.
#[must_use]
pub fn message(body: &str) -> String {
    let cut = || body.chars().filter(|ch| !ch.is_control()).take(500).collect();
    let Ok(Value::Object(object)) = serde_json::from_str::<Value>(body) else { return cut() };
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    if let Some(said) = text(object.get("error_message"))
        .or_else(|| text(object.get("message")))
        .or_else(|| text(object.get("error_description")))
    {
        return said;
    }
    for (key, inner) in &object {
        if let Some(said) = text(inner.get("message")) {
            let kind = text(inner.get("type")).or_else(|| text(inner.get("title"))).unwrap_or_else(|| key.clone());
            return format!("{kind}: {said}");
        }
    }
    cut()
}

/// What the fault of a server in ERROR means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No host had room.
    HostCapacity,
    /// No network had room.
    NetworkCapacity,
    /// A quota.
    Quota,
    /// The image.
    Image,
    /// The host.
    Host,
}

/// Classifies the fault of a server.
#[must_use]
pub fn fault(message: &str) -> Fault {
    let small = message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| small.contains(word));
    if has(&["no valid host", "exceeded maximum number of retries"]) {
        Fault::HostCapacity
    } else if has(&["failed to allocate the network"]) {
        Fault::NetworkCapacity
    } else if has(&["quota"]) {
        Fault::Quota
    } else if has(&["image"]) {
        Fault::Image
    } else {
        Fault::Host
    }
}
