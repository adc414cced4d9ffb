//! What each verb does to the stored objects. Dispatches a call; the rules of kinds are in `rules` and `builtin`.

mod body;
mod create;
mod delete;
mod patch;
mod read;
mod replace;
mod subresource;

use std::sync::Arc;

use serde_json::Value;

use super::Shared;
use super::answer::Answer;
use super::kind::Kind;
use super::object::Object;
use super::rbac;
use super::refusal::Result;
use super::request::{Call, Verb};
use super::state::State;
use super::webhooks::{self, Write};

pub(crate) use create::create_directly;
pub(crate) use delete::{Options as DeleteOptions, delete_object};
pub(crate) use replace::write_back;

/// What admission is asked about.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Admission<'a> {
    /// Create, Update (patches too) or Delete.
    pub verb: Verb,
    /// `group/version` of the object.
    pub api_version: String,
    /// Its kind.
    pub kind: &'a str,
    /// Its resource name.
    pub resource: &'a str,
    /// The subresource, empty for the object itself.
    pub subresource: &'a str,
    /// Who asks; empty for the unlimited client.
    pub user: &'a str,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// What is stored.
    pub old: Option<&'a Object>,
}

/// An admission webhook: may change the object, and refuses with a code and a message.
pub type Hook = Arc<dyn Fn(&Admission<'_>, &mut Value) -> std::result::Result<(), (u16, String)> + Send + Sync>;

/// Carries out a call.
pub(crate) fn handle(shared: &Arc<Shared>, state: &mut State, call: &Call) -> Result<Answer> {
    let table = state.table_of(&call.path)?;
    let kind = state.kind(table)?;
    if let Some(user) = &call.user {
        rbac::check(state, user, call, &kind)?;
    }
    if !call.path.subresource.is_empty() {
        return subresource::handle(state, table, &kind, call);
    }
    match call.verb {
        Verb::Get => read::get(state, table, &kind, call),
        Verb::List => read::list(state, table, &kind, call),
        Verb::Watch => read::watch(shared, state, table, &kind, call),
        Verb::Create => create::create(state, table, &kind, call),
        Verb::Update => replace::update(state, table, &kind, call),
        Verb::Patch => patch::patch(state, table, &kind, call),
        Verb::Delete => delete::delete(state, table, &kind, call),
        Verb::DeleteCollection => delete::collection(state, table, &kind, call),
    }
}

/// Asks those that may change an object: webhooks that mutate, and the hooks of tests.
fn admit(
    state: &mut State,
    kind: &Kind,
    call: &Call,
    verb: Verb,
    old: Option<&Object>,
    object: &mut Object,
) -> Result<()> {
    webhooks::ask(state, &Write { kind, call, verb, old }, true, object)?;
    if state.hooks.is_empty() {
        return Ok(());
    }
    let admission = Admission {
        verb,
        api_version: kind.api_version(),
        kind: &kind.kind,
        resource: &kind.plural,
        subresource: &call.path.subresource,
        user: call.user.as_deref().unwrap_or_default(),
        dry_run: call.options.dry_run,
        old,
    };
    let mut value = Value::Object(std::mem::take(object));
    for hook in &state.hooks {
        hook(&admission, &mut value)
            .map_err(|(code, message)| super::refusal::Refusal::with_code(code, Some(&message)))?;
    }
    if let Value::Object(changed) = value {
        *object = changed;
    }
    Ok(())
}
