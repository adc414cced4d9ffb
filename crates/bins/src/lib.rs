//! Orlop as a library: the facade over its crates, and the hosts of its programs.
//!
//! Without features it is [`core`] alone. Each feature adds what one kind of use needs: `run` flows on this machine (the
//! engine, and the host that drives a flow with a journal), `docker` steps as containers, `remote-artifacts` files over
//! HTTP and from S3, `fleet` the scheduler server with its workers and clients, `kube` the operator, `provisioner` leased
//! servers, `cli` the command line. `full` is all of them.
#![cfg_attr(
    feature = "run",
    doc = r##"
```
use std::sync::Arc;
use orlop::core::spec::flow::FlowSpec;
use orlop::dag::plan::Plan;
let spec: FlowSpec = serde_json::from_str(
    r#"{"steps": [{"name": "test", "dependencies": ["build"]}, {"name": "build"}]}"#,
)?;
let plan = Plan::build(Arc::new(spec)).map_err(|errors| errors[0].clone())?;
assert_eq!(plan.order(), [1, 0]);
# Ok::<(), Box<dyn std::error::Error>>(())
```
"##
)]
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
#[cfg(feature = "run")]
#[allow(dead_code, reason = "what a build lacks decides what it has to say")]
mod features;
#[cfg(feature = "run")]
pub mod host;
#[cfg(any(feature = "fleet", feature = "kube"))]
mod listen;
#[cfg(feature = "cli")]
pub mod program;
#[cfg(any(feature = "cli", feature = "fleet", feature = "kube"))]
pub mod telemetry;
#[cfg(feature = "run")]
pub mod view;
#[cfg(feature = "fleet")]
pub mod wire;

#[cfg(feature = "run")]
pub use orlop_cloud as cloud;
pub use orlop_core as core;
#[cfg(feature = "run")]
pub use orlop_dag as dag;
#[cfg(feature = "kube")]
pub use orlop_k8s as k8s;
#[cfg(feature = "fleet")]
pub use orlop_scheduler as scheduler;
