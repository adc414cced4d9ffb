//! Orders and watching from another process: a Unix socket in the run directory, JSON lines both ways.

mod address;
mod client;
mod person;
mod process;
mod server;

use orlop_core::error::{Class, Code};
use orlop_core::spec::status::FlowStatus;
use serde::{Deserialize, Serialize};

use super::flow::{FlowCommand, Notice};

pub(super) use address::Address;
pub use client::{Client, Watch};
pub use person::caller;
pub use process::is_stopped;
pub use server::Server;

/// Name of the socket in the run directory.
const SOCKET: &str = "control.sock";

/// One line to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Request {
    /// Carry out an order.
    Order(FlowCommand),
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
    Refused {
        /// What, for programs.
        code: Code,
        /// Whether trying again may help.
        class: Class,
        /// What, for people.
        message: String,
    },
    /// The host is about to go: the next one has to be asked.
    Gone,
    /// The status now.
    Status(Box<FlowStatus>),
    /// Something has happened.
    Notice(Notice),
}

/// The address of the socket of a run.
pub(super) fn socket_of(directory: &std::path::Path) -> std::io::Result<Address> {
    Address::of(directory)
}

#[cfg(test)]
mod tests {
    use orlop_core::attempt::Address;
    use orlop_core::effect::FlowNotice;
    use orlop_core::time::Time;

    use super::*;

    #[test]
    fn what_a_host_tells_is_read_back() {
        let address = |step, item| Some(Address { step: orlop_core::attempt::StepIndex(step), item });
        for at in [None, address(0, None), address(2, Some(7))] {
            let (reason, message) = ("StepFailed".to_owned(), "exit code 1".to_owned());
            let notice = FlowNotice { at, attempt: 2, warning: true, reason, message };
            let reported = Answer::Notice(Notice { at: Time::from_millis(5), step: "load-i7".to_owned(), notice });
            let line = serde_json::to_string(&reported).unwrap();
            assert_eq!(serde_json::from_str::<Answer>(&line).unwrap(), reported);
        }
    }
}
