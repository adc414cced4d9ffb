//! Which tenants there are: work is taken for these only, so that a mistyped name does not become a tenant without limits.

use std::collections::BTreeSet;

use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{EntryFilter, JobFilter, Kind, Page, Tenant};

use super::{Error, Handle, error};
use crate::wire::problem::{Code, FieldError, Problem};

/// The most names that a refusal lists.
const LISTED: usize = 10;

impl Handle {
    /// Whether there is a tenant: the default one, one that was made, or one that has jobs.
    async fn has_tenant(&self, name: &TenantName) -> Result<bool, Error> {
        let options = self.options();
        let known = options.create_tenants || name.as_str() == options.always_there();
        if known || self.snapshot().tenants.contains_key(name) {
            return Ok(true);
        }
        // It may be newer than the snapshot, or have nothing but jobs that have ended.
        let made = self.store().entry(Kind::Tenant, name.as_str()).await.map_err(|wrong| error::port(&wrong))?;
        if made.is_some() {
            return Ok(true);
        }
        let filter = JobFilter { tenants: Some(vec![name.clone()]), ..JobFilter::default() };
        let jobs = self.store().jobs(&filter, &Page::first(1)).await.map_err(|wrong| error::port(&wrong))?;
        Ok(!jobs.items.is_empty())
    }

    /// Refuses work for a tenant that is not there. `place` is where the request names it, `sees` which tenants the caller may
    /// know of.
    ///
    /// # Errors
    /// NotFound, with the tenants there are; and as of the store.
    pub async fn require_tenant(
        &self,
        name: &TenantName,
        place: &str,
        sees: impl Fn(&TenantName) -> bool,
    ) -> Result<(), Error> {
        if self.has_tenant(name).await? {
            return Ok(());
        }
        let page = Page::first(1000);
        let made = self.store().entries(Kind::Tenant, &EntryFilter::default(), &page).await;
        let made = made.map_err(|wrong| error::port(&wrong))?.items;
        let made = made.into_iter().filter_map(|entry| serde_json::from_str::<Tenant>(&entry.body).ok());
        let always = self.options().always_there().parse().ok();
        let used: Vec<TenantName> = self.snapshot().tenants.keys().cloned().collect();
        let all = made.map(|tenant| tenant.name).chain(always).chain(used);
        let names: BTreeSet<TenantName> = all.filter(|name| sees(name)).collect();
        let more = if names.len() > LISTED { ", …" } else { "" };
        let listed: Vec<&str> = names.iter().take(LISTED).map(TenantName::as_str).collect();
        let there = if listed.is_empty() { String::new() } else { format!(" (there are {}{more})", listed.join(", ")) };
        let text = format!(
            "there is no tenant `{name}`{there}; an administrator makes it with `orlop quota set {name} weight=100`, or lets every \
             name be one with `tenants.create`"
        );
        let path = if place.is_empty() { "tenant".to_owned() } else { format!("{place}.tenant") };
        let errors = vec![FieldError { path, message: format!("there is no tenant `{name}`") }];
        Err(Box::new(Problem { errors, ..Problem::new(Code::NotFound, text) }))
    }
}
