//! Request vectors: what one attempt takes of each dimension. Owns rounding, alternatives over kinds of GPUs, and their
//! numbers, which stay valid while attempts hold them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::fleet::Amounts;
use crate::fleet::dims::{CPU, Dims, MEMORY, SLOTS, TOO_MUCH, mebi_up, requested};
use crate::fleet::table::Table;
use crate::job::Resources;

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
