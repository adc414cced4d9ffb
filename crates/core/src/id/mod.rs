//! Ids and names as types of their own, which are checked once, when they are made. Owns the types and their texts. Never
//! generates an id: random parts and counters come from the caller.
//!
//! ```
//! use orlop_core::id::{Epoch, JobId, TenantName};
//! let tenant: TenantName = "physics".parse()?;
//! assert_eq!(tenant.as_str(), "physics");
//! let wrong = TenantName::new("our physics").unwrap_err();
//! assert!(wrong.to_string().starts_with("tenant name `our physics` is not valid: character ' ' at position 4"));
//!
//! let job = JobId::new(Epoch(1), 7).ok_or("both fit")?;
//! assert_eq!(job.to_string().parse(), Ok(job));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
