//! Doubles of this crate's ports, and the suites that doubles and adapters both pass.

pub mod openstack;
pub mod s3;
pub mod time;
