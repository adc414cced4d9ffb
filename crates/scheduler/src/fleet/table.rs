//! The worker table: structure of arrays in blocks of 64 workers, with summaries by which whole blocks are skipped. Owns
//! free and total amounts; never decides who may be placed.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::dims::{CPU, MEMORY, SLOTS};
use super::{Amounts, MAX_DIMS};
use crate::table::NONE;

/// Workers in a block.
pub(crate) const BLOCK: usize = 64;

/// One number per worker of a block.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
struct Row<T>(#[serde(with = "crate::table::stored::row")] [T; BLOCK]);

/// A column: one amount per worker, by block.
type Column = Vec<Row<i32>>;

/// The table. A place is 64 × block + lane.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Table {
    /// Free amounts by dimension; below zero after a shrink.
    free: Vec<Column>,
    total: Vec<Column>,
    kind: Vec<Row<u32>>,
    owner: Vec<Row<u32>>,
    blocks: Vec<Block>,
    /// Per dimension and block: no open worker has more free than this. Exact after `tighten`.
    most: Vec<Vec<i32>>,
    /// Per dimension and block: no open worker has less free than this. Exact after `tighten`.
    least: Vec<Vec<i32>>,
    /// Blocks with a free place, by the size of their workers: equals stand together, so summaries say much.
    #[serde(with = "crate::table::stored::pairs")]
    vacant: BTreeMap<(u32, u32), Vec<u32>>,
    sum: [u64; MAX_DIMS],
    /// By dimension, the first one of the same counter and the shift of its unit; empty while every counter has one column.
    #[serde(default)]
    units: Vec<(usize, u32)>,
    workers: u64,
}

/// What is known of a block as a whole.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Block {
    /// Workers that may be placed on.
    pub(crate) open: u64,
    /// Places in use.
    used: u64,
    /// Union of `1 << (kind % 64)` of its workers.
    pub(crate) kinds: u64,
    size: (u32, u32),
}

impl Default for Table {
    fn default() -> Self {
        Self {
            free: Vec::new(),
            total: Vec::new(),
            kind: Vec::new(),
            owner: Vec::new(),
            blocks: Vec::new(),
            most: Vec::new(),
            least: Vec::new(),
            vacant: BTreeMap::new(),
            sum: [0; MAX_DIMS],
            units: Vec::new(),
            workers: 0,
        }
    }
}

const fn split(place: u32) -> (usize, usize) {
    ((place / 64) as usize, (place % 64) as usize)
}

fn cell<T: Copy>(column: &[Row<T>], place: u32) -> Option<T> {
    let (block, lane) = split(place);
    column.get(block)?.0.get(lane).copied()
}

fn cell_mut<T>(column: &mut [Row<T>], place: u32) -> Option<&mut T> {
    let (block, lane) = split(place);
    column.get_mut(block)?.0.get_mut(lane)
}

/// Magnitude of an amount: 0 for 0, else 1 + ⌊log₂⌋.
pub(crate) const fn magnitude(amount: i32) -> u32 {
    if amount <= 0 { 0 } else { 32 - amount.leading_zeros() }
}

/// One place, read once to be tested against many classes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) place: u32,
    pub(crate) open: bool,
    pub(crate) kind: u32,
    pub(crate) free: Amounts,
}

impl Spot {
    /// Whether all of this is free; what is not asked for may be overdrawn.
    #[inline]
    pub(crate) fn holds(&self, amounts: &Amounts) -> bool {
        let mut holds = true;
        for (free, amount) in self.free.iter().zip(amounts) {
            holds &= (*amount <= *free) | (*amount == 0);
        }
        holds
    }

    /// The same for a request of cpu, memory and slots.
    #[inline]
    pub(crate) fn holds_narrow(&self, amounts: &Amounts) -> bool {
        let fits = |dim: usize| (amounts[dim] <= self.free[dim]) | (amounts[dim] == 0);
        fits(CPU) & fits(MEMORY) & fits(SLOTS)
    }
}

impl Table {
    /// A place as it is now.
    pub(crate) fn spot(&self, place: u32) -> Spot {
        let mut free = Amounts::default();
        for (free, column) in free.iter_mut().zip(&self.free) {
            *free = cell(column, place).unwrap_or(0);
        }
        Spot { place, open: self.is_open(place), kind: self.kind(place), free }
    }

    /// Makes room for this many dimensions.
    pub(crate) fn widen(&mut self, dims: usize) {
        let blocks = self.blocks.len();
        for _ in self.free.len()..dims.min(MAX_DIMS) {
            self.free.push(vec![Row([0; BLOCK]); blocks]);
            self.total.push(vec![Row([0; BLOCK]); blocks]);
            self.most.push(vec![0; blocks]);
            self.least.push(vec![0; blocks]);
        }
    }

    /// Gives a worker a place; it is closed at first.
    pub(crate) fn enter(&mut self, owner: u32, kind: u32, total: &Amounts) -> u32 {
        let size = (magnitude(total[CPU]), magnitude(total[MEMORY]));
        let block = match self.vacant.get(&size).and_then(|blocks| blocks.last()) {
            Some(block) => *block,
            None => self.add_block(size),
        };
        let Some(known) = self.blocks.get_mut(block as usize) else { return NONE };
        let lane = (!known.used).trailing_zeros();
        known.used |= 1 << lane;
        known.kinds |= 1 << (kind % 64);
        if known.used == u64::MAX {
            self.vacant.entry(size).or_default().pop();
        }
        let place = block * 64 + lane;
        for (dim, amount) in total.iter().enumerate().take(self.free.len()) {
            self.set(dim, place, *amount, *amount);
            self.sum[dim] += u64::try_from(*amount).unwrap_or(0);
        }
        if let Some(cell) = cell_mut(&mut self.kind, place) {
            *cell = kind;
        }
        if let Some(cell) = cell_mut(&mut self.owner, place) {
            *cell = owner;
        }
        self.workers += 1;
        place
    }

    fn add_block(&mut self, size: (u32, u32)) -> u32 {
        let number = u32::try_from(self.blocks.len()).unwrap_or(NONE);
        self.blocks.push(Block { open: 0, used: 0, kinds: 0, size });
        self.kind.push(Row([0; BLOCK]));
        self.owner.push(Row([NONE; BLOCK]));
        for dim in 0..self.free.len() {
            self.free[dim].push(Row([0; BLOCK]));
            self.total[dim].push(Row([0; BLOCK]));
            self.most[dim].push(0);
            self.least[dim].push(0);
        }
        self.vacant.entry(size).or_default().push(number);
        number
    }

    /// Takes a worker out.
    pub(crate) fn leave(&mut self, place: u32) {
        let (block, lane) = split(place);
        let Some(known) = self.blocks.get_mut(block) else { return };
        let bit = 1_u64 << lane;
        if known.used & bit == 0 {
            return;
        }
        if known.used == u64::MAX {
            self.vacant.entry(known.size).or_default().push(place / 64);
        }
        known.used &= !bit;
        known.open &= !bit;
        for dim in 0..self.free.len() {
            let total = cell(&self.total[dim], place).unwrap_or(0);
            self.sum[dim] -= u64::try_from(total).unwrap_or(0);
            self.set(dim, place, 0, 0);
        }
        if let Some(cell) = cell_mut(&mut self.owner, place) {
            *cell = NONE;
        }
        self.workers -= 1;
        self.tighten(block);
    }

    fn set(&mut self, dim: usize, place: u32, free: i32, total: i32) {
        if let Some(cell) = self.free.get_mut(dim).and_then(|column| cell_mut(column, place)) {
            *cell = free;
        }
        if let Some(cell) = self.total.get_mut(dim).and_then(|column| cell_mut(column, place)) {
            *cell = total;
        }
    }

    /// Changes a worker's capacity and kind; what is taken stays taken.
    pub(crate) fn resize(&mut self, place: u32, kind: u32, total: &Amounts) {
        for (dim, amount) in total.iter().enumerate().take(self.free.len()) {
            let (free, old) = (self.free(dim, place), self.total(dim, place));
            let taken = old.saturating_sub(free);
            self.set(dim, place, amount.saturating_sub(taken), *amount);
            self.sum[dim] = self.sum[dim] + u64::try_from(*amount).unwrap_or(0) - u64::try_from(old).unwrap_or(0);
        }
        if let Some(cell) = cell_mut(&mut self.kind, place) {
            *cell = kind;
        }
        self.tighten(split(place).0);
    }

    /// Lets jobs be placed on a worker, or no longer.
    pub(crate) fn set_open(&mut self, place: u32, open: bool) {
        let (block, lane) = split(place);
        let Some(known) = self.blocks.get_mut(block) else { return };
        let bit = 1_u64 << lane;
        let was = known.open & bit != 0;
        known.open = if open { known.open | bit } else { known.open & !bit };
        if open && !was {
            self.tighten(block);
        }
    }

    pub(crate) fn is_open(&self, place: u32) -> bool {
        let (block, lane) = split(place);
        self.blocks.get(block).is_some_and(|known| known.open >> lane & 1 == 1)
    }

    /// Places that are open, of blocks with one of these kinds modulo 64.
    pub(crate) fn open_places(&self, kinds: u64) -> impl Iterator<Item = u32> {
        let blocks = (0_u32..).zip(&self.blocks).filter(move |(_, block)| block.kinds & kinds != 0);
        blocks.flat_map(|(number, block)| {
            let mut open = block.open;
            std::iter::from_fn(move || {
                let lane = open.trailing_zeros();
                open &= open.wrapping_sub(1);
                (lane < 64).then_some(number * 64 + lane)
            })
        })
    }

    /// Whether no dimension of a worker is overdrawn.
    pub(crate) fn is_whole(&self, place: u32) -> bool {
        self.free.iter().all(|column| cell(column, place).unwrap_or(0) >= 0)
    }

    /// Takes `times` of a request.
    pub(crate) fn charge(&mut self, place: u32, need: &[(u8, i32)], times: i32) {
        let (block, _) = split(place);
        for (dim, amount) in need {
            let dim = usize::from(*dim);
            let Some(cell) = self.free.get_mut(dim).and_then(|column| cell_mut(column, place)) else { continue };
            *cell = cell.saturating_sub(amount.saturating_mul(times));
            let now = *cell;
            if let Some(least) = self.least.get_mut(dim).and_then(|summary| summary.get_mut(block)) {
                *least = now.min(*least);
            }
        }
    }

    /// Gives one request back.
    pub(crate) fn release(&mut self, place: u32, need: &[(u8, i32)]) {
        let (block, lane) = split(place);
        let open = self.blocks.get(block).is_some_and(|known| known.open >> lane & 1 == 1);
        for (dim, amount) in need {
            let dim = usize::from(*dim);
            let Some(cell) = self.free.get_mut(dim).and_then(|column| cell_mut(column, place)) else { continue };
            *cell = cell.saturating_add(*amount);
            let now = *cell;
            if open && let Some(most) = self.most.get_mut(dim).and_then(|summary| summary.get_mut(block)) {
                *most = now.max(*most);
            }
        }
    }

    /// Makes the summaries of a block exact.
    pub(crate) fn tighten(&mut self, block: usize) {
        let Some(known) = self.blocks.get_mut(block) else { return };
        let open = known.open;
        if let Some(kinds) = self.kind.get(block) {
            let used = known.used;
            let bits = kinds.0.iter().enumerate().filter(|(lane, _)| used >> lane & 1 == 1);
            known.kinds = bits.fold(0, |mask, (_, kind)| mask | 1 << (kind % 64));
        }
        for dim in 0..self.free.len() {
            let Some(column) = self.free[dim].get(block) else { continue };
            let (mut most, mut least) = (i32::MIN, i32::MAX);
            for (lane, free) in column.0.iter().enumerate() {
                if open >> lane & 1 == 1 {
                    (most, least) = (most.max(*free), least.min(*free));
                }
            }
            self.most[dim][block] = most;
            self.least[dim][block] = least;
        }
    }

    pub(crate) fn free(&self, dim: usize, place: u32) -> i32 {
        self.free.get(dim).and_then(|column| cell(column, place)).unwrap_or(0)
    }

    pub(crate) fn total(&self, dim: usize, place: u32) -> i32 {
        self.total.get(dim).and_then(|column| cell(column, place)).unwrap_or(0)
    }

    pub(crate) fn kind(&self, place: u32) -> u32 {
        cell(&self.kind, place).unwrap_or(NONE)
    }

    pub(crate) fn owner(&self, place: u32) -> u32 {
        cell(&self.owner, place).unwrap_or(NONE)
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Free amounts of a block.
    pub(crate) fn column(&self, dim: usize, block: usize) -> &[i32; BLOCK] {
        const NOTHING: &[i32; BLOCK] = &[0; BLOCK];
        self.free.get(dim).and_then(|column| column.get(block)).map_or(NOTHING, |row| &row.0)
    }

    /// The most and the least that an open worker of a block may have free.
    pub(crate) fn bounds(&self, dim: usize, block: usize) -> (i32, i32) {
        let most = self.most.get(dim).and_then(|summary| summary.get(block)).copied().unwrap_or(0);
        let least = self.least.get(dim).and_then(|summary| summary.get(block)).copied().unwrap_or(0);
        (most, least)
    }

    /// The most that an open worker of each block may have free.
    pub(crate) fn most(&self, dim: usize) -> &[i32] {
        self.most.get(dim).map_or(&[], Vec::as_slice)
    }

    /// How often a request fits into what is free.
    pub(crate) fn hosts(&self, place: u32, need: &[(u8, i32)]) -> u32 {
        let times = need.iter().map(|(dim, amount)| self.free(usize::from(*dim), place) / (*amount).max(1));
        times.min().map_or(0, |times| u32::try_from(times).unwrap_or(0))
    }

    /// Capacity of the whole fleet in a dimension.
    pub(crate) fn sum(&self, dim: usize) -> u64 {
        self.sum.get(dim).copied().unwrap_or(0)
    }

    /// Says which columns count the same in other units.
    pub(crate) fn set_units(&mut self, units: Vec<(usize, u32)>) {
        self.units = units;
    }

    /// Which part of the whole fleet an amount of a dimension is, the columns of one counter together; absent if the fleet has
    /// nothing of it.
    pub(crate) fn part(&self, dim: usize, amount: i32) -> Option<f64> {
        let alone = || (u128::from(amount.unsigned_abs()), u128::from(self.sum(dim)));
        let together = |(first, shift): &(usize, u32)| {
            let same = self.units.iter().enumerate().filter(|(_, (other, _))| other == first);
            let total = same.map(|(other, (_, shift))| u128::from(self.sum(other)) << shift).sum::<u128>();
            (u128::from(amount.unsigned_abs()) << shift, total)
        };
        let (amount, total) = self.units.get(dim).map_or_else(alone, together);
        (total > 0).then(|| amount as f64 / total as f64)
    }

    /// The greatest part of the whole fleet among these amounts, columns of one counter counting together; absent where none of
    /// them is above 0, and without bound where the fleet has nothing of one.
    pub(crate) fn greatest_part(&self, amount: impl Fn(usize) -> u64) -> Option<f64> {
        let part = |held: f64, total: f64| if total > 0.0 { held / total } else { f64::MAX };
        if self.units.is_empty() {
            let parts = (0..self.free.len()).map(|dim| (amount(dim), dim)).filter(|(held, _)| *held > 0);
            return parts.map(|(held, dim)| part(held as f64, self.sum(dim) as f64)).reduce(f64::max);
        }
        let mut wholes = [(0_u128, 0_u128); MAX_DIMS];
        for (dim, (first, shift)) in self.units.iter().enumerate() {
            if let Some((held, total)) = wholes.get_mut(*first) {
                *held += u128::from(amount(dim)) << shift;
                *total += u128::from(self.sum(dim)) << shift;
            }
        }
        let parts = wholes.into_iter().filter(|(held, _)| *held > 0);
        parts.map(|(held, total)| part(held as f64, total as f64)).reduce(f64::max)
    }

    /// Workers in the table.
    pub(crate) fn workers(&self) -> u64 {
        self.workers
    }

    /// Checks every summary and sum against the cells; for `sanity_check`.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let mut sum = [0_u64; MAX_DIMS];
        for (block, known) in self.blocks.iter().enumerate() {
            if known.open & !known.used != 0 {
                return Err("a place without a worker is open");
            }
            for lane in (0..BLOCK).filter(|lane| known.used >> lane & 1 == 1) {
                let place = u32::try_from(block * BLOCK + lane).unwrap_or(NONE);
                for (dim, sum) in sum.iter_mut().enumerate().take(self.free.len()) {
                    let (free, (most, least)) = (self.free(dim, place), self.bounds(dim, block));
                    *sum += u64::try_from(self.total(dim, place)).unwrap_or(0);
                    if known.open >> lane & 1 == 1 && (free > most || free < least) {
                        return Err("a block's summary is wrong");
                    }
                }
            }
        }
        if sum == self.sum { Ok(()) } else { Err("the fleet's capacity is not that of its workers") }
    }
}
