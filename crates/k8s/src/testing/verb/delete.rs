//! DELETE of objects and collections: preconditions, grace, finalizers, and what becomes of dependents.

use std::sync::Arc;

use serde_json::Value;

use super::super::answer::{Answer, Page};
use super::super::definition;
use super::super::kind::{Builtin, Kind};
use super::super::object::{self, Object, at, deleting, finalizers, meta, set_meta, text};
use super::super::refusal::{Cause, Refusal, Result};
use super::super::request::{Call, Verb};
use super::super::selector::Selector;
use super::super::state::State;
use super::super::store::{Stored, key_of};
use super::admit;
use super::replace::stored;

/// What a DELETE asks for, from its body and its query.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) propagation: String,
    pub(crate) grace: Option<i64>,
    pub(crate) dry_run: bool,
}

impl Options {
    fn read(call: &Call) -> Result<Self> {
        let mut options = Self {
            propagation: call.options.propagation.clone(),
            grace: call.options.grace,
            dry_run: call.options.dry_run,
            ..Self::default()
        };
        if !call.body.iter().all(u8::is_ascii_whitespace) {
            let body: Value =
                serde_json::from_slice(&call.body).map_err(|error| Refusal::bad_request(error.to_string()))?;
            let empty = Object::new();
            let body = body.as_object().unwrap_or(&empty);
            text(body, &["preconditions", "uid"]).clone_into(&mut options.uid);
            text(body, &["preconditions", "resourceVersion"]).clone_into(&mut options.version);
            if let Some(policy) = at(body, &["propagationPolicy"]).and_then(Value::as_str) {
                policy.clone_into(&mut options.propagation);
            }
            options.grace = object::integer(body, &["gracePeriodSeconds"]).or(options.grace);
            options.dry_run |= object::list(body, &["dryRun"]).contains(&Value::from("All"));
            if at(body, &["orphanDependents"]) == Some(&Value::Bool(true)) {
                "Orphan".clone_into(&mut options.propagation);
            }
        }
        if !matches!(options.propagation.as_str(), "" | "Orphan" | "Background" | "Foreground") {
            let allowed = ["\"Foreground\"", "\"Background\"", "\"Orphan\"", "\"nil\""].map(str::to_owned);
            let cause = Cause::unsupported("propagationPolicy", &Value::from(options.propagation), &allowed);
            return Err(Refusal::invalid_options("DeleteOptions", cause));
        }
        Ok(options)
    }
}

/// DELETE of one object.
pub(crate) fn delete(state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    let options = Options::read(call)?;
    let name = call.path.name.as_deref().unwrap_or_default();
    let old = stored(state, table, call).ok_or_else(|| Refusal::not_found(kind, name))?;
    let mut seen = old.object.clone();
    admit(state, kind, call, Verb::Delete, Some(&old.object), &mut seen)?;
    let warnings = orphan_warning(kind, &options);
    let (object, gone) = delete_object(state, table, kind, &old, &options)?;
    let answer = if gone && !kind.habits.returns_deleted {
        Answer::deleted(kind, &object.object)
    } else {
        Answer::object(200, &object, call.metadata_only)
    };
    Ok(answer.warning(warnings))
}

/// Jobs keep their pods unless told otherwise, which nobody expects.
fn orphan_warning(kind: &Kind, options: &Options) -> Vec<String> {
    if kind.habits.builtin != Builtin::Job || !options.propagation.is_empty() {
        return Vec::new();
    }
    vec![
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
         propagationPolicy=Orphan to suppress this warning"
            .to_owned(),
    ]
}

/// DELETE of a collection.
pub(crate) fn collection(state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    let options = Options::read(call)?;
    let selector = Selector::parse(&call.options.label_selector, &call.options.field_selector, kind)?;
    let prefix = call.path.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let chosen: Vec<Arc<Stored>> = state
        .tables
        .get(table)
        .ok_or_else(Refusal::no_such_path)?
        .within(&prefix)
        .filter(|(_, stored)| selector.matches(&stored.object))
        .map(|(_, stored)| Arc::clone(stored))
        .collect();
    let revision = state.revision;
    for old in &chosen {
        delete_object(state, table, kind, old, &options)?;
    }
    let page = Page { kind, revision, items: chosen, token: None, remaining: None, metadata_only: call.metadata_only };
    Ok(Answer::bytes(200, page.render()))
}

/// Deletes an object, or marks it where something keeps it. Returns its last state and whether it is gone.
pub(crate) fn delete_object(
    state: &mut State,
    table: usize,
    kind: &Kind,
    old: &Arc<Stored>,
    options: &Options,
) -> Result<(Arc<Stored>, bool)> {
    check_preconditions(kind, &old.object, options)?;
    let mut new = old.object.clone();
    keepers(kind, options, &mut new);
    let grace = grace(kind, &old.object, options);
    let namespace = kind.habits.builtin == Builtin::Namespace;
    let kept = !finalizers(&new).is_empty()
        || grace > 0
        || namespace && !object::list(&new, &["spec", "finalizers"]).is_empty();
    if !kept {
        if options.dry_run {
            return Ok((Arc::clone(old), true));
        }
        if kind.habits.builtin == Builtin::Pod {
            mark(state, kind, 0, &mut new);
        }
        let gone = state.take(table, &key_of(&old.object), Some(new)).unwrap_or_else(|| Arc::clone(old));
        definition::after_delete(state, kind, &gone);
        return Ok((gone, true));
    }
    mark(state, kind, grace, &mut new);
    if new == old.object || options.dry_run {
        return Ok((Arc::clone(old), false));
    }
    Ok((state.put(table, new)?, false))
}

/// Writes that deletion was asked for, and until when the object may stay.
fn mark(state: &State, kind: &Kind, grace: i64, new: &mut Object) {
    let first = !deleting(new);
    let earlier = object::integer(new, &["metadata", "deletionGracePeriodSeconds"]).is_some_and(|old| grace < old);
    if first || earlier {
        set_meta(new, "deletionTimestamp", object::rfc3339(state.now().saturating_add(grace.saturating_mul(1000))));
        if kind.habits.builtin != Builtin::Namespace {
            set_meta(new, "deletionGracePeriodSeconds", grace);
        }
        if first && (kind.is_custom() || kind.habits.generation) {
            let generation = object::integer(new, &["metadata", "generation"]).unwrap_or_default();
            set_meta(new, "generation", generation + 1);
        }
    }
    if kind.habits.builtin == Builtin::Namespace {
        object::child(new, "status").insert("phase".to_owned(), "Terminating".into());
    }
}

/// The finalizers that the propagation policy adds and takes.
fn keepers(kind: &Kind, options: &Options, new: &mut Object) {
    let mut names: Vec<String> = finalizers(new).into_iter().map(str::to_owned).collect();
    let before = names.len();
    let policy = match (options.propagation.as_str(), kind.habits.builtin) {
        ("", Builtin::Job) if !names.iter().any(|name| name == "foregroundDeletion") => "Orphan",
        (policy, _) => policy,
    };
    let mut want = |name: &str, wanted: bool| {
        let has = names.iter().any(|other| other == name);
        if wanted && !has {
            names.push(name.to_owned());
        } else if !wanted && has {
            names.retain(|other| other != name);
        }
    };
    match policy {
        "Orphan" => {
            want("orphan", true);
            want("foregroundDeletion", false);
        }
        "Foreground" => {
            want("foregroundDeletion", true);
            want("orphan", false);
        }
        "Background" => {
            want("foregroundDeletion", false);
            want("orphan", false);
        }
        _ => {}
    }
    if before != names.len() || !names.is_empty() {
        object::set_finalizers(new, names);
    }
}

/// Seconds an object may stay: pods that run on a node have some.
fn grace(kind: &Kind, old: &Object, options: &Options) -> i64 {
    if kind.habits.builtin != Builtin::Pod {
        return 0;
    }
    let ended = matches!(text(old, &["status", "phase"]), "Succeeded" | "Failed");
    if text(old, &["spec", "nodeName"]).is_empty() || ended {
        return 0;
    }
    let usual = object::integer(old, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(30);
    let asked = options.grace.unwrap_or(usual).max(0);
    match object::integer(old, &["metadata", "deletionGracePeriodSeconds"]) {
        Some(running) => asked.min(running),
        None => asked,
    }
}

fn check_preconditions(kind: &Kind, old: &Object, options: &Options) -> Result<()> {
    let name = meta(old, "name");
    let (uid, version) = (meta(old, "uid"), meta(old, "resourceVersion"));
    if !options.uid.is_empty() && options.uid != uid {
        let why = format!(
            "the UID in the precondition ({}) does not match the UID in record ({uid}). The object might have been deleted and \
             then recreated",
            options.uid
        );
        return Err(Refusal::precondition(kind, name, &why));
    }
    if !options.version.is_empty() && options.version != version {
        let why = format!(
            "the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record ({version}). The object \
             might have been modified",
            options.version
        );
        return Err(Refusal::precondition(kind, name, &why));
    }
    Ok(())
}
