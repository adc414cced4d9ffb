//! Who calls, and what they may. Never stores anything.

mod caller;
mod rate;

pub(crate) use caller::owner;
pub use caller::{Access, Caller, Concern, Role, Scope};
pub use rate::Rates;

pub use crate::bearer::{Bearer, SecretHash, TokenError, TokenId};
