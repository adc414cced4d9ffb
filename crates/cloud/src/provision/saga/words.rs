//! Failures in words: what happened, what to do, and the exit code.

use orlop_core::time::Time;

use super::Failure;
use crate::exit::Exit;
use crate::openstack::classify::Meaning;
use crate::openstack::port::{Account, CloudError, Network};
use crate::provision::journal::Kind;
use crate::provision::mark::DeploymentId;
use crate::provision::order::Choice;
use crate::scrub::scrubbed;

/// What to do about a server that did not come up.
const CONSOLE: &str = "try again, or another type; the console is kept beside the journal";

fn of(exit: Exit, code: &str, message: String, hint: &str, error: &CloudError) -> Failure {
    Failure { request_id: error.request_id.clone(), ..Failure::new(exit, code, message, hint) }
}

/// Whether somebody can make leases.
///
/// # Errors
/// The credential is restricted, so that the reservation service cannot act for it.
pub fn check_account(account: &Account) -> Result<(), Failure> {
    if account.application_credential && account.restricted {
        return Err(cannot_trust());
    }
    Ok(())
}

pub(super) fn cannot_trust() -> Failure {
    Failure::new(
        Exit::Denied,
        "credential",
        "the credential cannot create leases",
        "create an unrestricted application credential (roles member and reader), or use a password",
    )
}

/// A request that failed, in words: one that will never work as it is, or a service that cannot be reached.
#[must_use]
pub fn refused(error: &CloudError) -> Failure {
    let message = error.to_string();
    match error.meaning {
        Meaning::Auth => {
            of(Exit::Denied, "credential", message, "check the credential, and that it has not expired", error)
        }
        Meaning::Quota => {
            of(Exit::Quota, "quota", message, "ask for more, delete something, or choose another site", error)
        }
        Meaning::Policy => {
            of(Exit::Denied, "policy", in_hours(&message), "choose a shorter --lease-duration, or ask the site", error)
        }
        Meaning::Untrusted => {
            of(Exit::Usage, "untrusted", message, "give --ca-cert, or ask the site about its certificate", error)
        }
        Meaning::Clock => of(Exit::Usage, "clock", message, "set the clock of this machine", error),
        _ if error.is_passing() => unavailable(error, Time::EPOCH),
        _ => of(Exit::Usage, "invalid", message, "check flags and configuration", error),
    }
}

/// A service that kept failing.
pub(super) fn unavailable(error: &CloudError, since: Time) -> Failure {
    let since = if since == Time::EPOCH { String::new() } else { format!(" since {since}") };
    let message = format!("the {} service is unavailable{since}: {error}", error.service);
    let hint = match &error.request_id {
        Some(_) => "try again later, or ask the site with the request id",
        None => "check the address of the service and the network, or try again later",
    };
    of(Exit::Unreachable, "unavailable", message, hint, error)
}

pub(super) fn kept_failing(kind: Kind, since: Time, error: &str) -> Failure {
    let message = format!("no {} could be created since {since}: {error}", kind.as_str());
    Failure::new(Exit::Unreachable, "unavailable", message, "try again later, or ask the site with the request id")
}

pub(super) fn no_key(name: &str) -> Failure {
    let message = format!("there is no key {name} in the cloud and no public key file");
    Failure::new(Exit::Usage, "key_missing", message, "give --key-path, or make a key with --create-key")
}

pub(super) fn other_key(name: &str) -> Failure {
    let message = format!("key {name} in the cloud is not the one in the file");
    Failure::new(Exit::Conflict, "key_conflict", message, "choose another --key-name; it is never overwritten")
}

pub(super) fn no_network(name: &str, site: &str, known: &[Network]) -> Failure {
    let mut names: Vec<&str> =
        known.iter().filter(|one| one.usable).map(|network| network.name.as_str()).take(20).collect();
    names.sort_unstable();
    let at = if site.is_empty() { String::new() } else { format!(" at {site}") };
    let message = format!("network {name} not found{at}; there are: {}", names.join(", "));
    Failure::new(Exit::Usage, "network_missing", message, "choose one with --network or --external-network")
}

pub(super) fn no_image(name: &str) -> Failure {
    let message = format!("image {name} no longer exists");
    Failure::new(Exit::Usage, "image_missing", message, "choose another with --image")
}

pub(super) fn image_refused(name: &str, error: &CloudError) -> Failure {
    let message = format!("image {name} cannot be taken: {error}");
    of(Exit::Usage, "image_refused", message, "choose another with --image", error)
}

pub(super) fn no_room(choice: Option<&Choice>, error: &CloudError) -> Failure {
    let (what, site) = choice.map_or(("host", ""), |choice| (choice.node_type.as_str(), choice.site.as_str()));
    let message = format!("no free {what} at {site}: {}", error.message);
    of(Exit::Quota, "capacity", message, "try --fallback, --start-within, --wait-for-capacity or another type", error)
}

/// What is said of a clock that differs from the cloud's by so many seconds.
#[must_use]
pub fn clock_is_off(ahead: i64) -> String {
    format!("local clock is {} s off", ahead.unsigned_abs())
}

pub(super) fn taken(choice: Option<&Choice>) -> Failure {
    let (what, site) = choice.map_or(("host", ""), |choice| (choice.node_type.as_str(), choice.site.as_str()));
    let message = format!("no free {what} at {site}: every host that fits is taken");
    let hint = "wait longer with --wait-for-capacity, or try --start-within or another type";
    Failure::new(Exit::Quota, "capacity", message, hint)
}

pub(super) fn room_elsewhere(choice: Option<&Choice>, other: &str) -> Failure {
    let message = format!("{}, but at {other}", taken(choice).message);
    Failure::new(Exit::Quota, super::ELSEWHERE, message, "apply continues there")
}

pub(super) fn lease_late(id: &str, status: &str, seconds: u64) -> Failure {
    let message = format!("lease {id} still {status} after {seconds} s, deleted");
    Failure::new(Exit::Failed, "lease_late", message, "try again, or another type with --fallback types")
}

pub(super) fn lease_failed(what: &str) -> Failure {
    Failure::new(Exit::Failed, "lease_failed", what, "try again, or another type with --fallback types")
}

pub(super) fn server_failed(fault: &str) -> Failure {
    let message = format!("server failed: {}; undone", scrubbed(fault));
    Failure::new(Exit::Failed, "server_failed", message, CONSOLE)
}

pub(super) fn server_late(seconds: u64) -> Failure {
    let message = format!("server not ready after {} min, undone", seconds / 60);
    Failure::new(Exit::Failed, "server_late", message, CONSOLE)
}

pub(super) fn unreachable(address: &str) -> Failure {
    let message = format!("server is up, port 22 of {address} silent");
    let hint = "check floating IP, security group, firewall and key; then resume or destroy";
    Failure::new(Exit::Unusable, "unreachable", message, hint)
}

pub(super) fn differs(how: &str) -> Failure {
    Failure::new(Exit::Unusable, "hardware_differs", how, "keep it, or remove it with destroy")
}

pub(super) fn stranger(how: &str) -> Failure {
    let hint = "do not sign in: it may be another machine; compare with the console, then remove it with destroy";
    Failure::new(Exit::Unusable, "host_key", how, hint)
}

pub(super) fn not_joined(id: &DeploymentId, why: Option<&str>) -> Failure {
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    let message = format!("server is up, but no worker of deployment {id} joined the fleet within 10 min{why}");
    let hint = "see cloud-init's log and the unit orlop-worker on the machine, and whether the token was good; then resume or destroy";
    Failure::new(Exit::Unusable, "not_joined", message, hint)
}

/// A text of the service with its seconds as hours.
fn in_hours(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let is_seconds = words.get(at + 1).is_some_and(|next| next.starts_with("second"));
        match word.parse::<u64>().ok().filter(|_| is_seconds) {
            Some(seconds) => {
                let end = if words.get(at + 1).is_some_and(|next| next.ends_with('.')) { "." } else { "" };
                out.push(match seconds {
                    _ if seconds % 3600 == 0 => format!("{} h{end}", seconds / 3600),
                    _ if seconds % 60 == 0 => format!("{} min{end}", seconds / 60),
                    _ => format!("{seconds} s{end}"),
                });
                at += 2;
            }
            None => {
                out.push((*word).to_owned());
                at += 1;
            }
        }
    }
    out.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_shown_as_hours() {
        let text = "Lease duration of 691200 seconds must be less than or equal to the maximum lease duration of 604800 seconds.";
        assert_eq!(
            in_hours(text),
            "Lease duration of 192 h must be less than or equal to the maximum lease duration of 168 h."
        );
        for (seconds, shown) in [("1800", "30 min"), ("5400", "90 min"), ("3700", "3700 s"), ("0", "0 h")] {
            assert_eq!(in_hours(&format!("at most {seconds} seconds.")), format!("at most {shown}."));
        }
    }
}
