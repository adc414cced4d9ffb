//! Orlop on Kubernetes: custom resources, the rendering of Jobs, and the controllers of flows, performers and executors.
//!
//! What a flow does next is decided by `orlop_dag::engine` here as everywhere; nothing here knows what is outside
//! Kubernetes. Begin with [`client::FlowClient`] to work with flows of a cluster, with [`crd`] for the definitions, and with
//! the `ApiServer` of the feature `testing` for tests of both.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admission;
pub mod api;
pub mod client;
pub mod convert;
pub mod crd;
pub mod executor;
pub mod flow;
pub mod hardware;
pub mod hourglass;
pub mod inline_artifacts;
#[cfg(feature = "client")]
pub mod object;
pub mod observe;
pub mod performer;
mod records;
pub mod render;
pub mod shell;
pub mod status;
#[cfg(feature = "testing")]
pub mod testing;
mod value;
