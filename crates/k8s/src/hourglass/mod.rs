//! What the controllers of [performers](crate::performer) and of [executors](crate::executor) share: specs, names, plans, conditions, and
//! how a plan is carried out. The rules of each kind are in its own module.

pub mod cache;
pub mod children;
pub mod cluster;
pub mod condition;
pub mod controller;
pub mod drift;
mod effect;
pub mod last_applied;
mod monitor;
pub mod names;
pub mod plan;
pub mod pod;
pub mod reference;
#[cfg(feature = "client")]
pub mod release;
pub(crate) mod report;
#[cfg(feature = "client")]
mod run;
pub mod secure;
pub mod spec;
pub mod tables;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use orlop_core::hardware::{Substrate, Tables, Vocabulary};
use orlop_core::time::Time;

pub use controller::Controller;
#[cfg(feature = "client")]
pub use run::RunOptions;
use spec::SecurityProfile;

/// The API group.
pub const GROUP: &str = "hourglass.eigenlayer.io";
/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";
/// Both, as objects have it.
pub const API_VERSION: &str = "hourglass.eigenlayer.io/v1alpha1";
/// Plural of performers.
pub const PERFORMERS: &str = "performers";
/// Plural of executors.
pub const EXECUTORS: &str = "hourglassexecutors";
/// Who is recorded as the manager of what is created and applied.
pub const MANAGER: &str = "orlop-operator";
/// Annotation of a performer or an executor, and of its pods: a new value restarts them, as an upgrade does.
pub(crate) const RESTARTED: &str = "hourglass.eigenlayer.io/restarted-at";
/// Who is recorded as the manager of statuses.
pub(crate) const STATUS_MANAGER: &str = "orlop-operator-status";
/// What was rendered into an object, as a hash.
pub(crate) const APPLIED_HASH: &str = "hourglass.eigenlayer.io/applied-hash";

/// So much later, and no less: times are stored in whole seconds.
#[must_use]
pub fn later(now: Time, wait: Duration) -> Time {
    if wait.is_zero() { now.whole_seconds() } else { now.plus(wait + Duration::from_millis(999)).whole_seconds() }
}

/// What every plan may look up besides its observation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The domain of Services.
    pub cluster_domain: String,
    /// Security profile of pods that do not set one.
    pub security: SecurityProfile,
    /// Tables of the hardware model.
    pub tables: Tables,
    /// The same in the words of Kubernetes.
    pub words: Vocabulary,
    /// Name of this process in events.
    pub instance: String,
}

impl Default for Config {
    fn default() -> Self {
        Self::with_tables(Tables::default())
    }
}

impl Config {
    /// The defaults over tables of one's own.
    #[must_use]
    pub fn with_tables(tables: Tables) -> Self {
        Self {
            cluster_domain: "cluster.local".to_owned(),
            security: SecurityProfile::Restricted,
            words: tables.vocabulary(Substrate::Kubernetes),
            tables,
            instance: MANAGER.to_owned(),
        }
    }
}
