//! The fleet from outside: `orlop up` and the verbs that ask it, the worker's program against a server of the protocol, and
//! all programs beside one another.

#[cfg(all(feature = "run", target_os = "linux"))]
mod agent;
#[cfg(all(feature = "run", target_os = "linux"))]
mod alike;
#[cfg(all(feature = "run", target_os = "linux"))]
mod arrays;
mod artifacts;
mod bench;
#[cfg(all(feature = "run", target_os = "linux"))]
mod copies;
#[cfg(all(feature = "run", target_os = "linux"))]
mod edge;
#[cfg(all(feature = "run", target_os = "linux"))]
mod extras;
#[cfg(all(feature = "run", target_os = "linux"))]
mod failures;
#[cfg(all(feature = "run", target_os = "linux"))]
mod flows;
#[cfg(all(feature = "run", target_os = "linux"))]
mod gpus;
#[cfg(all(feature = "run", target_os = "linux"))]
mod hostile;
mod inputs;
#[cfg(all(feature = "run", feature = "postgres", target_os = "linux"))]
mod lead;
#[cfg(all(feature = "run", target_os = "linux"))]
mod limits;
mod logs;
#[cfg(all(feature = "run", target_os = "linux"))]
mod metrics;
#[cfg(all(feature = "run", feature = "nats", target_os = "linux"))]
mod nats;
#[cfg(all(feature = "run", target_os = "linux"))]
mod planted;
#[cfg(all(feature = "run", target_os = "linux"))]
pub(crate) mod programs;
#[cfg(all(feature = "run", target_os = "linux"))]
mod scheduler;
mod secrets;
#[cfg(all(feature = "run", target_os = "linux"))]
mod secure;
#[cfg(all(feature = "testing", feature = "run", target_os = "linux"))]
mod spread;
#[cfg(all(feature = "run", target_os = "linux"))]
mod starts;
#[cfg(all(feature = "run", target_os = "linux"))]
mod steps;
#[cfg(all(feature = "testing", feature = "run", target_os = "linux"))]
mod substrate;
#[cfg(all(feature = "run", feature = "otel", feature = "testing", target_os = "linux"))]
mod traces;
mod trouble;
mod trusted;
#[cfg(all(feature = "run", target_os = "linux"))]
mod users;
mod verbs;
mod work;
#[cfg(all(feature = "testing", feature = "run", target_os = "linux"))]
mod world;

/// Lets workers that a program runs take work on a disk that is nearly full, as long as there is some room: a build fills
/// the disks of the machines that tests run on.
fn on_any_disk(command: &mut std::process::Command) {
    command.env("ORLOP_WORKER_MIN_FREE_PERCENT", "0");
}
