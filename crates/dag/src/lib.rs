//! x
pub mod depends;
pub mod when;
