//! Join tokens as they are shown: never with their secret, but once.

use orlop_core::ports::fleet_store::Token;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::list::Listed;
use super::{time, times};

/// A token with which workers join the fleet.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = JoinToken)]
pub(crate) struct JoinTokenView {
    pub(crate) id: String,
    /// How many workers can still join with it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uses_left: Option<u32>,
    /// Labels that its workers may bring, KEY or KEY=VALUE; none = any
    pub(crate) labels: Vec<String>,
    /// Tenants whose jobs its workers may take; none = all
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
    /// Where workers join: address of the gRPC services, beside the token
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server: Option<String>,
}

impl From<Token> for JoinTokenView {
    fn from(token: Token) -> Self {
        Self {
            id: token.id,
            uses_left: token.uses_left,
            labels: token.labels,
            tenants: token.tenants,
            note: token.note,
            created_at: time(token.created_at),
            expires_at: times(token.expires_at),
            revoked_at: times(token.revoked_at),
            token: None,
            server: None,
        }
    }
}

/// Some of the tokens.
pub(crate) type JoinTokenList = Listed<JoinTokenView>;

/// A token to be made.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NewJoinToken {
    /// How many workers can join with it; absent = 1
    pub(crate) uses: Option<u32>,
    /// How long it is valid, such as `24h`; absent = an hour
    pub(crate) ttl: Option<String>,
    /// Labels that its workers may bring, KEY or KEY=VALUE; none = any
    pub(crate) labels: Vec<String>,
    /// Tenants whose jobs its workers may take; none = all
    pub(crate) tenants: Vec<String>,
    pub(crate) note: String,
}
