//! What takes the place of hosts that a site does not show: a file that was given, then Chameleon's public description, then
//! the built-in table.

use std::path::Path;
use std::sync::Arc;

use orlop_cloud::catalog::site::site_named;
use orlop_cloud::catalog::{Catalogue, Origin, embedded};
use orlop_cloud::openstack::client::{HttpTransport, SystemClock};
use orlop_cloud::openstack::port::Clock as _;
use orlop_cloud::provision::reference::{BASE, Keep, Reference};

use super::examine::Run;
use super::failure::Failure;
use super::request::given;
use super::settings::{Settings, text};

/// What takes the place of hosts that are not shown.
pub(super) struct Hidden<'a> {
    /// The file, and the one site that it is for.
    file: Option<(&'a Path, String)>,
    /// Nothing where it is switched off.
    reference: Option<Reference>,
    keep: Keep,
}

impl<'a> Hidden<'a> {
    /// From flags and settings. A file is for the first of all sites.
    ///
    /// # Errors
    /// A setting or file is wrong.
    pub(super) fn new(
        file: Option<&'a Path>,
        sites: &[String],
        authorities: Option<&Path>,
        settings: &Settings,
        state: &Path,
    ) -> Result<Self, Failure> {
        let file = file.zip(sites.first().cloned());
        let base = settings.get("ORLOP_REFERENCE_API").unwrap_or_else(|| BASE.to_owned());
        if base == "off" {
            return Ok(Self { file, reference: None, keep: Keep::Use });
        }
        let pem = match authorities {
            Some(path) => {
                let failed = |error| Failure::usage(format!("--ca-cert {}: {error}", path.display()));
                Some(text(path).map_err(failed)?.into_bytes())
            }
            None => None,
        };
        let transport = Arc::new(HttpTransport::new(pem.as_deref())?);
        let reference = Reference::new(&base, state, transport);
        let reference = reference.map_err(|error| Failure::usage(format!("ORLOP_REFERENCE_API: {error}")))?;
        Ok(Self { file, reference: Some(reference), keep: Keep::Use })
    }

    /// The same, with what was kept of answers or without.
    pub(super) fn keeping(self, keep: Keep) -> Self {
        Self { keep, ..self }
    }

    /// The hardware of sites, of which one may be that of the file. Where the public description cannot be had, the table takes its
    /// place with a warning.
    ///
    /// # Errors
    /// The file is no list of hosts.
    pub(super) async fn catalogue(&self, sites: &[String], run: &mut Run) -> Result<Catalogue, Failure> {
        let Some((path, own)) = self.file.as_ref().filter(|(_, own)| sites.contains(own)) else {
            return Ok(self.described(sites, run).await);
        };
        let mut all = given(path, own)?;
        let others: Vec<String> = sites.iter().filter(|site| *site != own).cloned().collect();
        if !others.is_empty() {
            let described = self.described(&others, run).await;
            all.variants.extend(described.variants.into_iter().filter(|variant| variant.site != *own));
        }
        Ok(all)
    }

    /// The hardware of sites that the file is not for; and what is known of all others.
    async fn described(&self, sites: &[String], run: &mut Run) -> Catalogue {
        let mut all = embedded();
        let mut origins = Vec::new();
        for site in sites {
            let described = site_named(site).is_some_and(|known| !known.virtual_machines);
            let Some(reference) = self.reference.as_ref().filter(|_| described) else { continue };
            match reference.catalogue(site, self.keep, SystemClock.now()).await {
                Ok(found) => {
                    all.variants.retain(|variant| variant.site != *site);
                    all.variants.extend(found.variants);
                    origins.push(Origin::Public);
                }
                Err(error) => {
                    let warning = format!("{error}; the built-in table takes its place");
                    if !run.warnings.contains(&warning) {
                        run.warnings.push(warning);
                    }
                    origins.push(Origin::Embedded);
                }
            }
        }
        if !origins.is_empty() && origins.iter().all(|origin| *origin == Origin::Public) {
            all.origin = Origin::Public;
        }
        all
    }
}
