//! Orlop as a library: all its crates under one name, durable flows of functions, and the hosts that drive the engines.
//!
//! | to do this | begin here | feature |
//! |---|---|---|
//! | run async functions as durable flows | `durable::Durable` | `durable` |
//! | run the steps of a manifest in a way of your own | `host::flow::FlowHost` with a substrate | `durable` |
//! | run the steps of a manifest as processes or containers | `host::local::LocalSetup` | `run`, `docker` |
//! | run a fleet's server or worker inside a program | `host::scheduler`, `host::worker` | `fleet` |
//! | work with flows of a Kubernetes cluster | `k8s::client::FlowClient` | `kube` |
//! | check a substrate of your own | `conformance` | `testing` |
//!
//! The other crates are modules here: [`core`] always, `dag` and `cloud` with `durable`, `scheduler` with `fleet`, `k8s` with `kube`.
//! The modules `cli`, `program`, `api`, `view` and `telemetry` are the parts of the program `orlop`. They are public for its own tests
//! and binaries, and change more often than the rest.
//!
#![cfg_attr(feature = "durable", doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "fleet")]
pub mod api;
#[cfg(feature = "fleet")]
mod bearer;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(all(test, feature = "cli"))]
mod commands;
#[cfg(feature = "testing")]
pub mod conformance;
#[cfg(feature = "durable")]
pub mod durable;
#[cfg(feature = "run")]
#[allow(dead_code, reason = "what a build lacks decides what it has to say")]
mod features;
#[cfg(feature = "durable")]
pub mod host;
#[cfg(any(feature = "fleet", feature = "kube"))]
mod listen;
#[cfg(feature = "durable")]
pub mod prelude;
#[cfg(feature = "cli")]
pub mod program;
#[cfg(test)]
#[cfg(feature = "full")]
mod reference;
#[cfg(any(feature = "cli", feature = "fleet", feature = "kube"))]
pub mod telemetry;
#[cfg(feature = "run")]
pub mod view;
#[cfg(feature = "fleet")]
pub mod web;
#[cfg(feature = "fleet")]
pub mod wire;

#[cfg(feature = "durable")]
pub use orlop_cloud as cloud;
pub use orlop_core as core;
#[cfg(feature = "durable")]
pub use orlop_dag as dag;
#[cfg(feature = "kube")]
pub use orlop_k8s as k8s;
#[cfg(feature = "fleet")]
pub use orlop_scheduler as scheduler;

/// The examples of the documents.
#[cfg(all(doctest, feature = "durable"))]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;
