//! What a controller knows of its objects and their children without asking: what watches have shown, what its own writes were
//! answered, and what was read of what no watch shows. Owns which version of an object is the newest, and what must be asked
//! for; decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orlop_core::time::Time;
use serde_json::Value;

use super::children::{Meta, parent};
use super::controller::Reconciler;
use super::names;
use super::reference::{Seen, Version, Versions};
use super::spec::Reference;
use crate::api::{Api, ApiError, Kind, Request};
use crate::shell::Key;
use crate::value::{is_newer, text, texts, word};

/// How much of what is observed is asked for at the server, though it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Live {
    /// Nothing.
    #[default]
    Nothing,
    /// Whether names of pods are free.
    Names,
    /// Pods.
    Pods,
    /// Everything.
    Everything,
}

/// What is watched for a kind of objects.
#[derive(Clone, Copy, Debug)]
struct Watched {
    own: Kind,
    /// The label by which children tell the object.
    label: &'static str,
    /// Labels all children that are watched have, as a selector.
    labels: &'static str,
    children: &'static [Kind],
}

impl Watched {
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

    /// The object a child belongs to, its name as labels have it.
    fn family(&self, child: &Value) -> Option<Key> {
        let Key { namespace, name } = parent((self.own, self.label), child)?;
        Some(Key { namespace, name: names::label_value(&name) })
    }
}

/// What was read for an object of what no watch shows.
#[derive(Default)]
struct Read {
    since: Time,
    /// By kind and name; none where there is nothing of the name.
    objects: BTreeMap<(Kind, String), Option<Arc<Value>>>,
    /// Kinds of which all its children are known.
    listed: BTreeSet<Kind>,
}

/// See the module.
pub(super) struct Cache {
    watched: Watched,
    shown: BTreeMap<(Kind, Key), Arc<Value>>,
    families: BTreeMap<Key, BTreeSet<(Kind, String)>>,
    /// Kinds of which watches have shown everything, in a namespace or in all.
    complete: BTreeSet<(Kind, Option<String>)>,
    read: BTreeMap<Key, Read>,
    references: BTreeMap<Key, Versions>,
}

impl Cache {
    pub(super) fn of<R: Reconciler>() -> Self {
        let watched = Watched { own: R::KIND, label: R::LABEL, labels: R::LABELS, children: R::CHILDREN };
        let (shown, families, complete, read, references) = Default::default();
        Self { watched, shown, families, complete, read, references }
    }

    /// A watch shows an object, or the server has answered a write with it. Gives whether that is news.
    pub(super) fn seen(&mut self, kind: Kind, object: &Value) -> bool {
        let place = (kind, Key::of(object));
        if self.shown.get(&place).is_some_and(|known| !is_newer(object, known)) {
            return false;
        }
        let family = self.watched.family(object).filter(|_| self.watched.children.contains(&kind));
        if let Some(family) = family {
            self.unread(&family, kind, &place.1.name);
            self.families.entry(family).or_default().insert((kind, place.1.name.clone()));
        }
        let mut object = object.clone();
        if kind == self.watched.own
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.shift_remove("managedFields");
        }
        self.shown.insert(place, Arc::new(object));
        true
    }

    /// A watch shows an object no more: it is gone, or has lost its labels.
    pub(super) fn gone(&mut self, kind: Kind, object: &Value) {
        let place = (kind, Key::of(object));
        let uid = |object: &Value| text(object, "/metadata/uid");
        if self.shown.get(&place).is_some_and(|known| uid(known) == uid(object)) {
            self.remove(&place);
        }
        if let Some(family) = self.watched.family(object) {
            self.unread(&family, kind, &place.1.name);
        }
    }

    fn remove(&mut self, place: &(Kind, Key)) {
        let Some(known) = self.shown.remove(place) else { return };
        let Some(family) = self.watched.family(&known) else { return };
        if let Some(members) = self.families.get_mut(&family) {
            members.remove(&(place.0, place.1.name.clone()));
            if members.is_empty() {
                self.families.remove(&family);
            }
        }
    }

    /// All objects of a kind that exist were shown, by uid, in a namespace or in all.
    pub(super) fn listed(&mut self, kind: Kind, uids: &BTreeSet<String>, namespace: Option<&str>) {
        let here = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        let gone = |((known, key), object): &(&(Kind, Key), &Arc<Value>)| {
            *known == kind && here(key) && !uids.contains(word(object, "/metadata/uid"))
        };
        let gone: Vec<_> = self.shown.iter().filter(gone).map(|(place, _)| place.clone()).collect();
        gone.iter().for_each(|place| self.remove(place));
        self.complete.insert((kind, namespace.map(str::to_owned)));
    }

    /// The key of an object with its name as labels have it.
    pub(super) fn family_of(key: &Key) -> Key {
        Key { name: names::label_value(&key.name), ..key.clone() }
    }

    fn is_complete(&self, kind: Kind, namespace: &str) -> bool {
        [None, Some(namespace.to_owned())].into_iter().any(|place| self.complete.contains(&(kind, place)))
    }

    /// What is read of what no watch shows is read anew.
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
    pub(super) fn unread(&mut self, key: &Key, kind: Kind, name: &str) {
        if let Some(read) = self.read.get_mut(key) {
            read.objects.remove(&(kind, name.to_owned()));
        }
        // A name that labels cannot hold stands in them in another form.
        let is = |known: &Key| known.name.len() > key.name.len() && Self::family_of(known) == *key;
        for (_, read) in self.read.iter_mut().filter(|(known, _)| is(known)) {
            read.objects.remove(&(kind, name.to_owned()));
        }
    }

    /// An object as a watch has shown it last.
    pub(super) fn shown(&self, kind: Kind, key: &Key) -> Option<&Arc<Value>> {
        self.shown.get(&(kind, key.clone()))
    }

    /// What is known of the object of a name, for an object: none where it must be asked for.
    fn get(&self, key: &Key, kind: Kind, name: &str) -> Option<Option<Arc<Value>>> {
        let place = Key { namespace: key.namespace.clone(), name: name.to_owned() };
        let read = || self.read.get(key)?.objects.get(&(kind, name.to_owned())).cloned();
        if !self.watched.is(kind) {
            return read();
        }
        if !self.is_complete(kind, &key.namespace) {
            return None;
        }
        match self.shown(kind, &place) {
            Some(shown) => Some(Some(Arc::clone(shown))),
            None if kind == self.watched.own => Some(None),
            // Of what is there and not shown, nobody tells when it changes.
            None => read().filter(Option::is_none),
        }
    }

    /// Children of a kind: none where they must be asked for.
    fn list(&self, key: &Key, kind: Kind) -> Option<Vec<Arc<Value>>> {
        if self.is_complete(kind, &key.namespace) {
            let names =
                self.families.get(&Self::family_of(key)).into_iter().flatten().filter(|(known, _)| *known == kind);
            let place = |name: &String| (kind, Key { namespace: key.namespace.clone(), name: name.clone() });
            return Some(names.filter_map(|(_, name)| self.shown.get(&place(name)).cloned()).collect());
        }
        let read = self.read.get(key).filter(|read| read.listed.contains(&kind) && !self.watched.is(kind))?;
        let of_kind = read.objects.iter().filter(|((known, _), _)| *known == kind);
        Some(of_kind.filter_map(|(_, object)| object.clone()).collect())
    }

    /// The server has said what there is under a name.
    pub(super) fn found(&mut self, key: &Key, now: Time, kind: Kind, name: &str, object: Option<&Value>) {
        let watched = self.is_complete(kind, &key.namespace);
        match object {
            Some(object) if watched && self.watched.shows(kind, object) => {
                self.seen(kind, object);
                return;
            }
            None if watched => {
                self.remove(&(kind, Key { namespace: key.namespace.clone(), name: name.to_owned() }));
            }
            _ => {}
        }
        if kind != self.watched.own {
            let read = self.read.entry(key.clone()).or_insert_with(|| Read { since: now, ..Read::default() });
            read.objects.insert((kind, name.to_owned()), object.cloned().map(Arc::new));
        }
    }

    /// The server has said which children of a kind there are.
    fn found_all(&mut self, key: &Key, now: Time, kind: Kind, objects: &[Value]) {
        for object in objects {
            self.found(key, now, kind, word(object, "/metadata/name"), Some(object));
        }
        if !self.is_complete(kind, &key.namespace) {
            let read = self.read.entry(key.clone()).or_insert_with(|| Read { since: now, ..Read::default() });
            read.listed.insert(kind);
        }
    }
}

/// The way to everything that is observed for one object.
pub struct Sight<'a, A> {
    /// The server.
    pub api: &'a A,
    /// How much is asked for there.
    pub live: Live,
    key: &'a Key,
    own: Kind,
    cache: &'a Mutex<Cache>,
    now: Time,
}

impl<'a, A: Api> Sight<'a, A> {
    /// A look that asks for as much. What was read longer ago than `age` is read anew.
    pub(super) fn new(
        (api, cache): (&'a A, &'a Mutex<Cache>),
        (own, key): (Kind, &'a Key),
        live: Live,
        (now, age): (Time, Duration),
    ) -> Self {
        let sight = Self { api, live, key, own, cache, now };
        if live == Live::Everything {
            sight.cache().forget(key);
        } else {
            sight.cache().forget_after(key, age, now);
        }
        sight
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The object itself.
    pub(crate) async fn own(&self) -> Result<Option<Value>, ApiError> {
        self.get(self.own, &self.key.name).await
    }

    fn known(&self, kind: Kind, name: &str) -> Option<Option<Arc<Value>>> {
        if self.live == Live::Everything { None } else { self.cache().get(self.key, kind, name) }
    }

    /// An object beside it; none where there is none.
    pub(crate) async fn get(&self, kind: Kind, name: &str) -> Result<Option<Value>, ApiError> {
        match self.known(kind, name) {
            Some(known) => Ok(known.map(Arc::unwrap_or_clone)),
            None => self.ask(kind, name).await,
        }
    }

    /// What stands under the name of a child. What belongs to somebody else is asked for each time: it may go, and nobody
    /// tells.
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
        self.cache().found(self.key, self.now, kind, name, found.as_ref());
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
    ) -> Result<Seen, ApiError> {
        if let Some(seen) = self.cache().references.get(self.key).and_then(|known| known.seen(kind, name, recorded)) {
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
        cache.read.entry(self.key.clone()).or_insert_with(|| Read { since: self.now, ..Read::default() });
        let references = cache.references.entry(self.key.clone()).or_default();
        references.found(kind, name, found, recorded);
        references.seen(kind, name, recorded).ok_or_else(|| ApiError::no_answer("a reference is not known".to_owned()))
    }

    /// All its children of a kind, by their labels, in the order of their names.
    pub(crate) async fn list(&self, kind: Kind, labels: &str) -> Result<Vec<Value>, ApiError> {
        let asks = self.live == Live::Everything || self.live == Live::Pods && kind == Kind::Pod;
        let known = if asks { None } else { self.cache().list(self.key, kind) };
        let mut all = match known {
            Some(known) => known.into_iter().map(Arc::unwrap_or_clone).collect(),
            None => {
                let all = crate::api::list(self.api, kind, &self.key.namespace, labels).await?;
                self.cache().found_all(self.key, self.now, kind, &all);
                all
            }
        };
        all.sort_by_key(|object| text(object, "/metadata/name"));
        Ok(all)
    }
}
