//! What all attempts of a runtime of containers share: the engine, the directories, and the list of those that live. Owns
//! connecting, and removing containers that nobody knows; never decides what becomes of an attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::task::TaskRef;
use tokio::sync::mpsc;

use super::{ContainerOptions, request};
use crate::runtime::docker::connect::{self, Endpoint};
use crate::runtime::docker::engine::Engine;
use crate::runtime::docker::login::Logins;
use crate::runtime::worker::directories::Directories;
use crate::runtime::worker::event::{AttemptEvents, Cause};
use crate::runtime::worker::process::supervise;

/// What is asked of an attempt.
#[derive(Debug)]
pub(super) enum Ask {
    /// To end.
    End(Cause, Duration),
    /// To write again.
    Resume,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) options: ContainerOptions,
    pub(super) events: Arc<dyn AttemptEvents>,
    pub(super) directories: Directories,
    pub(super) logins: Logins,
    endpoints: Vec<Endpoint>,
    engine: Mutex<Option<Engine>>,
    live: Mutex<BTreeMap<TaskRef, mpsc::UnboundedSender<Ask>>>,
    /// Whether there may be containers of this worker that nobody knows.
    unswept: AtomicBool,
}

impl Hub {
    pub(super) fn new(options: ContainerOptions, events: Arc<dyn AttemptEvents>) -> Result<Arc<Self>, Problem> {
        request::check_network(options.network.as_deref())?;
        let endpoints = connect::candidates(options.address.as_deref())?;
        let logins = Logins::new(options.logins.clone().or_else(Logins::default_config));
        let directories = Directories::new(options.work.clone(), options.secrets.clone(), options.keep_failed)?;
        let (engine, live) = (Mutex::default(), Mutex::default());
        let unswept = AtomicBool::new(false);
        Ok(Arc::new(Self { options, events, directories, logins, endpoints, engine, live, unswept }))
    }

    /// The engine; connects where that was not done yet.
    pub(super) async fn engine(&self) -> Result<Engine, Problem> {
        let known = lock(&self.engine).clone();
        if let Some(engine) = known {
            return Ok(engine);
        }
        let engine = connect::first(&self.endpoints, self.options.network.as_deref()).await?;
        *lock(&self.engine) = Some(engine.clone());
        Ok(engine)
    }

    /// Whether the engine answers. One that was away is looked through for what nobody knows.
    pub(super) async fn check(&self) -> Result<(), Problem> {
        let asked = match self.engine().await {
            Ok(engine) => engine.ping().await.map(|()| engine),
            Err(error) => Err(error),
        };
        match asked {
            Ok(engine) if self.unswept.load(Ordering::Relaxed) => {
                self.sweep(&engine).await?;
                self.unswept.store(false, Ordering::Relaxed);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => {
                self.missed();
                Err(error)
            }
        }
    }

    /// What is there was not seen: it is looked for when the engine is back.
    pub(super) fn missed(&self) {
        self.unswept.store(true, Ordering::Relaxed);
    }

    /// Removes containers of this worker whose attempts nobody knows.
    async fn sweep(&self, engine: &Engine) -> Result<(), Problem> {
        let supervised: BTreeSet<TaskRef> = supervise::all(&self.options.work)?.into_iter().collect();
        for (id, container) in self.containers(engine).await? {
            if !self.is_live(&id) && !supervised.contains(&id) {
                tracing::warn!(attempt = %id, container = container.id, "an unknown container; removing it");
                engine.remove(&container.id).await?;
            }
        }
        Ok(())
    }

    /// All containers of this worker.
    pub(super) async fn containers(&self, engine: &Engine) -> Result<Vec<(TaskRef, request::Seen)>, Problem> {
        let filter = request::filter(&self.options.mark, None);
        let all = engine.labelled(filter, "listing the containers of this worker").await?;
        Ok(all.iter().filter_map(request::seen).collect())
    }

    /// The containers of one attempt.
    pub(super) async fn containers_of(&self, engine: &Engine, id: &TaskRef) -> Result<Vec<request::Seen>, Problem> {
        let filter = request::filter(&self.options.mark, Some(id));
        let all = engine.labelled(filter, &format!("listing the containers of attempt {id}")).await?;
        Ok(all.iter().filter_map(request::seen).map(|(_, seen)| seen).collect())
    }

    /// Takes an attempt in; none when it is here already.
    pub(super) fn enter(&self, id: TaskRef) -> Option<mpsc::UnboundedReceiver<Ask>> {
        let mut live = lock(&self.live);
        if live.contains_key(&id) {
            return None;
        }
        let (send, asks) = mpsc::unbounded_channel();
        live.insert(id, send);
        Some(asks)
    }

    /// An attempt is over.
    pub(super) fn leave(&self, id: &TaskRef) {
        lock(&self.live).remove(id);
    }

    pub(super) fn is_live(&self, id: &TaskRef) -> bool {
        lock(&self.live).contains_key(id)
    }

    /// Asks something of an attempt; one that is not here is fine.
    pub(super) fn ask(&self, id: &TaskRef, ask: Ask) {
        if let Some(asks) = lock(&self.live).get(id) {
            // One that is just over hears nothing any more.
            let _ = asks.send(ask);
        }
    }
}

/// Whether trying again may help.
pub(super) fn is_passing(error: &Problem) -> bool {
    error.class.is_retryable() || error.class == Class::NotFound
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing behind these locks is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
