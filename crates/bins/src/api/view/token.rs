//! Tokens as they are shown: never with their secret, but once.

use orlop_core::ports::fleet_store::Token;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::list::Listed;
use super::{time, times};

/// A token.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Token)]
pub(crate) struct TokenView {
    pub(crate) id: String,
    /// viewer, submitter, operator or admin
    pub(crate) role: String,
    /// Tenants whose objects it may access; `*` = all
    pub(crate) tenants: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
    pub(crate) created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revoked_at: Option<String>,
    /// The whole token, shown once: when it is made
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl From<Token> for TokenView {
    fn from(token: Token) -> Self {
        Self {
            id: token.id,
            role: token.role,
            tenants: token.tenants,
            note: token.note,
            created_at: time(token.created_at),
            expires_at: times(token.expires_at),
            revoked_at: times(token.revoked_at),
            token: None,
        }
    }
}

/// Some of the tokens.
pub(crate) type TokenList = Listed<TokenView>;

/// A token to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// viewer, submitter, operator or admin
    #[schema(pattern = "^(viewer|submitter|operator|admin)$")]
    pub(crate) role: String,
    /// Tenants whose objects it may access; `*` = all
    #[schema(min_items = 1, max_items = 1000)]
    pub(crate) tenants: Vec<String>,
    /// A duration such as `720h`; absent = it does not expire
    #[serde(default)]
    pub(crate) expires_in: Option<String>,
    #[serde(default)]
    pub(crate) note: String,
}
