//! Objects in a project that bear a mark, with or without a journal. Owns finding them;
//! removes nothing.

use crate::openstack::port::{Answered, Cloud};
use crate::provision::journal::Kind;
use crate::provision::mark::{DeploymentId, deployment_of, deployment_of_key};

/// An object that bears a mark.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Orphan {
    /// Whose mark it is.
    pub deployment: DeploymentId,
    /// What it is.
    pub kind: Kind,
    /// Its id.
    pub id: String,
    /// Its name, or its address.
    pub name: String,
}

/// All objects of a project that bear a mark, by deployment and kind, and keypairs, which belong to the user. Reserved addresses are
/// nobody's.
///
/// # Errors
/// A list is not available: half of them would look like all.
pub async fn orphans(cloud: &Cloud, project_id: &str) -> Answered<Vec<Orphan>> {
    let (leases, servers, addresses, groups, keys) = tokio::join!(
        cloud.reservations.leases(),
        cloud.compute.servers(None),
        cloud.network.floating_ips(),
        cloud.network.security_groups(),
        cloud.compute.keypairs(),
    );
    let mut found = Vec::new();
    let mut add = |mark: Option<DeploymentId>, kind: Kind, id: &str, name: &str| {
        if let Some(deployment) = mark {
            found.push(Orphan { deployment, kind, id: id.to_owned(), name: name.to_owned() });
        }
    };
    // Where there is no service of leases, nobody has one.
    let leases = leases.or_else(|error| if error.is_absent() { Ok(Vec::new()) } else { Err(error) })?;
    for lease in leases.iter().filter(|lease| lease.project_id == project_id) {
        let front = lease.name.rsplit_once("-a").filter(|(_, mark)| mark.parse::<u32>().is_ok());
        let mark = front.and_then(|(front, _)| front.rsplit('-').next()).and_then(|id| id.parse().ok());
        add(mark, Kind::Lease, &lease.id, &lease.name);
    }
    for server in servers? {
        let label = server.metadata.get("orlop_deployment").and_then(|id| id.parse().ok());
        let tag =
            || server.tags.iter().find_map(|tag| deployment_of(tag.strip_prefix("orlop-").map(|_| tag.as_str())?));
        add(label.or_else(tag), Kind::Server, &server.id, &server.name);
    }
    for address in addresses?.iter().filter(|one| !one.tags.iter().any(|tag| tag.starts_with("reservation:"))) {
        let mark =
            Some(address.description.as_str()).filter(|words| words.starts_with("orlop:")).and_then(deployment_of);
        add(mark, Kind::Address, &address.id, &address.address);
    }
    for group in groups? {
        let mark = Some(group.description.as_str()).filter(|words| words.starts_with("orlop:")).and_then(deployment_of);
        add(mark, Kind::Group, &group.id, &group.name);
    }
    for key in keys? {
        add(deployment_of_key(&key.name), Kind::Key, &key.name, &key.name);
    }
    found.sort();
    Ok(found)
}
