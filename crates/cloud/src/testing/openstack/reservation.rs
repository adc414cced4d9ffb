//! Blazar in memory. Owns its answers, also those that are odd: a lack of hosts is a 500, names may repeat, an end of a lease
//! takes its servers along.

use std::time::Duration;

use orlop_core::time::Time;
use serde_json::{Value, json};

use super::world::{FakeLease, PROJECT, World};
use super::{empty, json as answer, route, text};
use crate::openstack::read::time;
use crate::openstack::wire::{Method, Request, Response};

/// The longest lease in seconds.
const LONGEST: u64 = 604_800;

fn refused(status: u16, message: &str) -> Response {
    answer(status, &json!({"error_code": status, "error_message": message, "error_name": status}))
}

fn missing(id: &str) -> Response {
    refused(404, &format!("Object with {{'lease_id': '{id}'}} not found"))
}

pub(super) fn serve(world: &mut World, now: Time, request: &Request) -> Response {
    let (method, parts, _) = route(request);
    let body = request.body.clone().unwrap_or(Value::Null);
    match (method, parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice()) {
        (Method::Get, ["os-hosts"]) => {
            let hosts: Vec<&Value> = world.hosts.iter().map(|host| &host.document).collect();
            answer(200, &json!({"hosts": hosts}))
        }
        (Method::Get, ["os-hosts", "allocations"]) => {
            let taken = world.leases.values().filter_map(|lease| Some((lease.host.clone()?, lease)));
            let entry = |host: &str, id: &str, start: Time, end: Time| json!({"resource_id": host, "reservations": [{"id": id, "start_date": start.to_string(), "end_date": end.to_string()}]});
            let mut list: Vec<Value> =
                taken.map(|(host, lease)| entry(&host, &lease.reservation(), lease.start, lease.end)).collect();
            list.extend(world.taken.iter().map(|(host, end)| entry(host, "somebody's", Time::EPOCH, *end)));
            answer(200, &json!({"allocations": list}))
        }
        (Method::Get, ["leases"]) => {
            let seen: Vec<&Value> =
                world.leases.iter().filter(|(id, _)| world.sees(id)).map(|(_, lease)| &lease.document).collect();
            answer(200, &json!({"leases": seen}))
        }
        (Method::Post, ["leases"]) => create(world, now, &body),
        (Method::Get, ["leases", id]) => match world.leases.get(*id).filter(|_| world.sees(id)) {
            Some(lease) => answer(200, &json!({"lease": lease.document})),
            None => missing(id),
        },
        (Method::Put, ["leases", id]) => change(world, id, &body),
        (Method::Delete, ["leases", id]) => {
            if !world.sees(id) {
                return missing(id);
            }
            let Some(lease) = world.leases.remove(*id) else { return missing(id) };
            let reservation = lease.reservation();
            for server in world.servers.values_mut().filter(|server| server.reservation == reservation) {
                server.gone = Some(now);
            }
            world.advance(now);
            empty(204)
        }
        _ => refused(404, "not found"),
    }
}

fn matches(host: &Value, filter: &str) -> bool {
    let Ok(Value::Array(parts)) = serde_json::from_str(filter) else { return filter.is_empty() };
    let part = |at: usize| parts.get(at).and_then(Value::as_str).unwrap_or_default();
    part(0).starts_with('=') && text(host, part(1).trim_start_matches('$')) == part(2)
}

fn create(world: &mut World, now: Time, body: &Value) -> Response {
    if let Some((status, message)) = world.refuse_leases.pop() {
        return refused(status, &message);
    }
    let reserve = body.pointer("/reservations/0").cloned().unwrap_or(Value::Null);
    let (given_start, given_end) = (text(body, "start_date"), text(body, "end_date"));
    let start =
        if given_start == "now" { Some(Time::from_millis(now.millis() / 60_000 * 60_000)) } else { time(&given_start) };
    let (Some(start), Some(end)) = (start, time(&given_end)) else {
        return refused(400, &format!("{given_start} is an invalid date. Required format: %Y-%m-%d %H:%M"));
    };
    if given_start != "now" && start < now {
        return refused(400, "Start date must be later than current date");
    }
    if end <= start {
        return refused(400, "End date must be later than start date.");
    }
    if end.since(start).as_secs() > LONGEST {
        let words = format!(
            "Lease duration of {} seconds must be less than or equal to the maximum lease duration of {LONGEST} seconds.",
            end.since(start).as_secs()
        );
        return refused(403, &words);
    }
    let free = |host: &str| {
        world.taken.get(host).is_none_or(|end| *end <= start)
            && world
                .leases
                .values()
                .all(|lease| lease.host.as_deref() != Some(host) || lease.end <= start || lease.start >= end)
    };
    if text(&reserve, "resource_type") == "flavor:instance" {
        return create_machine(world, now, body, &reserve, start, end);
    }
    let filter = text(&reserve, "resource_properties");
    let host = world.hosts.iter().find(|host| matches(&host.document, &filter) && free(&host.id));
    let Some(host) = host.map(|host| host.id.clone()) else { return refused(500, "Not enough hosts available") };
    let (id, reservation) = (world.id("lease"), world.id("reservation"));
    let reserved = json!({
        "id": reservation, "lease_id": id, "status": "pending", "missing_resources": false, "resources_changed": false,
        "resource_id": "resource", "resource_type": "physical:host", "min": 1, "max": 1, "resource_properties": filter,
        "hypervisor_properties": text(&reserve, "hypervisor_properties"),
    });
    keep(world, now, body, Granted { id, reserved, start, end }, Some(host), None)
}

/// A lease that is granted: its id, its reservation as a document, and its time.
struct Granted {
    id: String,
    reserved: Value,
    start: Time,
    end: Time,
}

/// Keeps a lease that was granted.
fn keep(
    world: &mut World,
    now: Time,
    body: &Value,
    granted: Granted,
    host: Option<String>,
    flavor: Option<String>,
) -> Response {
    let Granted { id, reserved, start, end } = granted;
    let micro = |at: Time| at.to_string().trim_end_matches('Z').to_owned() + ".000000";
    let document = json!({
        "id": id, "name": text(body, "name"), "user_id": "user", "project_id": PROJECT, "status": "PENDING", "degraded": false,
        "start_date": micro(start), "end_date": micro(end), "created_at": now.whole_seconds().to_string().trim_end_matches('Z').replace('T', " "),
        "updated_at": null, "reservations": [reserved], "events": [],
    });
    let starts = world.lease_start;
    world.leases.insert(id, FakeLease { document: document.clone(), host, flavor, start, end, starts, since: now });
    answer(201, &json!({"lease": document}))
}

/// A lease of a virtual machine: it gives its own flavor, which goes by the id of the reservation.
fn create_machine(world: &mut World, now: Time, body: &Value, reserve: &Value, start: Time, end: Time) -> Response {
    if reserve.get("affinity") != Some(&Value::Null) {
        return refused(400, "Missing parameter: affinity");
    }
    let wanted = text(reserve, "flavor_id");
    if reserve.get("amount") != Some(&json!(1)) || !world.flavors.iter().any(|flavor| text(flavor, "id") == wanted) {
        return refused(400, &format!("Invalid values for parameter: flavor {wanted} could not be found"));
    }
    if !world.has_slot(start, end) {
        return refused(500, "Not enough resources available");
    }
    let (id, reservation) = (world.id("lease"), world.id("reservation"));
    let reserved = json!({
        "id": reservation, "lease_id": id, "status": "pending", "missing_resources": false, "resources_changed": false,
        "resource_id": "resource", "resource_type": "flavor:instance", "amount": 1, "affinity": null, "flavor_id": reservation,
    });
    keep(world, now, body, Granted { id, reserved, start, end }, None, Some(wanted))
}

fn change(world: &mut World, id: &str, body: &Value) -> Response {
    let end = time(&text(body, "end_date"));
    let others: Vec<(Option<String>, Time, Time)> = world
        .leases
        .iter()
        .filter(|(other, _)| *other != id)
        .map(|(_, one)| (one.host.clone(), one.start, one.end))
        .collect();
    let Some(lease) = world.leases.get_mut(id) else { return missing(id) };
    let Some(end) = end else { return refused(400, "is an invalid date") };
    if lease.flavor.is_some() {
        return refused(409, "Updating leases of flavor:instance is not supported");
    }
    if text(&lease.document, "status") == "ERROR" {
        return refused(500, "Invalid lease status.");
    }
    if end.since(lease.start) > Duration::from_secs(LONGEST) {
        return refused(
            400,
            "Lease duration of 2592000 seconds must be less than or equal to the maximum lease duration of 604800 seconds.",
        );
    }
    if others.iter().any(|(host, start, stop)| *host == lease.host && *start < end && *stop > lease.start) {
        return refused(500, "Not enough hosts available");
    }
    lease.end = end;
    lease.document["end_date"] = json!(end.to_string().trim_end_matches('Z').to_owned() + ".000000");
    lease.document["status"] = json!("UPDATING");
    answer(200, &json!({"lease": lease.document}))
}
