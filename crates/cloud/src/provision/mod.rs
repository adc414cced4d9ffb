//! Leasing a server: from requirements to a plan ([`plan`]), and from a plan to a running server ([`saga`], carried out by `drive`).
//! `front::Provisioner` puts all of it together. Everything but `drive`, `front` and stored files is pure.

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
