//! Documents: what is written rarely and read by its key. Owns their kinds and how a typed document becomes an entry of the
//! store and back; the types are in the modules below.

mod access;
mod artifact;
mod fleet;
mod flow;
mod hex;

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::query::{EntryFilter, Page, Paged};
use super::{FleetReads, Json};
use crate::error::{Class, Problem};
use crate::exact;
use crate::id::TenantName;
use crate::named::named_enum;
use crate::time::Time;

pub use self::access::{Secret, Session, SessionGrant, SessionLink, Token};
pub use self::artifact::{Artifact, ArtifactLink, LeftBy, Upload};
pub use self::fleet::{Tenant, Worker};
pub use self::flow::{Approval, FleetFlow, FlowStep, Pipeline};

named_enum! {
    /// A table of documents; the text is its name in databases.
    pub enum Kind("kind of document") {
        /// Incarnations of workers.
        Worker = "workers",
        /// Tenants with their quotas.
        Tenant = "tenants",
        /// Access and join tokens.
        Token = "tokens",
        /// Sessions of browsers.
        Session = "sessions",
        /// Links that open one.
        SessionLink = "session_links",
        /// Sealed secrets.
        Secret = "secrets",
        /// Definitions of pipelines.
        Pipeline = "pipelines",
        /// Flows.
        Flow = "flows",
        /// Journals of flows: records, snapshots, entries, and who has which name.
        FlowEntry = "flow_entries",
        /// Steps of flows.
        FlowStep = "flow_steps",
        /// Decisions on steps that wait for one.
        Approval = "approvals",
        /// Stored artifacts.
        Artifact = "artifacts",
        /// Which job refers to which artifact.
        ArtifactLink = "artifact_links",
        /// Uploads under way.
        Upload = "uploads",
    }
}

/// A document as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its table.
    pub kind: Kind,
    /// Its key, unique in that table.
    pub key: String,
    /// The tenant it belongs to, if it belongs to one.
    pub tenant: Option<TenantName>,
    /// When it ended; such documents go with the jobs of that time.
    pub ended_at: Option<Time>,
    /// The document.
    pub body: Json,
}

/// A type of documents.
pub trait Document: Serialize + DeserializeOwned {
    /// The table.
    const KIND: Kind;

    /// The key.
    fn key(&self) -> String;

    /// The tenant it belongs to, if it belongs to one.
    fn tenant(&self) -> Option<&TenantName> {
        None
    }

    /// When it ended, if it has.
    fn ended_at(&self) -> Option<Time> {
        None
    }
}

impl Entry {
    /// The entry of a document.
    ///
    /// # Errors
    /// Invalid when it cannot be written as JSON.
    pub fn of<D: Document>(document: &D) -> Result<Self, Problem> {
        let key = document.key();
        let body = serde_json::to_string(document).map_err(|error| {
            Problem::new(Class::Invalid, format!("`{key}` of {} cannot be written as JSON", D::KIND)).because(error)
        })?;
        let (tenant, ended_at) = (document.tenant().cloned(), document.ended_at());
        Ok(Self { kind: D::KIND, key, tenant, ended_at, body: body.into() })
    }

    /// The document of an entry.
    ///
    /// # Errors
    /// Fatal when it is not what the type says: the store is damaged, or was written by something else.
    pub fn read<D: Document>(&self) -> Result<D, Problem> {
        exact::from_str(&self.body).map_err(|error| {
            let message = format!("`{}` of {} cannot be read; restore a backup of the store", self.key, self.kind);
            Problem::new(Class::Fatal, message).because(error)
        })
    }
}

/// A part of a key: parts are joined by `/`, which a part itself never holds.
#[must_use]
pub fn part(text: &str) -> String {
    text.replace('%', "%25").replace('/', "%2f")
}

/// Typed reading of documents, for every store.
pub trait Documents: FleetReads {
    /// A document by its key.
    ///
    /// # Errors
    /// Transient when it cannot be read now; Fatal when it is damaged.
    fn get<D: Document>(&self, key: &str) -> impl Future<Output = Result<Option<D>, Problem>> + Send {
        async move {
            let entry = self.entry(D::KIND, key).await?;
            entry.as_ref().map(Entry::read).transpose()
        }
    }

    /// Documents in order of their keys.
    ///
    /// # Errors
    /// As of [`Documents::get`].
    fn list<D: Document>(
        &self,
        filter: &EntryFilter,
        page: &Page<String>,
    ) -> impl Future<Output = Result<Paged<D, String>, Problem>> + Send {
        async move {
            let Paged { items, next } = self.entries(D::KIND, filter, page).await?;
            Ok(Paged { items: items.iter().map(Entry::read).collect::<Result<_, _>>()?, next })
        }
    }
}

impl<S: FleetReads + ?Sized> Documents for S {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_keys_hold_no_separator() {
        assert_eq!(part("a/b%"), "a%2fb%25");
    }

    #[test]
    fn a_document_becomes_an_entry_and_back() {
        let tenant = Tenant::new("physics".parse().unwrap());
        let entry = Entry::of(&tenant).unwrap();
        assert_eq!((entry.kind, entry.key.as_str()), (Kind::Tenant, "physics"));
        assert_eq!(entry.read::<Tenant>().unwrap(), tenant);
        let damaged = Entry { body: "{".into(), ..entry };
        insta::assert_snapshot!(damaged.read::<Tenant>().unwrap_err(), @"`physics` of tenants cannot be read; restore a backup of the store");
    }
}
