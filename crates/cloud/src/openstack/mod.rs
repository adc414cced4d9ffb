//! OpenStack services, and sites with leased machines that use them, such as Chameleon. Owns the meaning of their answers, the ports to them,
//! credentials, and requests as values; only `client` sends anything.

pub mod classify;
#[cfg(feature = "openstack")]
pub mod client;
pub mod credentials;
pub mod hardware;
pub mod port;
pub mod read;
pub mod wire;
