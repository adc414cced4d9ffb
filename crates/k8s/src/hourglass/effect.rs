//! Carrying out an effect (section 3.1): the requests it takes, and whether an object that is there already is ours. Owns
//! these requests; decides nothing about when they are made.

use orlop_core::time::Time;
use serde_json::{Value, json};

use super::children::Meta;
use super::plan::{Effect, ObjectKey};
use super::{Config, MANAGER, STATUS_MANAGER, events};
use crate::api::{Api, ApiError, Kind, Propagation, Request};
use crate::value::{items, text, word};

/// Why an effect had no success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server said so.
    Api(ApiError),
    /// An object of somebody else has the name.
    Foreign(ObjectKey),
    /// What was planned on is not so any more.
    Outdated,
}

impl Failure {
    /// The same without these texts in what the server says.
    pub(super) fn without(self, hidden: &[String]) -> Self {
        let Self::Api(mut error) = self else { return self };
        for text in hidden.iter().filter(|text| !text.is_empty()) {
            error.message = error.message.replace(text.as_str(), "***");
        }
        Self::Api(error)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Whose effects are carried out.
pub(super) struct Hand<'a, A> {
    pub(super) api: &'a A,
    pub(super) kind: Kind,
    pub(super) finalizer: &'static str,
    pub(super) meta: &'a Meta,
    pub(super) config: &'a Config,
    pub(super) now: Time,
}

impl<A: Api> Hand<'_, A> {
    /// Carries out one effect. Gives what the server made of an apply.
    pub(super) async fn carry(&self, effect: &Effect) -> Result<Option<Value>, Failure> {
        let done = match effect {
            Effect::AddFinalizer => {
                let mut finalizers = self.meta.finalizers.clone();
                finalizers.push(self.finalizer.to_owned());
                self.set_finalizers(&finalizers).await
            }
            Effect::RemoveFinalizer => {
                let left = self.meta.finalizers.iter().filter(|name| *name != self.finalizer);
                gone_is_done(self.set_finalizers(&left.cloned().collect::<Vec<_>>()).await)
            }
            Effect::WriteStatus(status) => self.write_status(status).await,
            Effect::Create(kind, object) => self.create(*kind, object).await,
            Effect::Apply(kind, object) => return self.apply(*kind, object).await.map(Some),
            Effect::PatchMeta { key, metadata } => {
                let patch = json!({"metadata": metadata});
                let request = Request::patch(key.kind, &self.meta.namespace, &key.name, patch).by(MANAGER);
                self.api.send(&request).await.map(drop).map_err(Failure::Api)
            }
            Effect::Delete { key, uid, propagation } => {
                let request = Request::delete(key.kind, &self.meta.namespace, &key.name, Some(uid.clone()));
                let foreground = *propagation == Propagation::Foreground;
                let request = if foreground { request.after_its_children() } else { request };
                gone_is_done(self.api.send(&request).await.map(drop).map_err(Failure::Api))
            }
            Effect::RecordEvent(notice) => {
                let event = events::event(self.kind, self.meta, notice, (self.now, self.config));
                match self.api.send(&Request::create(Kind::Event, event).by(MANAGER)).await {
                    Err(error) if error.code == Some(409) => Ok(()),
                    answer => answer.map(drop).map_err(Failure::Api),
                }
            }
        };
        done.map(|()| None)
    }

    async fn set_finalizers(&self, finalizers: &[String]) -> Result<(), Failure> {
        // With the version: a list is replaced as a whole.
        let patch = json!({"metadata": {"resourceVersion": self.meta.version, "finalizers": finalizers}});
        let request = Request::patch(self.kind, &self.meta.namespace, &self.meta.name, patch).by(MANAGER);
        Ok(self.api.send(&request).await.map(drop)?)
    }

    async fn write_status(&self, status: &Value) -> Result<(), Failure> {
        let object = json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.name(),
            "metadata": {
                "name": self.meta.name,
                "namespace": self.meta.namespace,
                "uid": self.meta.uid,
                "resourceVersion": self.meta.version,
            },
            "status": status,
        });
        Ok(self.api.send(&Request::apply_status(self.kind, object, STATUS_MANAGER)).await.map(drop)?)
    }

    async fn create(&self, kind: Kind, object: &Value) -> Result<(), Failure> {
        let Err(error) = self.api.send(&Request::create(kind, object.clone()).by(MANAGER)).await else { return Ok(()) };
        if error.reason != "AlreadyExists" {
            return Err(error.into());
        }
        let name = text(object, "/metadata/name");
        match self.api.send(&Request::get(kind, &self.meta.namespace, &name)).await {
            Ok(there) if self.meta.owns(&there) || !owned(object) => Ok(()),
            Ok(_) => Err(Failure::Foreign(ObjectKey { kind, name })),
            Err(error) if error.code == Some(404) => Err(Failure::Outdated),
            Err(error) => Err(error.into()),
        }
    }

    /// Applies over what is there, which must be ours. The entry of its creation becomes one of applying first: a field that
    /// the creation has set and no apply names would stay for ever.
    async fn apply(&self, kind: Kind, object: &Value) -> Result<Value, Failure> {
        let name = text(object, "/metadata/name");
        let live = self.api.send(&Request::get(kind, &self.meta.namespace, &name)).await;
        let live = match live {
            Err(error) if error.code == Some(404) => return Err(Failure::Outdated),
            answer => answer?,
        };
        if !self.meta.owns(&live) {
            return Err(Failure::Foreign(ObjectKey { kind, name }));
        }
        if let Some(managed) = taken_over(&live) {
            let version = word(&live, "/metadata/resourceVersion");
            let patch = json!({"metadata": {"resourceVersion": version, "managedFields": managed}});
            self.api.send(&Request::patch(kind, &self.meta.namespace, &name, patch).by(MANAGER)).await?;
        }
        let mut object = object.clone();
        object["metadata"]["uid"] = json!(word(&live, "/metadata/uid"));
        Ok(self.api.send(&Request::apply(kind, object, MANAGER)).await?)
    }
}

/// Whether a rendered object is to have an owner; what has none is never ours or foreign.
fn owned(object: &Value) -> bool {
    super::children::controller(object).is_some()
}

/// The managers of an object with our creation as an apply; none where nothing is to be done.
fn taken_over(live: &Value) -> Option<Vec<Value>> {
    let is = |entry: &Value, operation: &str| {
        word(entry, "/manager") == MANAGER
            && word(entry, "/operation") == operation
            && word(entry, "/subresource").is_empty()
    };
    let managed = items(live, "/metadata/managedFields");
    if managed.iter().any(|entry| is(entry, "Apply")) || !managed.iter().any(|entry| is(entry, "Update")) {
        return None;
    }
    let mut managed = managed.to_vec();
    for entry in managed.iter_mut().filter(|entry| is(entry, "Update")) {
        entry["operation"] = json!("Apply");
    }
    Some(managed)
}

/// What is gone already is deleted.
fn gone_is_done(answer: Result<(), Failure>) -> Result<(), Failure> {
    match answer {
        Err(Failure::Api(error)) if error.code == Some(404) => Ok(()),
        // Another one of the name: the one that was to go is gone.
        Err(Failure::Api(error)) if error.code == Some(409) => Err(Failure::Outdated),
        other => other,
    }
}
