//! A whole OpenStack in memory: five services that answer as the real ones do, on a clock that only sleeping moves, with
//! faults at every call. It speaks in requests and bodies, so that the real adapter runs over it.

mod clock;
mod compute;
mod fault;
mod identity;
mod image;
mod network;
mod real;
mod reservation;
mod server;
mod suite;
#[cfg(test)]
mod tests;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use crate::openstack::classify::Service;
use crate::openstack::client::{self, Session};
use crate::openstack::credentials::{Credentials, Settings, resolve};
use crate::openstack::port::{Clock as _, Cloud};
use crate::openstack::wire::{Lost, Method, Request, Response, Sent, Transport};

pub use clock::VirtualClock;
pub use fault::{Fault, Faults};
pub use real::{Census, RealServices};
pub use server::MemoryServer;
pub use suite::{Subject, cloud_suite};
pub use world::{Build, EXTERNAL, Host, LeaseStart, NETWORK, Remains, World};

/// Where the double has its services.
const ADDRESS: &str = "https://cloud.test";

/// A whole OpenStack in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryCloud {
    clock: VirtualClock,
    world: Arc<Mutex<World>>,
    faults: Faults,
}

impl std::fmt::Debug for MemoryCloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryCloud")
    }
}

impl MemoryCloud {
    /// A cloud with three hosts, some images, a network, and an external network with four addresses.
    #[must_use]
    pub fn new(clock: VirtualClock) -> Self {
        Self { world: Arc::new(Mutex::new(World::new())), faults: Faults::default(), clock }
    }

    /// The faults of its calls.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What it holds, to be looked at or changed behind everybody's back.
    pub fn world(&self) -> MutexGuard<'_, World> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let now = world.time(self.clock.now());
        world.advance(now);
        world
    }

    /// Credentials that it takes: those of a password, or with `true` of an application credential.
    ///
    /// # Panics
    /// Never: the settings are complete.
    #[must_use]
    pub fn credentials(application_credential: bool) -> Credentials {
        let mut settings = Settings::of([("OS_AUTH_URL", ADDRESS), ("OS_REGION_NAME", "test")]);
        if application_credential {
            settings.set("OS_APPLICATION_CREDENTIAL_ID", "credential");
            settings.set("OS_APPLICATION_CREDENTIAL_SECRET", identity::PASSWORD);
        } else {
            settings.set("OS_USERNAME", "tester");
            settings.set("OS_PASSWORD", identity::PASSWORD);
            settings.set("OS_PROJECT_ID", world::PROJECT);
        }
        match resolve(&settings) {
            Ok(credentials) => credentials,
            Err(error) => unreachable!("{error}"),
        }
    }

    /// Its services, over the real adapter.
    #[must_use]
    pub fn open(&self) -> (Cloud, Arc<Session>) {
        client::open(Self::credentials(false), Arc::new(self.clone()), Arc::new(self.clock.clone()))
    }

    /// The answer to a request, without any fault.
    #[must_use]
    pub fn serve(&self, sent: &Sent) -> Response {
        let mut world = self.world();
        let now = world.time(self.clock.now());
        let mut response = answer(&mut world, now, sent);
        response.date = Some(now.millis());
        response.request_id = Some(format!("req-{}", world.served));
        world.served += 1;
        response
    }
}

fn answer(world: &mut World, now: orlop_core::time::Time, sent: &Sent) -> Response {
    let request = &sent.request;
    let header = |wanted: &str| sent.headers.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str());
    if request.service == Service::Identity {
        return identity::serve(world, now, request, header("authorization").unwrap_or_default());
    }
    let token = header("x-auth-token");
    if !token.is_some_and(|token| identity::is_good(world, now, token)) {
        return identity::unauthorized(request.service);
    }
    if let Some(refusal) = compute::refused_version(world, sent) {
        return refusal;
    }
    match request.service {
        Service::Identity => identity::unauthorized(request.service),
        Service::Image => image::serve(world, request),
        Service::Compute => compute::serve(world, now, request),
        Service::Network => network::serve(world, now, request),
        Service::Reservation => reservation::serve(world, now, request),
    }
}

#[async_trait]
impl Transport for MemoryCloud {
    async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
        match self.faults.next(&sent.request) {
            None => Ok(self.serve(sent)),
            Some(fault) => fault.play(self, sent).await,
        }
    }
}

/// An answer with a document.
fn json(status: u16, body: &Value) -> Response {
    Response { status, body: body.to_string(), ..Response::default() }
}

/// An answer without a body.
fn empty(status: u16) -> Response {
    Response { status, ..Response::default() }
}

/// The parts of a path, and its query as pairs.
fn route(request: &Request) -> (Method, Vec<String>, Vec<(String, String)>) {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let parts = path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    let query =
        url::form_urlencoded::parse(query.as_bytes()).map(|(key, value)| (key.into_owned(), value.into_owned()));
    (request.method, parts, query.collect())
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
