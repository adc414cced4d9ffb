//! What the user says of places: which sites are known, which types of hosts are meant there. Owns what is answered where a
//! name is none; ranks nothing.

use super::{PlanError, Request, machines};
use crate::catalog::embedded;
use crate::catalog::host::{Catalogue, Origin, Variant};
use crate::catalog::rank::{self, Class, TypeChoice};
use crate::catalog::site::{is_edge, site_named};

/// That every site which the user names is one, and can be planned for.
pub(super) fn check_sites(request: &Request, catalogue: &Catalogue) -> Result<(), PlanError> {
    if request.sites.is_empty() {
        return Err(PlanError::UnknownSite { name: String::new(), known: known_sites(catalogue) });
    }
    for name in &request.sites {
        if is_edge(name) {
            return Err(PlanError::Edge);
        }
        // A site that was asked itself is known, however little it has.
        let is_asked = matches!(catalogue.origin, Origin::Live | Origin::Hidden);
        let is_known = is_asked || site_named(name).is_some();
        if catalogue.at(name).next().is_none() && !is_known {
            return Err(PlanError::UnknownSite { name: name.clone(), known: known_sites(catalogue) });
        }
    }
    Ok(())
}

/// Live data wins: where a site itself lists no host that can be reserved, nothing is available, whatever a table says.
pub(super) fn check_hosts(request: &Request, catalogue: &Catalogue) -> Result<(), PlanError> {
    let is_bare = |site: &String| catalogue.at(site).next().is_none();
    let wants_host = |site: &String| !machines::wants_vm(request, catalogue, site);
    if catalogue.origin == Origin::Live && request.sites.iter().all(|site| is_bare(site) && wants_host(site)) {
        return Err(PlanError::NoHosts { site: request.sites.join(", ") });
    }
    Ok(())
}

fn known_sites(catalogue: &Catalogue) -> String {
    let mut names: Vec<&str> = catalogue.variants.iter().map(|variant| variant.site.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// The catalogue without other types, if the user names one.
pub(super) fn narrow(
    request: &Request,
    catalogue: &Catalogue,
    notes: &mut Vec<String>,
) -> Result<Catalogue, PlanError> {
    let Some(name) = &request.node_type else { return Ok(catalogue.clone()) };
    let mut kept: Vec<Variant> = Vec::new();
    for site in &request.sites {
        let of_type = |wanted: &str| {
            catalogue.at(site).filter(|variant| variant.node_type == wanted).cloned().collect::<Vec<_>>()
        };
        match rank::resolve_type(name, site, catalogue) {
            Some(TypeChoice::Exact) => kept.extend(of_type(name)),
            Some(TypeChoice::Other(other)) => {
                notes.push(format!("{name} does not exist: {other} is taken"));
                kept.extend(of_type(other));
            }
            Some(TypeChoice::Class(class)) => {
                notes.push(format!("{name} does not exist: the best type of its class is taken"));
                kept.extend(catalogue.at(site).filter(|variant| is_of_class(class, variant)).cloned());
            }
            None => {}
        }
    }
    if kept.is_empty() {
        return Err(unknown_type(name, request, catalogue));
    }
    Ok(Catalogue { origin: catalogue.origin, variants: kept })
}

/// A type that is at none of the sites: those that are, or where else among the sites that were named it is. Of sites that were not
/// asked the table tells.
fn unknown_type(name: &str, request: &Request, catalogue: &Catalogue) -> PlanError {
    let table = embedded();
    let types = |site: &str| {
        let mut known: Vec<String> = catalogue.at(site).map(|variant| variant.node_type.clone()).collect();
        if known.is_empty() && request.others.iter().any(|other| other == site) {
            known.extend(table.at(site).map(|variant| variant.node_type.clone()));
        }
        known.dedup();
        known
    };
    if let Some(site) = request.others.iter().find(|site| types(site).iter().any(|known| known == name)) {
        let (name, site, here) = (name.to_owned(), site.clone(), request.sites.join(", "));
        return PlanError::TypeElsewhere { name, here, site };
    }
    let all: Vec<&String> = request.sites.iter().chain(&request.others).collect();
    let listed = all.iter().map(|site| match types(site).join(", ") {
        known if all.len() > 1 && !known.is_empty() => format!("at {site} {known}"),
        known => known,
    });
    let known = listed.filter(|known| !known.is_empty()).collect::<Vec<_>>().join("; ");
    PlanError::UnknownType { name: name.to_owned(), known }
}

fn is_of_class(class: Class, variant: &Variant) -> bool {
    let memory = variant.shape.cards.as_ref().map(|cards| cards.memory_gb);
    match class {
        Class::GpuOver24 => memory.is_some_and(|gb| gb > 24),
        Class::GpuOver16 => memory.is_some_and(|gb| gb > 16),
        Class::Gpu => memory.is_some(),
        Class::Memory => memory.is_none() && variant.shape.ram_gib > 256,
        Class::Cores => memory.is_none() && variant.shape.threads > 48,
        Class::Standard => memory.is_none(),
    }
}
