//! What is stored: one table a kind, objects by key, a log of changes from which watches, older states and stale lists
//! are read. Knows resource versions; never knows why something is written.

mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

pub(crate) use stored::Stored;

use super::kind::Kind;
use super::object::{Object, meta, set_meta};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    pub(crate) change: Change,
    pub(crate) key: String,
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) kind: Arc<Kind>,
    objects: BTreeMap<String, Arc<Stored>>,
    log: Vec<Event>,
    /// The newest version that history no longer reaches.
    floor: u64,
    /// The newest version watches may see, where they are held back.
    held: Option<u64>,
    wakers: Vec<Waker>,
}

impl Table {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind: Arc::new(kind),
            objects: BTreeMap::new(),
            log: Vec::new(),
            floor: 0,
            held: None,
            wakers: Vec::new(),
        }
    }

    /// The same objects and history, followed by nobody.
    pub(crate) fn fork(&self) -> Self {
        Self {
            kind: Arc::clone(&self.kind),
            objects: self.objects.clone(),
            log: self.log.clone(),
            floor: self.floor,
            held: self.held,
            wakers: Vec::new(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Stored>> {
        self.objects.get(key)
    }

    /// The objects whose key begins like that, in the order of keys.
    pub(crate) fn within<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a String, &'a Arc<Stored>)> {
        self.objects.range(prefix.to_owned()..).take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// All objects in the order of keys.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.values()
    }

    /// The objects as they were at a version that history still reaches.
    pub(crate) fn at(&self, revision: u64) -> BTreeMap<String, Arc<Stored>> {
        let mut objects = self.objects.clone();
        for event in self.log.iter().rev().take_while(|event| event.revision > revision) {
            match &event.previous {
                Some(previous) => objects.insert(event.key.clone(), Arc::clone(previous)),
                None => objects.remove(&event.key),
            };
        }
        objects
    }

    /// The version before the newest `count` changes, or the oldest there is.
    pub(crate) fn revision_before(&self, count: usize) -> u64 {
        if count == 0 {
            return self.log.last().map_or(self.floor, |event| event.revision);
        }
        let index = self.log.len().saturating_sub(count);
        self.log.get(index).map_or(self.floor, |event| event.revision.saturating_sub(1).max(self.floor))
    }

    /// Names of the objects that were added, as far as history reaches.
    pub(crate) fn created(&self) -> Vec<String> {
        let added = self.log.iter().filter(|event| event.change == Change::Added);
        added.map(|event| meta(&event.object.object, "name").to_owned()).collect()
    }

    /// The changes after a version.
    pub(crate) fn since(&self, revision: u64) -> &[Event] {
        let start = self.log.partition_point(|event| event.revision <= revision);
        self.log.get(start..).unwrap_or_default()
    }

    /// The changes after a version that watches may see.
    pub(crate) fn visible(&self, revision: u64) -> &[Event] {
        let events = self.since(revision);
        match self.held {
            None => events,
            Some(limit) => events.get(..events.partition_point(|event| event.revision <= limit)).unwrap_or_default(),
        }
    }

    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Forgets how things were up to that version.
    pub(crate) fn compact(&mut self, revision: u64) {
        self.floor = self.floor.max(revision);
        let keep = self.log.partition_point(|event| event.revision <= revision);
        self.log.drain(..keep);
        self.wake();
    }

    /// Holds watches at a version, or lets them go.
    pub(crate) fn hold(&mut self, at: Option<u64>) {
        self.held = at;
        self.wake();
    }

    /// The version at which watches are held.
    pub(crate) fn held(&self) -> Option<u64> {
        self.held
    }

    /// Who wants to know of the next change.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    pub(crate) fn wake(&mut self) {
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }

    /// Stores an object under a version.
    pub(crate) fn put(&mut self, revision: u64, key: &str, mut object: Object) -> Arc<Stored> {
        set_meta(&mut object, "resourceVersion", revision.to_string());
        let stored = Arc::new(Stored::new(revision, object));
        let previous = self.objects.insert(key.to_owned(), Arc::clone(&stored));
        let change = if previous.is_some() { Change::Modified } else { Change::Added };
        self.record(Event { revision, change, key: key.to_owned(), object: Arc::clone(&stored), previous });
        stored
    }

    /// Takes an object away; what is logged and returned is its last state under the version of the deletion.
    pub(crate) fn remove(&mut self, revision: u64, key: &str, last: Option<Object>) -> Option<Arc<Stored>> {
        let previous = self.objects.remove(key)?;
        let mut object = last.unwrap_or_else(|| previous.object.clone());
        set_meta(&mut object, "resourceVersion", revision.to_string());
        let stored = Arc::new(Stored::new(revision, object));
        let event = Event {
            revision,
            change: Change::Deleted,
            key: key.to_owned(),
            object: Arc::clone(&stored),
            previous: Some(previous),
        };
        self.record(event);
        Some(stored)
    }

    fn record(&mut self, event: Event) {
        self.log.push(event);
        self.wake();
    }
}

/// The key of an object: sorted like the paths in etcd.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The key of an object by its own metadata.
pub(crate) fn key_of(object: &Object) -> String {
    key(meta(object, "namespace"), meta(object, "name"))
}
