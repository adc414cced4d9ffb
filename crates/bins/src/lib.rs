//! Orlop as a library: the facade over its crates, and the hosts of its programs.
//!
//! Without features it is [`core`] alone. `durable` brings the engine as `dag`, the adapters as `cloud`, the host that drives a
//! flow with a journal as `host::flow`, and flows of functions as `durable`; `run` adds processes as `host::local`, `fleet` brings
//! `scheduler`, `kube` brings `k8s`.
//!
#![cfg_attr(feature = "durable", doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "fleet")]
pub mod api;
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
