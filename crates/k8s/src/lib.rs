//! Orlop on Kubernetes. This crate will hold custom resources, the rendering of Jobs, and the controllers of flows,
//! executors and performers. It holds nothing yet.
//!
//! What a flow does next is decided by `orlop_dag::engine` here as everywhere; nothing here knows what is outside
//! Kubernetes.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
