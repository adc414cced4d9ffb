//! The picture of the fleet: its dimensions, the kinds of its workers, and the table of what is free where. Owns the
//! numbers that placement reads; knows no job.

pub(crate) mod dims;
pub(crate) mod kind;
pub(crate) mod table;

/// The most dimensions of the table.
pub(crate) const MAX_DIMS: usize = 16;

/// One amount per dimension; those that are not there are 0.
pub(crate) type Amounts = [i32; MAX_DIMS];
