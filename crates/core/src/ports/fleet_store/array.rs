//! Elements of arrays: those never assigned as ranges, the others as rows. Owns how ranges, later ranges and rows make up
//! what stands of an array; stores only list what was written.

use std::collections::BTreeMap;

use super::job::{TaskStatus, Text};
use crate::id::{Epoch, JobId};
use crate::machine::job::JobState;
use crate::time::Time;

/// A new state of elements that were never assigned: cancelled, expired, or past `max_failures`. Elements that were assigned
/// keep the state of their own records. The first ranges of an array are those it was submitted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeChange {
    /// The array.
    pub job: JobId,
    /// First index.
    pub first: u32,
    /// Last index, inclusive.
    pub last: u32,
    /// Their state now.
    pub state: JobState,
    /// Why.
    pub reason: Option<Text>,
    /// When.
    pub at: Time,
}

/// A new state of an element that was assigned at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementChange {
    /// The array.
    pub job: JobId,
    /// The element.
    pub index: u32,
    /// Where it stands now.
    pub unit: TaskStatus,
}

/// An element as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementRow {
    /// The element.
    pub index: u32,
    /// Where it stands.
    pub unit: TaskStatus,
}

/// How many elements are in which state.
pub type ElementCounts = BTreeMap<JobState, u64>;

/// Neighbouring elements of which the same is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementSpan {
    /// First index.
    pub first: u32,
    /// Last index, inclusive.
    pub last: u32,
    /// Their state.
    pub state: JobState,
    /// Number of their newest attempt; 0 = never assigned.
    pub attempt: u32,
    /// The epoch of that attempt.
    pub epoch: Epoch,
    /// That attempt has an accepted result.
    pub answered: bool,
}

/// What stands of an array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// Elements never assigned and not final, as inclusive ranges.
    pub waiting: Vec<(u32, u32)>,
    /// Elements that are final, in order.
    pub done: Vec<ElementSpan>,
    /// The others, in order.
    pub live: Vec<ElementRow>,
}

impl Spans {
    /// What stands of an array that was submitted with `indices`, after `changes` in the order they were written, and with
    /// `elements` in order of their indices.
    #[must_use]
    pub fn fold(
        indices: &[(u32, u32)],
        changes: &[RangeChange],
        elements: impl IntoIterator<Item = ElementRow>,
    ) -> Self {
        let mut spans = Self::default();
        for row in elements {
            if row.unit.state.is_terminal() {
                let ElementRow { index, unit } = row;
                let TaskStatus { state, attempt, epoch, answered, .. } = unit;
                spans.finish(ElementSpan { first: index, last: index, state, attempt, epoch, answered });
            } else {
                spans.live.push(row);
            }
        }
        Self::join(indices, changes, spans.done, spans.live)
    }

    /// The same, of elements that are final as spans and the others as rows, both in order.
    #[must_use]
    pub fn join(
        indices: &[(u32, u32)],
        changes: &[RangeChange],
        done: Vec<ElementSpan>,
        live: Vec<ElementRow>,
    ) -> Self {
        let mut never = Paint::new(indices);
        changes.iter().zip(1..).for_each(|(change, number)| never.over(change.first, change.last, Some(number)));
        done.iter().for_each(|span| never.over(span.first, span.last, None));
        live.iter().for_each(|row| never.over(row.index, row.index, None));
        let mut spans = Self { live, ..Self::default() };
        let mut all = done;
        for (first, last, number) in never.parts() {
            let change = number.checked_sub(1).and_then(|number| changes.get(number));
            match change.map(|change| change.state).filter(|state| state.is_terminal()) {
                Some(state) => {
                    let epoch = Epoch(0);
                    all.push(ElementSpan { first, last, state, attempt: 0, epoch, answered: false });
                }
                None => spans.waiting.push((first, last)),
            }
        }
        all.sort_unstable_by_key(|span| span.first);
        all.into_iter().for_each(|span| spans.finish(span));
        spans
    }

    /// How many elements are in which state, of an array whose elements with a record of their own are counted in `recorded`.
    /// `recorded_in` counts those of them in a range.
    ///
    /// # Errors
    /// Those of `recorded_in`.
    pub fn counts<E>(
        indices: &[(u32, u32)],
        changes: &[RangeChange],
        recorded: ElementCounts,
        mut recorded_in: impl FnMut(u32, u32) -> Result<u64, E>,
    ) -> Result<ElementCounts, E> {
        let all: u64 = indices.iter().map(|(first, last)| u64::from(*last) - u64::from(*first) + 1).sum();
        let mut queued = all.saturating_sub(recorded.values().sum());
        let mut counts = recorded;
        // Without changes all of them wait: nothing is looked up.
        let changed = if changes.is_empty() { Vec::new() } else { Self::never_assigned(indices, changes) };
        for (first, last, unit) in changed {
            if unit.state != JobState::Queued {
                let part = (u64::from(last) - u64::from(first) + 1).saturating_sub(recorded_in(first, last)?);
                *counts.entry(unit.state).or_default() += part;
                queued = queued.saturating_sub(part);
            }
        }
        if queued > 0 {
            *counts.entry(JobState::Queued).or_default() += queued;
        }
        counts.retain(|_, count| *count > 0);
        Ok(counts)
    }

    /// Adds a final span behind the others, as part of the last one where the same is known of both.
    fn finish(&mut self, span: ElementSpan) {
        if let Some(before) = self.done.last_mut()
            && before.last.checked_add(1) == Some(span.first)
            && (before.state, before.attempt, before.epoch, before.answered)
                == (span.state, span.attempt, span.epoch, span.answered)
        {
            before.last = span.last;
            return;
        }
        self.done.push(span);
    }

    /// States of what was never assigned, as parts in order: what lists show where an element has no record of its own.
    #[must_use]
    pub fn never_assigned(indices: &[(u32, u32)], changes: &[RangeChange]) -> Vec<(u32, u32, TaskStatus)> {
        let mut paint = Paint::new(indices);
        let mut units = vec![TaskStatus::new(JobState::Queued)];
        for (change, number) in changes.iter().zip(1..) {
            paint.over(change.first, change.last, Some(number));
            let finished_at = change.state.is_terminal().then_some(change.at);
            units.push(TaskStatus { reason: change.reason.clone(), finished_at, ..TaskStatus::new(change.state) });
        }
        let unit = |number: usize| units.get(number).cloned();
        paint.parts().into_iter().filter_map(|(first, last, number)| Some((first, last, unit(number)?))).collect()
    }
}

/// Disjoint ranges with the number of the change that spoke last of them, 0 for none. Nothing is painted outside the ranges
/// of the beginning.
#[derive(Debug)]
struct Paint {
    parts: BTreeMap<u32, (u32, usize)>,
}

impl Paint {
    fn new(indices: &[(u32, u32)]) -> Self {
        let parts = indices.iter().filter(|(first, last)| first <= last);
        Self { parts: parts.map(|&(first, last)| (first, (last, 0))).collect() }
    }

    /// Paints a range; without a number it is taken out.
    fn over(&mut self, first: u32, last: u32, number: Option<usize>) {
        if first > last {
            return;
        }
        let begin = self.parts.range(..=first).next_back().map_or(first, |(&start, _)| start);
        let touched: Vec<u32> = self.parts.range(begin..=last).map(|(&start, _)| start).collect();
        for start in touched {
            let Some((end, old)) = self.parts.remove(&start) else { continue };
            if end < first {
                self.parts.insert(start, (end, old));
                continue;
            }
            if start < first {
                self.parts.insert(start, (first - 1, old));
            }
            if end > last {
                self.parts.insert(last + 1, (end, old));
            }
            if let Some(number) = number {
                self.parts.insert(start.max(first), (end.min(last), number));
            }
        }
    }

    fn parts(self) -> Vec<(u32, u32, usize)> {
        self.parts.into_iter().map(|(first, (last, number))| (first, last, number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(first: u32, last: u32, state: JobState) -> RangeChange {
        RangeChange { job: JobId::from_u64(1), first, last, state, reason: None, at: Time::EPOCH }
    }

    fn row(index: u32, state: JobState) -> ElementRow {
        ElementRow { index, unit: TaskStatus { attempt: 1, epoch: Epoch(1), answered: true, ..TaskStatus::new(state) } }
    }

    #[test]
    fn rows_win_over_ranges_and_later_ranges_over_earlier_ones() {
        let changes = [change(10, 19, JobState::Cancelled), change(18, 25, JobState::Failed)];
        let rows = [row(0, JobState::Completed), row(1, JobState::Completed), row(2, JobState::Running)];
        let spans = Spans::fold(&[(0, 21), (30, 31)], &changes, rows.into_iter().chain([row(12, JobState::Completed)]));
        assert_eq!(spans.waiting, [(3, 9), (30, 31)]);
        let done: Vec<_> = spans.done.iter().map(|span| (span.first, span.last, span.state)).collect();
        use JobState::{Cancelled, Completed, Failed};
        assert_eq!(
            done,
            [(0, 1, Completed), (10, 11, Cancelled), (12, 12, Completed), (13, 17, Cancelled), (18, 21, Failed)]
        );
        assert_eq!(spans.live.len(), 1);
    }

    proptest! {
        #[test]
        fn folding_and_counting_equal_painting_one_element_at_a_time(
            changes in proptest::collection::vec((0_u32..64, 0_u32..24, any::<bool>()), 0..12),
            rows in proptest::collection::btree_map(0_u32..64, any::<bool>(), 0..20),
        ) {
            let indices = [(0_u32, 20_u32), (22, 40), (41, 60)];
            let state = |flag| if flag { JobState::Cancelled } else { JobState::Failed };
            let changes: Vec<_> = changes.iter().map(|&(first, len, flag)| change(first, first + len, state(flag))).collect();
            let rows: Vec<_> = rows.into_iter()
                .filter(|(index, _)| indices.iter().any(|(first, last)| (first..=last).contains(&index)))
                .map(|(index, ended)| row(index, if ended { JobState::Completed } else { JobState::Running })).collect();
            let mut one = BTreeMap::new();
            for index in indices.iter().flat_map(|&(first, last)| first..=last) {
                let painted = changes.iter().rev().find(|change| (change.first..=change.last).contains(&index));
                let own = rows.iter().find(|row| row.index == index);
                one.insert(index, own.map(|row| row.unit.state).or(painted.map(|change| change.state)));
            }
            let (mut counts, mut recorded) = (BTreeMap::new(), BTreeMap::new());
            one.values().for_each(|state| *counts.entry(state.unwrap_or(JobState::Queued)).or_insert(0) += 1);
            rows.iter().for_each(|row| *recorded.entry(row.unit.state).or_insert(0) += 1);
            let within = |first, last| {
                Ok::<_, ()>(rows.iter().filter(|row| (first..=last).contains(&row.index)).count() as u64)
            };
            prop_assert_eq!(Spans::counts(&indices, &changes, recorded, within), Ok(counts));
            let spans = Spans::fold(&indices, &changes, rows);
            let mut found = BTreeMap::new();
            for &(first, last) in &spans.waiting {
                found.extend((first..=last).map(|index| (index, None)));
            }
            for span in &spans.done {
                found.extend((span.first..=span.last).map(|index| (index, Some(span.state))));
            }
            found.extend(spans.live.iter().map(|row| (row.index, Some(row.unit.state))));
            prop_assert_eq!(found, one);
        }
    }
}
