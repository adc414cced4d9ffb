//! Amounts of compute: CPU, bytes, devices, vectors of named resources and shares of a whole.
//! Owns exact arithmetic on them; never measures a machine and never decides who gets what.

mod amount;
mod name;
mod share;
#[cfg(test)]
mod tests;
mod vector;

pub use amount::{Bytes, CpuMilli, Gpu};
pub use name::{CPU, EPHEMERAL_STORAGE, MEMORY, ResourceName};
pub use share::Share;
pub use vector::{Lack, ResourceError, ResourceVector, Rounding};
