//! Objects of the services read from their documents. Owns the spellings; total, and nothing here fails but an object without
//! an id: what is missing or garbled is empty.

use std::collections::BTreeMap;

use orlop_core::machine::Named as _;
use orlop_core::machine::lease::{LeaseState, ReservationState};
use orlop_core::machine::server::ServerStatus;
use orlop_core::time::Time;
use serde_json::Value;

use super::port::{Address, FloatingIp, Keypair, Lease, Limits, NetPort, Network, Reservation, SecurityGroup, Server};
use crate::catalog::window::read_time;

/// Parts of an object that are looked at.
const MAX_PARTS: usize = 1000;

fn text(value: &Value, key: &str) -> String {
    match value.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn filled(value: &Value, key: &str) -> Option<String> {
    Some(text(value, key)).filter(|text| !text.is_empty())
}

fn flag(value: &Value, key: &str) -> bool {
    value.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn parts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().take(MAX_PARTS)
}

/// A time as services write it; without a zone it is UTC.
#[must_use]
pub fn time(text: &str) -> Option<Time> {
    read_time(text).map(|stamp| Time::from_millis(stamp.as_millisecond()))
}

fn time_of(value: &Value, key: &str) -> Option<Time> {
    time(value.get(key)?.as_str()?)
}

/// A time as the reservation service takes it: minutes, in UTC.
#[must_use]
pub fn minutes(time: Time) -> String {
    let text = Time::from_millis(time.millis().div_euclid(60_000) * 60_000).to_string();
    text.get(..16).unwrap_or_default().replacen('T', " ", 1)
}

/// A lease.
#[must_use]
pub fn lease(value: &Value) -> Option<Lease> {
    let reservations = parts(value, "reservations").map(|one| Reservation {
        id: text(one, "id"),
        status: ReservationState::from_name(&text(one, "status")),
        missing_resources: flag(one, "missing_resources"),
        hypervisor_properties: text(one, "hypervisor_properties"),
        resource_properties: text(one, "resource_properties"),
        flavor_id: filled(one, "flavor_id").filter(|_| text(one, "resource_type") == "flavor:instance"),
    });
    Some(Lease {
        id: filled(value, "id")?,
        name: text(value, "name"),
        status: LeaseState::from_name(&text(value, "status")),
        degraded: flag(value, "degraded"),
        start: time_of(value, "start_date"),
        end: time_of(value, "end_date"),
        created: time_of(value, "created_at"),
        project_id: text(value, "project_id"),
        reservations: reservations.collect(),
    })
}

/// A server.
#[must_use]
pub fn server(value: &Value) -> Option<Server> {
    let mut addresses = Vec::new();
    for list in value.get("addresses").and_then(Value::as_object).into_iter().flat_map(serde_json::Map::values) {
        for one in list.as_array().into_iter().flatten().take(MAX_PARTS) {
            addresses.push(Address {
                address: text(one, "addr"),
                version: if one.get("version").and_then(Value::as_u64) == Some(6) { 6 } else { 4 },
                floating: text(one, "OS-EXT-IPS:type") == "floating",
            });
        }
    }
    let labels = value.get("metadata").and_then(Value::as_object).into_iter().flatten().take(MAX_PARTS);
    let metadata: BTreeMap<String, String> =
        labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    Some(Server {
        id: filled(value, "id")?,
        name: text(value, "name"),
        status: ServerStatus::from_name(&text(value, "status")).unwrap_or(ServerStatus::Unknown),
        task: filled(value, "OS-EXT-STS:task_state"),
        fault: value.get("fault").and_then(|fault| filled(fault, "message")),
        created: time_of(value, "created"),
        metadata,
        tags: parts(value, "tags").filter_map(Value::as_str).map(str::to_owned).collect(),
        addresses,
    })
}

/// A keypair; lists have each in a `keypair` of its own.
#[must_use]
pub fn keypair(value: &Value) -> Option<Keypair> {
    let value = value.get("keypair").unwrap_or(value);
    Some(Keypair {
        name: filled(value, "name")?,
        public_key: text(value, "public_key"),
        fingerprint: text(value, "fingerprint"),
    })
}

/// What a project may have.
#[must_use]
pub fn limits(value: &Value) -> Limits {
    let absolute = value.get("limits").and_then(|limits| limits.get("absolute")).unwrap_or(value);
    let number = |key: &str| absolute.get(key).and_then(Value::as_i64);
    let most = |key: &str| number(key).and_then(|most| u64::try_from(most).ok());
    let used = |key: &str| number(key).and_then(|used| u64::try_from(used).ok()).unwrap_or(0);
    Limits {
        instances: (used("totalInstancesUsed"), most("maxTotalInstances")),
        cores: (used("totalCoresUsed"), most("maxTotalCores")),
        ram_mib: (used("totalRAMUsed"), most("maxTotalRAMSize")),
    }
}

/// A network.
#[must_use]
pub fn network(value: &Value) -> Option<Network> {
    let has_subnets = parts(value, "subnets").next().is_some();
    Some(Network {
        id: filled(value, "id")?,
        name: text(value, "name"),
        usable: text(value, "status") == "ACTIVE" && has_subnets,
        shared: flag(value, "shared"),
        project_id: filled(value, "project_id").unwrap_or_else(|| text(value, "tenant_id")),
        external: flag(value, "router:external"),
    })
}

/// A port.
#[must_use]
pub fn net_port(value: &Value) -> Option<NetPort> {
    Some(NetPort {
        id: filled(value, "id")?,
        device: text(value, "device_id"),
        addresses: parts(value, "fixed_ips").map(|one| text(one, "ip_address")).collect(),
    })
}

/// A floating IP.
#[must_use]
pub fn floating_ip(value: &Value) -> Option<FloatingIp> {
    Some(FloatingIp {
        id: filled(value, "id")?,
        address: text(value, "floating_ip_address"),
        port: filled(value, "port_id"),
        description: text(value, "description"),
        tags: parts(value, "tags").filter_map(Value::as_str).map(str::to_owned).collect(),
        created: time_of(value, "created_at"),
    })
}

/// A security group.
#[must_use]
pub fn security_group(value: &Value) -> Option<SecurityGroup> {
    Some(SecurityGroup {
        id: filled(value, "id")?,
        name: text(value, "name"),
        description: text(value, "description"),
        created: time_of(value, "created_at"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_minutes_in_utc_and_read_in_every_spelling() {
        let at: Time = "2026-01-05T14:02:31Z".parse().unwrap();
        assert_eq!(minutes(at), "2026-01-05 14:02");
        for spelled in ["2026-01-05T14:02:31.000000", "2026-01-05 14:02:31", "2026-01-05T14:02:31Z"] {
            assert_eq!(time(spelled), Some(at), "{spelled}");
        }
        assert_eq!([time(""), time("now"), time("2026")], [None, None, None]);
    }

    #[test]
    fn unknown_states_are_no_error_and_an_object_without_id_is_none() {
        let seen = lease(&serde_json::json!({"id": "L", "status": "SLEEPING", "reservations": [{"status": 3}, null]}))
            .unwrap();
        assert_eq!((seen.status, seen.reservations.len()), (None, 2));
        assert_eq!(
            server(&serde_json::json!({"id": "S", "status": "VERIFY_RESIZE"})).unwrap().status,
            ServerStatus::Unknown
        );
        assert!(lease(&serde_json::json!({"id": null})).is_none() && server(&Value::Null).is_none());
        assert!(floating_ip(&serde_json::json!([])).is_none() && network(&serde_json::json!("x")).is_none());
    }

    #[test]
    fn minus_one_is_no_limit() {
        let of = |most: i64, used: u64| {
            limits(
                &serde_json::json!({"limits": {"absolute": {"maxTotalInstances": most, "totalInstancesUsed": used}}}),
            )
        };
        assert!(of(-1, 900).has_room() && of(1, 0).has_room() && !of(1, 1).has_room());
        assert!(Limits::default().has_room());
    }
}
