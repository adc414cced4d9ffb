//! Elements of an array in order, those never assigned among those with rows. Owns the merging of both; the rows come in
//! parts, from a database.

use orlop_core::ports::fleet_store::{ElementFilter, ElementRow, JobRow, Page, Paged, RangeChange, Spans, TaskStatus};

/// Rows fetched at once.
pub(in crate::store) const PART: usize = 1_000;

/// A page of elements under way.
#[derive(Debug)]
pub(in crate::store) struct Walk {
    parts: Vec<(u32, u32, TaskStatus)>,
    filter: ElementFilter,
    size: usize,
    /// The next index that is looked at.
    at: i64,
    /// The last index that was asked for.
    last: i64,
    found: Vec<ElementRow>,
}

impl Walk {
    pub(in crate::store) fn new(
        job: &JobRow,
        changes: &[RangeChange],
        filter: &ElementFilter,
        page: &Page<u32>,
    ) -> Self {
        let parts = Spans::never_assigned(&job.job.indices, changes);
        let at = page.after.map_or(0, |after| i64::from(after) + 1);
        Self { parts, filter: filter.clone(), size: page.size(), at, last: at, found: Vec::new() }
    }

    /// The first and the last index of which rows are wanted, in order, [`PART`] of them; none when the page is full.
    pub(in crate::store) fn wants(&mut self) -> Option<(i64, i64)> {
        let at = u32::try_from(self.at).ok().filter(|_| self.found.len() <= self.size)?;
        let (first, last) = match &self.filter.indices {
            Some(indices) => indices.from(at)?,
            None => (at, u32::MAX),
        };
        (self.at, self.last) = (i64::from(first), i64::from(last));
        Some((self.at, self.last))
    }

    /// Takes in the rows it wanted. Fewer than [`PART`] are the last ones.
    pub(in crate::store) fn feed(&mut self, rows: Vec<ElementRow>) {
        let end = match rows.last() {
            Some(last) if rows.len() >= PART => i64::from(last.index),
            _ => self.last,
        };
        for row in rows {
            self.fill(i64::from(row.index));
            self.at = i64::from(row.index) + 1;
            self.keep(row);
        }
        self.fill(end + 1);
        self.at = self.at.max(end + 1);
    }

    /// Keeps what was never assigned below an index.
    fn fill(&mut self, below: i64) {
        if !self.parts.is_empty() && !self.filter.assigned {
            let parts = std::mem::take(&mut self.parts);
            for (first, last, unit) in &parts {
                let passes = self.filter.states.is_empty() || self.filter.states.contains(&unit.state);
                let from = i64::from(*first).max(self.at);
                let to = i64::from(*last).min(below - 1);
                if !passes || from > to {
                    continue;
                }
                let room = self.size + 1 - self.found.len().min(self.size + 1);
                let indices = (from..=to).take(room).filter_map(|index| u32::try_from(index).ok());
                self.found.extend(indices.map(|index| ElementRow { index, unit: unit.clone() }));
            }
            self.parts = parts;
        }
        self.at = self.at.max(below);
    }

    fn keep(&mut self, row: ElementRow) {
        if self.filter.passes(row.index, row.unit.state) {
            self.found.push(row);
        }
    }

    /// The page.
    pub(in crate::store) fn finish(self) -> Paged<ElementRow, u32> {
        Paged::cut(self.found, self.size, |row| row.index)
    }
}
