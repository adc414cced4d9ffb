//! Hosts beside a cluster's nodes: those of an OpenStack site, as its catalogue tells of them, and one that runs containers.

use orlop_cloud::openstack::hardware::SiteNode;
use orlop_core::hardware::Tables;
use orlop_dag::manifest::{Node as Document, Report, Source, TextLimits};
use serde_json::Value;

#[cfg(feature = "docker")]
pub(super) use orlop_cloud::runtime::docker::hardware::Inventory;

use crate::cli::failure::{Exit, Failure};

/// No host of containers is known where Docker is left out.
#[cfg(not(feature = "docker"))]
#[derive(Debug)]
pub(super) enum Inventory {}

fn refused(message: String) -> Failure {
    Failure::new(Exit::Refused, message)
}

/// The documents of a file.
fn documents(file: &str, text: &str) -> Result<Vec<Value>, Failure> {
    let (source, found) = Source::parse(file, text.to_owned(), &TextLimits::large());
    if found.has_errors() {
        return Err(refused(Report::new(found).to_string()));
    }
    Ok(source.documents().map(Document::to_value).filter(|document| !document.is_null()).collect())
}

/// Reads the catalogue of a site: node documents one after the other, as a list, or as `items` of an object.
///
/// # Errors
/// It is no YAML or JSON, a document of it cannot be read, or there is none.
pub(super) fn catalog(file: &str, text: &str, tables: &Tables) -> Result<Vec<SiteNode>, Failure> {
    let mut hosts = Vec::new();
    for document in documents(file, text)? {
        let many = document.get("items").unwrap_or(&document);
        for one in many.as_array().map_or_else(|| std::slice::from_ref(&document), Vec::as_slice) {
            hosts.push(SiteNode::read(one, tables).map_err(|error| refused(format!("{file}: {error}")))?);
        }
    }
    if hosts.is_empty() {
        return Err(refused(format!("{file} holds no host; give the node documents of the site's reference API")));
    }
    hosts.sort_by(|a, b| a.uid.cmp(&b.uid));
    Ok(hosts)
}

/// Reads what a Docker host has.
///
/// # Errors
/// It is no YAML or JSON, not one document, or a field of it cannot be read.
#[cfg(feature = "docker")]
pub(super) fn inventory(file: &str, text: &str, tables: &Tables) -> Result<Inventory, Failure> {
    let documents = documents(file, text)?;
    let [document] = documents.as_slice() else {
        return Err(refused(format!("{file} must hold exactly one inventory")));
    };
    Inventory::read(document, &tables.catalogue).map_err(|error| refused(format!("{file}: {error}")))
}

/// Without Docker there is no use for an inventory.
///
/// # Errors
/// Always.
#[cfg(not(feature = "docker"))]
pub(super) fn inventory(_file: &str, _text: &str, _tables: &Tables) -> Result<Inventory, Failure> {
    Err(Failure::usage(format!("{}; or leave it out", crate::features::lacking("`--inventory`", "docker"))))
}
