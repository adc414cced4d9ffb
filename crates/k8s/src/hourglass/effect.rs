//! Carrying out an effect: the requests it takes, and whether an object that already exists is ours. Owns
//! these requests; decides nothing about when they are made.

use orlop_core::time::Time;
use serde_json::{Value, json};

use super::children::Meta;
use super::plan::{Effect, Notice, ObjectKey};
use super::{API_VERSION, Config, MANAGER, STATUS_MANAGER};
use crate::api::{Api, ApiError, Kind, Propagation, Request};
use crate::render::{Subject, about};
use crate::value::{items, text, word};

/// Why an effect failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EffectError {
    /// The server said so.
    Api(ApiError),
    /// An object of another owner has the name.
    Foreign(ObjectKey),
    /// What was planned on is not so any more.
    Outdated,
}

impl EffectError {
    /// The same without these texts in what the server says.
    pub(super) fn without(self, hidden: &[String]) -> Self {
        let Self::Api(mut error) = self else { return self };
        for text in hidden.iter().filter(|text| !text.is_empty()) {
            error.message = error.message.replace(text.as_str(), "***");
        }
        Self::Api(error)
    }
}

impl From<ApiError> for EffectError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

/// Carries out the effects of one object.
pub(super) struct EffectWriter<'a, A> {
    pub(super) api: &'a A,
    pub(super) kind: Kind,
    pub(super) finalizer: &'static str,
    pub(super) meta: &'a Meta,
    pub(super) config: &'a Config,
    pub(super) now: Time,
}

impl<A: Api> EffectWriter<'_, A> {
    /// Carries out one effect. Gives the object that it was about as the server has it now; none where it is gone, or where
    /// people alone are told.
    pub(super) async fn write(&self, effect: &Effect) -> Result<Option<Value>, EffectError> {
        match effect {
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
            Effect::Create(kind, object) => self.create(*kind, object).await.map(Some),
            Effect::Apply(kind, object) => self.apply(*kind, object).await.map(Some),
            Effect::PatchMeta { key, metadata } => {
                let patch = json!({"metadata": metadata});
                let request = Request::patch(key.kind, &self.meta.namespace, &key.name, patch).by(MANAGER);
                Ok(Some(self.api.send(&request).await?))
            }
            Effect::Delete { key, uid, propagation } => {
                let request = Request::delete(key.kind, &self.meta.namespace, &key.name, Some(uid.clone()));
                let foreground = *propagation == Propagation::Foreground;
                let request = if foreground { request.after_its_children() } else { request };
                match gone_is_done(self.api.send(&request).await.map(Some).map_err(EffectError::Api))? {
                    // It may stay for a while: servers do not always answer with it.
                    Some(_) => self.read(key.kind, &key.name).await,
                    None => Ok(None),
                }
            }
            Effect::RecordEvent(notice) => {
                let event = event(self.kind, self.meta, notice, self.config, self.now);
                match self.api.send(&Request::create(Kind::Event, event).by(MANAGER)).await {
                    Err(error) if error.code == Some(409) => Ok(None),
                    answer => answer.map(|_| None).map_err(EffectError::Api),
                }
            }
        }
    }

    async fn read(&self, kind: Kind, name: &str) -> Result<Option<Value>, EffectError> {
        match self.api.send(&Request::get(kind, &self.meta.namespace, name)).await {
            Err(error) if error.code == Some(404) => Ok(None),
            answer => Ok(Some(answer?)),
        }
    }

    async fn set_finalizers(&self, finalizers: &[String]) -> Result<Option<Value>, EffectError> {
        // With the version: a list is replaced as a whole.
        let patch = json!({"metadata": {"resourceVersion": self.meta.version, "finalizers": finalizers}});
        let request = Request::patch(self.kind, &self.meta.namespace, &self.meta.name, patch).by(MANAGER);
        Ok(Some(self.api.send(&request).await?))
    }

    async fn write_status(&self, status: &Value) -> Result<Option<Value>, EffectError> {
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
        Ok(Some(self.api.send(&Request::apply_status(self.kind, object, STATUS_MANAGER)).await?))
    }

    async fn create(&self, kind: Kind, object: &Value) -> Result<Value, EffectError> {
        match self.api.send(&Request::create(kind, object.clone()).by(MANAGER)).await {
            Err(error) if error.reason == "AlreadyExists" => {}
            answer => return Ok(answer?),
        }
        let name = text(object, "/metadata/name");
        match self.read(kind, &name).await? {
            Some(there) if self.meta.owns(&there) || !owned(object) => Ok(there),
            Some(_) => Err(EffectError::Foreign(ObjectKey { kind, name })),
            None => Err(EffectError::Outdated),
        }
    }

    /// Applies over what is there, which must be ours. The entry of its creation becomes one of applying first: a field that
    /// the creation has set and no apply names would stay for ever.
    async fn apply(&self, kind: Kind, object: &Value) -> Result<Value, EffectError> {
        let name = text(object, "/metadata/name");
        let live = self.read(kind, &name).await?.ok_or(EffectError::Outdated)?;
        if !self.meta.owns(&live) {
            return Err(EffectError::Foreign(ObjectKey { kind, name }));
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
fn gone_is_done(answer: Result<Option<Value>, EffectError>) -> Result<Option<Value>, EffectError> {
    match answer {
        Err(EffectError::Api(error)) if error.code == Some(404) => Ok(None),
        // Another one of the name: the one that was to go is gone.
        Err(EffectError::Api(error)) if error.code == Some(409) => Err(EffectError::Outdated),
        other => other,
    }
}

/// The reporting controller of events.
const REPORTER: &str = "hourglass.eigenlayer.io/orlop-operator";

/// The event of a notice about an object: the same notice gives the same name.
fn event(kind: Kind, meta: &Meta, notice: &Notice, config: &Config, now: Time) -> Value {
    let subject = Subject {
        of: (API_VERSION, kind.name()),
        namespace: &meta.namespace,
        name: &meta.name,
        uid: &meta.uid,
        reporter: REPORTER,
        warning: notice.warning,
        reason: notice.reason,
        message: &notice.message,
    };
    let key = format!("{}/{}", notice.reason, notice.about);
    about(subject, &key, now, &config.instance)
}
