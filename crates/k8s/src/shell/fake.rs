//! An API server as small as tests of controllers need: objects, versions, merge patches, applies, owners, finalizers, and
//! faults at the n-th write. Owns what happened, in order, as a watch would tell it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use orlop_core::time::Time;
use serde_json::{Value, json};

use super::Clock;
use crate::api::{Api, ApiError, Kind, Request, Verb};

/// A clock that stands still unless it is set.
#[derive(Debug)]
pub(crate) struct TestClock(Mutex<Time>);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(Mutex::new("2026-11-21T10:00:00Z".parse().unwrap()))
    }

    pub(crate) fn set(&self, now: Time) {
        let mut known = self.0.lock().unwrap();
        *known = now.max(*known);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        *self.0.lock().unwrap()
    }
}

/// What goes wrong at a write; writes count from 0.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It never arrives, and the controller dies.
    DieBefore(usize),
    /// It is carried out, and the controller dies.
    DieAfter(usize),
    /// It is carried out, and nobody hears of it.
    LoseAnswer(usize),
    /// Requests of a verb and kind are refused so many times.
    Refuse(&'static str, Kind, u32, ApiError),
}

/// What admission makes of objects of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) kind: Kind,
    pub(crate) change: fn(&mut Value),
}

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) object: Value,
    pub(crate) gone: bool,
}

type ObjectId = (Kind, String, String);

#[derive(Default)]
pub(crate) struct Store {
    objects: BTreeMap<ObjectId, Value>,
    version: u64,
    pub(crate) log: Vec<Change>,
    pub(crate) writes: Vec<String>,
    pub(crate) created: Vec<String>,
    /// What each write that was no creation has found under its name.
    pub(crate) touched: Vec<(Kind, Value)>,
    /// What still belonged to an object when the last who held it let it go.
    pub(crate) left: Vec<(Kind, Value)>,
    /// Faults that have not struck yet.
    pub(crate) faults: Vec<Fault>,
    /// What admission makes of objects of a kind that are created, applied or patched.
    pub(crate) policies: Vec<Policy>,
    pub(crate) dead: bool,
}

/// The server; clones are the same one.
#[derive(Clone)]
pub(crate) struct Server {
    store: Arc<Mutex<Store>>,
    clock: Arc<TestClock>,
}

impl Server {
    pub(crate) fn new(clock: Arc<TestClock>) -> Self {
        Self { store: Arc::default(), clock }
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    /// Somebody creates an object.
    pub(crate) fn put(&self, kind: Kind, object: Value) -> Value {
        self.store().create(kind, object, self.clock.now()).unwrap()
    }

    pub(crate) fn get(&self, kind: Kind, name: &str) -> Option<Value> {
        self.store().objects.get(&(kind, "default".into(), name.into())).cloned()
    }

    pub(crate) fn list(&self, kind: Kind) -> Vec<Value> {
        let store = self.store();
        store.objects.iter().filter(|((known, ..), _)| *known == kind).map(|(_, object)| object.clone()).collect()
    }

    /// Somebody changes an object.
    pub(crate) fn edit(&self, kind: Kind, name: &str, change: impl FnOnce(&mut Value)) {
        let mut store = self.store();
        let id = (kind, "default".to_owned(), name.to_owned());
        let mut object = store.objects[&id].clone();
        let before = object["spec"].clone();
        change(&mut object);
        if object["spec"] != before {
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_u64().unwrap_or(0) + 1);
        }
        store.save(id, object);
    }

    /// An object is gone.
    pub(crate) fn remove(&self, kind: Kind, name: &str) {
        self.store().delete(&(kind, "default".into(), name.into()));
    }

    /// Somebody asks for a deletion.
    pub(crate) fn request_deletion(&self, kind: Kind, name: &str) {
        let now = self.clock.now();
        self.store().request_deletion(&(kind, "default".into(), name.into()), now);
    }
}

impl Store {
    fn save(&mut self, id: ObjectId, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.log.push(Change { kind: id.0, object: object.clone(), gone: false });
        self.objects.insert(id, object.clone());
        object
    }

    fn create(&mut self, kind: Kind, mut object: Value, now: Time) -> Result<Value, ApiError> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("default").to_owned();
        let id = (kind, text("/metadata/namespace"), text("/metadata/name"));
        if self.objects.contains_key(&id) {
            return Err(refused(409, "AlreadyExists"));
        }
        self.created.push(format!("{} {}", kind.plural(), id.2));
        let metadata = &mut object["metadata"];
        metadata["namespace"] = json!(id.1);
        metadata["uid"] = json!(format!("{:08x}-0000-4000-8000-000000000000", self.version + 1));
        metadata["creationTimestamp"] = json!(now.whole_seconds().to_string());
        metadata["generation"] = json!(1);
        if kind == Kind::Job {
            // Its pod runs at once.
            object["status"] = json!({"ready": 1});
        }
        self.admit(kind, &mut object);
        Ok(self.save(id, object))
    }

    fn admit(&self, kind: Kind, object: &mut Value) {
        self.policies.iter().filter(|policy| policy.kind == kind).for_each(|policy| (policy.change)(object));
    }

    /// Asks for a deletion: what somebody holds, and a pod that has a node, goes later.
    fn request_deletion(&mut self, id: &ObjectId, now: Time) {
        let Some(mut object) = self.objects.get(id).cloned() else { return };
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
        let runs = id.0 == Kind::Pod && object["spec"]["nodeName"].is_string();
        if !held && !runs {
            self.delete(id);
        } else if object["metadata"]["deletionTimestamp"].is_null() {
            let grace = std::time::Duration::from_secs(if runs { 30 } else { 0 });
            object["metadata"]["deletionTimestamp"] = json!(now.plus(grace).whole_seconds().to_string());
            self.save(id.clone(), object);
        }
    }

    fn delete(&mut self, id: &ObjectId) -> Option<Value> {
        let object = self.objects.remove(id)?;
        self.version += 1;
        let mut last = object.clone();
        last["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.log.push(Change { kind: id.0, object: last, gone: true });
        let uid = &object["metadata"]["uid"];
        let owned = |other: &Value| owner(other) == *uid;
        let children: Vec<ObjectId> = self.objects.iter().filter(|(_, o)| owned(o)).map(|(id, _)| id.clone()).collect();
        for child in children {
            self.delete(&child);
        }
        Some(object)
    }

    fn refusal(&mut self, request: &Request) -> Option<ApiError> {
        self.faults.iter_mut().find_map(|fault| match fault {
            Fault::Refuse(verb, kind, times, error)
                if *times > 0 && (request.verb.name(), request.kind) == (*verb, *kind) =>
            {
                *times -= 1;
                Some(error.clone())
            }
            _ => None,
        })
    }

    fn answer(&mut self, request: &Request, now: Time) -> Result<Value, ApiError> {
        let id = (request.kind, request.namespace.clone(), request.name.clone());
        let known = self.objects.get(&id).cloned();
        let missing = || refused(404, "NotFound");
        match &request.verb {
            Verb::Create => self.create(request.kind, request.body.clone(), now),
            Verb::List { labels, fields, .. } => {
                let labels: Vec<_> = labels.split(',').filter_map(|label| label.split_once('=')).collect();
                let about = fields.strip_prefix("regarding.uid=");
                let items = self.objects.iter().filter(|((kind, namespace, _), object)| {
                    (*kind, namespace) == (request.kind, &request.namespace)
                        && about.is_none_or(|uid| object["regarding"]["uid"] == *uid)
                        && labels.iter().all(|(key, value)| object["metadata"]["labels"][key] == *value)
                });
                Ok(json!({"items": items.map(|(_, object)| object.clone()).collect::<Vec<_>>()}))
            }
            Verb::Get => known.ok_or_else(missing),
            Verb::GetMetadata => known.map(|known| json!({"metadata": known["metadata"]})).ok_or_else(missing),
            Verb::Update => {
                let known = known.ok_or_else(missing)?;
                if request.body["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"] {
                    return Err(refused(409, "Conflict"));
                }
                Ok(self.save(id, request.body.clone()))
            }
            Verb::Delete { uid, .. } => {
                let known = known.ok_or_else(missing)?;
                if uid.as_ref().is_some_and(|uid| known["metadata"]["uid"] != json!(uid)) {
                    return Err(refused(409, "Conflict"));
                }
                self.request_deletion(&id, now);
                Ok(json!({"kind": "Status", "status": "Success"}))
            }
            Verb::Apply { .. } | Verb::ApplyStatus { .. } | Verb::Patch | Verb::PatchStatus => {
                let known = known.ok_or_else(missing)?;
                let version = &request.body["metadata"]["resourceVersion"];
                if version.is_string() && *version != known["metadata"]["resourceVersion"] {
                    return Err(refused(409, "Conflict"));
                }
                let uid = &request.body["metadata"]["uid"];
                if uid.is_string() && *uid != known["metadata"]["uid"] {
                    return Err(refused(409, "Conflict"));
                }
                let mut object = known.clone();
                match &request.verb {
                    Verb::PatchStatus => merge(&mut object["status"], &request.body["status"]),
                    Verb::ApplyStatus { .. } => object["status"] = request.body["status"].clone(),
                    Verb::Patch if request.body["metadata"]["managedFields"].is_array() => {}
                    _ => {
                        merge(&mut object, &request.body);
                        object["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
                    }
                }
                self.admit(request.kind, &mut object);
                if object == known {
                    return Ok(known);
                }
                if object["spec"] != known["spec"] {
                    object["metadata"]["generation"] = json!(known["metadata"]["generation"].as_u64().unwrap_or(0) + 1);
                }
                let going = !object["metadata"]["deletionTimestamp"].is_null() && request.kind != Kind::Pod;
                let saved = self.save(id.clone(), object);
                if going && saved["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                    let children = self.objects.iter().filter(|(_, child)| owner(child) == saved["metadata"]["uid"]);
                    let children: Vec<_> = children.map(|((kind, ..), child)| (*kind, child.clone())).collect();
                    self.left.extend(children);
                    self.delete(&id);
                }
                Ok(saved)
            }
        }
    }
}

/// Uid of the first owner.
fn owner(object: &Value) -> Value {
    object["metadata"]["ownerReferences"][0]["uid"].clone()
}

/// RFC 7386.
fn merge(value: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    for (name, member) in members {
        if member.is_null() {
            value.as_object_mut().unwrap().remove(name);
        } else if name == "selector" {
            // One value, whatever it holds.
            value[name.as_str()] = member.clone();
        } else {
            merge(&mut value[name.as_str()], member);
        }
    }
}

pub(crate) fn refused(code: u16, reason: &str) -> ApiError {
    let message = if code == 403 { "User \"operator\" cannot write it" } else { reason };
    ApiError::from_status(code, &json!({"reason": reason, "message": message}))
}

#[async_trait]
impl Api for Server {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        let now = self.clock.now();
        let mut store = self.store();
        if store.dead {
            return Err(ApiError::no_answer("dead"));
        }
        if let Some(error) = store.refusal(request) {
            return Err(error);
        }
        if !request.verb.writes() {
            return store.answer(request, now);
        }
        let number = store.writes.len();
        let strikes = |fault: &Fault| matches!(fault, Fault::DieBefore(n) | Fault::DieAfter(n) | Fault::LoseAnswer(n) if *n == number);
        let fault = store.faults.iter().position(strikes).map(|at| store.faults.remove(at));
        if matches!(fault, Some(Fault::DieBefore(_))) {
            store.dead = true;
            return Err(ApiError::no_answer("died before"));
        }
        store.writes.push(request.to_string());
        let id = (request.kind, request.namespace.clone(), request.name.clone());
        if let Some(found) = store.objects.get(&id).filter(|_| request.verb != Verb::Create).cloned() {
            store.touched.push((request.kind, found));
        }
        let answer = store.answer(request, now);
        match fault {
            Some(Fault::DieAfter(_)) => {
                store.dead = true;
                Err(ApiError::no_answer("died after"))
            }
            Some(Fault::LoseAnswer(_)) => Err(ApiError::no_answer("lost")),
            _ => answer,
        }
    }
}
