//! The host of the provisioner: obtains a repository, has it analysed, asks for advice and makes a plan. Owns the order of these;
//! what is read, decided and asked stands in `orlop_cloud`. Nothing here needs credentials or creates anything.

mod draft;
#[cfg(feature = "cli")]
pub mod program;
mod survey;
#[cfg(test)]
mod tests;

pub use draft::{Draft, draft};
pub use survey::{Survey, Wanted, obtain, survey};
