//! What can be leased: hosts, variants of hosts, images, windows, cost, and which of it fits best.
//! Pure and total: no I/O, no clock.

pub mod cost;
mod embedded;
pub mod fit;
pub mod flavor;
pub mod host;
pub mod image;
mod live;
pub mod needs;
pub mod rank;
pub mod site;
pub mod stock;
#[cfg(test)]
mod tests;
pub mod window;

pub use embedded::embedded;
pub use host::{Cards, Catalogue, Disk, Host, Origin, Shape, Variant};
pub use live::{BadHosts, read_allocations, read_hosts};
pub use needs::{GpuNeed, Needs, Overrides};
