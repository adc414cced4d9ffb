//! Sessions of browsers as they are shown, and what the page learns of the server before anybody signs in.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::time;
use crate::api::auth::{Caller, Scope};

/// How a session begins: by the key of a link, or by a token.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignIn {
    /// The key of a link, which opens one session
    #[serde(default)]
    pub(crate) key: Option<String>,
    /// An access token; it is not kept
    #[serde(default)]
    pub(crate) token: Option<String>,
}

/// Whom a session acts for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// Id of the token behind it; `local` = the token of the server's machine
    pub(crate) caller: String,
    /// viewer, submitter, operator or admin
    pub(crate) role: String,
    /// Tenants whose objects it sees; `*` = all
    pub(crate) tenants: Vec<String>,
    /// When it ends
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
}

impl From<&Caller> for SessionView {
    fn from(caller: &Caller) -> Self {
        Self {
            caller: caller.name().to_owned(),
            role: caller.role.as_str().to_owned(),
            tenants: Scope::names(&caller.scope),
            expires_at: caller.expires_at.map(time),
        }
    }
}

/// A session that has begun. The answer also sets a cookie; requests of the session need both.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionBegun {
    /// Goes with every request of the session, in the header `Orlop-Proof`; shown once
    pub(crate) proof: String,
    #[serde(flatten)]
    pub(crate) session: SessionView,
}

/// A link to be made.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSessionLink {
    /// What the page shows first, relative to its base, such as `flows/nightly`
    #[serde(default)]
    pub(crate) path: Option<String>,
    /// Role of the session: the caller's or a lower one
    #[serde(default)]
    #[schema(pattern = "^(viewer|submitter|operator|admin)$")]
    pub(crate) role: Option<String>,
}

/// A link that opens one session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionLinkView {
    /// Open it in a browser; it works once
    pub(crate) url: String,
    /// Until when
    pub(crate) expires_at: String,
}

/// What the page is shown of its server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConsoleView {
    /// Which page belongs to this server
    pub(crate) build: &'static str,
    /// fleet, machine or cluster
    pub(crate) mode: &'static str,
    pub(crate) server: ConsoleServer,
    /// Whom the session of this request acts for; absent without one
    pub(crate) session: Option<SessionView>,
    /// What this server can do
    pub(crate) capabilities: Vec<&'static str>,
    pub(crate) limits: ConsoleLimits,
}

/// The server behind a page. Without a session it has no name.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConsoleServer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<&'static str>,
    /// Term of the leader
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) epoch: Option<u64>,
    pub(crate) time: String,
}

/// Bounds that a page keeps to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConsoleLimits {
    /// Changes are gathered for so many milliseconds
    pub(crate) tick_ms: u64,
    /// Topics of one stream, at most
    pub(crate) topics: usize,
}
