//! Watches of flows and their Jobs, in one namespace, several or all. Owns what is watched and the form in which it is told;
//! lists again and backs off by itself, and keeps nothing.

use futures::stream::{BoxStream, SelectAll, Stream, StreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::Value;

use crate::object::JobFlowObject;
use crate::render::MANAGED_BY;
use crate::shell::told;

/// What a watch tells.
pub(super) enum News {
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

/// What is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Flows,
    Jobs,
}

impl Of {
    /// Its name in paths.
    pub(super) const fn resource(self) -> &'static str {
        match self {
            Self::Flows => crate::crd::FLOWS,
            Self::Jobs => "jobs",
        }
    }
}

/// One watch: of what, and in which of the namespaces.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) of: Of,
    pub(super) place: usize,
}

/// All watches.
pub(super) fn streams(client: &kube::Client, namespaces: &[String]) -> SelectAll<BoxStream<'static, (Source, News)>> {
    let named = namespaces.iter().map(|namespace| Some(namespace.as_str()));
    let places: Vec<Option<&str>> = if namespaces.is_empty() { vec![None] } else { named.collect() };
    let mut all = SelectAll::new();
    for (place, namespace) in places.into_iter().enumerate() {
        all.push(flows(client.clone(), namespace, place).boxed());
        all.push(jobs(client.clone(), namespace, place).boxed());
    }
    all
}

fn flows(client: kube::Client, namespace: Option<&str>, place: usize) -> impl Stream<Item = (Source, News)> + use<> {
    let api: Api<JobFlowObject> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let events = watcher(api, watcher::Config::default()).default_backoff();
    events.map(move |event| (Source { of: Of::Flows, place }, news(event, JobFlowObject::to_value)))
}

fn jobs(client: kube::Client, namespace: Option<&str>, place: usize) -> impl Stream<Item = (Source, News)> + use<> {
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("batch", "v1", "Job"), "jobs");
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let config = watcher::Config::default().labels(&format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
    let events = watcher(api, config).default_backoff();
    events.map(move |event| (Source { of: Of::Jobs, place }, news(event, whole)))
}

/// A Job as it is on the server: lists leave out what it is.
fn whole(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.insert("apiVersion".to_owned(), Value::from("batch/v1"));
        members.insert("kind".to_owned(), Value::from("Job"));
    }
    value
}

fn news<K>(event: watcher::Result<watcher::Event<K>>, value: impl Fn(&K) -> Value) -> News {
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
