//! Watches of objects of a kind. Owns the form in which they tell; each lists again and backs off by itself, and keeps nothing.

use futures::stream::{Stream, StreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::Value;

use super::told;

use crate::api::Kind;

/// What a watch tells.
pub(crate) enum News {
    /// An object, new or changed.
    Seen(Value),
    /// An object that is gone.
    Gone(Value),
    /// All that exists is listed anew.
    Begin,
    /// It is listed.
    Complete,
    /// The server refused or did not answer: its HTTP status, if any, and a sentence.
    Broken(Option<u16>, String),
}

/// A watch of objects with labels, in a namespace or in all.
pub(crate) fn objects(
    client: kube::Client,
    kind: Kind,
    namespace: Option<&str>,
    labels: &str,
) -> impl Stream<Item = News> + use<> {
    let version = kind.api_version();
    let (group, version) = version.split_once('/').unwrap_or(("", version.as_str()));
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.name()), kind.plural());
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let config = watcher::Config::default();
    let config = if labels.is_empty() { config } else { config.labels(labels) };
    watcher(api, config).default_backoff().map(move |event| news(event, |object| whole(object, kind)))
}

/// An object as it is on the server: lists leave out what it is.
fn whole(object: &DynamicObject, kind: Kind) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.insert("apiVersion".to_owned(), Value::from(kind.api_version()));
        members.insert("kind".to_owned(), Value::from(kind.name()));
    }
    value
}

/// What a watcher tells.
pub(crate) fn news<K>(event: watcher::Result<watcher::Event<K>>, value: impl Fn(&K) -> Value) -> News {
    match event {
        Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => News::Seen(value(&object)),
        Ok(watcher::Event::Delete(object)) => News::Gone(value(&object)),
        Ok(watcher::Event::Init) => News::Begin,
        Ok(watcher::Event::InitDone) => News::Complete,
        // The watch backs off and lists again by itself.
        Err(error) => {
            let code = told::code(&error);
            tracing::debug!(%error, code, "a watch was interrupted");
            News::Broken(code, told::sentence(&error))
        }
    }
}
