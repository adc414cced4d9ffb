//! Which worker a class of jobs gets: ranking by policy over the worker table. Owns the scores, and the search for the best
//! workers of a run that skips whole blocks; changes nothing.
//!
//! Scores are 16-bit fixed point, least is best, with a bound over a block of 64 workers from its summaries. Only additions,
//! multiplications and square roots of `f32`, which are exact by IEEE 754, in one order: equal on every platform, and
//! monotone, so that a bound is never above a score.

#[cfg(test)]
mod tests;

use crate::class::{Class, Request, Requests};
use crate::config::Policy;
use crate::fleet::MAX_DIMS;
use crate::fleet::table::{BLOCK, Table};
use crate::table::{NONE, mix};

/// 1 ÷ mean worker capacity, per dimension; 0 where the fleet has none.
pub(crate) type Scale = [f32; MAX_DIMS];

/// The scale of a fleet.
pub(crate) fn scale(table: &Table) -> Scale {
    let mut scale = [0.0; MAX_DIMS];
    for (dim, scale) in scale.iter_mut().enumerate() {
        let sum = table.sum(dim);
        if sum > 0 {
            *scale = (table.workers() as f64 / sum as f64) as f32;
        }
    }
    scale
}

/// A score in 16-bit fixed point; saturates.
fn fixed(score: f32) -> u32 {
    (score * 65_536.0) as u32
}

/// ρ of one dimension: what is left after placing, in mean workers.
#[inline]
fn rest(free: i32, amount: i32, scale: f32) -> f32 {
    free.saturating_sub(amount) as f32 * scale
}

/// Scores of all workers of a block; only those that fit mean anything.
fn block_scores(policy: Policy, table: &Table, block: usize, request: &Request, scale: &Scale) -> [f32; BLOCK] {
    let mut squares = [0.0_f32; BLOCK];
    let mut sum = [0.0_f32; BLOCK];
    let mut most = [0.0_f32; BLOCK];
    let mut least = [f32::INFINITY; BLOCK];
    for (dim, amount) in &request.ranked {
        let dim = usize::from(*dim);
        let (column, scale) = (table.column(dim, block), scale.get(dim).copied().unwrap_or(0.0));
        for lane in 0..BLOCK {
            let rest = (column[lane].wrapping_sub(*amount)) as f32 * scale;
            squares[lane] += rest * rest;
            sum[lane] += rest;
            most[lane] = if rest > most[lane] { rest } else { most[lane] };
            least[lane] = if rest < least[lane] { rest } else { least[lane] };
        }
    }
    match policy {
        Policy::FirstFit => return [0.0; BLOCK],
        Policy::MostAllocated => return sum,
        Policy::Spread => {
            for least in &mut least {
                *least = SPREAD_TOP - if *least < SPREAD_TOP { *least } else { SPREAD_TOP };
            }
            return least;
        }
        Policy::BestFit | Policy::DotProduct | Policy::Balanced => {}
    }
    let mut scores = [0.0_f32; BLOCK];
    for lane in 0..BLOCK {
        scores[lane] = squares[lane].sqrt() + (most[lane] - least[lane]);
    }
    for dim in &request.foreign {
        let column = table.column(usize::from(*dim), block);
        for lane in 0..BLOCK {
            scores[lane] += column[lane].max(0) as f32;
        }
    }
    scores
}

/// The score of one place, as [`block_scores`] has it.
pub(crate) fn of_place(policy: Policy, table: &Table, place: u32, request: &Request, scale: &Scale) -> u32 {
    let (mut squares, mut sum, mut most, mut least) = (0.0_f32, 0.0_f32, 0.0_f32, f32::INFINITY);
    for (dim, amount) in &request.ranked {
        let dim = usize::from(*dim);
        let scale = scale.get(dim).copied().unwrap_or(0.0);
        let rest = table.free(dim, place).wrapping_sub(*amount) as f32 * scale;
        squares += rest * rest;
        sum += rest;
        most = if rest > most { rest } else { most };
        least = if rest < least { rest } else { least };
    }
    let score = match policy {
        Policy::FirstFit => 0.0,
        Policy::MostAllocated => sum,
        Policy::Spread => SPREAD_TOP - if least < SPREAD_TOP { least } else { SPREAD_TOP },
        Policy::BestFit | Policy::DotProduct | Policy::Balanced => {
            let score = squares.sqrt() + (most - least);
            let foreign = request.foreign.iter().map(|dim| table.free(usize::from(*dim), place).max(0) as f32);
            foreign.fold(score, |score, free| score + free)
        }
    };
    fixed(score)
}

/// Above any rest that matters for `spread`, in mean workers: its score is this less the least rest.
const SPREAD_TOP: f32 = 128.0;

/// A bound below the score of every worker of a block that fits.
fn bound(policy: Policy, table: &Table, block: usize, request: &Request, scale: &Scale) -> f32 {
    let (mut squares, mut sum) = (0.0_f32, 0.0_f32);
    // The greatest of the least rests, the least of the greatest ones.
    let (mut low, mut high) = (0.0_f32, f32::INFINITY);
    for (dim, amount) in &request.ranked {
        let dim = usize::from(*dim);
        let (most, least) = table.bounds(dim, block);
        let scale = scale.get(dim).copied().unwrap_or(0.0);
        let (near, far) = (rest(least.max(*amount), *amount, scale), rest(most.max(*amount), *amount, scale));
        squares += near * near;
        sum += near;
        low = if near > low { near } else { low };
        high = if far < high { far } else { high };
    }
    match policy {
        Policy::BestFit | Policy::DotProduct => {
            let spread = low - high;
            let mut bound = squares.sqrt() + if spread > 0.0 { spread } else { 0.0 };
            for dim in &request.foreign {
                bound += table.bounds(usize::from(*dim), block).1.clamp(0, i32::MAX - 1) as f32;
            }
            bound
        }
        Policy::MostAllocated => sum,
        Policy::Spread => SPREAD_TOP - if high < SPREAD_TOP { high } else { SPREAD_TOP },
        Policy::FirstFit | Policy::Balanced => 0.0,
    }
}

/// What is looked for.
pub(crate) struct Search<'a> {
    pub(crate) policy: Policy,
    pub(crate) class: &'a Class,
    /// Its request vectors that may be used.
    pub(crate) numbers: &'a [u32],
    pub(crate) requests: &'a Requests,
    pub(crate) scale: &'a Scale,
    /// Orders equals.
    pub(crate) seed: u64,
    /// How many jobs the candidates should hold together.
    pub(crate) run: u32,
    /// A place that is not wanted.
    pub(crate) avoid: u32,
    /// What a kind scores by the preferences of the jobs, if they have any.
    pub(crate) preference: Option<&'a dyn Fn(u32) -> u32>,
    /// What scores a place and a request vector where no bound is known: under `balanced`, and by users' own policies.
    pub(crate) scorer: Option<Scorer<'a>>,
}

/// A score of a place and a request vector that fits it; least is best.
pub(crate) type Scorer<'a> = &'a dyn Fn(u32, &Request) -> u32;

/// A worker that fits, in order of choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    score: u32,
    /// Attempts there, for `spread`.
    crowd: u32,
    /// Greater is preferred less.
    unpreferred: u32,
    tie: u64,
    pub(crate) place: u32,
    /// Number of the request vector that fits.
    pub(crate) request: u32,
    /// How often it fits.
    pub(crate) hosts: u32,
}

/// The best candidates that together hold a run, best first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shortlist {
    list: Vec<Candidate>,
    hosted: u64,
}

impl Shortlist {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.hosted = 0;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Candidate> {
        self.list.iter().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The last candidate, once those before it would not do without it: a worse one cannot be of use.
    fn last(&self, run: u32) -> Option<Candidate> {
        self.list.last().copied().filter(|_| self.hosted >= u64::from(run))
    }

    fn offer(&mut self, candidate: Candidate, run: u32) {
        if self.last(run).is_some_and(|last| candidate > last) {
            return;
        }
        let at = self.list.partition_point(|known| *known < candidate);
        self.list.insert(at, candidate);
        self.hosted += u64::from(candidate.hosts);
        while let Some(last) = self.list.last()
            && self.hosted - u64::from(last.hosts) >= u64::from(run)
        {
            self.hosted -= u64::from(last.hosts);
            self.list.pop();
        }
    }
}

/// The rank of a place among equals: a permutation chosen by the seed, block by block so that full blocks stay full.
pub(crate) fn tie(seed: u64, place: u32) -> u64 {
    let hash = block_tie(seed, place / 64);
    hash | u64::from(place ^ (hash >> 32) as u32 & 63)
}

const fn block_tie(seed: u64, block: u32) -> u64 {
    mix(seed ^ ((block as u64) << 1 | 1)) & !0xffff_ffff
}

/// Workers of a block that have this free.
fn fitting(table: &Table, block: usize, request: &Request) -> u64 {
    let mut fits = [1_u8; BLOCK];
    for (dim, amount) in &request.need {
        let column = table.column(usize::from(*dim), block);
        for lane in 0..BLOCK {
            fits[lane] &= u8::from(column[lane] >= *amount);
        }
    }
    fits.iter().enumerate().fold(0, |mask, (lane, fit)| mask | u64::from(*fit) << lane)
}

impl Search<'_> {
    /// Looks at the whole fleet. Blocks whose summaries promised too much are added to `loose`, to be tightened.
    pub(crate) fn everywhere(&self, table: &Table, found: &mut Shortlist, loose: &mut Vec<u32>) {
        found.clear();
        for number in self.numbers {
            let Some(request) = self.requests.get(*number) else { continue };
            for block in 0..table.blocks().len() {
                let Some(open) = self.open_if_better(table, block, request, found) else { continue };
                let fits = open & fitting(table, block, request);
                if fits == 0 {
                    loose.push(u32::try_from(block).unwrap_or(NONE));
                } else {
                    self.weigh(table, block, *number, request, fits, found);
                    // All that follow are later; another kind of devices may still be there on an earlier one.
                    let over = |last: Candidate| last.place as usize / BLOCK <= block;
                    if self.policy == Policy::FirstFit && found.last(self.run).is_some_and(over) {
                        break;
                    }
                }
            }
        }
    }

    /// Looks at some places only.
    pub(crate) fn among(&self, table: &Table, places: &[u32], found: &mut Shortlist) {
        found.clear();
        // With one place and one vector there is nothing to rank.
        if let ([place], [number]) = (places, self.numbers)
            && let Some(request) = self.requests.get(*number)
        {
            let hosts = table.hosts(*place, &request.need);
            if hosts > 0 && table.is_open(*place) && *place != self.avoid && self.class.sees(table.kind(*place)) {
                let (score, crowd, unpreferred, tie) = (0, 0, 0, 0);
                found.offer(
                    Candidate { score, crowd, unpreferred, tie, place: *place, request: *number, hosts },
                    self.run,
                );
            }
            return;
        }
        for number in self.numbers {
            let Some(request) = self.requests.get(*number) else { continue };
            for place in places {
                if table.is_open(*place) && table.hosts(*place, &request.need) > 0 {
                    let (block, lane) = ((place / 64) as usize, place % 64);
                    self.weigh(table, block, *number, request, 1 << lane, found);
                }
            }
        }
    }

    /// Looks at every place one by one, skipping nothing: what the search is tested against.
    #[cfg(test)]
    pub(crate) fn plainly(&self, table: &Table, found: &mut Shortlist) {
        let places: Vec<u32> = (0..table.blocks().len() as u32 * 64).collect();
        self.among(table, &places, found);
    }

    /// Open workers of a block, if one of them could be better than what is found already.
    fn open_if_better(&self, table: &Table, block: usize, request: &Request, found: &Shortlist) -> Option<u64> {
        let known = table.blocks().get(block)?;
        if known.open == 0 || known.kinds & self.class.kinds == 0 {
            return None;
        }
        for (dim, amount) in &request.need {
            if table.most(usize::from(*dim)).get(block).is_none_or(|most| most < amount) {
                return None;
            }
        }
        if let Some(last) = found.last(self.run)
            && self.scorer.is_none()
        {
            let bound = fixed(bound(self.policy, table, block, request, self.scale));
            let number = u32::try_from(block).unwrap_or(NONE);
            let equal_is_worse =
                self.preference.is_none() && self.policy != Policy::Spread && self.tie_of(number * 64) & !63 > last.tie;
            if bound > last.score || (bound == last.score && equal_is_worse) {
                return None;
            }
        }
        Some(known.open)
    }

    fn tie_of(&self, place: u32) -> u64 {
        if self.policy == Policy::FirstFit { u64::from(place) } else { tie(self.seed, place) }
    }

    /// Offers the workers of a block that fit.
    fn weigh(&self, table: &Table, block: usize, number: u32, request: &Request, mut fits: u64, found: &mut Shortlist) {
        let scores = block_scores(self.policy, table, block, request, self.scale);
        let first = u32::try_from(block * BLOCK).unwrap_or(NONE);
        let mut worst = found.last(self.run).map_or(u32::MAX, |last| last.score);
        while fits != 0 {
            let lane = fits.trailing_zeros();
            fits &= fits - 1;
            let place = first + lane;
            let score = match self.scorer {
                Some(scorer) => scorer(place, request),
                None => fixed(scores.get(lane as usize).copied().unwrap_or(0.0)),
            };
            if score > worst || place == self.avoid || !self.class.sees(table.kind(place)) {
                continue;
            }
            let crowd = match self.policy {
                Policy::Spread => u32::try_from(table.total(2, place) - table.free(2, place)).unwrap_or(0),
                _ => 0,
            };
            let unpreferred = self.preference.map_or(0, |score| u32::MAX - score(table.kind(place)));
            let hosts = table.hosts(place, &request.need);
            let tie = self.tie_of(place);
            found.offer(Candidate { score, crowd, unpreferred, tie, place, request: number, hosts }, self.run);
            worst = found.last(self.run).map_or(u32::MAX, |last| last.score);
        }
    }
}
