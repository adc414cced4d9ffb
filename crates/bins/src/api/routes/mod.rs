//! What the routes do: one file a kind of object.

pub(super) mod again;
pub(super) mod artifacts;
pub(super) mod cancel;
pub(super) mod events;
pub(super) mod flow_logs;
pub(super) mod flows;
pub(super) mod jobs;
pub(super) mod join_tokens;
pub(super) mod logs;
pub(super) mod parts;
pub(super) mod pipelines;
pub(super) mod secrets;
pub(super) mod server;
pub(super) mod session;
pub(super) mod submit;
pub(super) mod tenants;
pub(super) mod tokens;
pub(super) mod workers;
