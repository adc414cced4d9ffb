//! How far arrays are: counts of their elements. Those of arrays that have ended are kept, for they never change and counting
//! takes the longer the larger an array is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use orlop_core::error::Problem;
use orlop_core::id::JobId;
use orlop_core::ports::fleet_store::{JobKind, JobRow};

use super::state::{Api, store};
use super::view::job::ElementsView;

/// Arrays whose counts are kept; then the oldest go.
const KEPT: usize = 10_000;

/// Counts of arrays that have ended.
#[derive(Debug, Default)]
pub(super) struct EndedCounts(Mutex<BTreeMap<JobId, ElementsView>>);

impl EndedCounts {
    fn known(&self, jobs: &BTreeSet<JobId>) -> BTreeMap<JobId, ElementsView> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.iter().filter_map(|job| Some((*job, *kept.get(job)?))).collect()
    }

    fn keep(&self, job: JobId, counts: ElementsView) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(job, counts);
        while kept.len() > KEPT {
            kept.pop_first();
        }
    }
}

impl Api {
    /// How many elements of arrays among these jobs are how far.
    pub(super) async fn elements(&self, rows: &[JobRow]) -> Result<BTreeMap<JobId, ElementsView>, Problem> {
        let arrays = || rows.iter().filter(|row| row.job.kind == JobKind::Array);
        let ended: BTreeSet<JobId> =
            arrays().filter(|row| row.unit.state.is_terminal()).map(|row| row.job.id).collect();
        let mut counts = self.counts.known(&ended);
        let wanted: BTreeSet<JobId> = arrays().map(|row| row.job.id).filter(|job| !counts.contains_key(job)).collect();
        if wanted.is_empty() {
            return Ok(counts);
        }
        let found = self.handle.store().element_counts(&wanted).await.map_err(|error| store(&error))?;
        for (job, found) in &found {
            let view = ElementsView::from(found);
            if ended.contains(job) {
                self.counts.keep(*job, view);
            }
            counts.insert(*job, view);
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_ended_arrays_are_kept_and_the_oldest_go() {
        let counts = EndedCounts::default();
        let id = |number: usize| JobId::from_u64(number as u64);
        (0..=KEPT).for_each(|number| counts.keep(id(number), ElementsView { completed: 1, ..ElementsView::default() }));
        assert_eq!(counts.known(&[id(0), id(1), id(KEPT)].into()).into_keys().collect::<Vec<_>>(), [id(1), id(KEPT)]);
    }
}
