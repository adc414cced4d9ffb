//! Tables and lists by number: a number outside reads as the default, so that no input can make the layout panic.

use super::graph::Edge;

/// One value for each number below its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table<T>(Vec<T>);

impl<T: Copy + Default> Table<T> {
    pub(super) fn new(len: usize, value: T) -> Self {
        Self(vec![value; len])
    }

    pub(super) fn at(&self, index: u32) -> T {
        self.0.get(index as usize).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, index: u32, value: T) {
        self.change(index, |old| *old = value);
    }

    pub(super) fn change(&mut self, index: u32, change: impl FnOnce(&mut T)) {
        if let Some(value) = self.0.get_mut(index as usize) {
            change(value);
        }
    }

    pub(super) fn values(&self) -> &[T] {
        &self.0
    }

    pub(super) fn into_values(self) -> Vec<T> {
        self.0
    }
}

impl<T> From<Vec<T>> for Table<T> {
    fn from(values: Vec<T>) -> Self {
        Self(values)
    }
}

/// One list for each number below its length, all in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists<T> {
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy + Default> Lists<T> {
    /// Gathers items by the number of their list; each list keeps the order in which they come.
    pub(super) fn gather(len: usize, items: impl Iterator<Item = (u32, T)> + Clone) -> Self {
        let mut counts = Table::new(len + 1, 0_u32);
        let mut total = 0;
        for (list, _) in items.clone() {
            counts.change(list.saturating_add(1), |count| *count += 1);
            total += 1;
        }
        let mut starts = counts.into_values();
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = Table::from(starts.clone());
        let mut gathered = Table::new(total, T::default());
        for (list, item) in items {
            gathered.set(next.at(list), item);
            next.change(list, |next| *next += 1);
        }
        Self { starts, items: gathered.into_values() }
    }

    pub(super) fn of(&self, list: u32) -> &[T] {
        let ends = self.starts.get(list as usize).zip(self.starts.get(list as usize + 1));
        ends.and_then(|(from, to)| self.items.get(*from as usize..*to as usize)).unwrap_or_default()
    }

    pub(super) fn of_mut(&mut self, list: u32) -> &mut [T] {
        let ends = self.starts.get(list as usize).zip(self.starts.get(list as usize + 1));
        ends.and_then(|(from, to)| self.items.get_mut(*from as usize..*to as usize)).unwrap_or_default()
    }

    /// Number of lists.
    pub(super) fn len(&self) -> u32 {
        number(self.starts.len().saturating_sub(1))
    }

    /// Number of items in all lists.
    pub(super) fn total(&self) -> usize {
        self.items.len()
    }
}

/// The edges out of each node.
pub(super) fn successors(nodes: usize, edges: &[Edge]) -> Lists<u32> {
    Lists::gather(nodes, edges.iter().map(|edge| (edge.from, edge.to)))
}

/// The edges into each node.
pub(super) fn predecessors(nodes: usize, edges: &[Edge]) -> Lists<u32> {
    Lists::gather(nodes, edges.iter().map(|edge| (edge.to, edge.from)))
}

/// A count as a number of a node, an edge or a layer; graphs are too small for it not to fit.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
