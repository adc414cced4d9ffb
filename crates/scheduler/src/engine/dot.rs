//! The policy `dot-product`: which of a tenant's first heads suits the worker that grew. Owns the choice and
//! how often a head may be passed over; the other policies take the first head.

use super::Scheduler;
use crate::fleet::MAX_DIMS;
use crate::queue::{LaneEntry, QueueEntry};

/// How many heads are compared.
const HEADS: usize = 16;
/// How often a head may be passed over.
const PASSES: u8 = 16;

impl Scheduler {
    /// The head of a lane whose demand points where the rest of the worker that grew last does: greatest
    /// Σ w·request·free with w = 1 ÷ mean demand of the heads compared. Without such a worker the first head.
    pub(super) fn suited(&mut self, tenant: u32, band: usize) -> Option<LaneEntry> {
        let lane = self.tenants.get(tenant as usize)?.lanes.get(band)?;
        let mut heads: Vec<LaneEntry> =
            lane.entries.iter().filter(|entry| !entry.stopped && self.is_open(entry.class)).copied().collect();
        heads.sort_unstable_by_key(|entry| entry.key);
        heads.truncate(HEADS);
        // Nobody behind a head that was passed over often enough may be chosen, wherever that head stands.
        let places: Vec<Option<QueueEntry>> = heads.iter().map(|entry| self.place_of(entry)).collect();
        let passes = |(entry, place): (&LaneEntry, &Option<QueueEntry>)| {
            self.queues.get(entry.queue as usize).zip(*place).map_or(0, |(queue, place)| queue.passes.of(place))
        };
        if let Some(tired) = heads.iter().zip(&places).position(|head| passes(head) >= PASSES) {
            heads.truncate(tired + 1);
        }
        let first = *heads.first()?;
        let place = self.grown.filter(|place| self.table.is_open(*place));
        let chosen = place.and_then(|place| self.most_along(&heads, place)).unwrap_or(first);
        // Nobody is forgotten here: the chosen one may not fit, and wait on. Whoever would fit nowhere is counted as well, since
        // only a search each would tell: it is tried the sooner for it, and passed over no more often than it may be.
        for (entry, place) in heads.iter().zip(places).take_while(|(entry, _)| entry.key < chosen.key) {
            if let Some((queue, place)) = self.queues.get_mut(entry.queue as usize).zip(place) {
                queue.passes.count(place);
            }
        }
        Some(chosen)
    }

    /// The first of a queue: its order and, of an array, the element.
    fn place_of(&mut self, entry: &LaneEntry) -> Option<QueueEntry> {
        let (key, first) = self.head(entry.queue)?;
        Some((key, self.peek(first.job).index))
    }

    fn most_along(&self, heads: &[LaneEntry], place: u32) -> Option<LaneEntry> {
        let request = |entry: &LaneEntry| {
            let class = self.classes.get(entry.class)?;
            let (number, request) = class.fitting(&self.table.spot(place), &self.requests)?;
            debug_assert!(self.requests.get(number).is_some(), "what fits is known");
            Some(request)
        };
        let mut mean = [0.0_f64; MAX_DIMS];
        for request in heads.iter().filter_map(request) {
            for (dim, amount) in &request.ranked {
                if let Some(mean) = mean.get_mut(usize::from(*dim)) {
                    *mean += f64::from(*amount) / heads.len() as f64;
                }
            }
        }
        let along = |entry: &LaneEntry| {
            let part = |(dim, amount): &(u8, i32)| {
                let dim = usize::from(*dim);
                let mean = mean.get(dim).copied().unwrap_or(0.0);
                if mean > 0.0 { f64::from(*amount) / mean * f64::from(self.table.free(dim, place)) } else { 0.0 }
            };
            request(entry).map(|request| request.ranked.iter().map(part).sum::<f64>())
        };
        let mut best: Option<(f64, LaneEntry)> = None;
        for entry in heads {
            if let Some(score) = along(entry)
                && best.is_none_or(|(most, _)| score > most)
            {
                best = Some((score, *entry));
            }
        }
        best.map(|(_, entry)| entry)
    }
}
