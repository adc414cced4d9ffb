//! The host of the provisioner: obtains a repository, has it analysed, asks for advice and makes a plan. Owns the order of these;
//! what is read, decided and asked stands in `orlop_cloud`. Nothing here needs credentials or creates anything.

mod planning;
#[cfg(feature = "cli")]
pub mod program;
mod repository;
#[cfg(test)]
mod tests;

pub use planning::{PlanInput, make_plan};
pub use repository::{RepositoryAnalysis, Wanted, analyze_repository, obtain};
