//! Identities: names and numbers that are checked once, where they enter, and trusted from then on.
//! Owns the newtypes and their text forms. Never makes an identity up: random parts and counters come from the caller.

mod error;
mod job;
mod names;
mod number;
mod session;
mod text;

pub use error::{IdError, IdFault};
pub use job::JobId;
#[cfg(feature = "hardware")]
pub(crate) use names::Rule;
pub use names::{dns1123_label, dns1123_subdomain, label_key, label_value};
pub use number::{Attempt, Epoch, Incarnation};
pub use session::SessionId;
pub(crate) use text::text_id;
pub use text::{DeploymentId, FlowName, FlowUid, LeaseId, Namespace, ServerId, StepName, TenantName, WorkerId};
