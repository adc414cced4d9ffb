//! Everything behind the double's lock: tables, version counter, time, faults, the record of calls. Chooses the table of
//! a call; the verbs are in `verb`.

use std::sync::Arc;

use super::controllers::Controllers;
use super::faults::Faults;
use super::kind::{self, Kind};
use super::object::{Object, rfc3339};
use super::random::Random;
use super::record::Record;
use super::refusal::{Refusal, Result};
use super::request::Path;
use super::selector::Selector;
use super::store::{Stored, Table, key_of};
use super::verb::Hook;
use super::webhooks::Registered;

/// 2026-01-01T00:00:00Z in milliseconds: where the clock begins.
const EPOCH: i64 = 1_767_225_600_000;

/// The whole server.
pub(crate) struct State {
    pub(crate) tables: Vec<Table>,
    /// The newest version.
    pub(crate) revision: u64,
    pub(crate) random: Random,
    time: Time,
    pub(crate) faults: Faults,
    pub(crate) record: Record,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) webhooks: Vec<Registered>,
    /// What webhooks warn of in the request that is carried out.
    pub(crate) warnings: Vec<String>,
    pub(crate) controllers: Controllers,
    /// Whether managers of fields are recorded from the first write on, and not only from the first apply on.
    pub(crate) all_managers: bool,
    /// Whether who names an owner that must not go before its own needs the right to set finalizers of the owner.
    pub(crate) guards_owners: bool,
}

/// The clock: what was added by hand, and what tokio's clock went on since it is followed.
#[derive(Clone, Copy, Debug)]
struct Time {
    milliseconds: i64,
    origin: Option<tokio::time::Instant>,
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        let mut state = Self {
            tables: kind::builtin().into_iter().map(Table::new).collect(),
            revision: 0,
            random: Random::new(seed),
            time: Time { milliseconds: EPOCH, origin: None },
            faults: Faults::default(),
            record: Record::default(),
            hooks: Vec::new(),
            webhooks: Vec::new(),
            warnings: Vec::new(),
            controllers: Controllers::default(),
            all_managers: false,
            guards_owners: false,
        };
        state.furnish();
        state
    }

    /// A state of its own with the same objects, history and time, and without faults and records.
    pub(crate) fn fork(&self) -> Self {
        Self {
            tables: self.tables.iter().map(Table::fork).collect(),
            revision: self.revision,
            random: self.random.clone(),
            time: Time { milliseconds: self.now(), origin: None },
            faults: Faults::default(),
            record: Record::default(),
            hooks: self.hooks.clone(),
            webhooks: self.webhooks.clone(),
            warnings: Vec::new(),
            controllers: self.controllers.clone(),
            all_managers: self.all_managers,
            guards_owners: self.guards_owners,
        }
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let gone = self.time.origin.map_or(0, |origin| i64::try_from(origin.elapsed().as_millis()).unwrap_or(i64::MAX));
        self.time.milliseconds.saturating_add(gone)
    }

    /// The time as objects carry it.
    pub(crate) fn timestamp(&self) -> String {
        rfc3339(self.now())
    }

    pub(crate) fn advance(&mut self, milliseconds: i64) {
        self.time.milliseconds = self.time.milliseconds.saturating_add(milliseconds);
        for table in &mut self.tables {
            table.wake();
        }
    }

    pub(crate) fn follow_tokio(&mut self) {
        self.time.milliseconds = self.now();
        self.time.origin = Some(tokio::time::Instant::now());
    }

    pub(crate) fn follows_tokio(&self) -> bool {
        self.time.origin.is_some()
    }

    /// The table of a resource.
    pub(crate) fn table_of(&self, path: &Path) -> Result<usize> {
        let same =
            |kind: &Kind| kind.plural == path.resource && kind.group == path.group && kind.version == path.version;
        let index = self.tables.iter().position(|table| same(&table.kind)).ok_or_else(|| self.missing(path))?;
        let namespaced = self.tables.get(index).is_some_and(|table| table.kind.namespaced);
        // Without namespace a path of namespaced objects is the collection of all of them; never the other way round.
        if path.namespace.is_some() && !namespaced || namespaced && path.namespace.is_none() && path.name.is_some() {
            return Err(Refusal::no_such_path());
        }
        Ok(index)
    }

    /// The refusal of a path that leads nowhere: other words below a group that is there than elsewhere.
    fn missing(&self, path: &Path) -> Box<Refusal> {
        let known = |kind: &Kind| kind.group == path.group && kind.version == path.version;
        if self.tables.iter().any(|table| known(&table.kind)) {
            Refusal::no_such_path()
        } else {
            Refusal::page_not_found()
        }
    }

    /// The table of a kind by its names.
    pub(crate) fn table_named(&self, group: &str, plural: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.kind.group == group && table.kind.plural == plural)
    }

    /// The kind of a table.
    pub(crate) fn kind(&self, table: usize) -> Result<Arc<Kind>> {
        self.tables.get(table).map(|table| Arc::clone(&table.kind)).ok_or_else(Refusal::no_such_path)
    }

    /// An object by its key.
    pub(crate) fn get(&self, table: usize, key: &str) -> Option<&Arc<Stored>> {
        self.tables.get(table)?.get(key)
    }

    /// Stores an object under the next version.
    pub(crate) fn put(&mut self, table: usize, object: Object) -> Result<Arc<Stored>> {
        let revision = self.revision + 1;
        let table = self.tables.get_mut(table).ok_or_else(Refusal::no_such_path)?;
        self.revision = revision;
        let key = key_of(&object);
        Ok(table.put(revision, &key, object))
    }

    /// Takes an object away under the next version.
    pub(crate) fn take(&mut self, table: usize, key: &str, last: Option<Object>) -> Option<Arc<Stored>> {
        let revision = self.revision + 1;
        let gone = self.tables.get_mut(table)?.remove(revision, key, last)?;
        self.revision = revision;
        Some(gone)
    }

    /// Whether a selector of namespaces selects this one.
    pub(crate) fn is_selected(&self, namespaces: &Selector, name: &str) -> bool {
        let stored = self.table_named("", "namespaces").and_then(|table| self.get(table, name));
        stored.is_some_and(|stored| namespaces.matches(&stored.object))
    }

    /// The namespaces that every cluster has.
    fn furnish(&mut self) {
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            self.make_namespace(name);
        }
    }

    /// Makes a namespace as the API server does.
    pub(crate) fn make_namespace(&mut self, name: &str) {
        let Some(table) = self.table_named("", "namespaces") else { return };
        if self.get(table, name).is_some() {
            return;
        }
        let object = serde_json::json!({"kind": "Namespace", "apiVersion": "v1",
            "metadata": {"name": name, "uid": self.random.uid(), "creationTimestamp": self.timestamp(),
                "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        if let serde_json::Value::Object(object) = object {
            // The table was found just above.
            let _ = self.put(table, object);
        }
    }
}
