//! Records beside jobs: leadership, idempotency keys, the audit trail, the outbox, retention. Owns their shapes.

use std::time::Duration;

use super::job::{Json, Text};
use crate::id::{Epoch, JobId, TenantName};
use crate::time::Time;

/// A server that wants to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its name, unique among servers.
    pub name: String,
    /// Where clients find it.
    pub url: String,
}

/// The leader row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Name of the server; empty when leadership was given up.
    pub holder: String,
    /// Where clients find it.
    pub url: String,
    /// Its epoch.
    pub epoch: Epoch,
    /// How long its term still runs by the store's clock; absent where terms do not run out.
    pub remaining: Option<Duration>,
}

/// What names a request that takes effect once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    /// The tenant of the request.
    pub tenant: TenantName,
    /// The client's key, at most 128 bytes.
    pub key: String,
}

/// The answer to such a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyRecord {
    /// What names it.
    pub key: IdempotencyKey,
    /// Hash of its body: another body under the same key is refused.
    pub body_hash: [u8; 32],
    /// Status of the answer.
    pub status: u16,
    /// Body of the answer.
    pub response: Json,
    /// When the key is free again.
    pub expires_at: Time,
}

/// One line of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number, from the store.
    pub number: u64,
    /// When.
    pub time: Time,
    /// Who: token id, certificate name or address.
    pub actor: String,
    /// In which tenant, if in one.
    pub tenant: Option<TenantName>,
    /// The action, such as `jobs.submit`.
    pub action: Text,
    /// The object it was about.
    pub target: String,
    /// The outcome, such as `ok` or an error code.
    pub outcome: Text,
    /// Id of the request.
    pub request_id: Option<String>,
}

/// An event to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEvent {
    /// Full subject, such as `orlop.events.job.created`.
    pub subject: Text,
    /// JSON body, at most 64 Ki.
    pub body: Json,
}

/// An event that waits to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its id; grows in the order of commits.
    pub id: u64,
    /// The event.
    pub event: OutboxEvent,
}

/// What is old enough to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Now; idempotency keys that expired before go.
    pub now: Time,
    /// Jobs that became final before go, with everything of them, but for those of a flow that has not ended; and documents
    /// that ended before.
    pub jobs_before: Time,
    /// Audit entries older than this go.
    pub audit_before: Time,
    /// At most as many jobs, and as many rows of each other kind, in one call.
    pub batch: u32,
}

/// What was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Jobs; what else is kept of them, such as logs, can go too.
    pub jobs: Vec<JobId>,
    /// Documents, audit entries, idempotency keys and specs together.
    pub others: u64,
    /// There is more to delete.
    pub more: bool,
}
