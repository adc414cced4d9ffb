//! Environment of a container: what a template says about it, and its values on this machine. Owns order, overriding and
//! expansion as Kubernetes does them; sees ConfigMaps and Secrets through [`Sources`] only.

use std::collections::BTreeMap;

use orlop_core::error::Problem;
use orlop_core::spec::meta::KeyRef;

use super::downward::{FieldPath, PodFacts, ResourceRef};
use super::expand::expand;
use super::field::Field;
use super::source::{Sources, Store};
use crate::runtime::pod::EnvText;

/// Name of the variable that tells a pod of an indexed Job its completion index.
const COMPLETION_INDEX: &str = "JOB_COMPLETION_INDEX";

/// All keys of a ConfigMap or Secret as variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvFrom {
    /// What stands before each key.
    pub prefix: String,
    /// ConfigMap or Secret.
    pub store: Store,
    /// Its name.
    pub name: String,
    /// Whether it may be missing.
    pub optional: bool,
    /// Path of the field, for error texts.
    pub path: String,
}

/// One variable.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Where its value comes from.
    pub source: EnvSource,
    /// Path of the field, for error texts.
    pub path: String,
}

/// Where the value of a variable comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum EnvSource {
    /// The template; `$(VAR)` is expanded in it.
    Value(String),
    /// A key of a ConfigMap or Secret.
    Key(Store, KeyRef),
    /// A field of the pod.
    Field(FieldPath),
    /// An amount of a container's resources.
    Resource(ResourceRef),
}

/// Whether ConfigMaps and Secrets that are missing are an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// They are, unless marked optional: the pod is about to start.
    Refused,
    /// They are not: the pod runs or has ended, and its values were read when it started.
    Skipped,
}

impl EnvFrom {
    pub(super) fn read(field: &Field<'_>) -> Result<Self, Problem> {
        let (config, secret) = (field.get("configMapRef"), field.get("secretRef"));
        let (store, source) = match (config.is_present(), secret.is_present()) {
            (true, false) => (Store::ConfigMap, config),
            (false, true) => (Store::Secret, secret),
            _ => return Err(field.invalid("needs exactly one of configMapRef and secretRef")),
        };
        Ok(Self {
            prefix: field.get("prefix").text()?.unwrap_or_default().to_owned(),
            store,
            name: source.get("name").required()?.to_owned(),
            optional: source.get("optional").flag()?,
            path: source.path().to_owned(),
        })
    }
}

impl EnvVar {
    pub(super) fn read(field: &Field<'_>) -> Result<Self, Problem> {
        let name = field.get("name");
        let text = name.required()?;
        if !is_variable(text) {
            return Err(name.invalid("must be printable ASCII without `=`"));
        }
        Ok(Self { name: text.to_owned(), source: EnvSource::read(field)?, path: field.path().to_owned() })
    }
}

impl EnvSource {
    fn read(field: &Field<'_>) -> Result<Self, Problem> {
        let from = field.get("valueFrom");
        if !from.is_present() {
            return Ok(Self::Value(field.get("value").text()?.unwrap_or_default().to_owned()));
        }
        if field.get("value").text()?.is_some_and(|value| !value.is_empty()) {
            return Err(from.invalid("cannot be used together with value"));
        }
        for (member, store) in [("configMapKeyRef", Store::ConfigMap), ("secretKeyRef", Store::Secret)] {
            let source = from.get(member);
            if source.is_present() {
                return Ok(Self::Key(store, key_ref(&source)?));
            }
        }
        if from.get("fieldRef").is_present() {
            return Ok(Self::Field(FieldPath::read(&from.get("fieldRef"))?));
        }
        if from.get("resourceFieldRef").is_present() {
            return Ok(Self::Resource(ResourceRef::read(&from.get("resourceFieldRef"))?));
        }
        Err(from.invalid("needs one of configMapKeyRef, secretKeyRef, fieldRef and resourceFieldRef here"))
    }
}

fn key_ref(field: &Field<'_>) -> Result<KeyRef, Problem> {
    Ok(KeyRef {
        name: field.get("name").required()?.to_owned(),
        key: field.get("key").required()?.to_owned(),
        optional: field.get("optional").flag()?.then_some(true),
    })
}

/// Whether a text can name a variable: printable ASCII without `=`.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
}

/// Variables of a container in order; a later one of the same name takes the place of the earlier one.
#[derive(Default)]
pub(super) struct Environment {
    order: Vec<(String, EnvText)>,
    places: BTreeMap<String, usize>,
}

impl Environment {
    fn set(&mut self, name: &str, text: EnvText) {
        match self.places.get(name).and_then(|place| self.order.get_mut(*place)) {
            Some((_, old)) => *old = text,
            None => {
                self.places.insert(name.to_owned(), self.order.len());
                self.order.push((name.to_owned(), text));
            }
        }
    }

    fn get(&self, name: &str) -> Option<&EnvText> {
        self.places.get(name).and_then(|place| self.order.get(*place)).map(|(_, text)| text)
    }

    /// A text with `$(VAR)` expanded, secret as soon as one of the variables is.
    pub(super) fn expand(&self, text: &str) -> EnvText {
        let mut secret = false;
        let value = expand(text, |name| {
            let found = self.get(name)?;
            secret |= found.secret;
            Some(found.value.as_str())
        });
        EnvText { value, secret }
    }

    pub(super) fn into_order(self) -> Vec<(String, EnvText)> {
        self.order
    }
}

/// The environment of a container: first `envFrom`, then `env`, then the completion index.
pub(super) fn environment(
    from: &[EnvFrom],
    vars: &[EnvVar],
    facts: &PodFacts<'_>,
    sources: &Sources,
    missing: Missing,
) -> Result<Environment, Problem> {
    let mut environment = Environment::default();
    for source in from {
        let Some(keys) = sources.keys(source.store, &source.name)? else {
            if source.optional || missing == Missing::Skipped {
                continue;
            }
            return Err(sources.unresolved(source.store, &source.name, None, &source.path));
        };
        for (key, bytes) in keys {
            let name = format!("{}{key}", source.prefix);
            // As in Kubernetes, what cannot be a variable is left out.
            if let (true, Ok(value)) = (is_variable(&name), String::from_utf8(bytes)) {
                environment.set(&name, EnvText { value, secret: source.store == Store::Secret });
            }
        }
    }
    for var in vars {
        if let Some(text) = value(var, &environment, facts, sources, missing)? {
            environment.set(&var.name, text);
        }
    }
    if let Some(index) = facts.completion_index
        && !vars.iter().any(|var| var.name == COMPLETION_INDEX)
    {
        environment.set(COMPLETION_INDEX, EnvText { value: index.to_string(), secret: false });
    }
    Ok(environment)
}

fn value(
    var: &EnvVar,
    environment: &Environment,
    facts: &PodFacts<'_>,
    sources: &Sources,
    missing: Missing,
) -> Result<Option<EnvText>, Problem> {
    let plain = |value: String| Ok(Some(EnvText { value, secret: false }));
    match &var.source {
        EnvSource::Value(value) => Ok(Some(environment.expand(value))),
        EnvSource::Field(path) => plain(facts.field(path)),
        EnvSource::Resource(reference) => plain(facts.resource(reference, &var.path)?),
        EnvSource::Key(store, key) => {
            let text = sources.key(*store, &key.name, &key.key)?.and_then(|bytes| String::from_utf8(bytes).ok());
            match text {
                Some(value) => Ok(Some(EnvText { value, secret: *store == Store::Secret })),
                None if key.optional == Some(true) || missing == Missing::Skipped => Ok(None),
                None => Err(sources.unresolved(*store, &key.name, Some(&key.key), &var.path)),
            }
        }
    }
}
