//! Ports: the traits by which hosts (the programs that drive the engines) use clocks, stores and whatever runs attempts, one
//! module for each. Adapters implement them. The module `testing` (feature `testing`) has implementations in memory, and for each
//! port a conformance suite that checks one of your own.
//!
//! | port | for |
//! |---|---|
//! | [`substrate::Substrate`] | running attempts: processes, containers, pods |
//! | [`journal::FlowJournal`] | storing events of flows before they are acted on |
//! | [`artifact::ArtifactStore`] | storing artifacts by their content |
//! | [`clock::Clock`] | the time |
//! | [`secret::SecretStore`] | values of secrets |
//! | [`fleet_store::FleetStore`], [`bus::EventBus`] | jobs of the fleet's server, and its events |
//! | [`advisor::Advisor`] | questions to a language model |

pub mod advisor;
pub mod artifact;
pub mod bus;
pub mod clock;
pub mod fleet_store;
pub mod journal;
pub mod secret;
pub mod substrate;
