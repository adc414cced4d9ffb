//! Where sessions are kept.

use std::fmt;

use async_trait::async_trait;
use orlop_core::error::Problem;
use orlop_core::ports::fleet_store::{Record, Session, SessionLink};

/// Keeps sessions and links.
#[async_trait]
pub(crate) trait SessionStore: Send + Sync + fmt::Debug {
    /// In which term nobody but this process writes; none = others may write, so that nothing read is good for long.
    fn term(&self) -> Option<u64>;

    /// A session by its id.
    async fn session(&self, id: &str) -> Result<Option<Session>, Problem>;

    /// All sessions.
    async fn sessions(&self) -> Result<Vec<Session>, Problem>;

    /// A link by its key.
    async fn link(&self, key: &str) -> Result<Option<SessionLink>, Problem>;

    /// All links.
    async fn links(&self) -> Result<Vec<SessionLink>, Problem>;

    /// Writes all of these, or nothing.
    async fn write(&self, records: Vec<Record>) -> Result<(), Problem>;
}
