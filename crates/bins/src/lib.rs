//! Orlop as a library: the facade over its crates, and the hosts of its programs.
//!
//! The engines are pure and always there: [`core`], [`dag`], [`scheduler`], [`k8s`]. Features add what touches a world:
//! `local` the host that drives a flow with a journal ([`host`]), `process` and `docker` what runs its steps, `cli` the
//! command line, `fleet` the protocol between a scheduler server and its workers and clients ([`wire`]), `kube` the operator.
//!
//! ```
//! use std::sync::Arc;
//! use orlop::core::spec::flow::FlowSpec;
//! use orlop::dag::plan::Plan;
//! let spec: FlowSpec = serde_json::from_str(
//!     r#"{"steps": [{"name": "test", "dependencies": ["build"]}, {"name": "build"}]}"#,
//! )?;
//! let plan = Plan::build(Arc::new(spec)).map_err(|errors| errors[0].clone())?;
//! assert_eq!(plan.order(), [1, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "fleet")]
pub mod api;
#[cfg(all(feature = "cli", feature = "process"))]
pub mod cli;
#[cfg(all(test, feature = "cli", feature = "process"))]
mod commands;
#[cfg(feature = "testing")]
pub mod conformance;
#[cfg(feature = "local")]
pub mod host;
#[cfg(any(feature = "fleet", feature = "kube"))]
mod listen;
#[cfg(any(feature = "fleet", feature = "kube"))]
pub mod telemetry;
pub mod view;
#[cfg(feature = "fleet")]
pub mod wire;

#[cfg(feature = "local")]
pub use orlop_cloud as cloud;
pub use orlop_core as core;
pub use orlop_dag as dag;
pub use orlop_k8s as k8s;
pub use orlop_scheduler as scheduler;
