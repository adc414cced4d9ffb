//! Attempts on one machine, whatever runs their pods. Owns the run directory, the adoption of attempts that an earlier process started,
//! the delivery and collection of artifacts, and the capacity of the machine; a [`PodRuntime`](super::pod::PodRuntime) runs the pods.
//!
//! Below the run directory lie
//!
//! * `attempts/<flow uid>/<instance>/<attempt>/`: `attempt.json` (written first), `accepted.json`, `control.json`, `end.json`;
//! * below it `pod-<n>/`: `pod.json` (written before anything is started), `prepared.json`,
//!   `started.json`, `exit.json`, `volumes/`, `in/` for delivered artifacts, `runtime/` for the runtime's own records;
//! * `logs/<instance>/<attempt>.out` and `.err`;
//! * `volumes/<claim>/`, `configmaps/<name>/<key>`, `resources/` with the owners of both.
//!
//! Every record is whole or absent, and is written before what it announces is done. So when a process was killed anywhere, the next one
//! reads the records, asks the runtime under the same key, and goes on.

mod attempt;
mod collect;
mod deliver;
mod driver;
mod finish;
mod layout;
mod ledger;
mod life;
mod load;
mod memory;
mod options;
mod records;
mod reports;
mod resources;
mod retry;
mod substrate;
#[cfg(test)]
mod tests;

pub use crate::clock::SystemClock;
pub use memory::remove_memory;
pub use options::{LocalOptions, LocalPorts};
pub use orlop_core::ports::clock::Clock;
pub use substrate::LocalSubstrate;
