//! Ports to the services of a cloud, object-safe and asynchronous. Owns the traits, the
//! values they speak in and their error; carries out nothing.
//!
//! Reading and deleting may be repeated, and an adapter does so by itself within bounds. Creating never is: when an adapter
//! cannot say whether something was made, its error has the meaning [`Meaning::Ambiguous`](super::classify::Meaning).

mod error;
mod value;

use std::time::Duration;

use async_trait::async_trait;
use orlop_core::time::Time;
use serde_json::Value;

use crate::catalog::window::Allocation;

pub use orlop_core::ports::clock::Clock;

pub use error::{CloudError, Reached};
pub use value::{
    Account, Address, FloatingIp, Keypair, Lease, Limits, NetPort, Network, NewFloatingIp, NewLease, NewServer,
    Reservation, Reserve, SecurityGroup, Server, UserData,
};

/// What every port gives.
pub type Answered<T> = Result<T, CloudError>;

/// Time that can be waited for, and that tests make up.
#[async_trait]
pub trait Timer: Clock {
    /// Returns at this time or later.
    async fn sleep_until(&self, time: Time);
}

/// Who one is, and where services are.
#[async_trait]
pub trait Identity: Send + Sync {
    /// Signs in, and says as whom. Signing in again replaces what was there.
    ///
    /// # Errors
    /// The credential is refused, or the service cannot be reached.
    async fn authenticate(&self) -> Answered<Account>;

    /// Makes sure that what one signed in with lasts so much longer.
    ///
    /// # Errors
    /// As signing in.
    async fn renew(&self, lasting: Duration) -> Answered<()>;

    /// The address of a type of service, such as `compute`.
    ///
    /// # Errors
    /// The catalogue has none in this region.
    async fn endpoint(&self, service: &str) -> Answered<String>;

    /// How far the clock of the services is ahead of this one, in seconds; nothing if no answer said it.
    fn clock_ahead(&self) -> Option<i64>;
}

/// The image service.
#[async_trait]
pub trait Images: Send + Sync {
    /// All active images, as documents for `catalog::image`.
    ///
    /// # Errors
    /// Those of the service.
    async fn images(&self) -> Answered<Vec<Value>>;

    /// One image.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn image(&self, id: &str) -> Answered<Value>;
}

/// The compute service.
#[async_trait]
pub trait Compute: Send + Sync {
    /// All flavors, as documents.
    ///
    /// # Errors
    /// Those of the service.
    async fn flavors(&self) -> Answered<Vec<Value>>;

    /// What the project may still have.
    ///
    /// # Errors
    /// Those of the service.
    async fn limits(&self) -> Answered<Limits>;

    /// All keypairs of the user.
    ///
    /// # Errors
    /// Those of the service.
    async fn keypairs(&self) -> Answered<Vec<Keypair>>;

    /// A keypair by its name.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn keypair(&self, name: &str) -> Answered<Keypair>;

    /// Imports a public key. The name tells whether it was made.
    ///
    /// # Errors
    /// It exists, or those of the service.
    async fn import_keypair(&self, name: &str, public_key: &str) -> Answered<Keypair>;

    /// Deletes a keypair.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn delete_keypair(&self, name: &str) -> Answered<()>;

    /// Makes a server and gives its id. It is not there yet, and may still fail.
    ///
    /// # Errors
    /// Those of the service; ambiguous when nobody knows whether it was made.
    async fn create_server(&self, new: &NewServer) -> Answered<String>;

    /// A server.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn server(&self, id: &str) -> Answered<Server>;

    /// All servers that have this mark, or with nothing every server of the project.
    ///
    /// # Errors
    /// Those of the service.
    async fn servers(&self, deployment: Option<&str>) -> Answered<Vec<Server>>;

    /// Deletes a server; it is gone some time later.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn delete_server(&self, id: &str) -> Answered<()>;

    /// Starts a server that is switched off.
    ///
    /// # Errors
    /// Those of the service.
    async fn start_server(&self, id: &str) -> Answered<()>;

    /// The last lines of a server's console; nothing where the cloud has none.
    ///
    /// # Errors
    /// Those of the service.
    async fn console(&self, id: &str, lines: u32) -> Answered<Option<String>>;
}

/// The network service.
#[async_trait]
pub trait Networking: Send + Sync {
    /// All networks that can be seen.
    ///
    /// # Errors
    /// Those of the service.
    async fn networks(&self) -> Answered<Vec<Network>>;

    /// Ports of a device.
    ///
    /// # Errors
    /// Those of the service.
    async fn ports(&self, device: &str) -> Answered<Vec<NetPort>>;

    /// Deletes a port.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn delete_port(&self, id: &str) -> Answered<()>;

    /// A floating IP.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn floating_ip(&self, id: &str) -> Answered<FloatingIp>;

    /// All floating IPs of the project.
    ///
    /// # Errors
    /// Those of the service.
    async fn floating_ips(&self) -> Answered<Vec<FloatingIp>>;

    /// Makes a floating IP.
    ///
    /// # Errors
    /// Those of the service; ambiguous when nobody knows whether it was made.
    async fn create_floating_ip(&self, new: &NewFloatingIp) -> Answered<FloatingIp>;

    /// Binds a floating IP to a port.
    ///
    /// # Errors
    /// Those of the service.
    async fn bind_floating_ip(&self, id: &str, port: &str) -> Answered<FloatingIp>;

    /// Deletes a floating IP.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn delete_floating_ip(&self, id: &str) -> Answered<()>;

    /// All security groups of the project.
    ///
    /// # Errors
    /// Those of the service.
    async fn security_groups(&self) -> Answered<Vec<SecurityGroup>>;

    /// Makes a security group.
    ///
    /// # Errors
    /// Those of the service; ambiguous when nobody knows whether it was made.
    async fn create_security_group(&self, name: &str, description: &str) -> Answered<SecurityGroup>;

    /// Lets SSH in from a range of addresses. Doing it again changes nothing.
    ///
    /// # Errors
    /// Those of the service.
    async fn allow_ssh(&self, group: &str, from: &str) -> Answered<()>;

    /// Deletes a security group.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn delete_security_group(&self, id: &str) -> Answered<()>;
}

/// The reservation service.
#[async_trait]
pub trait Reservations: Send + Sync {
    /// All hosts, as one document for `catalog::read_hosts`.
    ///
    /// # Errors
    /// Those of the service; denied where hosts are hidden from users.
    async fn hosts(&self) -> Answered<Value>;

    /// When hosts are taken.
    ///
    /// # Errors
    /// Those of the service; denied where allocations are hidden from users.
    async fn allocations(&self) -> Answered<Vec<Allocation>>;

    /// All leases of the project.
    ///
    /// # Errors
    /// Those of the service.
    async fn leases(&self) -> Answered<Vec<Lease>>;

    /// A lease.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn lease(&self, id: &str) -> Answered<Lease>;

    /// Makes a lease.
    ///
    /// # Errors
    /// Those of the service; ambiguous when nobody knows whether it was made.
    async fn create_lease(&self, new: &NewLease) -> Answered<Lease>;

    /// Gives a lease another end.
    ///
    /// # Errors
    /// Those of the service; the lease may be in ERROR afterwards.
    async fn extend_lease(&self, id: &str, end: Time) -> Answered<Lease>;

    /// Deletes a lease and every server of its hosts.
    ///
    /// # Errors
    /// Gone, or those of the service.
    async fn delete_lease(&self, id: &str) -> Answered<()>;
}

/// The services of one site.
#[derive(Clone)]
pub struct Cloud {
    /// Identity.
    pub identity: std::sync::Arc<dyn Identity>,
    /// Images.
    pub images: std::sync::Arc<dyn Images>,
    /// Compute.
    pub compute: std::sync::Arc<dyn Compute>,
    /// Network.
    pub network: std::sync::Arc<dyn Networking>,
    /// Reservations.
    pub reservations: std::sync::Arc<dyn Reservations>,
}

impl std::fmt::Debug for Cloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cloud")
    }
}
