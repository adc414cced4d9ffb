//! Tenants: who they are, what they may hold, what they hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::error::{Code, Problem};
use orlop_core::id::TenantName;
use orlop_core::machine::tenant::TenantState;
use orlop_core::ports::fleet_store::{EntryFilter, Kind, Page, Tenant};
use orlop_scheduler::event::{Quota, TenantSettings, TenantStatus};

use super::super::BASE;
use super::super::call::{Call, not_found};
use super::super::cursor;
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use super::super::view::tenant::{NewTenant, QuotaView, TenantList, TenantPatch, TenantView, UsageView, state};
use crate::host::scheduler::is_gone;

fn limits(tenant: &Tenant) -> Quota {
    serde_json::from_value(tenant.quota.clone()).unwrap_or_default()
}

fn shown(tenant: &Tenant) -> TenantView {
    TenantView {
        name: tenant.name.to_string(),
        weight: tenant.weight,
        state: tenant.state.to_string(),
        priority_best: tenant.priority_best,
        revision: tenant.revision,
        quota: QuotaView::from(&limits(tenant)),
    }
}

impl Api {
    /// The tenant of a path, if the caller sees it.
    async fn tenant(&self, call: &Call) -> Result<Tenant, Problem> {
        let name: TenantName = call.id("name", "tenant")?;
        let unknown = || not_found(format_args!("tenant `{name}`"));
        if !call.sees(&name) {
            return Err(unknown());
        }
        self.handle.tenant(&name).await?.ok_or_else(unknown)
    }
}

fn settings(tenant: &Tenant) -> TenantSettings {
    TenantSettings {
        weight: tenant.weight,
        status: match tenant.state {
            TenantState::Active => TenantStatus::Active,
            TenantState::Paused => TenantStatus::Paused,
            TenantState::Closing => TenantStatus::Closing,
        },
        priority_best: tenant.priority_best,
    }
}

/// What a request says of a tenant, on top of what it is.
fn changed(
    tenant: &Tenant,
    weight: Option<u32>,
    word: Option<&str>,
    best: Option<u8>,
) -> Result<TenantSettings, Problem> {
    let mut changed = tenant.clone();
    changed.weight = weight.unwrap_or(tenant.weight);
    changed.priority_best = best.unwrap_or(tenant.priority_best);
    if let Some(word) = word {
        changed.state = state(word).ok_or_else(|| Problem::field("state", "use active or paused"))?;
    }
    if !(1..=1000).contains(&changed.weight) {
        return Err(Problem::field("weight", "use 1 to 1000"));
    }
    if changed.priority_best > 9 {
        return Err(Problem::field("priority_best", "use 0 to 9"));
    }
    Ok(settings(&changed))
}

fn quota(view: &QuotaView, place: &str) -> Result<Quota, Problem> {
    view.quota().map_err(|(field, message)| Problem::field(format!("{place}{field}"), message))
}

/// GET /tenants
pub(in super::super) async fn list(api: Arc<Api>, call: Call) -> Answer {
    let mut all = BTreeMap::new();
    let mut page = Page::first(1000);
    loop {
        let found = api.handle.store().entries(Kind::Tenant, &EntryFilter::default(), &page).await;
        let found = found.map_err(|error| store(&error))?;
        let read = found.items.iter().filter_map(|entry| serde_json::from_str::<Tenant>(&entry.body).ok());
        all.extend(read.map(|tenant| (tenant.name.clone(), tenant)));
        let Some(next) = found.next else { break };
        page = Page::after(next, 1000);
    }
    let snapshot = api.handle.leader_snapshot()?;
    for name in snapshot.tenants.keys().chain([&api.options.default_tenant]) {
        all.entry(name.clone()).or_insert_with(|| Tenant::new(name.clone()));
    }
    all.retain(|_, tenant| !is_gone(tenant, &snapshot));
    let after: Option<TenantName> = call.cursor("tenants")?;
    let limit = call.limit()? as usize;
    let mut found = all
        .values()
        .filter(|tenant| call.sees(&tenant.name) && after.as_ref().is_none_or(|after| tenant.name > *after));
    let items: Vec<TenantView> = found.by_ref().take(limit).map(shown).collect();
    let more = found.next().is_some();
    let next_cursor = items.last().filter(|_| more).map(|last| cursor::write("tenants", &last.name));
    Reply::json(200, &TenantList { items, next_cursor })
}

/// POST /tenants
pub(in super::super) async fn create(api: Arc<Api>, call: Call) -> Answer {
    call.of_the_fleet("creating a tenant")?;
    let new: NewTenant = call.json()?;
    let name: TenantName = new.name.parse().map_err(|error| Problem::field("name", format!("{error}")))?;
    let fresh = Tenant::new(name.clone());
    let settings = changed(&fresh, new.weight, new.state.as_deref(), new.priority_best)?;
    let quota = new.quota.as_ref().map(|view| quota(view, "quota.")).transpose()?.unwrap_or_default();
    let _turn = api.tenants.lock().await;
    call.concern.is(&name);
    let stored = api.handle.store().entry(Kind::Tenant, name.as_str()).await.map_err(|error| store(&error))?;
    if stored.is_some() {
        let text = match api.handle.tenant(&name).await? {
            Some(_) => format!("tenant `{name}` already exists"),
            // Its tokens, secrets and jobs are not for the next tenant of the name.
            None => format!("tenant `{name}` was closed, and its name is not given again; use another"),
        };
        return Err(Problem::coded(Code::Conflict, text));
    }
    api.handle.set_tenant(name.clone(), Some(settings), Some(quota)).await?;
    let made = api.handle.tenant(&name).await?.unwrap_or(fresh);
    Ok(Reply::json(201, &shown(&made))?.at(&format!("{BASE}/tenants/{name}")).revision(made.revision))
}

/// GET /tenants/{name}
pub(in super::super) async fn get(api: Arc<Api>, call: Call) -> Answer {
    let tenant = api.tenant(&call).await?;
    Ok(Reply::json(200, &shown(&tenant))?.revision(tenant.revision))
}

/// PATCH /tenants/{name}
pub(in super::super) async fn change(api: Arc<Api>, call: Call) -> Answer {
    let patch: TenantPatch = call.json()?;
    let _turn = api.tenants.lock().await;
    let tenant = api.tenant(&call).await?;
    call.of_the_fleet("changing what a tenant may hold")?;
    call.check_revision(tenant.revision)?;
    let settings = changed(&tenant, patch.weight, patch.state.as_deref(), patch.priority_best)?;
    api.handle.set_tenant(tenant.name.clone(), Some(settings), None).await?;
    let tenant = api.tenant(&call).await?;
    Ok(Reply::json(200, &shown(&tenant))?.revision(tenant.revision))
}

/// DELETE /tenants/{name}
pub(in super::super) async fn close(api: Arc<Api>, call: Call) -> Answer {
    let _turn = api.tenants.lock().await;
    let tenant = api.tenant(&call).await?;
    call.of_the_fleet("changing what a tenant may hold")?;
    call.check_revision(tenant.revision)?;
    if tenant.name == api.options.default_tenant {
        let text = format!("tenant `{}` is that of jobs that name none; it stays", tenant.name);
        return Err(Problem::coded(Code::Conflict, text));
    }
    let live = api.handle.leader_snapshot()?.tenants.get(&tenant.name).map_or(0, |known| known.active);
    if live > 0 {
        let text = format!("tenant `{}` has {live} jobs that have not ended; cancel them first", tenant.name);
        return Err(Problem::coded(Code::Conflict, text));
    }
    let closing = TenantSettings { status: TenantStatus::Closing, ..settings(&tenant) };
    api.handle.set_tenant(tenant.name, Some(closing), None).await?;
    Ok(Reply::empty(204))
}

/// GET /tenants/{name}/quota
pub(in super::super) async fn get_quota(api: Arc<Api>, call: Call) -> Answer {
    let tenant = api.tenant(&call).await?;
    Ok(Reply::json(200, &QuotaView::from(&limits(&tenant)))?.revision(tenant.revision))
}

/// PUT /tenants/{name}/quota
pub(in super::super) async fn put_quota(api: Arc<Api>, call: Call) -> Answer {
    let view: QuotaView = call.json()?;
    let quota = quota(&view, "")?;
    let _turn = api.tenants.lock().await;
    let tenant = api.tenant(&call).await?;
    call.of_the_fleet("changing what a tenant may hold")?;
    call.check_revision(tenant.revision)?;
    api.handle.set_tenant(tenant.name.clone(), Some(settings(&tenant)), Some(quota)).await?;
    let tenant = api.tenant(&call).await?;
    Ok(Reply::json(200, &QuotaView::from(&limits(&tenant)))?.revision(tenant.revision))
}

/// GET /tenants/{name}/usage
pub(in super::super) async fn usage(api: Arc<Api>, call: Call) -> Answer {
    let tenant = api.tenant(&call).await?;
    let stored = api.handle.artifact_bytes().await?;
    let snapshot = api.handle.leader_snapshot()?;
    Reply::json(200, &UsageView::of(&tenant.name, snapshot.tenants.get(&tenant.name), &stored))
}
