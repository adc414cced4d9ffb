//! Bins and what lies in them. Owns the room that is left and who lies where; never decides where an item goes.

use super::problem::{NONE, Problem};

#[derive(Clone, Debug)]
pub(super) struct Bins {
    dimensions: usize,
    /// What is left, bin after bin.
    free: Vec<u64>,
    pub(super) members: Vec<Vec<u32>>,
    /// The groups present in each bin, sorted.
    groups: Vec<Vec<u32>>,
    pub(super) bin_of: Vec<u32>,
}

impl Bins {
    pub(super) fn new(problem: &Problem) -> Self {
        let bin_of = vec![NONE; problem.len];
        Self { dimensions: problem.dimensions, free: Vec::new(), members: Vec::new(), groups: Vec::new(), bin_of }
    }

    /// Equal empty bins.
    pub(super) fn opened(problem: &Problem, count: usize) -> Self {
        let mut bins = Self::new(problem);
        for _ in 0..count {
            bins.open(&problem.capacity);
        }
        bins
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Opens an empty bin and names it.
    pub(super) fn open(&mut self, capacity: &[u64]) -> usize {
        self.free.extend_from_slice(capacity);
        self.members.push(Vec::new());
        self.groups.push(Vec::new());
        self.members.len() - 1
    }

    pub(super) fn free(&self, bin: usize) -> &[u64] {
        &self.free[bin * self.dimensions..(bin + 1) * self.dimensions]
    }

    pub(super) fn fits(&self, problem: &Problem, item: usize, bin: usize) -> bool {
        problem.demand(item).iter().zip(self.free(bin)).all(|(demand, free)| demand <= free)
            && !self.meets(problem.group(item), bin)
    }

    /// Whether a member of the group lies in the bin.
    pub(super) fn meets(&self, group: u32, bin: usize) -> bool {
        group != NONE && self.groups[bin].binary_search(&group).is_ok()
    }

    /// Puts an item that fits into a bin.
    pub(super) fn put(&mut self, problem: &Problem, item: usize, bin: usize) {
        let room = &mut self.free[bin * self.dimensions..(bin + 1) * self.dimensions];
        for (free, demand) in room.iter_mut().zip(problem.demand(item)) {
            *free -= demand;
        }
        let group = problem.group(item);
        if group != NONE
            && let Err(at) = self.groups[bin].binary_search(&group)
        {
            self.groups[bin].insert(at, group);
        }
        self.members[bin].push(item as u32);
        self.bin_of[item] = bin as u32;
    }

    /// Takes an item out of the bin it lies in, if any.
    pub(super) fn take(&mut self, problem: &Problem, item: usize) {
        let bin = std::mem::replace(&mut self.bin_of[item], NONE) as usize;
        let Some(members) = self.members.get_mut(bin) else { return };
        if let Some(at) = members.iter().position(|member| *member as usize == item) {
            members.swap_remove(at);
        }
        let room = &mut self.free[bin * self.dimensions..(bin + 1) * self.dimensions];
        for (free, demand) in room.iter_mut().zip(problem.demand(item)) {
            *free += demand;
        }
        if let Ok(at) = self.groups[bin].binary_search(&problem.group(item)) {
            self.groups[bin].remove(at);
        }
    }

    /// Makes a bin another size that holds its load.
    pub(super) fn resize(&mut self, bin: usize, capacity: &[u64], load: &[u64]) {
        let room = &mut self.free[bin * self.dimensions..(bin + 1) * self.dimensions];
        for (free, (capacity, load)) in room.iter_mut().zip(capacity.iter().zip(load)) {
            *free = capacity.saturating_sub(*load);
        }
    }

    /// Closes a bin: its members lie nowhere, and the last bin gets its name.
    pub(super) fn close(&mut self, problem: &Problem, bin: usize) -> Vec<u32> {
        let out = self.members[bin].clone();
        for &item in &out {
            self.take(problem, item as usize);
        }
        self.members.swap_remove(bin);
        self.groups.swap_remove(bin);
        let last = self.members.len();
        self.free.copy_within(last * self.dimensions..(last + 1) * self.dimensions, bin * self.dimensions);
        self.free.truncate(last * self.dimensions);
        if let Some(moved) = self.members.get(bin) {
            for &item in moved {
                self.bin_of[item as usize] = bin as u32;
            }
        }
        out
    }

    /// Closes all empty bins.
    pub(super) fn close_empty(&mut self, problem: &Problem) {
        for bin in (0..self.len()).rev() {
            if self.members[bin].is_empty() {
                self.close(problem, bin);
            }
        }
    }

    /// Names bins by their first item, so that equal packings read the same.
    pub(super) fn renumbered(&self) -> (Vec<u32>, Vec<u32>) {
        let mut names = vec![NONE; self.len()];
        let mut order = Vec::with_capacity(self.len());
        let mut bin_of = Vec::with_capacity(self.bin_of.len());
        for &bin in &self.bin_of {
            match names.get_mut(bin as usize) {
                Some(name) => {
                    if *name == NONE {
                        *name = order.len() as u32;
                        order.push(bin);
                    }
                    bin_of.push(*name);
                }
                None => bin_of.push(NONE),
            }
        }
        (bin_of, order)
    }
}
