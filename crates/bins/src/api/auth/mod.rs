//! Who calls, and what they may. Owns roles, tokens and the rate of calls; never stores anything.

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
