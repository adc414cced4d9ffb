//! Calls of the saga, asked of the ports.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Hands;
use crate::openstack::classify::{Meaning, Service};
use crate::openstack::port::{Answered, Cloud, CloudError, NewServer};
use crate::provision::join::{Boot, user_data};
use crate::provision::journal::Kind;
use crate::provision::order::DeploymentOrder;
use crate::provision::saga::{Answer, AvailableCapacity, Call, Facts, Here, Inventory};

/// Asks, and gives what came.
pub(super) async fn perform(hands: &Hands, order: &DeploymentOrder, call: &Call) -> Answer {
    ask(hands, order, call).await.unwrap_or_else(Answer::Failed)
}

/// Makes a server that joins a fleet. Only here its token is read, for the request alone.
async fn joining(hands: &Hands, new: &NewServer, boot: &Boot) -> Answered<Answer> {
    let wrong = |what: String| CloudError::own(Service::Compute, "POST /servers", Meaning::Invalid, what);
    let token = hands.around.join_token(&boot.order.token_file).await.map_err(wrong)?;
    let data = user_data(boot, &token).map_err(|error| wrong(error.to_string()))?;
    let whole = NewServer { user_data: Some(data), ..new.clone() };
    Ok(Answer::ServerMade(hands.cloud.compute.create_server(&whole).await?))
}

async fn ask(hands: &Hands, order: &DeploymentOrder, call: &Call) -> Answered<Answer> {
    let Hands { cloud, around, .. } = hands;
    let Cloud { compute, network, reservations, .. } = cloud;
    Ok(match call {
        Call::Keypair(name) => Answer::Keypair(compute.keypair(name).await?),
        Call::ImportKeypair(name, key) => Answer::Keypair(compute.import_keypair(name, key).await?),
        Call::Groups => Answer::Groups(network.security_groups().await?),
        Call::CreateGroup(name, words) => Answer::Groups(vec![network.create_security_group(name, words).await?]),
        Call::AllowSsh(group, from) => {
            network.allow_ssh(group, from).await?;
            Answer::Done
        }
        Call::Recheck { image, flavor } => Answer::Rechecked(facts(cloud, image, flavor).await?),
        Call::Leases => Answer::Leases(reservations.leases().await?),
        Call::Lease(id) => Answer::Lease(reservations.lease(id).await?),
        Call::CreateLease(new) => Answer::Lease(reservations.create_lease(new).await?),
        Call::ExtendLease(id, end) => Answer::Lease(reservations.extend_lease(id, *end).await?),
        Call::Servers => Answer::Servers(compute.servers(Some(order.id.as_str())).await?),
        Call::Server(id) => Answer::Server(compute.server(id).await?),
        Call::CreateServer(new, None) => Answer::ServerMade(compute.create_server(new).await?),
        Call::CreateServer(new, Some(boot)) => joining(hands, new, boot).await?,
        Call::StartServer(id) => {
            compute.start_server(id).await?;
            Answer::Done
        }
        Call::Console(id) => Answer::Console(compute.console(id, 100).await?),
        Call::Ports(device) => Answer::Ports(network.ports(device).await?),
        Call::Addresses => Answer::Addresses(network.floating_ips().await?),
        Call::Address(id) => Answer::Address(network.floating_ip(id).await?),
        Call::CreateAddress(new) => Answer::Address(network.create_floating_ip(new).await?),
        Call::Bind(id, port) => Answer::Address(network.bind_floating_ip(id, port).await?),
        Call::Delete(kind, id) => {
            delete(cloud, *kind, id).await?;
            Answer::Done
        }
        Call::Allocations => {
            let (here, elsewhere) = tokio::join!(reservations.allocations(), around.elsewhere());
            let here = match here {
                Ok(allocations) => Here::Known(allocations),
                Err(error) if error.is_hidden() || error.is_absent() => Here::Hidden,
                Err(error) => Here::Failed(error),
            };
            Answer::Capacity(AvailableCapacity { here, elsewhere })
        }
        Call::Probe { address, login } => Answer::Probed(around.probe(address, login.as_ref()).await),
        Call::Joined => Answer::Joined(around.joined(&order.id).await),
        Call::Inventory { kinds, devices, key } => {
            Answer::Inventory(Box::new(inventory(cloud, order, kinds, devices, key.as_deref()).await))
        }
    })
}

async fn delete(cloud: &Cloud, kind: Kind, id: &str) -> Answered<()> {
    match kind {
        Kind::Address => cloud.network.delete_floating_ip(id).await,
        Kind::Server => cloud.compute.delete_server(id).await,
        Kind::Port => cloud.network.delete_port(id).await,
        Kind::Group => cloud.network.delete_security_group(id).await,
        Kind::Lease => cloud.reservations.delete_lease(id).await,
        Kind::Key => cloud.compute.delete_keypair(id).await,
    }
}

async fn facts(cloud: &Cloud, image: &str, flavor: &str) -> Answered<Facts> {
    let (networks, limits, image, flavors) = tokio::join!(
        cloud.network.networks(),
        cloud.compute.limits(),
        async {
            match cloud.images.image(image).await {
                Ok(image) => Ok(image.get("status").and_then(Value::as_str) == Some("active")),
                Err(error) if error.is_gone() => Ok(false),
                Err(error) => Err(error),
            }
        },
        cloud.compute.flavors(),
    );
    let has_id = |one: &Value| one.get("id").and_then(Value::as_str) == Some(flavor);
    Ok(Facts { networks: networks?, limits: limits?, image: image?, flavor: flavors?.iter().any(has_id) })
}

/// Everything that may be a deployment's, of some kinds.
async fn inventory(
    cloud: &Cloud,
    order: &DeploymentOrder,
    kinds: &BTreeSet<Kind>,
    devices: &BTreeSet<String>,
    key: Option<&str>,
) -> Inventory {
    let mut all = Inventory::default();
    if kinds.contains(&Kind::Address) {
        keep(cloud.network.floating_ips().await, &mut all.addresses, &mut all.failed);
    }
    if kinds.contains(&Kind::Server) || kinds.contains(&Kind::Port) {
        keep(cloud.compute.servers(Some(order.id.as_str())).await, &mut all.servers, &mut all.failed);
    }
    if kinds.contains(&Kind::Port) {
        for device in devices {
            let mut ports = Vec::new();
            keep(cloud.network.ports(device).await, &mut ports, &mut all.failed);
            all.ports.extend(ports);
        }
    }
    // Only deployments that made a group pay for the question.
    if kinds.contains(&Kind::Group) && (order.ssh_from.is_some() || order.choices.is_empty()) {
        keep(cloud.network.security_groups().await, &mut all.groups, &mut all.failed);
    }
    if kinds.contains(&Kind::Lease) {
        match cloud.reservations.leases().await {
            // Who made no lease has none to find where there is no service of leases.
            Err(error) if error.is_absent() && !order.reserves() => {}
            other => keep(other, &mut all.leases, &mut all.failed),
        }
    }
    if let Some(name) = key {
        match cloud.compute.keypair(name).await {
            Ok(pair) => all.key = Some(pair),
            Err(error) if error.is_gone() => {}
            Err(error) => all.failed.push(error),
        }
    }
    all
}

fn keep<T>(answer: Answered<Vec<T>>, place: &mut Vec<T>, failed: &mut Vec<crate::openstack::port::CloudError>) {
    match answer {
        Ok(found) => *place = found,
        Err(error) => failed.push(error),
    }
}
