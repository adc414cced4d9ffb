//! The host of the provisioner: obtains a repository, has it analysed, asks for advice and makes a plan. Nothing here needs
//! credentials or creates anything.

mod planning;
#[cfg(feature = "cli")]
pub mod program;
mod repository;
#[cfg(test)]
mod tests;

pub use planning::{PlanInput, make_plan};
pub use repository::{RepositoryAnalysis, Wanted, analyze_repository, obtain};
