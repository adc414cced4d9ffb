//! What can be wrong with a packing problem. Owns the error of this module and its words; never recovers from one.

use thiserror::Error;

/// Why a packing problem was refused. Every error is about the input and is found before any work is done, but
/// [`PackError::NoRoom`], which only [`pack_types`](super::pack_types) can answer after it has tried.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PackError {
    /// Vectors have 1 to 16 dimensions.
    #[error("{dimensions} dimensions are not between 1 and {most}; name at most {most} resources", most = super::MAX_DIMENSIONS)]
    Dimensions {
        /// How many were asked for.
        dimensions: usize,
    },
    /// A vector does not have as many dimensions as the items.
    #[error("{what} has {found} dimensions where the items have {expected}; give one amount a resource")]
    Shape {
        /// Which vector, such as `capacity` or `item 3`.
        what: String,
        /// The dimensions of the items.
        expected: usize,
        /// The dimensions of the vector.
        found: usize,
    },
    /// An item is larger than any bin.
    #[error(
        "item {item} wants {demand} in dimension {dimension}, and no bin holds more than {capacity}; split it or use larger bins"
    )]
    Oversize {
        /// Index of the first such item.
        item: usize,
        /// The dimension.
        dimension: usize,
        /// What it wants.
        demand: u64,
        /// The largest capacity there is.
        capacity: u64,
    },
    /// An item fits no type of bin, though in each dimension some type would hold it.
    #[error("item {item} fits no type of bin; add a type that is large enough in all dimensions at once")]
    FitsNoType {
        /// Index of the first such item.
        item: usize,
    },
    /// There is demand in a dimension of which no bin has anything.
    #[error(
        "item {item} wants something in dimension {dimension}, where every capacity is zero; leave the dimension out or give it a capacity"
    )]
    ZeroCapacity {
        /// Index of the first item with demand there.
        item: usize,
        /// The dimension.
        dimension: usize,
    },
    /// The demands of a dimension do not add up to a `u64`.
    #[error("the sum of demands in dimension {dimension} is more than a 64-bit number holds; use a larger unit")]
    Overflow {
        /// The dimension.
        dimension: usize,
    },
    /// Items and bins are counted with 32 bits.
    #[error("{count} {what} are more than the {most} that can be counted; split the problem", most = super::MAX_COUNT)]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// No assignment to the counted bins was found. It may exist: finding it is NP-hard.
    #[error("no room was found for {unplaced} of {items} items in the bins there are; allow more bins of some type")]
    NoRoom {
        /// Items without a bin in the best attempt.
        unplaced: usize,
        /// All items.
        items: usize,
    },
}
