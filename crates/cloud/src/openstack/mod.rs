//! OpenStack services and sites of leased machines that speak it, such as Chameleon. Owns what their answers mean, the ports
//! to them, credentials, and requests as values; only `client` sends anything.

pub mod classify;
#[cfg(feature = "openstack")]
pub mod client;
pub mod credentials;
pub mod hardware;
pub mod port;
pub mod read;
pub mod wire;
