//! What belongs to a job: attempts, elements.

use std::sync::Arc;

use orlop_core::error::Problem;
use orlop_core::machine::attempt::AttemptState;
use orlop_core::ports::fleet_store::{AttemptFilter, AttemptRow, ElementFilter, Page};
use orlop_core::task::TaskRef;

use super::super::call::Call;
use super::super::cursor;
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use super::super::view::job::{AttemptList, AttemptView, ElementList, ElementView, InUseView};
use super::jobs::{indices, states};

/// GET /jobs/{id}/attempts
pub(in super::super) async fn attempts(api: Arc<Api>, call: Call) -> Answer {
    let row = api.job(&call).await?;
    let filter = AttemptFilter { index: call.read("index")? };
    let after = call.cursor::<String>("attempts")?;
    let after: Option<TaskRef> = match after {
        Some(text) => {
            Some(serde_json::from_str(&text).map_err(|_| Problem::field("cursor", "does not belong to this list"))?)
        }
        None => None,
    };
    let page = Page { after: after.filter(|after| after.job == row.job.id), limit: call.limit()? };
    let found = api.handle.store().attempts(row.job.id, &filter, &page).await.map_err(|error| store(&error))?;
    let next = found.next.and_then(|id| serde_json::to_string(&id).ok());
    let next_cursor = next.map(|id| cursor::write("attempts", &id));
    let fleet = api.handle.snapshot();
    let view = |row: AttemptRow| {
        let in_use = if row.state == AttemptState::Running { InUseView::of(&row, &fleet) } else { None };
        AttemptView { in_use, ..AttemptView::from(row) }
    };
    Reply::json(200, &AttemptList { items: found.items.into_iter().map(view).collect(), next_cursor })
}

/// GET /jobs/{id}/elements
pub(in super::super) async fn elements(api: Arc<Api>, call: Call) -> Answer {
    let row = api.job(&call).await?;
    let indices = indices(&row, "index", call.one("index")?)?;
    let filter = ElementFilter { states: states(call.all("state"))?, indices, ..ElementFilter::default() };
    let page = Page { after: call.cursor::<u32>("elements")?, limit: call.limit()? };
    let found = api.handle.store().elements(row.job.id, &filter, &page).await.map_err(|error| store(&error))?;
    let next_cursor = found.next.map(|index| cursor::write("elements", &index.to_string()));
    Reply::json(200, &ElementList { items: found.items.into_iter().map(ElementView::from).collect(), next_cursor })
}
