//! Specs and statuses as the API has them. Owns fields, defaults and bounds; the definitions
//! of the kinds are made from these types, and what is read here is what the schema declares.

mod executor;
mod member;
mod performer;
#[cfg(test)]
mod tests;

pub use executor::{
    Chain, DefaultScheduling, ExecutorConfig, ExecutorSpec, ExecutorStatus, KubernetesMode, PerformerMode,
};
pub use member::{Condition, LocalName, PullPolicy, Reference, Retry, SecurityProfile};
pub use performer::{
    Candidate, EnvironmentSource, EnvironmentVariable, Incarnation, KeySelector, PerformerConfig, PerformerSpec,
    PerformerStatus, Probe, ProbeTimes, Probes, Scheduling, Strategy, Upgrade,
};

/// `true`, for fields that are so unless they say otherwise.
pub(crate) const fn yes() -> bool {
    true
}
