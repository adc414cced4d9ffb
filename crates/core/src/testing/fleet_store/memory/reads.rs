//! How the double answers reads.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use async_trait::async_trait;

use super::{JobEntry, MemoryFleet};
use crate::error::Problem;
use crate::id::JobId;
use crate::ports::fleet_store::{
    AttemptDetail, AttemptFilter, AttemptRow, AuditEntry, AuditFilter, ElementCounts, ElementFilter, ElementRow, Entry,
    EntryFilter, FleetReads, IdempotencyKey, IdempotencyRecord, JobFilter, JobRow, Kind, Leader, NewSpec, OutboxRow,
    Page, Paged, SortOrder, Spans, SpecHash, tenant_passes,
};
use crate::task::TaskRef;
use crate::time::Time;

/// Items after a cursor.
fn beyond<C: Clone>(after: Option<&C>) -> (Bound<C>, Bound<C>) {
    (after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone())), Bound::Unbounded)
}

/// Items before a cursor, for lists that run down.
fn before<C: Clone>(after: Option<&C>) -> (Bound<C>, Bound<C>) {
    (Bound::Unbounded, after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone())))
}

impl JobEntry {
    /// Every element in order, those without a record of their own too.
    fn all_elements(&self) -> impl Iterator<Item = ElementRow> {
        let parts = Spans::never_assigned(&self.row.job.indices, &self.changes);
        parts.into_iter().flat_map(move |(first, last, unit)| {
            (first..=last).map(move |index| {
                let unit = self.elements.get(&index).unwrap_or(&unit).clone();
                ElementRow { index, unit }
            })
        })
    }
}

#[async_trait]
impl FleetReads for MemoryFleet {
    async fn job(&self, id: JobId) -> Result<Option<JobRow>, Problem> {
        Ok(self.read(|state| state.jobs.get(&id).map(|held| held.row.clone())))
    }

    async fn some_jobs(&self, ids: &BTreeSet<JobId>) -> Result<Vec<JobRow>, Problem> {
        Ok(self.read(|state| ids.iter().filter_map(|id| state.jobs.get(id)).map(|held| held.row.clone()).collect()))
    }

    async fn jobs(&self, filter: &JobFilter, page: &Page<JobId>) -> Result<Paged<JobRow, JobId>, Problem> {
        Ok(self.read(|state| {
            let pick = |held: &&JobEntry| filter.passes(&held.row);
            let some = page.size() + 1;
            let after = page.after.as_ref();
            let found: Vec<JobRow> = match filter.order {
                SortOrder::Ascending => {
                    let held = state.jobs.range(beyond(after)).map(|(_, held)| held);
                    held.filter(pick).take(some).map(|held| held.row.clone()).collect()
                }
                SortOrder::Descending => {
                    let held = state.jobs.range(before(after)).rev().map(|(_, held)| held);
                    held.filter(pick).take(some).map(|held| held.row.clone()).collect()
                }
            };
            Paged::cut(found, page.size(), |row| row.job.id)
        }))
    }

    async fn spec(&self, hash: &SpecHash) -> Result<Option<NewSpec>, Problem> {
        let spec = |(body, _): &(Box<str>, u64)| NewSpec { hash: *hash, body: body.clone() };
        Ok(self.read(|state| state.specs.get(hash).map(spec)))
    }

    async fn elements(
        &self,
        job: JobId,
        filter: &ElementFilter,
        page: &Page<u32>,
    ) -> Result<Paged<ElementRow, u32>, Problem> {
        Ok(self.read(|state| {
            let all = state.jobs.get(&job).into_iter().flat_map(JobEntry::all_elements);
            let found = all
                .filter(|row| page.after.is_none_or(|after| row.index > after))
                .filter(|row| filter.passes(row.index, row.unit.state) && (row.unit.attempt > 0 || !filter.assigned));
            Paged::cut(found.take(page.size() + 1).collect(), page.size(), |row| row.index)
        }))
    }

    async fn element_counts(&self, jobs: &BTreeSet<JobId>) -> Result<BTreeMap<JobId, ElementCounts>, Problem> {
        Ok(self.read(|state| {
            let arrays = jobs.iter().filter_map(|id| Some((*id, state.jobs.get(id)?)));
            let arrays = arrays.filter(|(_, held)| !held.row.job.indices.is_empty());
            let counts = |held: &JobEntry| {
                let mut counts = ElementCounts::new();
                held.all_elements().for_each(|row| *counts.entry(row.unit.state).or_default() += 1);
                counts
            };
            arrays.map(|(id, held)| (id, counts(held))).collect()
        }))
    }

    async fn attempts(
        &self,
        job: JobId,
        filter: &AttemptFilter,
        page: &Page<TaskRef>,
    ) -> Result<Paged<AttemptRow, TaskRef>, Problem> {
        Ok(self.read(|state| {
            let rows = state.attempts.range(beyond(page.after.as_ref()));
            let found = rows
                .filter(|(id, _)| id.job == job && filter.index.is_none_or(|index| id.index == index))
                .map(|(_, row)| row.clone());
            Paged::cut(found.take(page.size() + 1).collect(), page.size(), |row: &AttemptRow| row.attempt.id)
        }))
    }

    async fn detail(&self, attempt: &TaskRef) -> Result<Option<AttemptDetail>, Problem> {
        Ok(self.read(|state| state.details.get(attempt).cloned()))
    }

    async fn entry(&self, kind: Kind, key: &str) -> Result<Option<Entry>, Problem> {
        if self.read(|state| state.silent) {
            std::future::pending::<()>().await;
        }
        Ok(self.read(|state| state.entries.get(&(kind, key.to_owned())).cloned()))
    }

    async fn entries(
        &self,
        kind: Kind,
        filter: &EntryFilter,
        page: &Page<String>,
    ) -> Result<Paged<Entry, String>, Problem> {
        Ok(self.read(|state| {
            let rows = state.entries.iter().filter(|((of, key), entry)| {
                *of == kind
                    && page.after.as_ref().is_none_or(|after| key > after)
                    && key.starts_with(&filter.prefix)
                    && tenant_passes(filter.tenants.as_deref(), entry.tenant.as_ref())
                    && !(filter.live && entry.ended_at.is_some())
            });
            let found = rows.take(page.size() + 1).map(|(_, entry)| entry.clone());
            Paged::cut(found.collect(), page.size(), |entry: &Entry| entry.key.clone())
        }))
    }

    async fn idempotency(&self, key: &IdempotencyKey, now: Time) -> Result<Option<IdempotencyRecord>, Problem> {
        Ok(self.read(|state| state.keys.get(key).filter(|record| record.expires_at > now).cloned()))
    }

    async fn idempotency_keys(
        &self,
        now: Time,
        page: &Page<IdempotencyKey>,
    ) -> Result<Paged<IdempotencyRecord, IdempotencyKey>, Problem> {
        Ok(self.read(|state| {
            let rows = state.keys.range(beyond(page.after.as_ref())).map(|(_, record)| record);
            let found = rows.filter(|record| record.expires_at > now).take(page.size() + 1).cloned();
            Paged::cut(found.collect(), page.size(), |record: &IdempotencyRecord| record.key.clone())
        }))
    }

    async fn audit(&self, filter: &AuditFilter, page: &Page<u64>) -> Result<Paged<AuditEntry, u64>, Problem> {
        Ok(self.read(|state| {
            let pick = |entry: &&AuditEntry| {
                tenant_passes(filter.tenants.as_deref(), entry.tenant.as_ref())
                    && filter.since.is_none_or(|since| entry.time >= since)
            };
            let some = page.size() + 1;
            let after = page.after.as_ref();
            let found: Vec<AuditEntry> = match filter.order {
                SortOrder::Ascending => {
                    state.audit.range(beyond(after)).map(|(_, entry)| entry).filter(pick).take(some).cloned().collect()
                }
                SortOrder::Descending => {
                    let entries = state.audit.range(before(after)).rev().map(|(_, entry)| entry);
                    entries.filter(pick).take(some).cloned().collect()
                }
            };
            Paged::cut(found, page.size(), |entry| entry.number)
        }))
    }

    async fn outbox(&self, page: &Page<u64>) -> Result<Paged<OutboxRow, u64>, Problem> {
        Ok(self.read(|state| {
            let rows = state.outbox.range(beyond(page.after.as_ref())).take(page.size() + 1);
            let found = rows.map(|(&id, event)| OutboxRow { id, event: event.clone() }).collect();
            Paged::cut(found, page.size(), |row: &OutboxRow| row.id)
        }))
    }

    async fn outbox_len(&self) -> Result<u64, Problem> {
        Ok(self.read(|state| state.outbox.len() as u64))
    }

    async fn leader(&self) -> Result<Option<Leader>, Problem> {
        Ok(self.read(|state| {
            state.leader.clone().map(|(holder, epoch)| Leader {
                holder: holder.name,
                url: holder.url,
                epoch,
                remaining: None,
            })
        }))
    }
}
