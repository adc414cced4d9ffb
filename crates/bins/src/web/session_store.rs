//! Where sessions are kept: in the store of a fleet, or in memory where there is none.

#[cfg(test)]
use std::collections::BTreeMap;
use std::fmt;
#[cfg(test)]
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use orlop_core::error::Problem;
#[cfg(test)]
use orlop_core::ports::fleet_store::{Entry, Kind};
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

/// Sessions of a process: they end with it.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct MemorySessions(Mutex<BTreeMap<(Kind, String), Entry>>);

#[cfg(test)]
impl MemorySessions {
    fn all(&self, kind: Kind) -> Vec<Entry> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().filter(|entry| entry.kind == kind).cloned().collect()
    }

    fn one(&self, kind: Kind, key: &str) -> Option<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&(kind, key.to_owned())).cloned()
    }
}

#[cfg(test)]
#[async_trait]
impl SessionStore for MemorySessions {
    fn term(&self) -> Option<u64> {
        Some(0)
    }

    async fn session(&self, id: &str) -> Result<Option<Session>, Problem> {
        self.one(Kind::Session, id).as_ref().map(Entry::read).transpose()
    }

    async fn sessions(&self) -> Result<Vec<Session>, Problem> {
        self.all(Kind::Session).iter().map(Entry::read).collect()
    }

    async fn link(&self, key: &str) -> Result<Option<SessionLink>, Problem> {
        self.one(Kind::SessionLink, key).as_ref().map(Entry::read).transpose()
    }

    async fn links(&self) -> Result<Vec<SessionLink>, Problem> {
        self.all(Kind::SessionLink).iter().map(Entry::read).collect()
    }

    async fn write(&self, records: Vec<Record>) -> Result<(), Problem> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            match record {
                Record::Put(entry) => {
                    entries.insert((entry.kind, entry.key.clone()), *entry);
                }
                Record::Delete(kind, key) => {
                    entries.remove(&(kind, key));
                }
                _ => {}
            }
        }
        Ok(())
    }
}
