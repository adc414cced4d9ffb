//! From a plan and what a site has to what is carried out. Pure. Owns the checks of key,
//! network, flavor, image and quota that come before anything is made, and their words.

use orlop_core::time::Time;

use super::drive::Orphan;
use super::join::JoinOrder;
use super::mark::DeploymentId;
use super::order::{Choice, DeploymentOrder, KeyOrder, Pace, Verify};
use super::plan::PlannedOffering;
use super::saga::Failure;
use super::site::Seen;
use crate::catalog::Catalogue;
use crate::exit::Exit;
use crate::openstack::port::{Keypair, Lease, Network};

/// What the user asks for beside the hardware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentOptions {
    /// The server's name.
    pub server_name: String,
    /// A name for the first lease.
    pub lease_name: Option<String>,
    /// The key.
    pub key: KeyOrder,
    /// The network by name or id.
    pub network: String,
    /// The network outside by name or id, if an address is wanted.
    pub external: Option<String>,
    /// The flavor by name or id.
    pub flavor: String,
    /// Security groups by name.
    pub groups: Vec<String>,
    /// From where SSH is let in by a group of the deployment's own.
    pub ssh_from: Option<String>,
    /// How many offerings are tried.
    pub max_attempts: u32,
    /// What is checked at the end.
    pub verify: Verify,
    /// How long things may take.
    pub pace: Pace,
    /// Whether a failure leaves everything as it is.
    pub keep_on_failure: bool,
    /// What the server runs first, in base64.
    pub user_data: Option<String>,
    /// Which fleet it joins, if it does.
    pub join: Option<JoinOrder>,
    /// The budget in service units.
    pub max_su: Option<u64>,
    /// The cap of the whole lease in hours.
    pub max_hours: Option<u32>,
}

/// What is carried out.
///
/// # Errors
/// Network, flavor or image are missing or ambiguous, or the quota is used up; nothing was made.
pub fn prepare(
    id: DeploymentId,
    project_id: &str,
    (offerings, hours): (&[PlannedOffering], u32),
    seen: &Seen,
    catalogue: &Catalogue,
    options: DeploymentOptions,
) -> Result<DeploymentOrder, Failure> {
    check_leases(offerings, seen)?;
    let network = network(seen, &options.network, project_id, |one| one.usable && !one.external)?;
    let external = match &options.external {
        Some(name) => Some(self::network(seen, name, project_id, |one| one.external)?.0),
        None => None,
    };
    let has_hosts = offerings.iter().any(|offering| offering.flavor.is_none());
    let flavor = if has_hosts { flavor(seen, &options.flavor)? } else { String::new() };
    if !seen.limits.has_room() {
        let (used, most) = seen.limits.instances;
        let words = format!("the project has {used} of {} servers", most.unwrap_or(0));
        return Err(Failure::new(Exit::Quota, "quota", words, "delete a server, or ask for a larger quota"));
    }
    let mut choices = Vec::new();
    for offering in offerings {
        let hosts = hosts_of(offering, catalogue);
        let Some(choice) = Choice::of(offering, hours, &flavor, hosts) else {
            return Err(no_image(&offering.image.name, &seen.site));
        };
        let known = |id: &str| seen.images.iter().any(|image| image.id == id);
        if !choice.images.first().is_some_and(|image| known(&image.id)) {
            return Err(no_image(&offering.image.name, &seen.site));
        }
        choices.push(choice);
    }
    check_machines(&choices, seen, &options)?;
    Ok(DeploymentOrder {
        id,
        server_name: options.server_name,
        lease_name: options.lease_name,
        project_id: project_id.to_owned(),
        key: options.key,
        network,
        external,
        ssh_from: options.ssh_from,
        groups: options.groups,
        choices,
        max_attempts: options.max_attempts,
        tried: 0,
        elsewhere: None,
        verify: options.verify,
        pace: options.pace,
        keep_on_failure: options.keep_on_failure,
        user_data: options.user_data,
        join: options.join,
        max_su: options.max_su,
        max_hours: options.max_hours,
    })
}

/// Whether what is offered is available at a site, where perhaps nothing is reserved.
///
/// # Errors
/// It needs a lease, and there is nobody to lease from.
pub fn check_leases(offerings: &[PlannedOffering], seen: &Seen) -> Result<(), Failure> {
    let is_leased = |offering: &PlannedOffering| offering.flavor.as_ref().is_none_or(|flavor| flavor.reserved);
    if seen.reserves || !offerings.iter().any(is_leased) {
        return Ok(());
    }
    let message = format!("there is no reservation service at {}: nothing can be leased there", seen.site);
    Err(Failure::new(
        Exit::Usage,
        "no_reservations",
        message,
        "give --kind vm --reservation none, or choose another --site",
    ))
}

/// What is for virtual machines only, or is not available for them.
fn check_machines(choices: &[Choice], seen: &Seen, options: &DeploymentOptions) -> Result<(), Failure> {
    let has_groups = !options.groups.is_empty() || options.ssh_from.is_some();
    if has_groups && !choices.iter().any(Choice::is_vm) {
        let message = "--security-group and --allow-ssh-from are for virtual machines, and this is a host";
        return Err(Failure::new(Exit::Usage, "group_of_host", message, "leave them out, or give --kind vm"));
    }
    if options.max_hours.is_some() && choices.iter().any(|choice| choice.reserve.is_none()) {
        let message = "--max-lifetime cannot be held with --reservation none: without a lease nothing ends the server";
        return Err(Failure::new(Exit::Usage, "unenforceable", message, "leave one of them out"));
    }
    let first = choices.first().filter(|choice| choice.is_vm()).and_then(|choice| choice.expects);
    match first {
        Some(expects) if !seen.limits.has_room_for(expects.threads, expects.ram_gib) => {
            let (used, most) = seen.limits.cores;
            let words = format!("the project has {used} of {} threads, or too little memory", most.unwrap_or(0));
            Err(Failure::new(
                Exit::Quota,
                "quota",
                words,
                "delete a server, choose a smaller flavor, or ask for a larger quota",
            ))
        }
        _ => Ok(()),
    }
}

/// Ids of the hosts that an offering would take any of.
#[must_use]
pub fn hosts_of(offering: &PlannedOffering, catalogue: &Catalogue) -> Vec<String> {
    let same = |variant: &&crate::catalog::Variant| {
        variant.node_type == offering.node_type && variant.shape == offering.hardware
    };
    let Some(variant) = catalogue.at(&offering.site).find(same) else { return Vec::new() };
    let named = variant.askable().into_iter().find(|one| one.filters().1 == offering.resource_properties);
    named.map_or_else(|| variant.ids.clone(), |one| one.ids)
}

fn no_image(name: &str, site: &str) -> Failure {
    let message = format!("image {name} not found at {site}");
    Failure::new(Exit::Usage, "image_missing", message, "choose another with --image or --os")
}

fn network(
    seen: &Seen,
    wanted: &str,
    project_id: &str,
    will_do: impl Fn(&Network) -> bool,
) -> Result<(String, String), Failure> {
    let mine = |one: &&Network| will_do(one) && (one.shared || one.external || one.project_id == project_id);
    let all: Vec<&Network> = seen.networks.iter().filter(mine).collect();
    if let Some(one) = all.iter().find(|one| one.id == wanted) {
        return Ok((one.id.clone(), one.name.clone()));
    }
    let named: Vec<&&Network> = all.iter().filter(|one| one.name == wanted).collect();
    match named.as_slice() {
        [one] => Ok((one.id.clone(), one.name.clone())),
        [] => {
            let mut names: Vec<&str> = all.iter().map(|one| one.name.as_str()).take(20).collect();
            names.sort_unstable();
            let message = format!("network {wanted} not found at {}; there are: {}", seen.site, names.join(", "));
            Err(Failure::new(
                Exit::Usage,
                "network_missing",
                message,
                "choose one with --network or --external-network",
            ))
        }
        several => {
            let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
            let message = format!("there are several networks {wanted} at {}: {}", seen.site, ids.join(", "));
            Err(Failure::new(
                Exit::Usage,
                "network_ambiguous",
                message,
                "give the id with --network or --external-network",
            ))
        }
    }
}

fn flavor(seen: &Seen, wanted: &str) -> Result<String, Failure> {
    let found = seen.flavors.iter().find(|one| one.id == wanted).or_else(|| {
        let mut named = seen.flavors.iter().filter(|one| one.name == wanted);
        named.next()
    });
    match found {
        Some(flavor) => Ok(flavor.id.clone()),
        None => {
            let mut names: Vec<&str> = seen.flavors.iter().map(|one| one.name.as_str()).take(20).collect();
            names.sort_unstable();
            let message = format!("flavor {wanted} not found at {}; there are: {}", seen.site, names.join(", "));
            Err(Failure::new(Exit::Usage, "flavor_missing", message, "choose another with --flavor"))
        }
    }
}

/// Whether a key will do, from what the cloud has under its name; gives what people should know.
///
/// # Errors
/// There is none and none can be imported, or it is another one than the file that was named.
pub fn check_key(key: &KeyOrder, found: Option<&Keypair>) -> Result<Option<String>, Failure> {
    let is_ours = |pair: &Keypair| key.public_key.as_ref().is_some_and(|public_key| pair.is(public_key));
    let name = &key.name;
    match found {
        None if key.public_key.is_none() => {
            let message = format!("there is no key {name} in the cloud and no public key file");
            Err(Failure::new(Exit::Usage, "key_missing", message, "give --key-path, or make a key with --create-key"))
        }
        Some(pair) if key.must_match && !is_ours(pair) => {
            let message = format!("key {name} in the cloud is not the one in the file");
            Err(Failure::new(
                Exit::Conflict,
                "key_conflict",
                message,
                "choose another --key-name; it is never overwritten",
            ))
        }
        Some(pair) if key.public_key.is_some() && !is_ours(pair) => {
            Ok(Some(format!("key {name} in the cloud is not the key of this machine; the one in the cloud is used")))
        }
        _ => Ok(None),
    }
}

/// Refuses a lease's name that a lease which did not end bears.
///
/// # Errors
/// There is one.
pub fn check_lease_name(name: &str, leases: &[Lease]) -> Result<(), Failure> {
    use orlop_core::machine::lease::LeaseState as S;
    let lives = |lease: &&Lease| !matches!(lease.status, Some(S::Terminated | S::Gone));
    match leases.iter().filter(lives).find(|lease| lease.name == name) {
        Some(lease) => {
            let message = format!("lease {name} already exists ({})", lease.id);
            Err(Failure::new(Exit::Conflict, "lease_name", message, "choose another --lease-name"))
        }
        None => Ok(()),
    }
}

/// Refuses to begin a deployment where objects of another one bear the name of its server: its state was lost, or it is another
/// machine's.
///
/// # Errors
/// There are such objects.
pub fn check_foreign(server_name: &str, own: Option<&DeploymentId>, marked: &[Orphan]) -> Result<(), Failure> {
    let bears = |one: &&Orphan| {
        let lease = format!("{server_name}-{}-a", one.deployment);
        Some(&one.deployment) != own && (one.name == server_name || one.name.starts_with(&lease))
    };
    match marked.iter().find(bears) {
        Some(one) => {
            let message =
                format!("{} {} of another deployment {} has this name", one.kind.as_str(), one.id, one.deployment);
            let hint = format!(
                "remove it: orlop provisioner destroy --id {}; or start another one with --new",
                one.deployment
            );
            Err(Failure::new(Exit::Conflict, "name_taken", message, hint))
        }
        None => Ok(()),
    }
}

/// The end of a lease in so many hours after another, cut to whole minutes as services take it.
#[must_use]
pub fn later(end: Time, hours: u32) -> Time {
    let end = end.plus(std::time::Duration::from_secs(u64::from(hours) * 3600));
    Time::from_millis(end.millis().div_euclid(60_000) * 60_000)
}
