//! What is to be packed: vectors of demand, some of which must stay apart. Owns the shape of the list; never knows bins.

use super::error::PackError;
use super::{MAX_COUNT, MAX_DIMENSIONS};

/// A list of items, each a vector of demand in 1 to 16 dimensions (for jobs: millicores, bytes, GPUs; the unit is the
/// caller's, and that of the capacities) and optionally a member of one *apart group*: no two items of a group share a
/// bin. Items are named by their position.
///
/// ```
/// use orlop_scheduler::packing::Items;
///
/// let mut items = Items::new(2)?;
/// items.push(&[500, 1024])?;
/// items.push_apart(&[250, 512], 7)?;
/// assert_eq!(items.len(), 2);
/// assert_eq!(items.demand(1), [250, 512]);
/// assert_eq!(items.apart(1), Some(7));
/// # Ok::<(), orlop_scheduler::packing::PackError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items {
    dimensions: usize,
    demands: Vec<u64>,
    apart: Vec<Option<u32>>,
}

impl Items {
    /// An empty list of vectors with `dimensions` dimensions.
    ///
    /// # Errors
    /// [`PackError::Dimensions`] if that is not 1 to 16.
    pub fn new(dimensions: usize) -> Result<Self, PackError> {
        if (1..=MAX_DIMENSIONS).contains(&dimensions) {
            Ok(Self { dimensions, demands: Vec::new(), apart: Vec::new() })
        } else {
            Err(PackError::Dimensions { dimensions })
        }
    }

    /// A list of these rows, none of them apart from another.
    ///
    /// # Errors
    /// As [`Items::new`] and [`Items::push`].
    pub fn from_rows<R: AsRef<[u64]>>(dimensions: usize, rows: impl IntoIterator<Item = R>) -> Result<Self, PackError> {
        let mut items = Self::new(dimensions)?;
        for row in rows {
            items.push(row.as_ref())?;
        }
        Ok(items)
    }

    /// Appends an item that may share a bin with any other.
    ///
    /// # Errors
    /// [`PackError::Shape`] if it has another number of dimensions, [`PackError::TooMany`] past 2³¹ items.
    pub fn push(&mut self, demand: &[u64]) -> Result<(), PackError> {
        self.add(demand, None)
    }

    /// Appends an item that shares no bin with another item of the same group.
    ///
    /// # Errors
    /// As [`Items::push`].
    pub fn push_apart(&mut self, demand: &[u64], group: u32) -> Result<(), PackError> {
        self.add(demand, Some(group))
    }

    fn add(&mut self, demand: &[u64], group: Option<u32>) -> Result<(), PackError> {
        if demand.len() != self.dimensions {
            let what = format!("item {}", self.len());
            return Err(PackError::Shape { what, expected: self.dimensions, found: demand.len() });
        }
        if self.len() >= MAX_COUNT {
            return Err(PackError::TooMany { what: "items", count: self.len() + 1 });
        }
        self.demands.extend_from_slice(demand);
        self.apart.push(group);
        Ok(())
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.apart.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.apart.is_empty()
    }

    /// How many dimensions each item has.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// What an item wants; nothing if there is no such item.
    #[must_use]
    pub fn demand(&self, item: usize) -> &[u64] {
        let start = item.saturating_mul(self.dimensions);
        self.demands.get(start..start.saturating_add(self.dimensions)).unwrap_or_default()
    }

    /// The group an item stays apart from, if any.
    #[must_use]
    pub fn apart(&self, item: usize) -> Option<u32> {
        self.apart.get(item).copied().flatten()
    }

    /// The demands one after the other.
    pub(crate) fn rows(&self) -> std::slice::ChunksExact<'_, u64> {
        self.demands.chunks_exact(self.dimensions)
    }

    /// The sum of demand in each dimension.
    pub(crate) fn totals(&self) -> Result<Vec<u64>, PackError> {
        let mut totals = vec![0_u64; self.dimensions];
        for row in self.rows() {
            for (dimension, (total, demand)) in totals.iter_mut().zip(row).enumerate() {
                *total = total.checked_add(*demand).ok_or(PackError::Overflow { dimension })?;
            }
        }
        Ok(totals)
    }
}
