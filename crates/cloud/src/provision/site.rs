//! What a site has at the moment: hosts, when they are taken, images, flavors, networks, limits.
//! Owns asking for all of it at once; decides nothing and creates nothing.

use serde_json::Value;

use crate::catalog::flavor::{self, read_flavors};
use crate::catalog::image::Image;
use crate::catalog::site::site_named;
use crate::catalog::window::Allocation;
use crate::catalog::{Catalogue, Host, Origin, read_hosts};
use crate::openstack::classify::{Meaning, Service};
use crate::openstack::port::{Answered, Cloud, CloudError, Limits, Network};

/// A flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flavor {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// What a site has.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its name.
    pub site: String,
    /// Hosts; nothing where they are hidden from users.
    pub hosts: Option<Vec<Host>>,
    /// When hosts are taken; nothing where that is hidden.
    pub allocations: Option<Vec<Allocation>>,
    /// Active images, whoever made them.
    pub images: Vec<Image>,
    /// Flavors.
    pub flavors: Vec<Flavor>,
    /// Those among them that are virtual machines.
    pub machines: Vec<flavor::Flavor>,
    /// Networks.
    pub networks: Vec<Network>,
    /// What the project may have.
    pub limits: Limits,
    /// Whether anything can be reserved: there is a service for it.
    pub reserves: bool,
}

/// Looks at a site: six requests at once.
///
/// # Errors
/// Those of the services; hosts and allocations that are hidden from users are none, nor is a cloud where nothing is reserved.
pub async fn look(cloud: &Cloud, site: &str) -> Answered<Seen> {
    let (hosts, allocations, images, flavors, networks, limits) = tokio::join!(
        cloud.reservations.hosts(),
        cloud.reservations.allocations(),
        cloud.images.images(),
        cloud.compute.flavors(),
        cloud.network.networks(),
        cloud.compute.limits(),
    );
    let reserves = !hosts.as_ref().is_err_and(CloudError::is_absent);
    let hosts = match unless_hidden(hosts)? {
        Some(document) => {
            let read = read_hosts(&document.to_string()).map_err(|error| {
                CloudError::own(Service::Reservation, "GET /os-hosts", Meaning::Invalid, error.to_string())
            })?;
            Some(read)
        }
        None => None,
    };
    let flavors = flavors?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let flavor = |one: &Value| Some(Flavor { id: text(one, "id")?, name: text(one, "name").unwrap_or_default() });
    Ok(Seen {
        site: site.to_owned(),
        hosts,
        allocations: unless_hidden(allocations)?,
        images: images?.iter().filter_map(Image::read).filter(|image| image.active).collect(),
        flavors: flavors.iter().filter_map(flavor).collect(),
        machines: read_flavors(&flavors),
        networks: networks?,
        limits: limits?,
        reserves,
    })
}

/// Nothing where a service keeps something from users, or is not there, which is no failure.
fn unless_hidden<T>(answer: Answered<T>) -> Answered<Option<T>> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_hidden() || error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Seen {
    /// The hardware: live, else what is given in its place, as far as that is about this site; and flavors of virtual machines.
    #[must_use]
    pub fn catalogue(&self, otherwise: Catalogue) -> Catalogue {
        let bare = |origin| Catalogue { origin, variants: Vec::new() };
        let catalogue = match &self.hosts {
            Some(hosts) => Catalogue::of_hosts(Origin::Live, &self.site, hosts),
            None if !self.reserves => bare(Origin::Live),
            None if otherwise.at(&self.site).next().is_none() => bare(Origin::Hidden),
            None => otherwise,
        };
        catalogue.with_flavors(&self.site, &self.machines, self.hosts.as_deref().unwrap_or_default())
    }

    /// Whether only Chameleon's own images are trusted here: it is one of its sites, or has such images.
    #[must_use]
    pub fn is_chameleon(&self) -> bool {
        site_named(&self.site).is_some() || self.images.iter().any(|image| image.is_trusted(&[]))
    }

    /// Whether an image may be chosen by rule: at Chameleon one of its own, elsewhere one that everybody can see.
    #[must_use]
    pub fn trusts(&self, image: &Image) -> bool {
        is_trusted(image, self.is_chameleon())
    }

    /// Images that may be chosen by rule; with `named` all, for users may name any.
    #[must_use]
    pub fn images(&self, named: Option<&str>) -> Vec<Image> {
        let is_chameleon = self.is_chameleon();
        self.images.iter().filter(|image| named.is_some() || is_trusted(image, is_chameleon)).cloned().collect()
    }
}

fn is_trusted(image: &Image, is_chameleon: bool) -> bool {
    if is_chameleon { image.is_trusted(&[]) } else { image.active && image.visibility == "public" }
}
