//! GET of an object and of collections, and the beginning of watches: which state of the past is read, in which pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::super::Shared;
use super::super::answer::{Answer, Body, Page};
use super::super::kind::Kind;
use super::super::refusal::{Refusal, Result};
use super::super::request::Call;
use super::super::selector::Selector;
use super::super::state::State;
use super::super::store::Stored;
use super::super::watch::{Scope, Watch, refused};
use super::replace::stored;

/// How long a watch lasts that asks for no time, in seconds.
const WATCH_SECONDS: u64 = 1800;

/// GET of one object.
pub(crate) fn get(state: &State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    let name = call.path.name.as_deref().unwrap_or_default();
    let stored = stored(state, table, call).ok_or_else(|| Refusal::not_found(kind, name))?;
    Ok(Answer::object(200, &stored, call.metadata_only))
}

/// GET of a collection.
pub(crate) fn list(state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    let selector = selector(kind, call)?;
    let prefix = prefix(call);
    let stale = state.faults.stale();
    let (revision, after) = position(state, table, call, stale)?;
    let source = state.tables.get(table).ok_or_else(Refusal::no_such_path)?;
    // The newest state needs no look into history.
    let past: Option<BTreeMap<String, Arc<Stored>>> = (revision < state.revision).then(|| source.at(revision));
    let limit = if call.options.limit == 0 { usize::MAX } else { call.options.limit };
    let chosen = |entry: (&String, &Arc<Stored>)| -> Option<(String, Arc<Stored>)> {
        let (key, stored) = entry;
        (after.as_ref().is_none_or(|after| key > after) && selector.matches(&stored.object))
            .then(|| (key.clone(), Arc::clone(stored)))
    };
    let all: Vec<(String, Arc<Stored>)> = match &past {
        None => source.within(&prefix).filter_map(chosen).collect(),
        Some(past) => past.iter().filter(|(key, _)| key.starts_with(&prefix)).filter_map(chosen).collect(),
    };
    let remaining = all.len().saturating_sub(limit);
    // What is behind a page is not looked at: the token is given also where none of it is of the list.
    let last = limit.checked_sub(1).and_then(|last| all.get(last)).map(|(key, _)| key);
    let behind = |last: &&String| match &past {
        None => source.within(&prefix).any(|(key, _)| key > *last),
        Some(past) => past.keys().any(|key| key.starts_with(&prefix) && key > *last),
    };
    let one = !prefix.is_empty() && selector.names_one();
    let more = last.filter(|last| !one && behind(last));
    let token = more.map(|last| token(revision, last));
    let remaining = (token.is_some() && selector.is_empty()).then_some(remaining);
    let items = all.into_iter().take(limit).map(|(_, stored)| stored).collect();
    let page = Page { kind, revision, items, token, remaining, metadata_only: call.metadata_only };
    Ok(Answer::bytes(200, page.render()))
}

/// The version a list shows, and the key after which it begins.
fn position(state: &State, table: usize, call: &Call, stale: Option<usize>) -> Result<(u64, Option<String>)> {
    let floor = state.tables.get(table).map_or(0, super::super::store::Table::floor);
    if !call.options.token.is_empty() {
        let (revision, key) = read_token(&call.options.token).ok_or_else(|| {
            Refusal::bad_request("invalid continue token: continue key is not valid: invalid character")
        })?;
        if revision < floor {
            return Err(Refusal::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list \
                 without the continue parameter, or use the continue token in this response to retrieve the remainder of \
                 the results. Continuing with the provided token results in an inconsistent list - objects that were \
                 created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            ));
        }
        return Ok((revision, Some(key)));
    }
    let asked = version(&call.options.version)?;
    if let Some(asked) = asked.filter(|asked| *asked > state.revision) {
        return Err(Refusal::future_version(asked, state.revision));
    }
    if call.options.version_match == "Exact" {
        let asked = asked.unwrap_or_default();
        if asked < floor {
            return Err(Refusal::expired("The resourceVersion for the provided list is too old."));
        }
        return Ok((asked, None));
    }
    if let Some(count) = stale {
        let old = state.tables.get(table).map_or(state.revision, |table| table.revision_before(count));
        return Ok((old.max(asked.unwrap_or_default()), None));
    }
    Ok((state.revision, None))
}

/// A resource version from the query; empty and 0 mean any.
fn version(text: &str) -> Result<Option<u64>> {
    if text.is_empty() || text == "0" {
        return Ok(None);
    }
    let wrong = |_| {
        Refusal::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    };
    text.parse().map(Some).map_err(wrong)
}

fn selector(kind: &Kind, call: &Call) -> Result<Selector> {
    let mut fields = call.options.field_selector.clone();
    // A watch of one object by its path is one by its name.
    if let Some(name) = &call.path.name {
        fields =
            if fields.is_empty() { format!("metadata.name={name}") } else { format!("{fields},metadata.name={name}") };
    }
    Selector::parse(&call.options.label_selector, &fields, kind)
}

fn prefix(call: &Call) -> String {
    call.path.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default()
}

fn token(revision: u64, key: &str) -> String {
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": key}).to_string())
}

fn read_token(text: &str) -> Option<(u64, String)> {
    let value: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
    Some((value.get("rv")?.as_u64()?, value.get("start")?.as_str()?.to_owned()))
}

/// GET with `watch`.
pub(crate) fn watch(shared: &Arc<Shared>, state: &mut State, table: usize, kind: &Kind, call: &Call) -> Result<Answer> {
    let scope =
        Scope { table, prefix: prefix(call), selector: selector(kind, call)?, metadata_only: call.metadata_only };
    let asked = version(&call.options.version)?;
    let floor = state.tables.get(table).map_or(0, super::super::store::Table::floor);
    let stale = state.faults.stale();
    let newest = stale
        .and_then(|count| state.tables.get(table).map(|table| table.revision_before(count)))
        .unwrap_or(state.revision);
    let initial = call.options.initial_events;
    if initial == Some(true) && (call.options.version_match != "NotOlderThan" || !call.options.bookmarks) {
        return Err(Refusal::bad_request(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan and allowWatchBookmarks to true",
        ));
    }
    if let Some(asked) = asked.filter(|asked| *asked < floor)
        && initial != Some(true)
    {
        let refusal = Refusal::expired(format!("too old resource version: {asked} ({floor})"));
        return Ok(Answer::json(200, &refused(&refusal)));
    }
    let seconds = call.options.timeout_seconds.filter(|seconds| *seconds > 0).unwrap_or(WATCH_SECONDS);
    let start = asked.unwrap_or(newest);
    let mut watch = Watch::new(Arc::clone(shared), state, scope, start, call.options.bookmarks, seconds);
    let from_state = initial.unwrap_or(asked.is_none());
    if from_state {
        watch.begin(state, newest, initial == Some(true));
    }
    Ok(Answer { code: 200, body: Body::Watch(Box::new(watch)), warnings: Vec::new() })
}
