//! Watches of flows and their Jobs, in one namespace, several or all. Owns what is watched.

use futures::stream::{SelectAll, Stream, StreamExt as _};
use kube::api::Api;
use kube::runtime::watcher;

use crate::api::Kind;
use crate::object::JobFlowObject;
use crate::render::MANAGED_BY;
use crate::shell::run::{RunOptions, Watched, Watches};
use crate::shell::watch::{AllFailures, Failures, Source, WatchEvent, news, objects, patient};

/// Of what is watched, that which is about flows.
pub(super) const FLOWS: usize = 0;
/// That which is about Jobs.
const JOBS: usize = 1;

/// What is watched.
pub(super) fn watched(options: &RunOptions) -> Vec<Watched> {
    let scopes = options.scopes().len();
    let of = |resource| Watched { resource, scopes, optional: false };
    vec![of(crate::crd::FLOWS), of("jobs")]
}

/// All watches.
pub(super) fn streams(client: &kube::Client, options: &RunOptions, failures: &AllFailures) -> Watches {
    let mut all = SelectAll::new();
    for (scope, namespace) in options.scopes().into_iter().enumerate() {
        let from = move |of| move |news| (Source { of, scope }, news);
        let failures = |of| failures.of(Source { of, scope });
        all.push(flows(client.clone(), namespace, failures(FLOWS)).map(from(FLOWS)).boxed());
        let labels = format!("{}={}", MANAGED_BY.0, MANAGED_BY.1);
        let jobs = objects(client.clone(), Kind::Job, namespace, &labels, failures(JOBS));
        all.push(jobs.map(from(JOBS)).boxed());
    }
    all
}

fn flows(client: kube::Client, namespace: Option<&str>, failures: Failures) -> impl Stream<Item = WatchEvent> + use<> {
    let api: Api<JobFlowObject> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let events = patient(watcher(api, watcher::Config::default()), failures);
    events.map(|event| news(event, JobFlowObject::to_value))
}
