//! Nova in memory. Owns its answers; a server that no host takes shows that only later.

use std::time::Duration;

use orlop_core::time::Time;
use serde_json::{Value, json};

use super::world::{FakeServer, NETWORK, World};
use super::{empty, json as answer, route, text};
use crate::openstack::wire::{Method, Request, Response, Sent};

fn refused(kind: &str, code: u16, message: &str) -> Response {
    let mut body = serde_json::Map::new();
    body.insert(kind.to_owned(), json!({"code": code, "message": message}));
    answer(code, &Value::Object(body))
}

fn missing(what: &str) -> Response {
    refused("itemNotFound", 404, &format!("{what} could not be found."))
}

/// The first version with tags in a create.
const TAGS: (u32, u32) = (2, 52);

/// The refusal of a version that is newer than what is spoken, or of tags in one that has none.
pub(super) fn refused_version(world: &World, sent: &Sent) -> Option<Response> {
    let (_, asked) = sent.headers.iter().find(|(name, _)| *name == "openstack-api-version")?;
    let (major, minor) = asked.strip_prefix("compute ")?.split_once('.')?;
    let asked: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let newest = world.compute_version;
    if asked > newest {
        let words = format!(
            "Version {}.{} is not supported by the API. Minimum is 2.1 and maximum is {}.{}.",
            asked.0, asked.1, newest.0, newest.1
        );
        return Some(refused("computeFault", 406, &words));
    }
    let has_tags = sent.request.body.as_ref().is_some_and(|body| body.pointer("/server/tags").is_some());
    let words =
        "Invalid input for field/attribute server. Additional properties are not allowed ('tags' was unexpected)";
    (has_tags && asked < TAGS).then(|| refused("badRequest", 400, words))
}

pub(super) fn serve(world: &mut World, now: Time, request: &Request) -> Response {
    let (method, parts, query) = route(request);
    let body = request.body.clone().unwrap_or(Value::Null);
    match (method, parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice()) {
        (Method::Get, []) => answer(200, &json!({"version": {"id": "v2.1", "version": "2.100", "min_version": "2.1"}})),
        (Method::Get, ["flavors", "detail"]) => {
            let made = reserved_flavors(world);
            answer(200, &json!({"flavors": world.flavors.iter().cloned().chain(made).collect::<Vec<_>>()}))
        }
        (Method::Get, ["limits"]) => {
            let absolute = json!({"maxTotalInstances": world.quota.1, "totalInstancesUsed": world.servers.len(), "maxTotalCores": world.most_cores.map_or(json!(-1), |most| json!(most)), "totalCoresUsed": 0, "maxTotalRAMSize": -1, "totalRAMUsed": 0});
            answer(200, &json!({"limits": {"absolute": absolute}}))
        }
        (_, ["os-keypairs", ..]) => keypairs(world, method, parts.get(1).map(String::as_str), &body),
        (Method::Get, ["servers", "detail"]) => {
            let tag = query.iter().find(|(key, _)| key == "tags").map(|(_, tag)| json!(tag));
            let matching = |document: &Value| {
                tag.as_ref().is_none_or(|tag| document["tags"].as_array().is_some_and(|tags| tags.contains(tag)))
            };
            let servers = world.servers.iter().filter(|(id, server)| world.sees(id) && matching(&server.document));
            let servers: Vec<&Value> = servers.map(|(_, server)| &server.document).collect();
            answer(200, &json!({"servers": servers}))
        }
        (Method::Post, ["servers"]) => create(world, now, &body),
        (Method::Get, ["servers", id]) => match world.servers.get(*id).filter(|_| world.sees(id)) {
            Some(server) => answer(200, &json!({"server": server.document})),
            None => missing(&format!("Instance {id}")),
        },
        (Method::Delete, ["servers", id]) => {
            let seen = world.sees(id);
            match world.servers.get_mut(*id).filter(|_| seen) {
                Some(server) => {
                    server.document["OS-EXT-STS:task_state"] = json!("deleting");
                    server.gone = server.gone.or(Some(now.plus(Duration::from_secs(5))));
                    empty(204)
                }
                None => missing(&format!("Instance {id}")),
            }
        }
        (Method::Post, ["servers", id, "action"]) => match world.servers.get_mut(*id) {
            Some(_) if body.get("os-getConsoleOutput").is_some() => answer(200, &json!({"output": world.console})),
            Some(server) => {
                server.document["status"] = json!("ACTIVE");
                empty(202)
            }
            None => missing(&format!("Instance {id}")),
        },
        _ => missing("The resource"),
    }
}

fn keypairs(world: &mut World, method: Method, name: Option<&str>, body: &Value) -> Response {
    let show = |name: &str, key: &str| json!({"keypair": {"name": name, "public_key": key, "type": "ssh", "fingerprint": "aa:bb"}});
    match (method, name) {
        (Method::Get, None) => {
            let shown: Vec<Value> =
                world.keypairs.iter().filter(|(name, _)| world.sees(name)).map(|(name, key)| show(name, key)).collect();
            answer(200, &json!({"keypairs": shown}))
        }
        (Method::Get, Some(name)) => match world.keypairs.get(name).filter(|_| world.sees(name)) {
            Some(key) => answer(200, &show(name, key)),
            None => missing(&format!("Keypair {name}")),
        },
        (Method::Post, None) => {
            let pair = body.get("keypair").unwrap_or(&Value::Null);
            let (name, key) = (text(pair, "name"), text(pair, "public_key"));
            if !key.starts_with("ssh-") {
                return refused("badRequest", 400, "Keypair data is invalid: failed to generate fingerprint");
            }
            if world.keypairs.contains_key(&name) {
                return refused("conflictingRequest", 409, &format!("Key pair '{name}' already exists."));
            }
            let shown = show(&name, &key);
            world.keypairs.insert(name, key);
            answer(201, &shown)
        }
        (Method::Delete, Some(name)) => match world.keypairs.remove(name) {
            Some(_) => empty(204),
            None => missing(&format!("Keypair {name}")),
        },
        _ => missing("The resource"),
    }
}

/// Flavors that running leases of virtual machines give.
fn reserved_flavors(world: &World) -> Vec<Value> {
    let running =
        world.leases.values().filter(|lease| lease.flavor.is_some() && text(&lease.document, "status") == "ACTIVE");
    let flavor = |id: &String| json!({"id": id, "name": format!("reservation:{id}"), "vcpus": 4, "ram": 8192, "disk": 80, "extra_specs": {"aggregate_instance_extra_specs:reservation": id}});
    running.map(|lease| flavor(&lease.reservation())).collect()
}

/// What is for virtual machines only, and what is not for them.
fn check_machine(world: &World, wanted: &Value, body: &Value, is_host: bool) -> Result<(), Response> {
    let groups = wanted.get("security_groups").and_then(Value::as_array);
    if is_host && groups.is_some() {
        return Err(refused("badRequest", 400, "Security groups are not supported by this host"));
    }
    if !is_host && body.get("os:scheduler_hints").is_some() {
        return Err(refused("badRequest", 400, "A reservation of virtual machines takes no hint"));
    }
    let exists = |name: &String| name == "default" || world.groups.values().any(|group| text(group, "name") == *name);
    match groups.into_iter().flatten().map(|group| text(group, "name")).find(|name| !exists(name)) {
        Some(name) => {
            Err(refused("badRequest", 400, &format!("Unable to find security_group with name or id '{name}'")))
        }
        None => Ok(()),
    }
}

fn create(world: &mut World, now: Time, body: &Value) -> Response {
    let wanted = body.get("server").unwrap_or(&Value::Null);
    let network = wanted.pointer("/networks/0/uuid").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !world.images.iter().any(|image| text(image, "id") == text(wanted, "imageRef")) {
        return refused("badRequest", 400, "Can not find requested image");
    }
    let flavor = text(wanted, "flavorRef");
    let of_lease = reserved_flavors(world).iter().any(|one| text(one, "id") == flavor);
    let is_host = flavor == "baremetal";
    if !of_lease && !world.flavors.iter().any(|one| text(one, "id") == flavor) {
        return refused("badRequest", 400, &format!("Flavor {flavor} could not be found."));
    }
    if let Err(refused) = check_machine(world, wanted, body, is_host) {
        return refused;
    }
    if network != NETWORK {
        return refused("badRequest", 400, &format!("Network {network} could not be found."));
    }
    if !world.keypairs.contains_key(&text(wanted, "key_name")) {
        return refused("badRequest", 400, "Invalid key_name provided.");
    }
    if world.servers.len() >= world.quota.1 {
        return refused("forbidden", 403, "Quota exceeded for instances: Requested 1, but already used all instances");
    }
    let id = world.id("server");
    world.user_data.extend(wanted.get("user_data").and_then(Value::as_str).map(str::to_owned));
    let hint = body.pointer("/os:scheduler_hints/reservation").and_then(Value::as_str).unwrap_or_default().to_owned();
    let hint = if of_lease { flavor } else { hint };
    let lease =
        world.leases.values().find(|lease| lease.reservation() == hint && text(&lease.document, "status") == "ACTIVE");
    let host = lease.and_then(|lease| lease.host.clone());
    let taken = world
        .servers
        .values()
        .any(|server| server.reservation == hint && server.fault.is_none() && server.gone.is_none());
    let broken = host.as_ref().and_then(|host| world.hosts.iter().find(|one| one.id == *host)?.fails.clone());
    let mut fault = broken;
    if fault.is_none()
        && let Some((words, left)) = world.build.fails.as_mut().filter(|(_, left)| *left > 0)
    {
        *left -= 1;
        fault = Some(words.clone());
    }
    if is_host && host.is_none() || of_lease && taken || is_host && taken {
        fault = Some("No valid host was found. There are not enough hosts available.".to_owned());
    }
    let address = format!("10.140.80.{}", world.number % 250);
    let mut document = json!({
        "id": id, "name": wanted["name"], "status": "BUILD", "metadata": wanted["metadata"], "tags": wanted["tags"],
        "security_groups": wanted["security_groups"], "OS-EXT-STS:task_state": "scheduling", "created": now.to_string(), "addresses": {}, "key_name": wanted["key_name"],
    });
    if fault.is_none() {
        let port = world.id("port");
        document["addresses"] = json!({"sharednet1": [{"version": 4, "addr": address, "OS-EXT-IPS:type": "fixed"}]});
        let fixed = json!([{"subnet_id": "subnet", "ip_address": address}]);
        world
            .ports
            .insert(port.clone(), json!({"id": port, "device_id": id, "network_id": network, "fixed_ips": fixed}));
    }
    let ready = now.plus(if is_host && host.is_none() { Duration::from_secs(2) } else { world.build.takes });
    let server = FakeServer { document, ready, fault, ends: world.build.ends, gone: None, reservation: hint };
    world.servers.insert(id.clone(), server);
    answer(
        202,
        &json!({"server": {"id": id, "links": [], "security_groups": [{"name": "default"}], "adminPass": "planted-admin-pass"}}),
    )
}
