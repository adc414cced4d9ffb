//! Flows as they stand, driven here or not.

use orlop_core::error::{Code, FLOW, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{Documents as _, EntryFilter, FleetFlow, MAX_PAGE, Page, Paged, part};
use orlop_core::ports::journal::FlowJournal as _;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;
use orlop_dag::engine::{StatusView, view};
use orlop_dag::plan::Plan;

use super::facts::Driver;
use super::journal::listed;
use super::submit::unavailable;
use super::{Flows, Inner};
use crate::host::flow::{plan_of, replay};
use crate::host::scheduler::Status;
use crate::host::scheduler::error::{not_leader, store_unavailable};

/// How long a request waits for a server that has just taken the lead.
const READY: std::time::Duration = std::time::Duration::from_secs(20);

/// A flow in a list.
#[derive(Clone, Debug)]
pub struct FlowSummary {
    /// Its document.
    pub document: FleetFlow,
    /// Progress, such as `3/10`.
    pub progress: String,
    /// First failure, or what it waits for.
    pub message: String,
    /// When it began.
    pub started_at: Option<orlop_core::time::Time>,
    /// Somebody ended it.
    pub cancelled: bool,
    /// Its labels.
    pub labels: std::collections::BTreeMap<String, String>,
}

/// A flow with all its steps.
#[derive(Clone, Debug)]
pub struct FlowRead {
    /// Its document.
    pub document: FleetFlow,
    /// What the server keeps beside it.
    pub driver: Driver,
    /// The object, with its status.
    pub object: JobFlow,
}

impl FlowRead {
    /// Its status.
    #[must_use]
    pub fn status(&self) -> FlowStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// The name of a step as its pipeline spells it.
    #[must_use]
    pub fn shown<'n>(&'n self, step: &'n str) -> &'n str {
        self.driver.shown(step)
    }

    /// The name of a step in the object, given in either spelling.
    #[must_use]
    pub fn internal<'n>(&'n self, step: &'n str) -> &'n str {
        self.driver.internal(step)
    }
}

impl From<FleetFlow> for FlowSummary {
    fn from(document: FleetFlow) -> Self {
        let listed = listed(&document);
        let summary = listed.summary;
        Self {
            progress: summary.progress,
            message: summary.message,
            started_at: summary.started_at,
            cancelled: listed.cancelled,
            labels: listed.labels,
            document,
        }
    }
}

impl Inner {
    /// Waits until flows can be changed here: the server leads and drives every flow that lives.
    ///
    /// # Errors
    /// NotLeader, StoreUnavailable.
    pub(super) async fn may_act(&self) -> Result<(), Problem> {
        match self.handle.status() {
            Status::Leading { .. } => {}
            Status::Standby { leader } => return Err(not_leader(leader)),
            Status::Restoring | Status::Stopped => return Err(store_unavailable()),
        }
        let mut ready = self.ready.subscribe();
        let waited = tokio::time::timeout(READY, ready.wait_for(|ready| *ready)).await;
        if matches!(waited, Ok(Ok(_))) { Ok(()) } else { Err(store_unavailable()) }
    }
}

impl Flows {
    /// A flow by its id, or by its name: then the one that has not ended, else the newest. `tenants`: whose; none = all.
    ///
    /// # Errors
    /// NotFound; StoreUnavailable when it cannot be read now.
    pub async fn find(&self, flow: &str, tenants: Option<&[TenantName]>) -> Result<FleetFlow, Problem> {
        let store = self.inner.handle.store();
        let seen = |known: &FleetFlow| tenants.is_none_or(|tenants| tenants.contains(&known.tenant));
        let by_id = store.get::<FleetFlow>(&part(flow)).await.map_err(unavailable)?;
        if let Some(known) = by_id.filter(seen) {
            return Ok(known);
        }
        let mut named = self.named(tenants, |known| known.name == flow).await?;
        named.sort_by_key(|known| (known.ended_at.is_none(), known.created_at));
        let shown: String = flow.chars().take(64).collect();
        named.pop().ok_or_else(|| {
            let message = format!("there is no flow `{shown}`");
            Problem::coded(Code::NotFound, message.clone()).at_field(FLOW, message)
        })
    }

    /// All flows of tenants that pass.
    pub(super) async fn named(
        &self,
        tenants: Option<&[TenantName]>,
        passes: impl Fn(&FleetFlow) -> bool,
    ) -> Result<Vec<FleetFlow>, Problem> {
        let filter = EntryFilter { tenants: tenants.map(<[_]>::to_vec), ..EntryFilter::default() };
        let (mut found, mut page) = (Vec::new(), Page::first(MAX_PAGE));
        loop {
            let store = self.inner.handle.store();
            let part = store.list::<FleetFlow>(&filter, &page).await.map_err(unavailable)?;
            found.extend(part.items.into_iter().filter(&passes));
            match part.next {
                Some(next) => page = Page::after(next, MAX_PAGE),
                None => return Ok(found),
            }
        }
    }

    /// Flows of tenants that pass, a page of at most `limit` in order of their ids.
    ///
    /// # Errors
    /// StoreUnavailable when they cannot be read now.
    pub async fn list(
        &self,
        tenants: Option<Vec<TenantName>>,
        after: Option<String>,
        limit: u32,
        passes: impl Fn(&FlowSummary) -> bool,
    ) -> Result<Paged<FlowSummary, String>, Problem> {
        let filter = EntryFilter { tenants, ..EntryFilter::default() };
        let (mut items, mut page) = (Vec::new(), Page { after, limit });
        loop {
            let store = self.inner.handle.store();
            let part = store.list::<FleetFlow>(&filter, &page).await.map_err(unavailable)?;
            for known in part.items.into_iter().map(FlowSummary::from).filter(&passes) {
                items.push(known);
                if items.len() >= limit as usize {
                    let next = items.last().map(|known| known.document.id.clone());
                    return Ok(Paged { items, next: next.map(|id| orlop_core::ports::fleet_store::part(&id)) });
                }
            }
            match part.next {
                Some(next) => page.after = Some(next),
                None => return Ok(Paged { items, next: None }),
            }
        }
    }

    /// A flow with all its steps.
    ///
    /// # Errors
    /// StoreUnavailable when it cannot be read now.
    pub async fn read(&self, document: FleetFlow) -> Result<FlowRead, Problem> {
        let live = self.inner.live().get(&document.id).map(|live| live.host.status());
        let mut stored = self.inner.journal.load(&document.id).await.map_err(unavailable)?;
        let driver = Driver::of(&stored.record).map_err(unavailable)?;
        let status = match live {
            Some(live) => live.borrow().status.clone(),
            None => {
                let plan = plan_of(&mut stored).map_err(unavailable)?;
                let state = replay(&plan, &stored).map_err(unavailable)?;
                view(&plan, &state, 0..usize::MAX).status
            }
        };
        Ok(FlowRead { document, driver, object: JobFlow { status: Some(status), ..stored.record.flow } })
    }

    /// The plan of a flow.
    ///
    /// # Errors
    /// NotFound; StoreUnavailable when it cannot be read now.
    pub async fn plan(&self, flow: &str) -> Result<Plan, Problem> {
        let mut stored = self.inner.journal.load(flow).await.map_err(unavailable)?;
        plan_of(&mut stored).map_err(unavailable)
    }

    /// The plan of a flow and its current state.
    ///
    /// # Errors
    /// As of [`Flows::plan`].
    pub async fn planned(&self, flow: &str) -> Result<(Plan, std::sync::Arc<StatusView>), Problem> {
        let live = self.changes(flow);
        let mut stored = self.inner.journal.load(flow).await.map_err(unavailable)?;
        let plan = plan_of(&mut stored).map_err(unavailable)?;
        let shown = match live {
            Some(live) => std::sync::Arc::clone(&live.borrow()),
            None => {
                let state = replay(&plan, &stored).map_err(unavailable)?;
                std::sync::Arc::new(view(&plan, &state, 0..usize::MAX))
            }
        };
        Ok((plan, shown))
    }

    /// Every flow that is driven here: its id, whose it is, and how it stands.
    #[must_use]
    pub fn driven(&self) -> Vec<(String, std::sync::Arc<StatusView>)> {
        let live = self.inner.live();
        live.iter().map(|(id, live)| (id.clone(), std::sync::Arc::clone(&live.host.status().borrow()))).collect()
    }

    /// The status of a flow as it changes; none when it is not driven here.
    #[must_use]
    pub fn changes(&self, flow: &str) -> Option<tokio::sync::watch::Receiver<std::sync::Arc<StatusView>>> {
        self.inner.live().get(flow).map(|live| live.host.status())
    }
}
