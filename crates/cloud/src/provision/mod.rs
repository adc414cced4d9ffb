//! From requirements to a leased server. Owns the plan, the marks, the journal's form and the saga, all
//! pure; `drive` carries the saga out over ports.

pub mod confirm;
#[cfg(feature = "openstack")]
pub mod deployments;
#[cfg(feature = "openstack")]
pub mod drive;
pub mod fleet;
#[cfg(feature = "openstack")]
pub mod front;
pub mod hostkey;
pub mod idle;
pub mod info;
pub mod join;
pub mod journal;
#[cfg(feature = "openstack")]
pub mod keep;
#[cfg(feature = "openstack")]
pub mod keypair;
pub mod mark;
pub mod name;
pub mod notes;
pub mod order;
pub mod plan;
#[cfg(feature = "openstack")]
pub mod prepare;
#[cfg(feature = "openstack")]
pub mod probe;
#[cfg(feature = "openstack")]
pub mod reference;
pub mod saga;
#[cfg(feature = "openstack")]
pub mod site;
pub mod sites;
pub mod steps;
