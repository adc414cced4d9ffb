//! What watches have shown of flows and their Jobs. Owns which of two versions of an object is newer, and which Jobs have
//! changed since the last pass.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Key, text};
use crate::observe;
use crate::value::is_newer;

/// Flows by key, Jobs by the uid of the flow that owns them.
#[derive(Debug, Default)]
pub(super) struct Cache {
    flows: BTreeMap<Key, Arc<Value>>,
    jobs: BTreeMap<String, BTreeMap<String, Arc<Value>>>,
    keys: BTreeMap<String, Key>,
    changed: BTreeMap<String, BTreeSet<String>>,
    /// Jobs that are not known to have ended.
    live: usize,
}

impl Cache {
    pub(super) fn flow_applied(&mut self, object: &Value) -> Option<Key> {
        let key = Key::of(object);
        if self.flows.get(&key).is_some_and(|known| !is_newer(object, known)) {
            return None;
        }
        let mut object = object.clone();
        drop_member(&mut object, "/metadata", "managedFields");
        self.keys.insert(text(&object, "/metadata/uid"), key.clone());
        self.flows.insert(key.clone(), Arc::new(object));
        Some(key)
    }

    pub(super) fn flow_deleted(&mut self, object: &Value) {
        let (key, uid) = (Key::of(object), text(object, "/metadata/uid"));
        self.keys.remove(&uid);
        self.changed.remove(&uid);
        if self.flows.get(&key).is_some_and(|known| text(known, "/metadata/uid") == uid) {
            self.flows.remove(&key);
        }
    }

    /// The server has no flow of this key.
    pub(super) fn forget_flow(&mut self, key: &Key) {
        if let Some(object) = self.flows.remove(key) {
            let uid = text(&object, "/metadata/uid");
            self.keys.remove(&uid);
            self.changed.remove(&uid);
        }
    }

    pub(super) fn job_applied(&mut self, object: &Value) -> Option<Key> {
        let uid = owner_uid(object)?;
        let name = text(object, "/metadata/name");
        let jobs = self.jobs.entry(uid.clone()).or_default();
        if jobs.get(&name).is_some_and(|known| !is_newer(object, known)) {
            return None;
        }
        let before = jobs.insert(name.clone(), Arc::new(stripped(object)));
        self.count(before.as_deref(), Some(object));
        self.mark(&uid, name);
        self.keys.get(&uid).cloned()
    }

    pub(super) fn job_deleted(&mut self, object: &Value) -> Option<Key> {
        let uid = owner_uid(object)?;
        self.forget_job(&uid, &text(object, "/metadata/name"), &text(object, "/metadata/uid"));
        self.keys.get(&uid).cloned()
    }

    /// Takes a Job out that does not exist any more, unless another of its name was seen since.
    pub(super) fn forget_job(&mut self, flow: &str, name: &str, uid: &str) {
        if let Some(jobs) = self.jobs.get_mut(flow) {
            if jobs.get(name).is_some_and(|known| text(known, "/metadata/uid") != uid && !uid.is_empty()) {
                return;
            }
            let before = jobs.remove(name);
            if jobs.is_empty() {
                self.jobs.remove(flow);
            }
            self.count(before.as_deref(), None);
        }
        self.mark(flow, name.to_owned());
    }

    pub(super) fn flow(&self, key: &Key) -> Option<Arc<Value>> {
        self.flows.get(key).cloned()
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.flows.values()
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        self.flows.keys().cloned().collect()
    }

    /// The key of a flow by its uid.
    pub(super) fn key(&self, uid: &str) -> Option<Key> {
        self.keys.get(uid).cloned()
    }

    pub(super) fn job(&self, flow: &str, name: &str) -> Option<Arc<Value>> {
        self.jobs.get(flow)?.get(name).cloned()
    }

    pub(super) fn jobs(&self, flow: &str) -> Vec<Arc<Value>> {
        self.jobs.get(flow).map(|jobs| jobs.values().cloned().collect()).unwrap_or_default()
    }

    /// Jobs of all flows.
    pub(super) fn all_jobs(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.jobs.values().flat_map(BTreeMap::values)
    }

    /// Jobs with other uids than these.
    pub(super) fn jobs_but(&self, uids: &BTreeSet<String>) -> Vec<Arc<Value>> {
        self.all_jobs().filter(|job| !uids.contains(&text(job, "/metadata/uid"))).cloned().collect()
    }

    /// Jobs of all flows that are not known to have ended.
    pub(super) const fn live_jobs(&self) -> usize {
        self.live
    }

    /// One Job was put in the place of another, or of none.
    fn count(&mut self, before: Option<&Value>, after: Option<&Value>) {
        let live = |job: Option<&Value>| usize::from(job.is_some_and(|job| observe::conclusion(job).is_none()));
        self.live = (self.live + live(after)).saturating_sub(live(before));
    }

    /// Marks a Job as changed. Nothing is marked for a flow that is not known: opening it reads all
    /// its Jobs, and Jobs of one that is gone do not matter.
    pub(super) fn mark(&mut self, flow: &str, name: String) {
        if !self.keys.contains_key(flow) {
            return;
        }
        self.changed.entry(flow.to_owned()).or_default().insert(name);
    }

    /// Jobs of a flow that have changed since this was asked last.
    pub(super) fn take_changed(&mut self, flow: &str) -> BTreeSet<String> {
        self.changed.remove(flow).unwrap_or_default()
    }

    /// Forgets what was kept for a flow that is over.
    pub(super) fn forget_changes(&mut self, flow: &str) {
        self.changed.remove(flow);
    }
}

/// Uid of the flow that owns a Job.
fn owner_uid(object: &Value) -> Option<String> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| {
        owner.get("controller").and_then(Value::as_bool) == Some(true)
            && owner.get("kind").and_then(Value::as_str) == Some(orlop_core::spec::flow::KIND)
    })?;
    owner.get("uid")?.as_str().map(str::to_owned)
}

/// A Job without what fills memory and nobody reads here: of its pods' template the name of the first container and the grace
/// period are kept.
fn stripped(job: &Value) -> Value {
    let mut job = job.clone();
    drop_member(&mut job, "/metadata", "managedFields");
    let first = text(&job, "/spec/template/spec/containers/0/name");
    if let Some(template) = job.pointer_mut("/spec/template") {
        let grace = template.pointer_mut("/spec/terminationGracePeriodSeconds").map(Value::take);
        *template = json!({"spec": {"containers": [{"name": first}]}});
        if let Some(grace) = grace {
            template["spec"]["terminationGracePeriodSeconds"] = grace;
        }
    }
    job
}

fn drop_member(object: &mut Value, path: &str, name: &str) {
    if let Some(members) = object.pointer_mut(path).and_then(Value::as_object_mut) {
        members.remove(name);
    }
}
