//! Orlop on Kubernetes: custom resources, the Jobs of steps, and the controllers of flows, performers and executors.
//!
//! | to do this | begin here |
//! |---|---|
//! | create, read, steer and delete flows of a cluster | [`client::FlowClient`] over `api::Client` (feature `client`) |
//! | install the custom resources | [`crd`] |
//! | read a flow from a stored object, and write one | [`convert`] |
//! | answer the admission webhook | [`admission::Webhook`] |
//! | run the controllers in a program of your own | [`flow::Controller`], [`performer`], [`executor`] |
//! | test all of this without a cluster | `testing::ApiServer` (feature `testing`) |
//!
//! A *performer* is a gRPC server in one pod behind a stable Service, which is replaced without interruption when its spec changes;
//! an *executor* is a Deployment of clients that take tasks and call performers. Both are custom resources of the Hourglass
//! framework. The flow engine of `orlop_dag` decides what a flow does next, here as on every other substrate.
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
