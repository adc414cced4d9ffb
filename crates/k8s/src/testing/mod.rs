//! A Kubernetes API server in this process, for tests of programs that use one: storage, verbs, watches, patches, schemas with their
//! validation rules, admission webhooks, RBAC, quotas, and faults that a test asks for. It serves a `kube::Client` without a socket. It
//! reads no clock and draws no random number that a test did not give it: equal calls get equal answers.
//!
//! [`ApiServer`] lists what it leaves out. The conformance test of this crate compares it with a real API server, where one is
//! installed.
//!
//! ```
//! use orlop_k8s::api::{Api, Client, Kind, Request};
//! use orlop_k8s::testing::ApiServer;
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = ApiServer::new();
//! let api = Client::new(server.client());
//! let map = serde_json::json!({
//!     "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}, "data": {"a": "1"},
//! });
//! api.send(&Request::create(Kind::ConfigMap, map)).await?;
//! let stored = api.send(&Request::get(Kind::ConfigMap, "default", "m")).await?;
//! assert_eq!((&stored["data"]["a"], server.writes().len()), (&"1".into(), 1));
//! # Ok::<(), orlop_k8s::api::ApiError>(())
//! # }).unwrap();
//! ```

mod answer;
mod builtin;
mod conditions;
mod controllers;
mod definition;
mod discovery;
mod face;
mod faults;
mod kind;
mod managed;
mod object;
mod patching;
mod quota;
mod random;
mod rbac;
mod record;
mod refusal;
mod request;
mod rules;
mod schema;
mod selector;
mod service;
mod state;
mod store;
mod verb;
mod watch;
mod webhooks;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use controllers::{ControllersHandle, PodHabits};
pub use face::{ApiServer, Clock, FaultsHandle, Streams};
pub use faults::{Fault, Match, What};
pub use record::{Requests, Write};
pub use request::Verb;
pub use service::Lost;
pub use verb::{Admission, Hook};
pub use webhooks::{Reviewer, WebhookCall, flow_reviewer};

use state::State;

/// The state, with who waits for a client to stop.
pub(crate) struct Shared {
    state: Mutex<State>,
    stopped: tokio::sync::Notify,
}

impl Shared {
    fn new(state: State) -> Self {
        Self { state: Mutex::new(state), stopped: tokio::sync::Notify::new() }
    }

    /// A test that panicked while it held the lock leaves a state that others can still look at.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
