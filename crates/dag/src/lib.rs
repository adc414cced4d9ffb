//! x
pub mod depends;
pub mod params;
pub mod when;
