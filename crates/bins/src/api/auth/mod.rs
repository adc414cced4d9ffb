//! Who calls, and what they may. Never stores anything.

mod caller;
mod concern;
mod owner;
mod rate;
mod role;
mod token;

pub use caller::{Access, Caller, Scope};
pub use concern::Concern;
pub(crate) use owner::owner;
pub use rate::Rates;
pub use role::Role;
pub use token::{Bearer, SecretHash, TokenError, TokenId};
