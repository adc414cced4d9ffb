//! What topics show: the whole of a view for who begins, and what changed of it for who has that already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::StepIndex;
use orlop_core::error::{Code, Problem};
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{Documents as _, FleetFlow, JobFilter, JobRow, Page, SortOrder, part};
use orlop_core::time::Time;
use orlop_dag::engine::StatusView;
use orlop_dag::plan::Plan;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::super::auth::{Caller, Role, Scope};
use super::super::routes::workers::shown;
use super::super::state::{Api, store};
use super::super::view::flow::FlowView;
use super::super::view::flow_state::Shown;
use super::super::view::job::JobView;
use super::super::view::live::{FailedJob, FailedView, PendingApproval, ReasonView, approvals};
use super::super::view::times;
use super::overview;
use crate::host::scheduler::flows::FlowSummary;
use crate::host::scheduler::{FlowChange, Gathered, Snapshot};
use crate::web::{Topic, View};

/// Jobs or flows in one delta; of more it is only said that there are many, and pages read their lists again.
const ROWS: usize = 200;
/// Failures that are looked through, and how far back.
const FAILURES: u32 = 500;
const HOUR: Duration = Duration::from_secs(3600);
/// Between two looks at what failed.
const LOOK: Duration = Duration::from_secs(2);

/// A view as it was sent last, where what is sent next depends on that.
#[derive(Debug)]
enum Base {
    /// Rows by their ids.
    Rows(BTreeMap<String, Value>),
    /// Members by their names.
    Members(BTreeMap<String, Value>),
    Flow(Shown),
}

impl Base {
    /// All of it.
    fn whole(&self) -> Value {
        match self {
            Self::Rows(rows) => json!({ "rows": rows.values().collect::<Vec<_>>() }),
            Self::Members(members) => json!(members),
            Self::Flow(shown) => object(&shown.state()),
        }
    }
}

/// The views of a fleet.
#[derive(Debug, Default)]
pub(super) struct FleetViews {
    bases: Mutex<BTreeMap<View, Base>>,
    failed: Mutex<BTreeMap<Option<Vec<String>>, LookedUp>>,
}

#[derive(Debug)]
struct LookedUp {
    at: Time,
    value: Value,
}

/// A caller who sees what a view shows.
fn viewer(view: &View) -> Caller {
    let scope = match &view.tenants {
        None => Scope::All,
        Some(names) => Scope::Tenants(names.iter().filter_map(|name| name.parse().ok()).collect()),
    };
    Caller { role: Role::Viewer, scope, ..Caller::local() }
}

/// The view of a topic that a caller has. That the caller may see a flow or a job is checked before.
pub(super) fn view_of(topic: Topic, caller: &Caller) -> View {
    let tenants = match topic {
        Topic::Flow(_) | Topic::Job(_) => None,
        _ => match &caller.scope {
            Scope::All => None,
            scope @ Scope::Tenants(_) => Some(scope.names()),
        },
    };
    View { topic, tenants }
}

fn rows(changed: Vec<Value>, gone: Vec<String>) -> Option<Value> {
    match (changed.is_empty(), gone.is_empty()) {
        (true, true) => None,
        (_, true) => Some(json!({ "rows": changed })),
        (_, false) => Some(json!({ "rows": changed, "gone": gone })),
    }
}

/// What differs of rows by their ids; they are shown from now on.
fn changed_rows(base: &mut BTreeMap<String, Value>, newest: BTreeMap<String, Value>) -> Option<Value> {
    let changed = newest.iter().filter(|(id, row)| base.get(*id) != Some(row)).map(|(_, row)| row.clone()).collect();
    let gone = base.keys().filter(|id| !newest.contains_key(*id)).cloned().collect();
    *base = newest;
    rows(changed, gone)
}

fn object(value: &impl serde::Serialize) -> Value {
    // These are plain structures with text keys.
    serde_json::to_value(value).unwrap_or_default()
}

impl FleetViews {
    /// The whole of a view. `number` says how far deltas are by then.
    pub(super) async fn whole(
        &self,
        api: &Api,
        view: &View,
        number: impl FnOnce() -> u64,
    ) -> Result<(Value, u64), Problem> {
        // The journal of a flow is read before others have to wait.
        let read = match &view.topic {
            Topic::Flow(id) if !self.bases.lock().await.contains_key(view) => Some(api.flows.planned(id).await?),
            _ => None,
        };
        let mut bases = self.bases.lock().await;
        // Who has it already goes on from what was sent: so does everybody.
        if let Some(base) = bases.get(view) {
            return Ok((base.whole(), number()));
        }
        let base = match &view.topic {
            // Their rows are asked for as lists.
            Topic::Flows | Topic::Jobs => return Ok((json!({}), number())),
            Topic::Job(id) => {
                let rows = self.jobs(api, &BTreeSet::from([*id])).await?;
                let row = rows.into_iter().next().ok_or_else(|| gone("job", id))?;
                return Ok((object(&JobView::from(row)), number()));
            }
            Topic::Workers => Base::Rows(workers(&*api.handle.leader_snapshot()?, view)),
            Topic::Approvals => Base::Rows(pending(api, view).await?),
            Topic::Overview => Base::Members(self.members(api, view).await?),
            Topic::Flow(id) => {
                let (plan, read) = match read {
                    Some(read) => read,
                    None => api.flows.planned(id).await?,
                };
                let newest = match api.flows.changes(id) {
                    Some(live) => Arc::clone(&live.borrow()),
                    None if read.status.phase.is_terminal() => read,
                    // It may have ended since.
                    None => api.flows.planned(id).await?.1,
                };
                Base::Flow(Shown::new(&names(&plan), &newest.status, newest.revision))
            }
        };
        let value = base.whole();
        bases.insert(view.clone(), base);
        Ok((value, number()))
    }

    /// What changed of the views that streams show, each given to `publish`. `watched` says which these are, once no other view begins.
    /// After an error all of them have to begin anew, see [`Self::forget`].
    pub(super) async fn deltas(
        &self,
        api: &Api,
        watched: impl FnOnce() -> Vec<Arc<View>>,
        gathered: &Gathered,
        mut publish: impl FnMut(&Arc<View>, &Value),
    ) -> Result<(), Problem> {
        let mut bases = self.bases.lock().await;
        let views = &watched();
        bases.retain(|view, _| views.iter().any(|watched| **watched == *view));
        let jobs = self.jobs(api, &shown_jobs(views, gathered)).await?;
        let flows = match views.iter().any(|view| view.topic == Topic::Flows) && !many_flows(gathered) {
            true => flow_rows(api, &gathered.flows).await?,
            false => BTreeMap::new(),
        };
        for view in views {
            let delta = match (&view.topic, bases.get_mut(&**view)) {
                (Topic::Jobs, _) if many_jobs(gathered) => Some(json!({ "many": true })),
                (Topic::Jobs, _) => {
                    let caller = viewer(view);
                    let own = jobs.iter().filter(|row| caller.sees(&row.job.tenant)).cloned();
                    rows(own.map(|row| object(&JobView::from(row))).collect(), Vec::new())
                }
                (Topic::Job(id), _) => {
                    let row = jobs.iter().find(|row| row.job.id == *id).cloned();
                    row.map(|row| object(&JobView::from(row)))
                }
                (Topic::Flows, _) => own_flows(view, gathered, &flows),
                (Topic::Workers, Some(Base::Rows(base))) if gathered.fleet => {
                    changed_rows(base, workers(&*api.handle.leader_snapshot()?, view))
                }
                (Topic::Approvals, Some(Base::Rows(base))) => {
                    let (mut changed, mut gone) = (Vec::new(), Vec::new());
                    for (id, change) in gathered.flows.iter().filter(|(_, change)| viewer(view).sees(&change.tenant)) {
                        let newest = match &change.view {
                            Some(current) => pending_of(api, view, id, current).await?,
                            None => BTreeMap::new(),
                        };
                        let held = rows_of(base, id);
                        gone.extend(held.keys().filter(|row| !newest.contains_key(*row)).cloned());
                        changed.extend(
                            newest.iter().filter(|(id, row)| held.get(*id) != Some(row)).map(|(_, row)| row.clone()),
                        );
                        base.extend(newest);
                    }
                    rows(changed, gone)
                }
                (Topic::Overview, Some(Base::Members(base))) if gathered.fleet || !gathered.jobs.is_empty() => {
                    let newest = self.members(api, view).await?;
                    let differs = newest.iter().filter(|(name, value)| base.get(*name) != Some(value));
                    let delta: BTreeMap<String, Value> =
                        differs.map(|(name, value)| (name.clone(), value.clone())).collect();
                    *base = newest;
                    (!delta.is_empty()).then(|| json!(delta))
                }
                (Topic::Flow(id), Some(Base::Flow(shown))) => match gathered.flows.get(id) {
                    Some(FlowChange { view: Some(current), .. }) => shown.update(&current.status, current.revision),
                    Some(FlowChange { view: None, .. }) => Some(json!({ "deleted": true })),
                    None => None,
                },
                _ => None,
            };
            if let Some(delta) = delta {
                publish(view, &delta);
            }
        }
        Ok(())
    }

    /// Forgets what was sent: changes are missing in it.
    pub(super) async fn forget(&self) {
        self.bases.lock().await.clear();
    }

    async fn jobs(&self, api: &Api, ids: &BTreeSet<JobId>) -> Result<Vec<JobRow>, Problem> {
        api.handle.store().some_jobs(ids).await.map_err(|error| store(&error))
    }

    /// The members of the overview.
    async fn members(&self, api: &Api, view: &View) -> Result<BTreeMap<String, Value>, Problem> {
        let snapshot = api.handle.leader_snapshot()?;
        let mut members = overview::members(&snapshot, &viewer(view));
        members.insert("failed".to_owned(), self.failed(api, view).await?);
        Ok(members)
    }

    /// What failed in the last hour, looked up at most every other second.
    async fn failed(&self, api: &Api, view: &View) -> Result<Value, Problem> {
        let mut failed = self.failed.lock().await;
        let now = api.now();
        failed.retain(|_, known| now < known.at.plus(LOOK));
        if let Some(known) = failed.get(&view.tenants) {
            return Ok(known.value.clone());
        }
        let value = object(&failures(api, view, now).await?);
        failed.insert(view.tenants.clone(), LookedUp { at: now, value: value.clone() });
        Ok(value)
    }
}

fn gone(what: &str, id: impl std::fmt::Display) -> Problem {
    Problem::coded(Code::NotFound, format!("{what} {id} is not known"))
}

/// The names of the nodes of a plan, in its order.
pub(super) fn names(plan: &Plan) -> Vec<String> {
    let all = (0..plan.len()).filter_map(|step| u32::try_from(step).ok());
    all.map(|step| plan.name(StepIndex(step)).to_owned()).collect()
}

/// The workers of a view, by their ids.
fn workers(snapshot: &Snapshot, view: &View) -> BTreeMap<String, Value> {
    let caller = viewer(view);
    let seen = snapshot.workers.values().filter(|worker| caller.may(super::super::auth::Access::See, &worker.whose()));
    seen.map(|worker| (worker.view.id.to_string(), object(&shown(&caller, worker)))).collect()
}

/// The steps of a view that wait for a decision, by their ids.
pub(super) async fn pending(api: &Api, view: &View) -> Result<BTreeMap<String, Value>, Problem> {
    let mut found = BTreeMap::new();
    for (id, current) in api.flows.driven() {
        found.extend(pending_of(api, view, &id, &current).await?);
    }
    Ok(found)
}

/// Those of one flow.
async fn pending_of(
    api: &Api,
    view: &View,
    id: &str,
    current: &StatusView,
) -> Result<BTreeMap<String, Value>, Problem> {
    if approvals(id, "", "", &current.status).next().is_none() {
        return Ok(BTreeMap::new());
    }
    let document = flow_document(api, id).await?;
    let Some(flow) = document.filter(|flow| viewer(view).sees(&flow.tenant)) else { return Ok(BTreeMap::new()) };
    let rows = approvals(id, &flow.name, flow.tenant.as_str(), &current.status);
    Ok(rows.map(|row: PendingApproval| (row.id.clone(), object(&row))).collect())
}

/// Takes the rows of a flow out of those of all flows, whose ids are `FLOW/STEP`.
fn rows_of(rows: &mut BTreeMap<String, Value>, flow: &str) -> BTreeMap<String, Value> {
    let mut own = rows.split_off(&format!("{flow}/"));
    let mut others = own.split_off(&format!("{flow}0"));
    rows.append(&mut others);
    own
}

/// Of these it is only said that there are many.
fn many_jobs(gathered: &Gathered) -> bool {
    gathered.many_jobs || gathered.jobs.len() > ROWS
}

fn many_flows(gathered: &Gathered) -> bool {
    gathered.flows.len() > ROWS
}

/// The jobs whose rows these views show.
fn shown_jobs(views: &[Arc<View>], gathered: &Gathered) -> BTreeSet<JobId> {
    let mut ids = BTreeSet::new();
    for view in views {
        match &view.topic {
            Topic::Jobs if !many_jobs(gathered) => ids.extend(&gathered.jobs),
            Topic::Job(id) if gathered.many_jobs || gathered.jobs.contains(id) => drop(ids.insert(*id)),
            _ => {}
        }
    }
    ids
}

async fn flow_document(api: &Api, id: &str) -> Result<Option<FleetFlow>, Problem> {
    api.handle.store().get::<FleetFlow>(&part(id)).await.map_err(|error| store(&error))
}

/// Rows of flows that changed, by their ids, as they stand now.
async fn flow_rows(api: &Api, changes: &BTreeMap<String, FlowChange>) -> Result<BTreeMap<String, Value>, Problem> {
    let mut rows = BTreeMap::new();
    for (id, change) in changes {
        let Some(current) = &change.view else { continue };
        let Some(document) = flow_document(api, id).await? else { continue };
        let row = FlowView::row(FlowSummary::from(document), &current.status);
        rows.insert(id.clone(), object(&row));
    }
    Ok(rows)
}

/// The flows of a view that changed.
fn own_flows(view: &View, gathered: &Gathered, known: &BTreeMap<String, Value>) -> Option<Value> {
    let caller = viewer(view);
    let mut own = gathered.flows.iter().filter(|(_, change)| caller.sees(&change.tenant));
    if many_flows(gathered) {
        return own.next().map(|_| json!({ "many": true }));
    }
    let (mut changed, mut gone) = (Vec::new(), Vec::new());
    for (id, change) in own {
        match (&change.view, known.get(id)) {
            (None, _) => gone.push(id.clone()),
            (Some(_), Some(row)) => changed.push(row.clone()),
            (Some(_), None) => {}
        }
    }
    rows(changed, gone)
}

/// What failed in the last hour, of the tenants of a view.
async fn failures(api: &Api, view: &View, now: Time) -> Result<FailedView, Problem> {
    let filter = JobFilter {
        tenants: viewer(view).visible(),
        states: vec![JobState::Failed, JobState::TimedOut],
        order: SortOrder::Descending,
        ..JobFilter::default()
    };
    let found = api.handle.store().jobs(&filter, &Page::first(FAILURES)).await.map_err(|error| store(&error))?;
    let lately = |row: &&JobRow| row.unit.finished_at.is_some_and(|at| now.since(at) < HOUR);
    let mut rows: Vec<&JobRow> = found.items.iter().filter(lately).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.unit.finished_at));
    let reason = |row: &JobRow| row.unit.reason.as_deref().unwrap_or("Failed").to_owned();
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for row in &rows {
        *reasons.entry(reason(row)).or_default() += 1;
    }
    let mut reasons: Vec<ReasonView> =
        reasons.into_iter().map(|(reason, count)| ReasonView { reason, count }).collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.count));
    let newest = rows.first().map(|row| FailedJob {
        id: row.job.id.to_string(),
        name: row.job.name.as_deref().map(str::to_owned),
        flow: row.job.flow.as_deref().map(str::to_owned),
        reason: reason(row),
        exit_code: row.unit.exit_code,
        ended_at: times(row.unit.finished_at),
    });
    let at_least = found.next.is_some() && rows.len() == found.items.len();
    Ok(FailedView { count: rows.len() as u64, at_least, reasons, newest })
}

#[cfg(test)]
mod tests {
    use orlop_core::id::Epoch;
    use orlop_core::spec::status::FlowStatus;
    use proptest::prelude::*;

    use super::*;

    fn changes(flows: usize, last: &str) -> Gathered {
        let current = Arc::new(StatusView { status: FlowStatus::default(), revision: 1, records: 0 });
        let change = |tenant: &str| FlowChange { tenant: tenant.parse().unwrap(), view: Some(Arc::clone(&current)) };
        let others = (0..flows).map(|flow| (format!("f{flow:04}"), change("many")));
        let flows = others.chain([("last".to_owned(), change(last))]).collect();
        Gathered { flows, ..Gathered::default() }
    }

    fn of(topic: Topic, tenant: &str) -> View {
        View { topic, tenants: Some(vec![tenant.to_owned()]) }
    }

    #[test]
    fn a_change_among_very_many_of_other_tenants_is_not_lost() {
        let seen = |flows, tenant| own_flows(&of(Topic::Flows, tenant), &changes(flows, "few"), &BTreeMap::new());
        assert_eq!(seen(ROWS + 50, "few"), Some(json!({ "many": true })));
        assert_eq!(seen(ROWS + 50, "none"), None);
        assert_eq!(seen(3, "none"), None);
    }

    #[test]
    fn a_job_that_is_watched_is_read_among_very_many() {
        let id = |number| JobId::new(Epoch(1), number).unwrap();
        let views = [Topic::Jobs, Topic::Job(id(5000))].map(|topic| Arc::new(View { topic, tenants: None }));
        let some = Gathered { jobs: (1..4).map(id).collect(), ..Gathered::default() };
        assert_eq!(shown_jobs(&views, &some), some.jobs);
        let many = Gathered { jobs: (1..2000).map(id).collect(), many_jobs: true, ..Gathered::default() };
        assert_eq!(shown_jobs(&views, &many), BTreeSet::from([id(5000)]));
    }

    proptest! {
        /// The rows of one flow, and no row of one whose id begins alike.
        #[test]
        fn the_rows_of_a_flow_are_those_with_its_id(ids in prop::collection::btree_set("[ab0./-]{1,3}/[ab]", 0..20)) {
            let mut rows: BTreeMap<String, Value> = ids.iter().map(|id| (id.clone(), json!(id))).collect();
            let all = rows.clone();
            let own = rows_of(&mut rows, "a");
            prop_assert!(own.keys().all(|id| id.starts_with("a/")) && rows.keys().all(|id| !id.starts_with("a/")));
            rows.extend(own);
            prop_assert_eq!(rows, all);
        }
    }
}
