//! Repositories: where they may come from, which of their files are read, and how much of them. With the feature `git`, also the two ways
//! to get one: `git` and `folder`. Never executes or writes what it reads.

pub mod address;
#[cfg(feature = "git")]
mod error;
#[cfg(feature = "git")]
pub mod folder;
#[cfg(feature = "git")]
pub mod git;
pub mod scan;
pub mod source;
#[cfg(feature = "git")]
mod tree;

#[cfg(feature = "git")]
pub use error::FetchError;
pub use scan::{Scan, ScannedFile};
pub use source::{Allow, Refusal, Source};
