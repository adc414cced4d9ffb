//! Adapters of Orlop to everything outside Kubernetes: local processes, Docker, stores, artifacts, OpenStack, language models.
//!
//! Each adapter implements a port (a trait) of `orlop_core::ports` and has a feature of its own; none depends on the engines.
//!
//! | to do this | begin here | feature |
//! |---|---|---|
//! | run attempts of flows on this machine | `runtime::local::LocalSubstrate`, over one of the next two | `local` |
//! | run pods as processes | `runtime::process::ProcessRuntime` | `process` |
//! | run pods as containers | `runtime::docker::DockerRuntime` | `docker` |
//! | store artifacts by their content | `artifact::CasStore` | `artifact` |
//! | download artifacts over HTTP | `http` | `http` |
//! | store the events of flows in a file | `store::sqlite::SqliteJournal` | `sqlite` |
//! | store the jobs of a fleet | `store::sqlite`, `store::postgres` | `fleet` with `sqlite` or `postgres` |
//! | publish events of a fleet | `bus::local::LocalBus`, `bus::nats::NatsBus` | `fleet`, `nats` |
//! | find out what server a repository needs, and lease one | `analyze::analyze`, `provision::front::Provisioner` | `provision`, `openstack` |
//!
#![cfg_attr(feature = "artifact", doc = include_str!("../README.md"))]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "provision")]
pub mod analyze;
#[cfg(feature = "artifact")]
pub mod artifact;
#[cfg(feature = "fleet")]
pub mod bus;
#[cfg(feature = "provision")]
pub mod catalog;
#[cfg(feature = "clock")]
pub mod clock;
pub mod download;
pub mod durable;
pub mod exit;
#[cfg(all(feature = "artifact", feature = "s3"))]
pub mod helper;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "llm")]
pub mod llm;
#[cfg(feature = "fleet")]
pub mod logs;
#[cfg(feature = "provision")]
pub mod openstack;
#[cfg(feature = "worker")]
pub mod outbox;
#[cfg(any(feature = "local", all(feature = "artifact", feature = "s3")))]
mod output;
#[cfg(feature = "provision")]
mod private_url;
#[cfg(feature = "provision")]
pub mod provision;
#[cfg(feature = "provision")]
pub mod repository;
#[cfg(any(feature = "local", all(feature = "artifact", feature = "http")))]
mod retry;
#[cfg(feature = "local")]
pub mod runtime;
#[cfg(all(feature = "artifact", feature = "s3"))]
mod s3;
#[cfg(feature = "provision")]
pub mod scrub;
#[cfg(feature = "fleet")]
pub mod secret;
#[cfg(any(feature = "fleet", feature = "worker"))]
pub mod segment;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
