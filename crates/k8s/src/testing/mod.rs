//! A Kubernetes API server in this process, for tests of what talks to one: storage, verbs, watches, patches, schemas with
//! their rules, admission, rights, quotas, faults. It serves `kube::Client` over its service interface, opens no socket,
//! reads no clock and draws no random number that a test did not give it: equal calls get equal answers.
//!
//! What it leaves out is listed in [`ApiServer`]. What it answers is compared with a real API server by the conformance
//! test of this crate, where one is installed.

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
