//! From requirements to a leased server (provisioner contract). Owns the plan, the marks, the journal's form and the saga, all
//! pure; `drive` carries the saga out over ports.

#[cfg(feature = "openstack")]
pub mod drive;
pub mod info;
pub mod journal;
#[cfg(feature = "openstack")]
pub mod keep;
pub mod mark;
pub mod order;
pub mod plan;
pub mod saga;
