//! The verb `catalog`: hardware, images and sites that can be had.

mod images;
mod nodes;
mod sites;

use std::io::IsTerminal as _;

use orlop_cloud::catalog::site::{SITES, is_edge, site_named};
use orlop_cloud::provision::plan::PlanError;
use orlop_cloud::provision::reference::Keep;
use orlop_cloud::provision::site::{Seen, look};

use super::args::{CatalogArgs, CatalogVerb, OutputArgs};
use super::document::Report;
use super::examine::Run;
use super::failure::Failure;
use super::sign_in::Sources;
use crate::view::text::Colour;

/// `catalog nodes`, `images`, `sites`.
pub(super) async fn catalog(args: &CatalogArgs, run: &mut Run) -> Result<Report, Failure> {
    let refresh = if args.refresh { Keep::Refresh } else { Keep::Use };
    match &args.what {
        CatalogVerb::Nodes(args) => nodes::nodes(args, refresh, run).await,
        CatalogVerb::Images(args) => images::images(args, run).await,
        CatalogVerb::Sites(args) => sites::sites(args, run),
    }
}

/// What a site has at the moment; nothing where there is nothing to sign in with.
async fn seen(sources: &Sources<'_>, site: &str, run: &mut Run) -> Result<Option<Seen>, Failure> {
    if !sources.has(site) {
        return Ok(None);
    }
    let site = sources.sign_in(site, None, run).await?;
    let seen = look(&site.cloud, &site.name).await;
    run.count(&site.name, site.asked());
    seen.map(Some).map_err(|error| Failure::of_cloud(&error))
}

/// The sites that are shown. Without credentials only those of the table are known, or `also`.
fn sites_of(sources: &Sources<'_>, named: &[String], also: Option<&str>) -> Result<Vec<String>, Failure> {
    let sites = sources.sites(named);
    for name in &sites {
        if is_edge(name) {
            return Err(PlanError::Edge.into());
        }
        if site_named(name).is_none() && also != Some(name.as_str()) && !sources.has(name) {
            let known: Vec<&str> = SITES.iter().map(|site| site.name).collect();
            return Err(PlanError::UnknownSite { name: name.clone(), known: known.join(", ") }.into());
        }
    }
    Ok(sites)
}

/// Whether the reader of the result sees colours.
fn colour(output: &OutputArgs) -> Colour {
    let is_seen = std::io::stdout().is_terminal() && !output.no_color && std::env::var_os("NO_COLOR").is_none();
    if is_seen { Colour::Always } else { Colour::Never }
}
