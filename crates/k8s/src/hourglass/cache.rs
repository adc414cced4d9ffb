//! The cache of a controller: objects and children that its watches have reported or its own writes returned, and what was read of
//! objects that no watch reports. Says which version of an object is the newest, and what must be read from the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orlop_core::time::Time;
use serde_json::Value;

use super::children::{Meta, owner_key};
use super::controller::Reconciler;
use super::names;
use super::reference::{ObservedReference, ReferenceCache, Version};
use super::spec::Reference;
use crate::api::{Api, ApiError, Kind, Request};
use crate::shell::Key;
use crate::value::{is_newer, text, texts, word};

/// How much is read from the server although it is in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FreshReads {
    /// Nothing: all is taken from the cache.
    #[default]
    None,
    /// Whether names of pods are free.
    Names,
    /// Pods.
    Pods,
    /// Everything.
    All,
}

/// What the watches of a controller select.
#[derive(Clone, Copy, Debug)]
struct WatchScope {
    own: Kind,
    /// The label of children that names their owner.
    label: &'static str,
    /// Labels all children that are watched have, as a selector.
    labels: &'static str,
    children: &'static [Kind],
}

impl WatchScope {
    fn is(&self, kind: Kind) -> bool {
        self.children.contains(&kind) || kind == self.own || kind == Kind::Executor
    }

    /// Whether a watch shows an object.
    fn shows(&self, kind: Kind, object: &Value) -> bool {
        if !self.children.contains(&kind) {
            return self.is(kind);
        }
        let labels = texts(object, "/metadata/labels");
        self.labels.split_once('=').is_some_and(|(name, value)| labels.get(name).is_some_and(|known| known == value))
    }

    /// The owner of a child, its name in the form of a label value.
    fn owner_of(&self, child: &Value) -> Option<Key> {
        let Key { namespace, name } = owner_key(self.own, self.label, child)?;
        Some(Key { namespace, name: names::label_value(&name) })
    }
}

/// Objects beside one object that no watch reports, as they were read from the server.
#[derive(Default)]
struct Uncached {
    since: Time,
    /// By kind and name; none where there is nothing of the name.
    objects: BTreeMap<(Kind, String), Option<Arc<Value>>>,
    /// Kinds of which all its children are known.
    listed: BTreeSet<Kind>,
}

/// The cache of one controller.
pub(super) struct Cache {
    scope: WatchScope,
    objects: BTreeMap<(Kind, Key), Arc<Value>>,
    children: BTreeMap<Key, BTreeSet<(Kind, String)>>,
    /// Kinds whose watches have listed everything, in a namespace or in all.
    synced: BTreeSet<(Kind, Option<String>)>,
    read: BTreeMap<Key, Uncached>,
    references: BTreeMap<Key, ReferenceCache>,
}

impl Cache {
    pub(super) fn of<R: Reconciler>() -> Self {
        let scope =
            WatchScope { own: R::KIND, label: R::OWNER_LABEL, labels: R::CHILD_SELECTOR, children: R::CHILD_KINDS };
        let (objects, children, synced, read, references) = Default::default();
        Self { scope, objects, children, synced, read, references }
    }

    /// Takes in an object from a watch or from the answer to a write; false where the cache has it or a newer version.
    pub(super) fn update(&mut self, kind: Kind, object: &Value) -> bool {
        let place = (kind, Key::of(object));
        if self.objects.get(&place).is_some_and(|known| !is_newer(object, known)) {
            return false;
        }
        let owner = self.scope.owner_of(object).filter(|_| self.scope.children.contains(&kind));
        if let Some(owner) = owner {
            self.invalidate(&owner, kind, &place.1.name);
            self.children.entry(owner).or_default().insert((kind, place.1.name.clone()));
        }
        let mut object = object.clone();
        if kind == self.scope.own
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("managedFields");
        }
        self.objects.insert(place, Arc::new(object));
        true
    }

    /// Takes out an object that a watch reports no more: it is gone, or has lost its labels.
    pub(super) fn delete(&mut self, kind: Kind, object: &Value) {
        let place = (kind, Key::of(object));
        let uid = |object: &Value| text(object, "/metadata/uid");
        if self.objects.get(&place).is_some_and(|known| uid(known) == uid(object)) {
            self.remove(&place);
        }
        if let Some(owner) = self.scope.owner_of(object) {
            self.invalidate(&owner, kind, &place.1.name);
        }
    }

    fn remove(&mut self, place: &(Kind, Key)) {
        let Some(known) = self.objects.remove(place) else { return };
        let Some(owner) = self.scope.owner_of(&known) else { return };
        if let Some(members) = self.children.get_mut(&owner) {
            members.remove(&(place.0, place.1.name.clone()));
            if members.is_empty() {
                self.children.remove(&owner);
            }
        }
    }

    /// A watch has listed all objects of a kind, in a namespace or in all: those with other uids are taken out.
    pub(super) fn retain_listed(&mut self, kind: Kind, uids: &BTreeSet<String>, namespace: Option<&str>) {
        let here = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        let gone = |((known, key), object): &(&(Kind, Key), &Arc<Value>)| {
            *known == kind && here(key) && !uids.contains(word(object, "/metadata/uid"))
        };
        let gone: Vec<_> = self.objects.iter().filter(gone).map(|(place, _)| place.clone()).collect();
        gone.iter().for_each(|place| self.remove(place));
        self.synced.insert((kind, namespace.map(str::to_owned)));
    }

    /// The key of an object with its name as labels have it.
    pub(super) fn label_key(key: &Key) -> Key {
        Key { name: names::label_value(&key.name), ..key.clone() }
    }

    fn is_synced(&self, kind: Kind, namespace: &str) -> bool {
        [None, Some(namespace.to_owned())].into_iter().any(|place| self.synced.contains(&(kind, place)))
    }

    /// Forgets what was read for an object: it is read anew.
    pub(super) fn forget(&mut self, key: &Key) {
        self.read.remove(key);
        if let Some(references) = self.references.get_mut(key) {
            references.forget();
        }
    }

    /// The object is gone, and nothing is compared with what is known of it.
    pub(super) fn drop_object(&mut self, key: &Key) {
        self.forget(key);
        self.references.remove(key);
    }

    /// The same, once it was read so long ago.
    fn forget_after(&mut self, key: &Key, age: Duration, now: Time) {
        if self.read.get(key).is_some_and(|read| read.since.plus(age) <= now) {
            self.forget(key);
        }
    }

    /// The same of one object.
    pub(super) fn invalidate(&mut self, key: &Key, kind: Kind, name: &str) {
        if let Some(read) = self.read.get_mut(key) {
            read.objects.remove(&(kind, name.to_owned()));
        }
        // A name that labels cannot hold stands in them in another form.
        let is = |known: &Key| known.name.len() > key.name.len() && Self::label_key(known) == *key;
        for (_, read) in self.read.iter_mut().filter(|(known, _)| is(known)) {
            read.objects.remove(&(kind, name.to_owned()));
        }
    }

    /// An object as a watch has reported it last.
    pub(super) fn watched(&self, kind: Kind, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(&(kind, key.clone()))
    }

    /// What is known of the object of a name, for an object: none where it must be asked for.
    fn get(&self, key: &Key, kind: Kind, name: &str) -> Option<Option<Arc<Value>>> {
        let place = Key { namespace: key.namespace.clone(), name: name.to_owned() };
        let read = || self.read.get(key)?.objects.get(&(kind, name.to_owned())).cloned();
        if !self.scope.is(kind) {
            return read();
        }
        if !self.is_synced(kind, &key.namespace) {
            return None;
        }
        match self.watched(kind, &place) {
            Some(objects) => Some(Some(Arc::clone(objects))),
            None if kind == self.scope.own => Some(None),
            // No watch reports changes of one that exists without our labels.
            None => read().filter(Option::is_none),
        }
    }

    /// Children of a kind: none where they must be asked for.
    fn list(&self, key: &Key, kind: Kind) -> Option<Vec<Arc<Value>>> {
        if self.is_synced(kind, &key.namespace) {
            let names =
                self.children.get(&Self::label_key(key)).into_iter().flatten().filter(|(known, _)| *known == kind);
            let place = |name: &String| (kind, Key { namespace: key.namespace.clone(), name: name.clone() });
            return Some(names.filter_map(|(_, name)| self.objects.get(&place(name)).cloned()).collect());
        }
        let read = self.read.get(key).filter(|read| read.listed.contains(&kind) && !self.scope.is(kind))?;
        let of_kind = read.objects.iter().filter(|((known, _), _)| *known == kind);
        Some(of_kind.filter_map(|(_, object)| object.clone()).collect())
    }

    /// Takes in what the server has returned for a name.
    pub(super) fn record(&mut self, key: &Key, now: Time, kind: Kind, name: &str, object: Option<&Value>) {
        let synced = self.is_synced(kind, &key.namespace);
        match object {
            Some(object) if synced && self.scope.shows(kind, object) => {
                self.update(kind, object);
                return;
            }
            None if synced => {
                self.remove(&(kind, Key { namespace: key.namespace.clone(), name: name.to_owned() }));
            }
            _ => {}
        }
        if kind != self.scope.own {
            let read = self.read.entry(key.clone()).or_insert_with(|| Uncached { since: now, ..Uncached::default() });
            read.objects.insert((kind, name.to_owned()), object.cloned().map(Arc::new));
        }
    }

    /// Takes in the children of a kind that the server has listed.
    fn record_all(&mut self, key: &Key, now: Time, kind: Kind, objects: &[Value]) {
        for object in objects {
            self.record(key, now, kind, word(object, "/metadata/name"), Some(object));
        }
        if !self.is_synced(kind, &key.namespace) {
            let read = self.read.entry(key.clone()).or_insert_with(|| Uncached { since: now, ..Uncached::default() });
            read.listed.insert(kind);
        }
    }
}

/// Reads what is observed for one object, from the cache or from the server.
pub struct Reader<'a, A> {
    /// The server.
    pub api: &'a A,
    /// How much is read from there in any case.
    pub fresh: FreshReads,
    pub(super) key: &'a Key,
    pub(super) own: Kind,
    pub(super) cache: &'a Mutex<Cache>,
    pub(super) now: Time,
}

impl<'a, A: Api> Reader<'a, A> {
    /// What was read longer ago than `age` is read anew.
    pub(super) fn expire(&self, age: Duration) {
        if self.fresh == FreshReads::All {
            self.cache().forget(self.key);
        } else {
            self.cache().forget_after(self.key, age, self.now);
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object itself.
    pub(crate) async fn own(&self) -> Result<Option<Value>, ApiError> {
        self.get(self.own, &self.key.name).await
    }

    fn known(&self, kind: Kind, name: &str) -> Option<Option<Arc<Value>>> {
        if self.fresh == FreshReads::All { None } else { self.cache().get(self.key, kind, name) }
    }

    /// An object beside it; none where there is none.
    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Result<Option<Value>, ApiError> {
        match self.known(kind, name) {
            Some(known) => Ok(known.map(Arc::unwrap_or_clone)),
            None => self.ask(kind, name).await,
        }
    }

    /// What stands under the name of a child. What belongs to another owner is read each
    /// time: no watch reports when it goes.
    pub(crate) async fn child(&self, meta: &Meta, kind: Kind, name: &str) -> Result<Option<Value>, ApiError> {
        match self.known(kind, name).filter(|known| known.as_ref().is_none_or(|known| meta.owns(known))) {
            Some(known) => Ok(known.map(Arc::unwrap_or_clone)),
            None => self.ask(kind, name).await,
        }
    }

    /// An object as the server has it now; none where there is none.
    pub(crate) async fn ask(&self, kind: Kind, name: &str) -> Result<Option<Value>, ApiError> {
        let found = match self.api.send(&Request::get(kind, &self.key.namespace, name)).await {
            Ok(object) => Some(object),
            Err(error) if error.code == Some(404) => None,
            Err(error) => return Err(error),
        };
        self.cache().record(self.key, self.now, kind, name, found.as_ref());
        Ok(found)
    }

    /// A ConfigMap or Secret that pods read, in comparison with what is recorded of it: by what stands under these keys, or where
    /// none are named by its metadata alone.
    pub(crate) async fn reference(
        &self,
        kind: Kind,
        name: &str,
        keys: Option<&BTreeSet<String>>,
        recorded: &[Reference],
    ) -> Result<ObservedReference, ApiError> {
        if let Some(seen) = self.cache().references.get(self.key).and_then(|known| known.compare(kind, name, recorded))
        {
            return Ok(seen);
        }
        let namespace = &self.key.namespace;
        let request = match keys {
            Some(_) => Request::get(kind, namespace, name),
            None => Request::get_metadata(kind, namespace, name),
        };
        let found = match self.api.send(&request).await {
            Ok(object) => Version::of(&object, keys),
            Err(error) if error.code == Some(404) => Version::Missing,
            Err(error) if error.code == Some(403) => Version::Denied,
            Err(error) => return Err(error),
        };
        let mut cache = self.cache();
        // As old as what was read of it first: all of it is read again together.
        cache.read.entry(self.key.clone()).or_insert_with(|| Uncached { since: self.now, ..Uncached::default() });
        let references = cache.references.entry(self.key.clone()).or_default();
        references.record(kind, name, found, recorded);
        references
            .compare(kind, name, recorded)
            .ok_or_else(|| ApiError::no_answer("a reference is not known".to_owned()))
    }

    /// All its children of a kind, by their labels, in the order of their names.
    pub(crate) async fn list(&self, kind: Kind, labels: &str) -> Result<Vec<Value>, ApiError> {
        let asks = self.fresh == FreshReads::All || self.fresh == FreshReads::Pods && kind == Kind::Pod;
        let known = if asks { None } else { self.cache().list(self.key, kind) };
        let mut all = match known {
            Some(known) => known.into_iter().map(Arc::unwrap_or_clone).collect(),
            None => {
                let all = crate::api::list(self.api, kind, &self.key.namespace, labels).await?;
                self.cache().record_all(self.key, self.now, kind, &all);
                all
            }
        };
        all.sort_by_key(|object| text(object, "/metadata/name"));
        Ok(all)
    }
}
