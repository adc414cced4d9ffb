//! Filters and cursors of lists. Owns their meaning, which doubles and adapters share.

use super::job::JobRow;
use crate::id::TenantName;
use crate::machine::job::JobState;
use crate::spec::job::Indices;
use crate::time::Time;

/// The most items of one page.
pub const MAX_PAGE: u32 = 10_000;

/// Which way a list runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// From the smallest cursor up.
    #[default]
    Ascending,
    /// From the greatest cursor down.
    Descending,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<C> {
    /// The last item seen; absent = from the beginning.
    pub after: Option<C>,
    /// At most as many items, 1 to [`MAX_PAGE`]; values outside are taken as the nearest.
    pub limit: u32,
}

impl<C> Page<C> {
    /// The first items.
    #[must_use]
    pub fn first(limit: u32) -> Self {
        Self { after: None, limit }
    }

    /// The items after one.
    #[must_use]
    pub fn after(cursor: C, limit: u32) -> Self {
        Self { after: Some(cursor), limit }
    }

    /// Number of items, inside its bounds.
    #[must_use]
    pub fn size(&self) -> usize {
        self.limit.clamp(1, MAX_PAGE) as usize
    }
}

/// Items of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paged<T, C> {
    /// The items.
    pub items: Vec<T>,
    /// Cursor of the last one when there may be more.
    pub next: Option<C>,
}

impl<T, C> Paged<T, C> {
    /// A page of `size` items out of a list that holds one more when there is more.
    #[must_use]
    pub fn cut(mut items: Vec<T>, size: usize, cursor: impl Fn(&T) -> C) -> Self {
        let more = items.len() > size;
        items.truncate(size);
        let next = if more { items.last().map(cursor) } else { None };
        Self { items, next }
    }
}

/// Which jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Of these tenants; absent = of all.
    pub tenants: Option<Vec<TenantName>>,
    /// In these states; none = in any.
    pub states: Vec<JobState>,
    /// With all of these labels.
    pub labels: Vec<(String, String)>,
    /// Submitted at this time or later.
    pub since: Option<Time>,
    /// Of this flow.
    pub flow: Option<String>,
    /// Which way.
    pub order: SortOrder,
}

impl JobFilter {
    /// Whether a job passes.
    #[must_use]
    pub fn passes(&self, row: &JobRow) -> bool {
        super::tenant_passes(self.tenants.as_deref(), Some(&row.job.tenant))
            && (self.states.is_empty() || self.states.contains(&row.unit.state))
            && self.since.is_none_or(|since| row.job.submitted_at >= since)
            && self.flow.as_deref().is_none_or(|flow| row.job.flow.as_deref() == Some(flow))
            && has_labels(row.job.labels.as_deref(), &self.labels)
    }
}

/// Whether a JSON object of texts holds all of these.
fn has_labels(labels: Option<&str>, wanted: &[(String, String)]) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let labels = labels.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok()).unwrap_or_default();
    wanted.iter().all(|(key, value)| labels.get(key).and_then(|found| found.as_str()) == Some(value))
}

/// Which elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementFilter {
    /// In these states; none = in any. Elements that wait count as Queued, whatever the gate.
    pub states: Vec<JobState>,
    /// With these indices; absent = with any.
    pub indices: Option<Indices>,
    /// Only those that were assigned at least once.
    pub assigned: bool,
}

impl ElementFilter {
    /// Whether an element in this state passes.
    #[must_use]
    pub fn passes(&self, index: u32, state: JobState) -> bool {
        (self.states.is_empty() || self.states.contains(&state))
            && self.indices.as_ref().is_none_or(|indices| indices.contains(index))
    }
}

/// Which attempts of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptFilter {
    /// Of this element.
    pub index: Option<u32>,
}

/// Which documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// Only those whose key begins with this.
    pub prefix: String,
    /// Of these tenants; absent = of all, and those of none.
    pub tenants: Option<Vec<TenantName>>,
    /// Only those that have not ended.
    pub live: bool,
}

/// Which lines of the audit trail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Of these tenants; absent = of all, and those of none.
    pub tenants: Option<Vec<TenantName>>,
    /// At this time or later.
    pub since: Option<Time>,
    /// Which way.
    pub order: SortOrder,
}
