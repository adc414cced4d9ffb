//! What the ports to a cloud have to hold, for the double and for real services alike. Owns the checks; each cleans up what it
//! made.

use std::time::Duration;

use orlop_core::error::Class;
use orlop_core::machine::lease::LeaseState;
use orlop_core::machine::server::ServerStatus;
use orlop_core::testing::{Broken, SuiteFailure};
use orlop_core::time::Time;

use crate::catalog::image::Image;
use crate::catalog::read_hosts;
use crate::openstack::classify::Meaning;
use crate::openstack::port::{Cloud, CloudError, Lease, NewFloatingIp, NewLease, NewServer, Reserve, Server, Timer};
use crate::provision::mark::Marks;

/// A cloud under test, and what it has.
pub struct Subject<'a> {
    /// Its services.
    pub cloud: &'a Cloud,
    /// The time.
    pub clock: &'a dyn Timer,
    /// A type of host of which one is free.
    pub node_type: &'a str,
    /// The name of an image.
    pub image: &'a str,
    /// The id of a flavor for it.
    pub flavor: &'a str,
    /// Names of the network and of the one outside.
    pub networks: (&'a str, &'a str),
    /// Keeps names of this run apart from those of another.
    pub nonce: &'a str,
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Subject")
    }
}

type CheckResult = Result<(), Broken>;

/// A public key whose private half nobody has.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqzLuUFJzOmYPLp2UjD8NJqhNPJ3k4Q8XSvBv0wSgx7 suite";
/// Nobody's id.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

fn wrong(error: &CloudError) -> Broken {
    Broken::new(format!("the call failed ({:?}): {error}", error.meaning))
}

fn holds(what: &str, condition: bool) -> CheckResult {
    if condition { Ok(()) } else { Err(Broken::new(format!("it does not hold that {what}"))) }
}

fn fails<T>(what: &str, answer: Result<T, CloudError>, meanings: &[Meaning]) -> CheckResult {
    match answer {
        Ok(_) => Err(Broken::new(format!("{what} went well"))),
        Err(error) if meanings.contains(&error.meaning) => holds("the error has words", !error.message.is_empty()),
        Err(error) => Err(Broken::new(format!("{what} means {:?}, not {meanings:?}: {error}", error.meaning))),
    }
}

/// Runs every check, and gives the names of those that hold.
///
/// # Errors
/// Some do not: all of them, with why.
pub async fn cloud_suite(subject: &Subject<'_>) -> Result<Vec<&'static str>, SuiteFailure> {
    let (mut passed, mut broken) = (Vec::new(), Vec::new());
    macro_rules! check {
        ($($name:ident),* $(,)?) => {
            $(match Box::pin($name(subject)).await {
                Ok(()) => passed.push(stringify!($name)),
                Err(why) => broken.push((stringify!($name), why)),
            })*
        };
    }
    check!(
        signs_in_to_a_project_and_knows_all_services,
        lists_images_over_all_pages_and_reads_one,
        knows_flavors_and_limits,
        lists_hosts_and_allocations,
        networks_have_names_and_say_which_leads_outside,
        a_keypair_is_made_once_and_deleted_once,
        what_is_not_there_is_gone,
        an_address_is_made_marked_listed_and_deleted,
        a_group_is_made_and_let_in_twice,
        a_lease_with_bad_dates_or_filters_is_refused,
        a_lease_for_what_nobody_has_lacks_capacity,
        a_server_with_a_bad_image_network_or_key_is_refused,
        a_server_without_a_reservation_ends_in_error_with_its_fault,
        a_lease_starts_carries_a_server_is_extended_and_takes_it_along,
    );
    if broken.is_empty() { Ok(passed) } else { Err(SuiteFailure { port: "cloud", passed: passed.len(), broken }) }
}

async fn signs_in_to_a_project_and_knows_all_services(subject: &Subject<'_>) -> CheckResult {
    let identity = &subject.cloud.identity;
    let account = identity.authenticate().await.map_err(|error| wrong(&error))?;
    holds("there is a project and a user", !account.project_id.is_empty() && !account.user_id.is_empty())?;
    holds("the token ends in the future", account.expires.is_some_and(|end| end > subject.clock.now()))?;
    for kind in ["image", "compute", "network", "reservation"] {
        let address = identity.endpoint(kind).await.map_err(|error| wrong(&error))?;
        holds("an address is one", address.starts_with("http"))?;
    }
    fails("asking for a service that is none", identity.endpoint("tea").await, &[Meaning::Invalid])?;
    identity.renew(Duration::from_secs(3600 * 24 * 365)).await.map_err(|error| wrong(&error))?;
    // Some services send no date at all.
    let ahead = identity.clock_ahead().unwrap_or(0);
    holds("the clocks of this machine and of the services tell about the same", ahead.abs() < 86_400)
}

async fn lists_images_over_all_pages_and_reads_one(subject: &Subject<'_>) -> CheckResult {
    let found = subject.cloud.images.images().await.map_err(|error| wrong(&error))?;
    let images: Vec<Image> = found.iter().filter_map(Image::read).collect();
    holds("there are more than a page of images", images.len() > 2)?;
    let mut ids: Vec<&str> = images.iter().map(|image| image.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    holds("no image is listed twice", ids.len() == images.len())?;
    let one = images.iter().find(|image| image.name == subject.image);
    let one = one.ok_or_else(|| Broken::new("the image is not listed"))?;
    let again = subject.cloud.images.image(&one.id).await.map_err(|error| wrong(&error))?;
    holds("an image is what its list says", Image::read(&again).is_some_and(|again| again.name == one.name))?;
    fails("reading an image that is not there", subject.cloud.images.image(NOBODY).await, &[Meaning::Gone])
}

async fn knows_flavors_and_limits(subject: &Subject<'_>) -> CheckResult {
    let flavors = subject.cloud.compute.flavors().await.map_err(|error| wrong(&error))?;
    let has = |flavor: &serde_json::Value| flavor.get("id").and_then(serde_json::Value::as_str) == Some(subject.flavor);
    holds("the flavor is listed", flavors.iter().any(has))?;
    let limits = subject.cloud.compute.limits().await.map_err(|error| wrong(&error))?;
    holds("another server can be had", limits.has_room())
}

async fn lists_hosts_and_allocations(subject: &Subject<'_>) -> CheckResult {
    let document = subject.cloud.reservations.hosts().await.map_err(|error| wrong(&error))?;
    let hosts = read_hosts(&document.to_string()).map_err(|error| Broken::new(error.to_string()))?;
    holds(
        "a host of the type is listed",
        hosts.iter().any(|host| host.node_type.as_deref() == Some(subject.node_type)),
    )?;
    subject.cloud.reservations.allocations().await.map(|_| ()).map_err(|error| wrong(&error))
}

async fn networks(subject: &Subject<'_>) -> Result<(String, String), Broken> {
    let all = subject.cloud.network.networks().await.map_err(|error| wrong(&error))?;
    let id = |name: &str| all.iter().find(|network| network.name == name && network.usable).map(|one| one.id.clone());
    id(subject.networks.0).zip(id(subject.networks.1)).ok_or_else(|| Broken::new("a network is missing"))
}

async fn networks_have_names_and_say_which_leads_outside(subject: &Subject<'_>) -> CheckResult {
    networks(subject).await?;
    let all = subject.cloud.network.networks().await.map_err(|error| wrong(&error))?;
    holds("one leads outside", all.iter().any(|one| one.external && one.name == subject.networks.1))?;
    holds("the other does not", all.iter().any(|one| !one.external && one.name == subject.networks.0))
}

async fn a_keypair_is_made_once_and_deleted_once(subject: &Subject<'_>) -> CheckResult {
    let (compute, name) = (&subject.cloud.compute, format!("suite-{}", subject.nonce));
    fails("looking at a key that is not there", compute.keypair(&name).await, &[Meaning::Gone])?;
    fails("importing rubbish", compute.import_keypair(&name, "rubbish").await, &[Meaning::Invalid])?;
    let made = compute.import_keypair(&name, KEY).await.map_err(|error| wrong(&error))?;
    holds("it is the key", made.is(KEY) && !made.is("ssh-ed25519 AAAA other"))?;
    fails("importing it again", compute.import_keypair(&name, KEY).await, &[Meaning::Exists])?;
    let seen = compute.keypair(&name).await.map_err(|error| wrong(&error))?;
    holds("it is seen as it was made", seen == made)?;
    let all = compute.keypairs().await.map_err(|error| wrong(&error))?;
    holds("it is listed", all.iter().any(|one| one.name == name && one.is(KEY)))?;
    compute.delete_keypair(&name).await.map_err(|error| wrong(&error))?;
    let all = compute.keypairs().await.map_err(|error| wrong(&error))?;
    holds("it is listed no more", !all.iter().any(|one| one.name == name))?;
    fails("deleting it again", compute.delete_keypair(&name).await, &[Meaning::Gone])
}

async fn what_is_not_there_is_gone(subject: &Subject<'_>) -> CheckResult {
    let Cloud { compute, network, reservations, .. } = subject.cloud;
    fails("a lease", reservations.lease(NOBODY).await, &[Meaning::Gone])?;
    fails("deleting a lease", reservations.delete_lease(NOBODY).await, &[Meaning::Gone])?;
    fails("a server", compute.server(NOBODY).await, &[Meaning::Gone])?;
    fails("deleting a server", compute.delete_server(NOBODY).await, &[Meaning::Gone])?;
    fails("an address", network.floating_ip(NOBODY).await, &[Meaning::Gone])?;
    fails("deleting an address", network.delete_floating_ip(NOBODY).await, &[Meaning::Gone])?;
    fails("deleting a port", network.delete_port(NOBODY).await, &[Meaning::Gone])?;
    let gone = network.delete_security_group(NOBODY).await;
    holds(
        "its class is that of what is not there",
        gone.as_ref().is_err_and(|error| error.class() == Class::NotFound),
    )?;
    let ports = network.ports(NOBODY).await.map_err(|error| wrong(&error))?;
    holds("nobody has no ports", ports.is_empty())
}

async fn an_address_is_made_marked_listed_and_deleted(subject: &Subject<'_>) -> CheckResult {
    let network = &subject.cloud.network;
    let (inside, outside) = networks(subject).await?;
    let id = crate::provision::mark::base32(&["suite", subject.nonce], 10);
    let marks = Marks::of(&id);
    let new = NewFloatingIp { network: outside, port: None, description: marks.address(1) };
    let made = network.create_floating_ip(&new).await.map_err(|error| wrong(&error))?;
    let listed = network.floating_ips().await.map_err(|error| wrong(&error))?;
    holds(
        "it is listed by its mark",
        listed.iter().any(|one| one.id == made.id && marks.address_attempt(one) == Some(1)),
    )?;
    holds("it is bound to nothing", made.port.is_none() && !made.address.is_empty())?;
    let bound = network.bind_floating_ip(&made.id, NOBODY).await;
    holds("a port that is not there takes none", bound.is_err_and(|error| !error.is_passing()))?;
    network.delete_floating_ip(&made.id).await.map_err(|error| wrong(&error))?;
    fails("deleting it again", network.delete_floating_ip(&made.id).await, &[Meaning::Gone])?;
    let new = NewFloatingIp { network: inside, port: None, description: marks.address(1) };
    fails("an address of a network inside", network.create_floating_ip(&new).await, &[Meaning::Invalid])
}

async fn a_group_is_made_and_let_in_twice(subject: &Subject<'_>) -> CheckResult {
    let network = &subject.cloud.network;
    let name = format!("suite-{}", subject.nonce);
    let made = network.create_security_group(&name, &name).await.map_err(|error| wrong(&error))?;
    for _ in 0..2 {
        network.allow_ssh(&made.id, "192.0.2.0/24").await.map_err(|error| wrong(&error))?;
    }
    let listed = network.security_groups().await.map_err(|error| wrong(&error))?;
    holds("it is listed with its words", listed.iter().any(|one| one.id == made.id && one.description == name))?;
    network.delete_security_group(&made.id).await.map_err(|error| wrong(&error))
}

fn lease(subject: &Subject<'_>, name: &str, node_type: &str, start: Option<Time>, hours: u64) -> NewLease {
    let end = start.unwrap_or(subject.clock.now()).plus(Duration::from_secs(hours * 3600));
    let resource_properties = serde_json::json!(["=", "$node_type", node_type]).to_string();
    let reserve = Reserve::Host { hypervisor_properties: String::new(), resource_properties };
    NewLease { name: format!("suite-{name}-{}", subject.nonce), start, end, reserve }
}

async fn a_lease_with_bad_dates_or_filters_is_refused(subject: &Subject<'_>) -> CheckResult {
    let reservations = &subject.cloud.reservations;
    let past = Some(Time::from_millis(1_577_836_800_000));
    let create = async |new: NewLease| reservations.create_lease(&new).await;
    fails(
        "a start in the past",
        create(lease(subject, "past", subject.node_type, past, 100_000)).await,
        &[Meaning::Clock],
    )?;
    fails("a long lease", create(lease(subject, "long", subject.node_type, None, 200)).await, &[Meaning::Policy])?;
    let mut new = lease(subject, "end", subject.node_type, None, 1);
    new.end = Time::from_millis(1_577_836_800_000);
    fails("an end before the start", create(new).await, &[Meaning::Invalid, Meaning::Policy])
}

async fn a_lease_for_what_nobody_has_lacks_capacity(subject: &Subject<'_>) -> CheckResult {
    let new = lease(subject, "none", "no_such_type", None, 1);
    fails("a type that nobody has", subject.cloud.reservations.create_lease(&new).await, &[Meaning::Capacity])?;
    let leases = subject.cloud.reservations.leases().await.map_err(|error| wrong(&error))?;
    holds("nothing was made", leases.iter().all(|lease| lease.name != new.name))
}

async fn new_server(subject: &Subject<'_>, reservation: Option<String>) -> Result<NewServer, Broken> {
    let found = subject.cloud.images.images().await.map_err(|error| wrong(&error))?;
    let image = found.iter().filter_map(Image::read).find(|image| image.name == subject.image);
    let image = image.ok_or_else(|| Broken::new("the image is not listed"))?;
    let key = format!("suite-{}-s", subject.nonce);
    match subject.cloud.compute.import_keypair(&key, KEY).await {
        Err(error) if error.meaning != Meaning::Exists => return Err(wrong(&error)),
        _ => {}
    }
    Ok(NewServer {
        name: format!("suite-{}", subject.nonce),
        image: image.id,
        flavor: subject.flavor.to_owned(),
        key,
        network: networks(subject).await?.0,
        reservation,
        groups: Vec::new(),
        deployment: crate::provision::mark::base32(&["suite", subject.nonce], 10),
        attempt: 7,
        user_data: None,
    })
}

async fn a_server_with_a_bad_image_network_or_key_is_refused(subject: &Subject<'_>) -> CheckResult {
    let compute = &subject.cloud.compute;
    let good = new_server(subject, None).await?;
    let image = NewServer { image: NOBODY.to_owned(), ..good.clone() };
    fails("an image that is not there", compute.create_server(&image).await, &[Meaning::Image])?;
    let key = NewServer { key: "nobody".to_owned(), ..good.clone() };
    fails("a key that is not there", compute.create_server(&key).await, &[Meaning::Key])?;
    for new in [
        NewServer { network: NOBODY.to_owned(), ..good.clone() },
        NewServer { flavor: "nobody".to_owned(), ..good.clone() },
    ] {
        fails("something that is not there", compute.create_server(&new).await, &[Meaning::Invalid])?;
    }
    Ok(())
}

/// Looks at a server until it is what is waited for.
async fn server_until(subject: &Subject<'_>, id: &str, wanted: &[ServerStatus]) -> Result<Server, Broken> {
    for _ in 0..300 {
        match subject.cloud.compute.server(id).await {
            Ok(server) if wanted.contains(&server.status) && server.task.is_none() => return Ok(server),
            Ok(_) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(wrong(&error)),
        }
        subject.clock.sleep_until(subject.clock.now().plus(Duration::from_secs(2))).await;
    }
    Err(Broken::new(format!("server {id} never became {wanted:?}")))
}

async fn gone(subject: &Subject<'_>, id: &str) -> CheckResult {
    for _ in 0..120 {
        if subject.cloud.compute.server(id).await.is_err_and(|error| error.is_gone()) {
            return Ok(());
        }
        subject.clock.sleep_until(subject.clock.now().plus(Duration::from_secs(2))).await;
    }
    Err(Broken::new(format!("server {id} does not go")))
}

async fn a_server_without_a_reservation_ends_in_error_with_its_fault(subject: &Subject<'_>) -> CheckResult {
    let new = new_server(subject, Some(NOBODY.to_owned())).await?;
    let id = subject.cloud.compute.create_server(&new).await.map_err(|error| wrong(&error))?;
    let seen = server_until(subject, &id, &[ServerStatus::Error]).await?;
    holds("its fault says why", seen.fault.as_deref().is_some_and(|fault| fault.contains("No valid host")))?;
    subject.cloud.compute.delete_server(&id).await.map_err(|error| wrong(&error))?;
    gone(subject, &id).await
}

async fn lease_until(subject: &Subject<'_>, id: &str, is: impl Fn(&Lease) -> bool) -> Result<Lease, Broken> {
    for _ in 0..200 {
        let lease = subject.cloud.reservations.lease(id).await.map_err(|error| wrong(&error))?;
        if is(&lease) {
            return Ok(lease);
        }
        subject.clock.sleep_until(subject.clock.now().plus(Duration::from_secs(1))).await;
    }
    Err(Broken::new(format!("lease {id} never became what it should")))
}

async fn a_lease_starts_carries_a_server_is_extended_and_takes_it_along(subject: &Subject<'_>) -> CheckResult {
    let Cloud { compute, network, reservations, .. } = subject.cloud;
    let new = lease(subject, "whole", subject.node_type, None, 2);
    let made = reservations.create_lease(&new).await.map_err(|error| wrong(&error))?;
    let listed = reservations.leases().await.map_err(|error| wrong(&error))?;
    holds("it is listed by its name", listed.iter().any(|one| one.id == made.id && one.name == new.name))?;
    let active = |lease: &Lease| lease.status == Some(LeaseState::Active);
    let running = lease_until(subject, &made.id, active).await?;
    let reservation = running.reservations.first().map(|one| one.id.clone());
    let server = new_server(subject, reservation).await?;
    let id = compute.create_server(&server).await.map_err(|error| wrong(&error))?;
    let seen = server_until(subject, &id, &[ServerStatus::Active, ServerStatus::Error]).await?;
    holds("it runs", seen.status == ServerStatus::Active)?;
    let marks = Marks::of(&server.deployment);
    let listed = compute.servers(Some(&server.deployment)).await.map_err(|error| wrong(&error))?;
    holds("it is listed by its mark", listed.iter().any(|one| one.id == id && marks.server_attempt(one) == Some(7)))?;
    let ports = network.ports(&id).await.map_err(|error| wrong(&error))?;
    let port = ports.iter().find(|port| port.ipv4().is_some()).ok_or_else(|| Broken::new("it has no port"))?;
    let outside = networks(subject).await?.1;
    let address = NewFloatingIp { network: outside, port: Some(port.id.clone()), description: marks.address(7) };
    let address = network.create_floating_ip(&address).await.map_err(|error| wrong(&error))?;
    let bound = network.floating_ip(&address.id).await.map_err(|error| wrong(&error))?;
    holds("the address is bound", bound.port.as_deref() == Some(port.id.as_str()))?;
    let end = new.end.plus(Duration::from_secs(3600));
    reservations.extend_lease(&made.id, end).await.map_err(|error| wrong(&error))?;
    let longer =
        |lease: &Lease| active(lease) && lease.end.is_some_and(|seen| seen.plus(Duration::from_secs(60)) > end);
    lease_until(subject, &made.id, longer).await?;
    reservations.delete_lease(&made.id).await.map_err(|error| wrong(&error))?;
    gone(subject, &id).await?;
    fails("the lease afterwards", reservations.lease(&made.id).await, &[Meaning::Gone])?;
    let left = network.floating_ip(&address.id).await.map_err(|error| wrong(&error))?;
    holds("the address outlives them, unbound", left.port.is_none())?;
    network.delete_floating_ip(&address.id).await.map_err(|error| wrong(&error))?;
    compute.delete_keypair(&server.key).await.map_err(|error| wrong(&error))
}
