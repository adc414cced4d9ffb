//! The words of Orlop: ids, quantities, resources, lifecycle state machines and hardware needs.
//! Pure values and decisions; never any I/O, clock, randomness or global state.

pub mod id;
pub mod machine;
