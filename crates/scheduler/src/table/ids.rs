//! From job ids to slots: pages of neighbouring ids, found by open addressing with linear probing over a mixed page number.
//! Ids are given out in order, so that jobs of about the same age share cache lines. Owns both tables; ids are never
//! iterated, so their order in them shows nowhere.

use super::NONE;
use serde::{Deserialize, Serialize};

/// Ids of a page.
const PAGE: usize = 32;

/// Slots by id.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ids {
    directory: Directory,
    pages: Vec<Page>,
    /// Pages without ids.
    spare: Vec<u32>,
}

/// Slots of the ids that agree in all but their last bits.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Page {
    slots: [u32; PAGE],
    used: u32,
}

const BLANK: Page = Page { slots: [NONE; PAGE], used: 0 };

const fn split(id: u64) -> (u64, usize) {
    (id / PAGE as u64, (id % PAGE as u64) as usize)
}

impl Ids {
    pub(crate) fn new(seed: u64) -> Self {
        Self { directory: Directory { cells: Vec::new(), used: 0, seed }, pages: Vec::new(), spare: Vec::new() }
    }

    pub(crate) fn get(&self, id: u64) -> Option<u32> {
        let (number, at) = split(id);
        let page = self.pages.get(self.directory.get(number)? as usize)?;
        page.slots.get(at).copied().filter(|slot| *slot != NONE)
    }

    pub(crate) fn insert(&mut self, id: u64, slot: u32) {
        let (number, at) = split(id);
        let page = match self.directory.get(number) {
            Some(page) => page,
            None => self.add(number),
        };
        let Some(page) = self.pages.get_mut(page as usize) else { return };
        if let Some(place) = page.slots.get_mut(at) {
            page.used += u32::from(*place == NONE);
            *place = slot;
        }
    }

    fn add(&mut self, number: u64) -> u32 {
        let page = self.spare.pop().unwrap_or_else(|| {
            self.pages.push(BLANK);
            u32::try_from(self.pages.len() - 1).unwrap_or(NONE)
        });
        self.directory.insert(number, page);
        page
    }

    pub(crate) fn remove(&mut self, id: u64) {
        let (number, at) = split(id);
        let Some(found) = self.directory.get(number) else { return };
        let Some(page) = self.pages.get_mut(found as usize) else { return };
        let Some(place) = page.slots.get_mut(at).filter(|place| **place != NONE) else { return };
        *place = NONE;
        page.used -= 1;
        if page.used == 0 {
            self.directory.remove(number);
            self.spare.push(found);
        }
    }
}

/// Numbers by key.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Directory {
    cells: Vec<Cell>,
    used: usize,
    seed: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Cell {
    id: u64,
    slot: u32,
}

const EMPTY: Cell = Cell { id: 0, slot: NONE };

/// A bijection of 64 bits whose low bits depend on all bits of the argument (finalizer of SplitMix64).
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Directory {
    fn start(&self, id: u64) -> usize {
        (mix(id ^ self.seed) as usize) & self.cells.len().wrapping_sub(1)
    }

    /// Where the id is, or the empty cell where it would be; none only in a table without cells.
    fn find(&self, id: u64) -> Option<usize> {
        let mask = self.cells.len().checked_sub(1)?;
        let mut at = self.start(id);
        loop {
            let cell = self.cells.get(at)?;
            if cell.slot == NONE || cell.id == id {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn get(&self, id: u64) -> Option<u32> {
        let cell = self.cells.get(self.find(id)?)?;
        (cell.slot != NONE).then_some(cell.slot)
    }

    fn insert(&mut self, id: u64, slot: u32) {
        if (self.used + 1) * 8 > self.cells.len() * 7 {
            self.grow();
        }
        if let Some(cell) = self.find(id).and_then(|at| self.cells.get_mut(at)) {
            self.used += usize::from(cell.slot == NONE);
            *cell = Cell { id, slot };
        }
    }

    fn grow(&mut self) {
        let cells = vec![EMPTY; (self.cells.len() * 2).max(16)];
        let old = std::mem::replace(&mut self.cells, cells);
        for cell in old.into_iter().filter(|cell| cell.slot != NONE) {
            if let Some(free) = self.find(cell.id).and_then(|at| self.cells.get_mut(at)) {
                *free = cell;
            }
        }
    }

    /// Removes an id and moves what follows it back, so that no grave markers are needed.
    fn remove(&mut self, id: u64) {
        let Some(mut hole) = self.find(id) else { return };
        if self.cells.get(hole).is_none_or(|cell| cell.slot == NONE) {
            return;
        }
        self.used -= 1;
        let mask = self.cells.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(cell) = self.cells.get(at).copied().filter(|cell| cell.slot != NONE) else { break };
            // It may move if its own start is not inside the gap between the hole and it.
            if at.wrapping_sub(self.start(cell.id)) & mask >= at.wrapping_sub(hole) & mask {
                if let Some(free) = self.cells.get_mut(hole) {
                    *free = cell;
                }
                hole = at;
            }
        }
        if let Some(cell) = self.cells.get_mut(hole) {
            *cell = EMPTY;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Some ids share a page, and some of these stand at its ends.
    fn spread(id: u64) -> u64 {
        id + id % 4 * 31 + id % 3 * (1 << 40)
    }

    proptest! {
        #[test]
        fn law_it_is_a_map(steps in prop::collection::vec((0..40_u64, any::<bool>()), 0..300), seed: u64) {
            let (mut ids, mut model) = (Ids::new(seed), BTreeMap::new());
            for (step, (id, insert)) in (0..).zip(steps) {
                let id = spread(id);
                if insert {
                    ids.insert(id, step);
                    model.insert(id, step);
                } else {
                    ids.remove(id);
                    model.remove(&id);
                }
                for id in (0..40).map(spread) {
                    prop_assert_eq!(ids.get(id), model.get(&id).copied());
                }
            }
        }
    }
}
