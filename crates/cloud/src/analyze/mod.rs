//! From a scanned repository to what a machine must have, by rules alone: facts with
//! their evidence, then requirements. Pure and total: no I/O, no clock; the same scan gives the same bytes.

pub mod advice;
pub mod card;
mod cards;
mod decide;
mod fact;
pub mod injection;
mod kind;
pub mod merge;
pub mod os;
mod place;
mod python;
mod read;
pub mod requirements;
mod rules;
pub mod sizing;
#[cfg(test)]
mod tests;
mod variant;
mod version;
mod weigh;

pub use fact::{Confidence, Fact, Feature, Finding, Strength};
pub use kind::FileKind;
pub use os::{Os, OsType};
pub use requirements::{Evidence, Need, Requirements};
pub use rules::{Analysis, analyze};
pub use sizing::{Class, ServiceClass};
pub use version::Version;
