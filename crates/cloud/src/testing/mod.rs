//! Doubles of this crate's ports, and the suites that doubles and adapters both pass.

pub mod openstack;
pub mod time;
