//! Running a controller of performers or executors. Owns what its loop is told and what becomes of it; the loop is that of
//! every controller.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::stream::{SelectAll, StreamExt as _};
use orlop_core::time::Time;
use serde_json::Value;

use super::cluster::KINDS;
use super::controller::{Controller, ControllerEvent, Reconciler};
use crate::api::{Api, Kind};
pub use crate::shell::RunOptions;
use crate::shell::run::{self, Watched, Watches, WorkLoop};
use crate::shell::watch::{AllFailures, Source, objects};
use crate::shell::{Key, LoopEvent, Next};

/// All kinds a controller watches, its own first.
fn kinds<R: Reconciler>() -> Vec<Kind> {
    std::iter::once(R::KIND).chain(R::CHILD_KINDS.iter().copied()).chain(R::WATCHED_KINDS.iter().copied()).collect()
}

/// Labels of the objects of a kind that matter.
fn labels<R: Reconciler>(kind: Kind) -> &'static str {
    if R::CHILD_KINDS.contains(&kind) { R::CHILD_SELECTOR } else { "" }
}

impl<A: Api, R: Reconciler> Controller<A, R> {
    /// Watches and passes until `stop` is ready; passes under way are finished first. `client` reads what is watched; all
    /// else goes through the client this controller has.
    pub async fn run(&self, client: kube::Client, options: &RunOptions, stop: impl Future<Output = ()> + Send) {
        let all = kinds::<R>();
        let scopes = options.scopes().len();
        let watched = |kind: &Kind| Watched {
            resource: kind.plural(),
            scopes: if KINDS.contains(kind) { 1 } else { scopes },
            optional: KINDS.contains(kind) || *kind != R::KIND && R::WATCHED_KINDS.contains(kind),
        };
        let watched: Vec<Watched> = all.iter().map(watched).collect();
        let failures = AllFailures::default();
        let watches = || -> Watches {
            let mut streams = SelectAll::new();
            for (of, kind) in all.iter().enumerate() {
                let scopes = if KINDS.contains(kind) { vec![None] } else { options.scopes() };
                for (scope, namespace) in scopes.into_iter().enumerate() {
                    let source = Source { of, scope };
                    let failures = failures.of(source);
                    let news = objects(client.clone(), *kind, namespace, labels::<R>(*kind), failures);
                    streams.push(news.map(move |news| (source, news)).boxed());
                }
            }
            streams
        };
        run::run(self, watched, watches, options, stop).await;
    }
}

impl<A: Api, R: Reconciler> WorkLoop for Controller<A, R> {
    fn now(&self) -> Time {
        Self::now(self)
    }

    fn steady(&self) -> Duration {
        self.monitor.now()
    }

    fn record(&self, event: LoopEvent<'_>) {
        self.monitor.record(ControllerEvent::Loop(event));
    }

    fn on_apply(&self, of: usize, object: &Value) -> Vec<Key> {
        kinds::<R>().get(of).map(|kind| Self::object_applied(self, *kind, object)).unwrap_or_default()
    }

    fn on_delete(&self, of: usize, object: &Value) -> Vec<Key> {
        kinds::<R>().get(of).map(|kind| Self::object_deleted(self, *kind, object)).unwrap_or_default()
    }

    fn on_list(&self, of: usize, uids: &BTreeSet<String>, namespace: Option<&str>) -> Vec<Key> {
        kinds::<R>().get(of).map(|kind| self.objects_listed(*kind, uids, namespace)).unwrap_or_default()
    }

    fn on_missing(&self, of: usize) -> Vec<Key> {
        kinds::<R>().get(of).map(|kind| Self::kind_missing(self, *kind)).unwrap_or_default()
    }

    fn keys(&self) -> Vec<Key> {
        self.keys()
    }

    async fn pass(&self, key: &Key) -> Next {
        self.reconcile(key).await
    }
}
