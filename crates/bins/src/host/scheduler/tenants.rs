//! Which tenants there are: work is taken for these only, so that a mistyped name does not become a tenant without limits.

use std::collections::BTreeSet;

use orlop_core::error::{Code, Problem};
use orlop_core::id::TenantName;
use orlop_core::machine::tenant::TenantState;
use orlop_core::ports::fleet_store::{EntryFilter, JobFilter, Kind, Page, Tenant};

use super::{Handle, Snapshot};

/// The most names that a refusal lists.
const LISTED: usize = 10;

/// Whether a tenant is closed and has no jobs left.
pub fn is_gone(tenant: &Tenant, fleet: &Snapshot) -> bool {
    let active = fleet.tenants.get(&tenant.name).map_or(0, |status| status.active);
    tenant.state == TenantState::Closing && active == 0
}

impl Handle {
    /// A tenant: the default one, one that was made, or one that has jobs. A closed one is there until its last job has ended.
    ///
    /// # Errors
    /// As of the store; NotLeader for a closed one where another server leads, which knows its jobs.
    pub async fn tenant(&self, name: &TenantName) -> Result<Option<Tenant>, Problem> {
        let Some(tenant) = self.open_or_closed(name).await? else { return Ok(None) };
        let gone = tenant.state == TenantState::Closing && is_gone(&tenant, &*self.leader_snapshot()?);
        Ok(Some(tenant).filter(|_| !gone))
    }

    fn is_known(&self, name: &TenantName) -> bool {
        name.as_str() == self.options().always_there() || self.snapshot().tenants.contains_key(name)
    }

    async fn open_or_closed(&self, name: &TenantName) -> Result<Option<Tenant>, Problem> {
        let entry = self.store().entry(Kind::Tenant, name.as_str()).await?;
        if let Some(tenant) = entry.and_then(|entry| serde_json::from_str(&entry.body).ok()) {
            return Ok(Some(tenant));
        }
        let by_default = || Ok(Some(Tenant::new(name.clone())));
        if self.is_known(name) {
            return by_default();
        }
        // It may have nothing but jobs that have ended.
        let filter = JobFilter { tenants: Some(vec![name.clone()]), ..JobFilter::default() };
        let jobs = self.store().jobs(&filter, &Page::first(1)).await?;
        if jobs.items.is_empty() { Ok(None) } else { by_default() }
    }

    /// Refuses what names a tenant that is not there. `place` is where the request names it, `sees` which tenants the caller may
    /// know of.
    ///
    /// # Errors
    /// NotFound, with the tenants there are; and as of the store.
    pub async fn require_tenant(
        &self,
        name: &TenantName,
        place: &str,
        sees: impl Fn(&TenantName) -> bool,
    ) -> Result<(), Problem> {
        // A closed one is refused as such where jobs are taken. Most are known without a question to the store.
        let known = self.options().create_tenants || self.is_known(name) || self.open_or_closed(name).await?.is_some();
        if known {
            return Ok(());
        }
        let page = Page::first(1000);
        let made = self.store().entries(Kind::Tenant, &EntryFilter::default(), &page).await;
        let made = made?.items;
        let made = made.into_iter().filter_map(|entry| serde_json::from_str::<Tenant>(&entry.body).ok());
        let always = self.options().always_there().parse().ok();
        let used: Vec<TenantName> = self.snapshot().tenants.keys().cloned().collect();
        let all = made.map(|tenant| tenant.name).chain(always).chain(used);
        let names: BTreeSet<TenantName> = all.filter(|name| sees(name)).collect();
        let more = if names.len() > LISTED { ", …" } else { "" };
        let listed: Vec<&str> = names.iter().take(LISTED).map(TenantName::as_str).collect();
        let there = if listed.is_empty() { String::new() } else { format!(" (there are {}{more})", listed.join(", ")) };
        let text = format!(
            "there is no tenant `{name}`{there}; an administrator creates it with `orlop quota set {name} \
             weight=100`, or allows every name with `tenants.create`"
        );
        let path = if place.is_empty() { "tenant".to_owned() } else { format!("{place}.tenant") };
        Err(Problem::coded(Code::NotFound, text).at_field(path, format!("there is no tenant `{name}`")))
    }
}
