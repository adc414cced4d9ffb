//! Sessions of browsers in the store of the fleet, so that a restarted server or one that takes over knows them.

use async_trait::async_trait;
use orlop_core::error::Problem;
use orlop_core::ports::fleet_store::{
    Document, Documents as _, EntryFilter, MAX_PAGE, Page, Record, Session, SessionLink, WriteBatch, part,
};

use super::leading::{epoch_of, store};
use crate::host::scheduler::{Handle, Status};
use crate::web::SessionStore;

/// The store behind a server.
#[derive(Debug)]
pub(super) struct FleetSessions(pub(super) Handle);

impl FleetSessions {
    async fn all<D: Document + Send>(&self) -> Result<Vec<D>, Problem> {
        let (mut all, mut page) = (Vec::new(), Page::first(MAX_PAGE));
        loop {
            let found = self.0.store().list::<D>(&EntryFilter::default(), &page).await;
            let found = found.map_err(|error| store(&error))?;
            all.extend(found.items);
            match found.next {
                Some(next) => page = Page::after(next, MAX_PAGE),
                None => return Ok(all),
            }
        }
    }

    async fn one<D: Document + Send>(&self, key: &str) -> Result<Option<D>, Problem> {
        self.0.store().get::<D>(key).await.map_err(|error| store(&error))
    }
}

#[async_trait]
impl SessionStore for FleetSessions {
    fn term(&self) -> Option<u64> {
        match self.0.status() {
            Status::Leading { epoch } => Some(epoch.0),
            _ => None,
        }
    }

    async fn session(&self, id: &str) -> Result<Option<Session>, Problem> {
        self.one(&part(id)).await
    }

    async fn sessions(&self) -> Result<Vec<Session>, Problem> {
        self.all().await
    }

    async fn link(&self, key: &str) -> Result<Option<SessionLink>, Problem> {
        self.one(key).await
    }

    async fn links(&self) -> Result<Vec<SessionLink>, Problem> {
        self.all().await
    }

    async fn write(&self, records: Vec<Record>) -> Result<(), Problem> {
        let epoch = epoch_of(&self.0)?;
        let written = self.0.store().commit(epoch, vec![WriteBatch::new(records)]).await;
        written.map_err(|error| store(&error))
    }
}
