//! Orders and watching from another process: a Unix socket in the run directory, JSON lines both ways. Owns protocol and
//! rights of the socket; what an order does is the host's.

mod address;
mod client;
mod server;

use orlop_core::spec::status::FlowStatus;
use serde::{Deserialize, Serialize};

use super::flow::{Notice, Order, OrderError};

pub(super) use address::Address;
pub use client::{Client, Watch};
pub use server::Server;

/// Name of the socket in the run directory.
const SOCKET: &str = "control.sock";

/// One line to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Request {
    /// Carry out an order.
    Order(Order),
    /// Tell what happens until the flow has ended.
    Watch,
}

/// One line from the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Answer {
    /// The order is in force.
    Done,
    /// The order was not carried out.
    Refused(OrderError),
    /// The status now.
    Status(Box<FlowStatus>),
    /// Something has happened.
    Notice(Notice),
}

/// The address of the socket of a run.
pub(super) fn socket_of(directory: &std::path::Path) -> std::io::Result<Address> {
    Address::of(directory)
}
