//! The tests of the package from outside: one binary, one module a concern.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "tests fail by panic")]

mod cli;
#[cfg(all(feature = "postgres", feature = "nats"))]
mod compose;
#[cfg(feature = "testing")]
mod conformance;
#[cfg(all(feature = "fleet", feature = "kube"))]
mod deploy;
#[cfg(all(feature = "fleet", feature = "kube"))]
mod deploy_chart;
#[cfg(all(feature = "fleet", feature = "kube"))]
mod deploy_kubernetes;
#[cfg(all(feature = "fleet", feature = "kube", feature = "testing"))]
mod deploy_webhook;
#[cfg(feature = "fleet")]
mod fleet;
mod image;
mod kill;
mod ongoing;
#[cfg(all(feature = "kube", feature = "testing"))]
mod operator;
#[cfg(feature = "provisioner")]
mod provisioner;
mod release;
#[cfg(feature = "cli")]
mod role;
mod tidy;
