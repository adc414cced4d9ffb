//! Jobs as they stand: lists, one job, waiting for its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::error::Problem;
use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::named::Named as _;
use orlop_core::ports::fleet_store::{JobFilter, JobKind, JobRow, Page, SortOrder, SpecHash};
use orlop_core::spec::job::Indices;
use serde_json::Value;

use super::super::call::{Call, not_found};
use super::super::cursor;
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use super::super::view::job::{JobList, JobView};

/// The longest wait of one request.
const WAIT: Duration = Duration::from_secs(300);
/// Characters of a program's name.
const PROGRAM: usize = 256;

impl Api {
    /// A job that the caller sees.
    pub(in super::super) async fn job(&self, call: &Call) -> Result<JobRow, Problem> {
        let id: JobId = call.id("id", "job")?;
        let row = self.handle.store().job(id).await.map_err(|error| store(&error))?;
        row.filter(|row| call.sees(&row.job.tenant)).ok_or_else(|| not_found(format_args!("job {id}")))
    }
}

/// States of a query or a body.
pub(in super::super) fn states<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<JobState>, Problem> {
    let words = texts.flat_map(|text| text.split(','));
    words.map(|word| JobState::from_typed(word.trim()).map_err(|error| Problem::field("state", error))).collect()
}

fn filter(call: &Call) -> Result<JobFilter, Problem> {
    let order = match call.one("order")?.map(str::to_ascii_lowercase).as_deref() {
        None | Some("newest") => SortOrder::Descending,
        Some("oldest") => SortOrder::Ascending,
        Some(_) => return Err(Problem::field("order", "use newest or oldest")),
    };
    Ok(JobFilter {
        tenants: call.tenants()?,
        states: states(call.all("state"))?,
        labels: call.labels()?,
        since: call.read("since")?,
        flow: call.one("flow")?.map(str::to_owned),
        order,
    })
}

/// Indices of an array as a query or a body names them; they are of no other job.
pub(in super::super) fn indices(row: &JobRow, field: &str, text: Option<&str>) -> Result<Option<Indices>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let indices = text.parse().map_err(|error| Problem::field(field, format!("{error}")))?;
    if row.job.kind == JobKind::Array {
        Ok(Some(indices))
    } else {
        Err(Problem::field(field, "this job is not an array"))
    }
}

impl Api {
    /// Jobs as they are listed, with what has to be looked up.
    async fn detailed(&self, rows: Vec<JobRow>) -> Result<Vec<JobView>, Problem> {
        let elements = self.elements(&rows).await?;
        let mut programs: BTreeMap<SpecHash, Option<String>> = BTreeMap::new();
        let mut views = Vec::with_capacity(rows.len());
        for row in rows {
            let (id, hash) = (row.job.id, row.job.spec);
            let program = match programs.get(&hash) {
                Some(known) => known.clone(),
                None => {
                    let spec = self.handle.store().spec(&hash).await.map_err(|error| store(&error))?;
                    let program = spec.and_then(|spec| program(&serde_json::from_str(&spec.body).ok()?));
                    programs.insert(hash, program.clone());
                    program
                }
            };
            views.push(JobView { elements: elements.get(&id).copied(), program, ..JobView::from(row) });
        }
        Ok(views)
    }
}

/// What a job runs, in a word.
fn program(spec: &Value) -> Option<String> {
    let word = spec["command"][0].as_str().or_else(|| spec["image"].as_str());
    let kind = || ["script", "step"].into_iter().find(|kind| !spec[*kind].is_null());
    word.filter(|word| !word.is_empty()).or_else(kind).map(|word| word.chars().take(PROGRAM).collect())
}

/// GET /jobs
pub(in super::super) async fn list(api: Arc<Api>, call: Call) -> Answer {
    let page = Page { after: call.cursor::<JobId>("jobs")?, limit: call.limit()? };
    let found = api.handle.store().jobs(&filter(&call)?, &page).await.map_err(|error| store(&error))?;
    let next_cursor = found.next.map(|id| cursor::write("jobs", &id.to_string()));
    let items = match call.switch("details")? {
        true => api.detailed(found.items).await?,
        false => found.items.into_iter().map(JobView::from).collect(),
    };
    Reply::json(200, &JobList { items, next_cursor })
}

/// GET /jobs/{id}
pub(in super::super) async fn get(api: Arc<Api>, call: Call) -> Answer {
    let wait = call.duration("wait")?.map(|wait| wait.min(WAIT));
    let mut row = api.job(&call).await?;
    if let Some(wait) = wait.filter(|_| !row.unit.state.is_terminal()) {
        // Time that is up is no error: the answer says how far the job is.
        if let Ok(ended) = tokio::time::timeout(wait, api.handle.ended(row.job.id)).await {
            ended?;
        }
        row = api.job(&call).await?;
    }
    let spec = api.handle.store().spec(&row.job.spec).await.map_err(|error| store(&error))?;
    let revision = row.revision;
    let elements = api.elements(std::slice::from_ref(&row)).await?.remove(&row.job.id);
    let spec = spec.and_then(|spec| serde_json::from_str(&spec.body).ok());
    Ok(Reply::json(200, &JobView { spec, elements, ..JobView::from(row) })?.revision(revision))
}
