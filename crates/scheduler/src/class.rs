//! Classes: the interned shapes of jobs for placement, what they request, which of them take part in rounds, and an index
//! of those that fit nowhere. Owns which kinds of workers a class may see, its request vectors, and whether it is blocked.
//! Tenant, priority and time limits are no part of a class.

use std::collections::BTreeMap;

use orlop_core::id::TenantName;
use serde::{Deserialize, Serialize};

use crate::fleet::Amounts;
use crate::fleet::dims::{CPU, Dims, MEMORY, SLOTS, TOO_MUCH, mebi_up, requested};
use crate::fleet::kind::{Kind, Kinds};
use crate::fleet::table::{Spot, Table, magnitude};
use crate::job::{Demand, Gang, Requires, Resources, Runtime};

/// What makes two jobs of one class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) resources: Resources,
    pub(crate) requires: Requires,
    pub(crate) runtime: Runtime,
    pub(crate) gang: Option<Gang>,
    /// The tenant, if any worker names it; other tenants all see the same workers.
    pub(crate) domain: Option<TenantName>,
}

/// A class.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Class {
    pub(crate) shape: Shape,
    /// Numbers of its request vectors: one per kind of GPU that would do, in order of preference.
    pub(crate) requests: Vec<u32>,
    /// What the first of these takes of each dimension, to be at hand; worked out again when it is restored.
    #[serde(skip)]
    first: Amounts,
    /// These are cpu, memory and slots only, as of most classes.
    #[serde(skip)]
    narrow: bool,
    /// One bit per kind.
    eligible: Vec<u64>,
    /// Union of `1 << (kind % 64)` over eligible kinds.
    pub(crate) kinds: u64,
    /// It fits nowhere but perhaps on the hinted places, which grew since that was found; else its next run looks at the
    /// whole fleet.
    pub(crate) refused: bool,
    /// Places that grew and that it fits, while it is refused.
    pub(crate) hints: Vec<u32>,
    /// Since when it is refused.
    pub(crate) since: u64,
    /// Place among refused classes of its bucket.
    pub(crate) seat: u32,
    /// Attempts that ended by themselves, by the magnitude of their run time in milliseconds.
    pub(crate) runtimes: [u32; 32],
    /// Queues with jobs of this class.
    pub(crate) queues: u32,
}

impl Class {
    pub(crate) fn sees(&self, kind: u32) -> bool {
        self.eligible.get((kind / 64) as usize).is_some_and(|word| word >> (kind % 64) & 1 == 1)
    }

    fn judge(&mut self, number: u32, kind: &Kind) {
        let Shape { requires, runtime, domain, .. } = &self.shape;
        let word = (number / 64) as usize;
        if self.eligible.len() <= word {
            self.eligible.resize(word + 1, 0);
        }
        if kind.mismatch(domain.as_ref(), requires, *runtime).is_none()
            && let Some(word) = self.eligible.get_mut(word)
        {
            *word |= 1 << (number % 64);
            self.kinds |= 1 << (number % 64);
        }
    }

    /// The first of its request vectors that a place has free, if its kind may be seen.
    pub(crate) fn fitting<'a>(&self, spot: &Spot, requests: &'a Requests) -> Option<(u32, &'a Request)> {
        if !spot.open || !self.sees(spot.kind) {
            return None;
        }
        let vectors = self.requests.iter().filter_map(|number| Some((*number, requests.get(*number)?)));
        vectors.into_iter().find(|(_, request)| spot.holds(&request.amounts()))
    }

    /// Whether a place has free what it asks for in one of its request vectors.
    #[inline]
    pub(crate) fn fits(&self, spot: &Spot, requests: &Requests) -> bool {
        match self.requests.len() {
            0 => false,
            1 if self.narrow => spot.open && spot.holds_narrow(&self.first) && self.sees(spot.kind),
            1 => spot.open && spot.holds(&self.first) && self.sees(spot.kind),
            _ => self.fitting(spot, requests).is_some(),
        }
    }

    fn note_first(&mut self, requests: &Requests) {
        let first = self.requests.first().and_then(|number| requests.get(*number));
        self.first = first.map_or_else(Amounts::default, Request::amounts);
        self.narrow = self.first.iter().skip(SLOTS + 1).all(|amount| *amount == 0);
    }

    /// Whether no run can place it until something grows.
    pub(crate) fn is_blocked(&self) -> bool {
        self.refused && self.hints.is_empty()
    }
}

/// All classes, by number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Classes {
    list: Vec<Class>,
    #[serde(with = "crate::table::stored::pairs")]
    numbers: BTreeMap<Shape, u32>,
}

impl Classes {
    /// The number of a job's class.
    pub(crate) fn intern(
        &mut self,
        spec: &Demand,
        domain: Option<TenantName>,
        (kinds, dims, requests): (&Kinds, &Dims, &mut Requests),
    ) -> u32 {
        let shape = Shape {
            resources: spec.resources.clone(),
            requires: spec.requires.clone(),
            runtime: spec.runtime,
            gang: spec.gang.clone(),
            domain,
        };
        if let Some(number) = self.numbers.get(&shape) {
            return *number;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let mut class = Class {
            requests: requests.of(&shape.resources, dims),
            shape: shape.clone(),
            first: Amounts::default(),
            narrow: false,
            eligible: Vec::new(),
            kinds: 0,
            refused: false,
            hints: Vec::new(),
            since: 0,
            seat: 0,
            runtimes: [0; 32],
            queues: 0,
        };
        kinds.iter().for_each(|(number, kind)| class.judge(number, kind));
        class.note_first(requests);
        self.list.push(class);
        self.numbers.insert(shape, number);
        number
    }

    /// Judges a new kind for every class.
    pub(crate) fn add_kind(&mut self, number: u32, kind: &Kind) {
        self.list.iter_mut().for_each(|class| class.judge(number, kind));
    }

    /// Works the request vectors out again after new dimensions appeared.
    pub(crate) fn widen(&mut self, dims: &Dims, requests: &mut Requests) {
        for class in &mut self.list {
            class.requests = requests.of(&class.shape.resources, dims);
            class.note_first(requests);
        }
    }

    /// Works out again what is not written down.
    pub(crate) fn rebuild(&mut self, requests: &Requests) {
        self.list.iter_mut().for_each(|class| class.note_first(requests));
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Class> {
        self.list.get(number as usize)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Class> {
        self.list.get_mut(number as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Class)> {
        (0..).zip(&self.list)
    }
}

/// Which classes take part in rounds: they have jobs and are not blocked. One bit per class, and the union of these bits modulo
/// 64, by which trees of tenants are searched.
#[derive(Clone, Debug)]
pub(crate) struct OpenClasses {
    bits: Vec<u64>,
    /// How many bits are set by number of the class modulo 64.
    counts: [u32; 64],
    mask: u64,
}

impl Default for OpenClasses {
    fn default() -> Self {
        Self { bits: Vec::new(), counts: [0; 64], mask: 0 }
    }
}

impl OpenClasses {
    /// Lets a class take part, or no longer.
    pub(crate) fn set(&mut self, class: u32, open: bool) {
        let (word, lane) = ((class / 64) as usize, (class % 64) as usize);
        if self.bits.len() <= word {
            if !open {
                return;
            }
            self.bits.resize(word + 1, 0);
        }
        let (Some(bits), Some(count)) = (self.bits.get_mut(word), self.counts.get_mut(lane)) else { return };
        let bit = 1_u64 << lane;
        match (*bits & bit != 0, open) {
            (false, true) => {
                *bits |= bit;
                *count += 1;
                self.mask |= bit;
            }
            (true, false) => {
                *bits &= !bit;
                *count -= 1;
                self.mask &= if *count == 0 { !bit } else { u64::MAX };
            }
            _ => {}
        }
    }

    /// Whether a class takes part.
    #[inline]
    pub(crate) fn has(&self, class: u32) -> bool {
        self.bits.get((class / 64) as usize).is_some_and(|bits| bits >> (class % 64) & 1 == 1)
    }

    /// The bits of 64 classes after the other; those that are missing are not set.
    pub(crate) fn words(&self) -> &[u64] {
        &self.bits
    }

    /// Union of `1 << (class % 64)` over the classes that take part.
    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }
}

/// What one attempt takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Dimension and amount, above 0, slots included.
    pub(crate) need: Vec<(u8, i32)>,
    /// Dimensions that ranking looks at: cpu, memory and the requested ones, without slots.
    pub(crate) ranked: Vec<(u8, i32)>,
    /// Dimensions of GPUs that it does not want.
    pub(crate) foreign: Vec<u8>,
}

impl Request {
    /// What it takes of a dimension.
    pub(crate) fn amount(&self, dim: usize) -> i32 {
        self.need.iter().find(|(known, _)| usize::from(*known) == dim).map_or(0, |(_, amount)| *amount)
    }

    /// What it takes of every dimension.
    pub(crate) fn amounts(&self) -> Amounts {
        let mut amounts = Amounts::default();
        for (dim, amount) in &self.need {
            if let Some(place) = amounts.get_mut(usize::from(*dim)) {
                *place = *amount;
            }
        }
        amounts
    }

    /// Its dominant share of the fleet, at least 10⁻⁹: the greatest of amount ÷ fleet total.
    pub(crate) fn share(&self, table: &Table) -> f64 {
        let share = |(dim, amount): &(u8, i32)| table.part(usize::from(*dim), *amount).unwrap_or(1.0);
        self.need.iter().map(share).fold(1e-9, f64::max)
    }
}

/// All request vectors, by number. They are never dropped: there are few, and attempts hold their numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Requests {
    list: Vec<Request>,
    #[serde(with = "crate::table::stored::pairs")]
    numbers: BTreeMap<Request, u32>,
}

impl Requests {
    /// The vectors of a request: one per kind of GPU that would do, in order of preference, and per unit in which workers have its
    /// counters; none if no worker has what it asks for.
    pub(crate) fn of(&mut self, resources: &Resources, dims: &Dims) -> Vec<u32> {
        let base = vec![(CPU, requested(resources.cpu_m)), (MEMORY, requested(mebi_up(resources.memory_bytes)))];
        let mut needs = vec![base];
        for (name, amount) in resources.extras.iter().filter(|(_, amount)| **amount > 0) {
            // Workers have a counter in different units: which one that is decides what is asked of it. Those whose
            // columns cannot count so much come last: the first vector says what a job costs.
            let asked = |shift: u32| requested(amount.div_ceil(1 << shift));
            let mut columns: Vec<(usize, u32)> = dims.extras(name).collect();
            columns.sort_by_key(|(_, shift)| asked(*shift) == TOO_MUCH);
            let ways = |need: &Vec<(usize, i32)>| {
                let way = |(dim, shift): &(usize, u32)| {
                    let mut way = need.clone();
                    way.push((*dim, asked(*shift)));
                    way
                };
                columns.iter().map(way).collect::<Vec<_>>()
            };
            needs = needs.iter().flat_map(ways).collect();
        }
        let count = resources.gpus.count;
        let alternatives =
            if count == 0 { vec![None] } else { dims.gpus_for(&resources.gpus).into_iter().map(Some).collect() };
        let build = |need: &[(usize, i32)], gpu: Option<usize>| {
            let mut ranked = need.to_vec();
            ranked.extend(gpu.map(|dim| (dim, requested(u64::from(count)))));
            ranked.sort_unstable();
            let mut need: Vec<_> =
                ranked.iter().copied().filter(|(_, amount)| *amount > 0).chain([(SLOTS, 1)]).collect();
            need.sort_unstable();
            let narrow = |list: Vec<(usize, i32)>| list.into_iter().map(|(dim, amount)| (dim as u8, amount)).collect();
            let foreign = dims.gpus().filter(|dim| Some(*dim) != gpu).map(|dim| dim as u8).collect();
            Request { need: narrow(need), ranked: narrow(ranked), foreign }
        };
        let vectors = alternatives.iter().flat_map(|gpu| needs.iter().map(move |need| (need, *gpu)));
        let vectors: Vec<Request> = vectors.map(|(need, gpu)| build(need, gpu)).collect();
        vectors.into_iter().map(|request| self.intern(request)).collect()
    }

    fn intern(&mut self, request: Request) -> u32 {
        if let Some(number) = self.numbers.get(&request) {
            return *number;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(request.clone());
        self.numbers.insert(request, number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Request> {
        self.list.get(number as usize)
    }
}

/// The index of classes that fit nowhere, or only where something grew: which of them could fit what a worker has free, by
/// cpu and memory alone; the exact test is the caller's. Buckets by magnitude of cpu, then of memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    buckets: Vec<Vec<Seated>>,
    /// Per magnitude of cpu, which magnitudes of memory have classes.
    rows: [u64; SIDE],
}

/// A class with what it asks of cpu and memory, so that those that cannot fit are not even looked up.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Seated {
    class: u32,
    cpu: i32,
    memory: i32,
}

/// Magnitudes of an `i32`: 0 to 31.
const SIDE: usize = 32;

impl Default for Refused {
    fn default() -> Self {
        Self { buckets: vec![Vec::new(); SIDE * SIDE], rows: [0; SIDE] }
    }
}

impl Refused {
    /// Where classes with this need stand.
    fn bucket(cpu: i32, memory: i32) -> (usize, usize) {
        (magnitude(cpu) as usize % SIDE, magnitude(memory) as usize % SIDE)
    }

    /// Adds a class by what it asks of cpu and memory; returns its seat.
    pub(crate) fn insert(&mut self, need: (i32, i32), class: u32) -> u32 {
        let (row, column) = Self::bucket(need.0, need.1);
        let Some(bucket) = self.buckets.get_mut(row * SIDE + column) else { return 0 };
        self.rows[row] |= 1 << column;
        bucket.push(Seated { class, cpu: need.0, memory: need.1 });
        u32::try_from(bucket.len() - 1).unwrap_or(0)
    }

    /// Takes a class out; returns the class that now has its seat.
    pub(crate) fn remove(&mut self, need: (i32, i32), seat: u32) -> Option<u32> {
        let (row, column) = Self::bucket(need.0, need.1);
        let bucket = self.buckets.get_mut(row * SIDE + column)?;
        if (seat as usize) < bucket.len() {
            bucket.swap_remove(seat as usize);
        }
        if bucket.is_empty() {
            self.rows[row] &= !(1 << column);
        }
        bucket.get(seat as usize).map(|seated| seated.class)
    }

    /// Collects every class that asks at most this much of cpu and memory.
    pub(crate) fn within(&self, cpu: i32, memory: i32, found: &mut Vec<u32>) {
        found.clear();
        let (last, column) = Self::bucket(cpu, memory);
        let upto = (2_u64 << column) - 1;
        for (row, mask) in self.rows.iter().enumerate().take(last + 1) {
            let mut mask = mask & upto;
            while mask != 0 {
                let column = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let bucket = self.buckets.get(row * SIDE + column).map_or(&[][..], Vec::as_slice);
                found.extend(
                    bucket
                        .iter()
                        .filter(|seated| seated.cpu <= cpu && seated.memory <= memory)
                        .map(|seated| seated.class),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn law_it_is_a_set_with_the_union_of_its_members(steps in prop::collection::vec((0..200_u32, any::<bool>()), 0..300)) {
            let (mut open, mut model) = (OpenClasses::default(), BTreeSet::new());
            for (class, on) in steps {
                open.set(class, on);
                if on { model.insert(class); } else { model.remove(&class); }
                prop_assert!((0..200).all(|class| open.has(class) == model.contains(&class)));
                prop_assert_eq!(open.mask(), model.iter().fold(0, |mask, class| mask | 1_u64 << (class % 64)));
            }
        }
    }
}
