//! Who calls, and what they may. Never stores anything.

mod caller;
mod rate;
mod token;

pub(crate) use caller::owner;
pub use caller::{Access, Caller, Concern, Role, Scope};
pub use rate::Rates;
pub use token::{Bearer, SecretHash, TokenError, TokenId};
