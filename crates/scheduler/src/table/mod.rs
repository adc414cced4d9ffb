//! Containers of the engine: slots with generations, a map of job ids, ranges of elements, a tree of least keys. Each is
//! deterministic and bounded by what it holds; none knows what it is used for.

mod ids;
mod ranges;
mod slab;
pub(crate) mod stored;
mod tree;

pub(crate) use ids::{Ids, mix};
pub(crate) use ranges::{RangeMap, RangeSet};
pub(crate) use slab::Slab;
pub(crate) use tree::LeastTree;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;
