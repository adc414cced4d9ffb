//! What tests see of the server: clients, the clock, faults, records, and a look at the objects.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Shared;
use super::controllers::ControllersHandle;
use super::faults::{Fault, Twist};
use super::record::{Requests, Write};
use super::service::{Identity, Service};
use super::state::State;
use super::store::key;
use super::verb::Hook;
use super::webhooks::Reviewer;

/// An API server in this process. Clones are handles on the same server.
///
/// Not served: proxying (logs, exec, port forwarding), tables for printing, protobuf, OpenAPI documents, conversion
/// between versions of a custom resource, admission policies, priority and fairness. Events of the core group and of
/// `events.k8s.io` are stored apart.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ApiServer").field("revision", &self.shared.lock().revision).finish_non_exhaustive()
    }
}

impl ApiServer {
    /// A server with the built-in kinds and the namespaces of every cluster, at 2026-01-01T00:00:00Z.
    #[must_use]
    pub fn new() -> Self {
        Self::seeded(0)
    }

    /// The same with another sequence of uids and generated names.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { shared: Arc::new(Shared::new(State::new(seed))) }
    }

    /// A server of its own with the same objects, history and time, without faults, records and streams.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { shared: Arc::new(Shared::new(self.shared.lock().fork())) }
    }

    /// Installs a CustomResourceDefinition document, as if it had been created with all rights.
    ///
    /// # Errors
    /// The server's refusal as text.
    pub fn install(&self, definition: &Value) -> Result<(), String> {
        self.create("apiextensions.k8s.io", "customresourcedefinitions", "", definition).map(|_| ())
    }

    /// Makes a namespace, where there is none of that name.
    pub fn namespace(&self, name: &str) {
        self.shared.lock().make_namespace(name);
    }

    /// A client named `admin` that may do everything. Needs a tokio runtime.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client_named("admin")
    }

    /// A client that may do everything, under a name of its own in records and faults. Needs a tokio runtime.
    #[must_use]
    pub fn client_named(&self, name: &str) -> kube::Client {
        self.client_of(Identity { client: name.to_owned(), user: None })
    }

    /// A client with the rights of a user, as in `system:serviceaccount:namespace:name`: those that the stored roles and
    /// bindings give it. Its name in records and faults is that of the user. Needs a tokio runtime.
    #[must_use]
    pub fn client_as(&self, user: &str) -> kube::Client {
        self.client_of(Identity { client: user.to_owned(), user: Some(user.to_owned()) })
    }

    fn client_of(&self, identity: Identity) -> kube::Client {
        kube::Client::new(Service { shared: Arc::clone(&self.shared), identity: Arc::new(identity) }, "default")
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock { shared: Arc::clone(&self.shared) }
    }

    /// The controllers: Jobs and their pods, garbage, namespaces.
    #[must_use]
    pub fn jobs(&self) -> ControllersHandle {
        ControllersHandle { shared: Arc::clone(&self.shared) }
    }

    /// What goes wrong.
    #[must_use]
    pub fn faults(&self) -> FaultsHandle {
        FaultsHandle { shared: Arc::clone(&self.shared) }
    }

    /// The streams of a resource, as in `jobs` or `jobs.batch`.
    #[must_use]
    pub fn streams(&self, resource: &str) -> Streams {
        let (plural, group) =
            resource.split_once('.').map_or((resource, None), |(plural, group)| (plural, Some(group)));
        let table = self
            .shared
            .lock()
            .tables
            .iter()
            .position(|table| table.kind.plural == plural && group.is_none_or(|group| table.kind.group == group));
        Streams { shared: Arc::clone(&self.shared), table }
    }

    /// Adds an admission webhook; hooks are asked in the order in which they were added.
    pub fn admission(&self, hook: Hook) {
        self.shared.lock().hooks.push(hook);
    }

    /// Registers the webhooks of a `MutatingWebhookConfiguration` or `ValidatingWebhookConfiguration`: from now on creates and
    /// updates that its rules name are reviewed; deletions are not. A [`super::What::WebhooksDown`] fault keeps one request
    /// from being reviewed.
    ///
    /// # Errors
    /// What is wrong with the configuration.
    pub fn webhooks(&self, configuration: &Value, reviewer: &Reviewer) -> Result<(), String> {
        let registered = super::webhooks::read(configuration, reviewer)?;
        self.shared.lock().webhooks.extend(registered);
        Ok(())
    }

    /// Records the managers of fields from the first write on, as real servers do; without this from the first apply on,
    /// which is faster.
    pub fn record_all_managers(&self) {
        self.shared.lock().all_managers = true;
    }

    /// Turns on what clusters call OwnerReferencesPermissionEnforcement: who creates an object whose owner must not go before
    /// it needs the right to update the finalizers of that owner.
    pub fn guard_owners(&self) {
        self.shared.lock().guards_owners = true;
    }

    /// Forgets history up to now: older versions cannot be watched from or listed any more.
    pub fn compact(&self) {
        let mut state = self.shared.lock();
        let revision = state.revision;
        state.tables.iter_mut().for_each(|table| table.compact(revision));
    }

    /// The newest resource version.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.shared.lock().revision
    }

    /// All writes of clients so far, in order.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        self.shared.lock().record.writes.clone()
    }

    /// All requests of clients so far, counted.
    #[must_use]
    pub fn requests(&self) -> Vec<Requests> {
        self.shared.lock().record.requests()
    }

    /// Forgets the records.
    pub fn forget_records(&self) {
        self.shared.lock().record.clear();
    }

    /// Stores an object as it stands, with its uid and its status, as a backup of a cluster brings it back. `resource` as in
    /// `jobs.batch`.
    ///
    /// # Errors
    /// When there is no such resource, or this is no object.
    pub fn restore(&self, resource: &str, object: &Value) -> Result<(), String> {
        let mut state = self.shared.lock();
        let (plural, group) = parts(resource);
        let table = state.table_named(group, plural).ok_or("there is no such resource")?;
        let object = object.as_object().cloned().ok_or("this is no object")?;
        state.put(table, object).map(drop).map_err(|_| "it cannot be stored".to_owned())
    }

    /// An object, past all rights, faults and records. `resource` as in `jobs.batch`; the namespace of cluster-scoped
    /// objects is empty.
    #[must_use]
    pub fn look(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let state = self.shared.lock();
        let (plural, group) = parts(resource);
        let table = state.table_named(group, plural)?;
        state.get(table, &key(namespace, name)).map(|stored| Value::Object(stored.object.clone()))
    }

    /// All objects of a resource in the order of namespace and name, past all rights, faults and records.
    #[must_use]
    pub fn look_all(&self, resource: &str) -> Vec<Value> {
        let state = self.shared.lock();
        let (plural, group) = parts(resource);
        let table = state.table_named(group, plural).and_then(|table| state.tables.get(table));
        table.map(|table| table.all().map(|stored| Value::Object(stored.object.clone())).collect()).unwrap_or_default()
    }

    /// The same as they were before the newest `changes` of this resource.
    #[must_use]
    pub fn look_back(&self, resource: &str, changes: usize) -> Vec<Value> {
        let state = self.shared.lock();
        let (plural, group) = parts(resource);
        let Some(table) = state.table_named(group, plural).and_then(|table| state.tables.get(table)) else {
            return Vec::new();
        };
        let past = table.at(table.revision_before(changes));
        past.values().map(|stored| Value::Object(stored.object.clone())).collect()
    }

    /// Names of all objects of a resource that were ever created, in that order, as far as history reaches.
    #[must_use]
    pub fn created(&self, resource: &str) -> Vec<String> {
        let state = self.shared.lock();
        let (plural, group) = parts(resource);
        let table = state.table_named(group, plural).and_then(|table| state.tables.get(table));
        table.map(super::store::Table::created).unwrap_or_default()
    }

    /// Creates an object past all rights, faults and records; defaults and checks apply.
    ///
    /// # Errors
    /// The server's refusal as text.
    pub fn create(&self, group: &str, plural: &str, namespace: &str, object: &Value) -> Result<Value, String> {
        let Value::Object(object) = object else { return Err("it is no object".to_owned()) };
        let mut state = self.shared.lock();
        let table =
            state.table_named(group, plural).ok_or_else(|| format!("no resource {plural} in group {group:?}"))?;
        let created = super::verb::create_directly(&mut state, table, namespace, object.clone())
            .map_err(|refusal| refusal.message.clone())?;
        Ok(Value::Object(created.object.clone()))
    }
}

/// The clock of a server. It stands still unless moved, or unless it follows tokio's clock.
#[derive(Clone)]
pub struct Clock {
    shared: Arc<Shared>,
}

impl Clock {
    /// Milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.shared.lock().now()
    }

    /// Moves it forward; watches whose time is up end.
    pub fn advance(&self, time: Duration) {
        self.shared.lock().advance(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    }

    /// Goes on with tokio's clock from now on, which a test can pause and move. Needs a tokio runtime.
    pub fn follow_tokio(&self) {
        self.shared.lock().follow_tokio();
    }
}

/// What goes wrong in a server.
#[derive(Clone)]
pub struct FaultsHandle {
    shared: Arc<Shared>,
}

impl FaultsHandle {
    /// Adds a fault.
    pub fn push(&self, fault: Fault) {
        self.shared.lock().faults.push(fault);
    }

    /// Takes all faults back that wait or last. Stopped clients stay stopped.
    pub fn clear(&self) {
        self.shared.lock().faults.clear();
    }

    /// How many faults wait for requests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.lock().faults.waiting()
    }

    /// How many faults have struck.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.shared.lock().faults.struck
    }

    /// Makes everything unreachable for a client.
    pub fn stop(&self, client: &str) {
        self.shared.lock().faults.stop(client);
        self.shared.stopped.notify_waiters();
    }

    /// Lets a stopped client in again.
    pub fn restart(&self, client: &str) {
        self.shared.lock().faults.restart(client);
    }

    /// Whether a client has been stopped.
    #[must_use]
    pub fn is_stopped(&self, client: &str) -> bool {
        self.shared.lock().faults.is_stopped(client)
    }

    /// Waits until a client has been stopped.
    pub async fn stopped(&self, client: &str) {
        loop {
            let notified = self.shared.stopped.notified();
            if self.is_stopped(client) {
                return;
            }
            notified.await;
        }
    }
}

/// The streams of one resource.
#[derive(Clone)]
pub struct Streams {
    shared: Arc<Shared>,
    table: Option<usize>,
}

impl Streams {
    fn with(&self, act: impl FnOnce(&mut State, usize)) {
        if let Some(table) = self.table {
            act(&mut self.shared.lock(), table);
        }
    }

    /// Ends all of them.
    pub fn cut(&self) {
        self.with(|state, table| {
            state.faults.cut(table);
            state.tables.get_mut(table).into_iter().for_each(super::store::Table::wake);
        });
    }

    /// Holds them back: what happens from now on is not told until [`Streams::release`]. Lists show it all the same.
    pub fn hold(&self) {
        self.with(|state, table| {
            let revision = state.revision;
            state.tables.get_mut(table).into_iter().for_each(|table| table.hold(Some(revision)));
        });
    }

    /// Tells what was held back.
    pub fn release(&self) {
        self.with(|state, table| state.tables.get_mut(table).into_iter().for_each(|table| table.hold(None)));
    }

    /// Tells the next event twice.
    pub fn duplicate(&self) {
        self.with(|state, table| state.faults.set_twist(table, Twist::Duplicate));
    }
}

/// A resource with its group, as `kubectl` writes both: `jobs.batch`; that of the core group has none.
fn parts(resource: &str) -> (&str, &str) {
    resource.split_once('.').unwrap_or((resource, ""))
}
