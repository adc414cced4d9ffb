//! Neutron in memory. Owns its answers; addresses are DOWN in the answers that make or bind them.

use orlop_core::time::Time;
use serde_json::{Value, json};

use super::world::{EXTERNAL, NETWORK, PROJECT, World};
use super::{empty, json as answer, route, text};
use crate::openstack::wire::{Method, Request, Response};

fn refused(status: u16, kind: &str, message: &str) -> Response {
    answer(status, &json!({"NeutronError": {"type": kind, "message": message, "detail": ""}}))
}

pub(super) fn serve(world: &mut World, now: Time, request: &Request) -> Response {
    let (method, parts, query) = route(request);
    let body = request.body.clone().unwrap_or(Value::Null);
    match (method, parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice()) {
        (Method::Get, ["networks"]) => {
            let one = |id: &str, name: &str, external: bool| json!({"id": id, "name": name, "status": "ACTIVE", "subnets": ["s"], "shared": !external, "project_id": PROJECT, "router:external": external});
            answer(200, &json!({"networks": [one(NETWORK, "sharednet1", false), one(EXTERNAL, "public", true)]}))
        }
        (Method::Get, ["ports"]) => {
            let device = query.iter().find(|(key, _)| key == "device_id").map(|(_, id)| id.clone()).unwrap_or_default();
            let ports: Vec<&Value> = world.ports.values().filter(|port| text(port, "device_id") == device).collect();
            answer(200, &json!({"ports": ports}))
        }
        (Method::Delete, ["ports", id]) => {
            let known = world.ports.contains_key(*id);
            world.remove_port(id);
            if known { empty(204) } else { refused(404, "PortNotFound", "Port could not be found.") }
        }
        (_, ["floatingips", ..]) => addresses(world, now, method, parts.get(1).map(String::as_str), &body),
        (_, ["security-groups", ..]) => groups(world, now, method, parts.get(1).map(String::as_str), &body),
        (Method::Post, ["security-group-rules"]) => {
            let group =
                body.pointer("/security_group_rule/security_group_id").and_then(Value::as_str).unwrap_or_default();
            match world.groups.get_mut(group) {
                None => refused(404, "SecurityGroupNotFound", "Security group does not exist"),
                Some(group) if group["rules"].as_array().is_some_and(|rules| !rules.is_empty()) => {
                    refused(409, "SecurityGroupRuleExists", "Security group rule already exists.")
                }
                Some(group) => {
                    group["rules"] = json!([body["security_group_rule"]]);
                    answer(201, &json!({"security_group_rule": {"id": "rule"}}))
                }
            }
        }
        _ => refused(404, "HTTPNotFound", "The resource could not be found."),
    }
}

fn bind(world: &World, port: &str) -> Result<(), Response> {
    if !world.ports.contains_key(port) {
        return Err(refused(404, "PortNotFound", &format!("Port {port} could not be found.")));
    }
    if !world.port_is_routed {
        let words = format!("External network {EXTERNAL} is not reachable from subnet s.");
        return Err(refused(404, "ExternalGatewayForFloatingIPNotFound", &words));
    }
    Ok(())
}

fn addresses(world: &mut World, now: Time, method: Method, id: Option<&str>, body: &Value) -> Response {
    let gone = || refused(404, "FloatingIPNotFound", "Floating IP could not be found");
    match (method, id) {
        (Method::Get, None) => {
            let seen: Vec<&Value> =
                world.addresses.iter().filter(|(id, _)| world.sees(id)).map(|(_, one)| one).collect();
            answer(200, &json!({"floatingips": seen}))
        }
        (Method::Get, Some(id)) => match world.addresses.get(id).filter(|_| world.sees(id)) {
            Some(one) => answer(200, &json!({"floatingip": one})),
            None => gone(),
        },
        (Method::Delete, Some(id)) => match world.addresses.remove(id) {
            Some(_) => empty(204),
            None => gone(),
        },
        (Method::Put, Some(id)) => {
            let port = body.pointer("/floatingip/port_id").and_then(Value::as_str).unwrap_or_default();
            if let Err(refusal) = bind(world, port) {
                return refusal;
            }
            match world.addresses.get_mut(id) {
                Some(one) => {
                    one["port_id"] = json!(port);
                    answer(200, &json!({"floatingip": one}))
                }
                None => gone(),
            }
        }
        (Method::Post, None) => create_address(world, now, body.get("floatingip").unwrap_or(&Value::Null)),
        _ => gone(),
    }
}

fn create_address(world: &mut World, now: Time, wanted: &Value) -> Response {
    let network = text(wanted, "floating_network_id");
    if network != EXTERNAL {
        let words = format!("Bad floatingip request: Network {network} is not a valid external network.");
        return refused(400, "BadRequest", &words);
    }
    if world.addresses.len() >= world.quota.0 {
        return refused(409, "OverQuota", "Quota exceeded for resources: ['floatingip'].");
    }
    if world.addresses.len() >= world.pool {
        let words = format!("No more IP addresses available on network {network}.");
        return refused(409, "IpAddressGenerationFailure", &words);
    }
    if let Some(port) = wanted.get("port_id").and_then(Value::as_str)
        && let Err(refusal) = bind(world, port)
    {
        return refusal;
    }
    let id = world.id("fip");
    let document = json!({
        "id": id, "floating_ip_address": format!("{}{}", world.address_front, world.number % 250), "port_id": wanted.get("port_id"),
        "description": wanted["description"], "tags": [], "status": "DOWN", "created_at": now.to_string(),
    });
    world.addresses.insert(id, document.clone());
    answer(201, &json!({"floatingip": document}))
}

fn groups(world: &mut World, now: Time, method: Method, id: Option<&str>, body: &Value) -> Response {
    match (method, id) {
        (Method::Get, None) => {
            let seen: Vec<&Value> = world.groups.iter().filter(|(id, _)| world.sees(id)).map(|(_, one)| one).collect();
            answer(200, &json!({"security_groups": seen}))
        }
        (Method::Post, None) => {
            let wanted = body.get("security_group").unwrap_or(&Value::Null);
            let id = world.id("group");
            let document = json!({"id": id, "name": wanted["name"], "description": wanted["description"], "created_at": now.to_string(), "rules": []});
            world.groups.insert(id, document.clone());
            answer(201, &json!({"security_group": document}))
        }
        (Method::Delete, Some(id)) => match world.groups.remove(id) {
            Some(_) => empty(204),
            None => refused(404, "SecurityGroupNotFound", "Security group does not exist"),
        },
        _ => refused(404, "HTTPNotFound", "The resource could not be found."),
    }
}
