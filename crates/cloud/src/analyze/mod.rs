//! What machine a repository needs, found by rules from its files: facts with their evidence, then requirements. Pure: no I/O and no
//! clock; the same scan gives the same result, and every scan gives one.
//!
//! ```
//! use orlop_cloud::analyze::{FileKind, analyze};
//! use orlop_cloud::repository::{Scan, ScannedFile};
//! let (path, text) = ("requirements.txt", "torch==2.1.0+cu121\ntransformers\n");
//! let file = ScannedFile { path: path.into(), kind: FileKind::of(path).unwrap(), text: text.into() };
//! let analysis = analyze(&Scan { files: vec![file], ..Scan::default() });
//! assert!(analysis.requirements.wants_gpu());
//! ```

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
