//! The loop of a controller: watches fill its work queue, passes reconcile the objects in it. Owns that loop in one task: passes
//! over different objects run side by side, nothing is spawned.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{BoxStream, FuturesUnordered, SelectAll, StreamExt as _};
use futures::{FutureExt as _, select_biased};
use orlop_core::time::Time;
use serde_json::Value;

use super::watch::{Source, WatchEvent};
use super::{Key, LoopEvent, Next, Queue};
use crate::value::text;

/// How the loop works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOptions {
    /// The namespaces that are watched, each by watches of its own; all of them at once where none is given.
    pub namespaces: Vec<String>,
    /// Passes that may be under way at once.
    pub passes: usize,
    /// How often all that exists is listed again, to find what watches may have missed.
    pub resync: Duration,
}

impl Default for RunOptions {
    /// All namespaces, 10 passes at once, every 10 minutes.
    fn default() -> Self {
        Self { namespaces: Vec::new(), passes: 10, resync: Duration::from_secs(600) }
    }
}

impl RunOptions {
    /// Where a kind of objects in namespaces is watched.
    pub(crate) fn scopes(&self) -> Vec<Option<&str>> {
        let named = self.namespaces.iter().map(|namespace| Some(namespace.as_str()));
        if self.namespaces.is_empty() { vec![None] } else { named.collect() }
    }
}

/// All watches.
pub(crate) type Watches = SelectAll<BoxStream<'static, (Source, WatchEvent)>>;

/// A watched kind.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// As in paths.
    pub(crate) resource: &'static str,
    /// In how many scopes.
    pub(crate) scopes: usize,
    /// Whether work can be done without the right to see it, or where it is not served.
    pub(crate) optional: bool,
}

/// A controller as the loop calls it.
pub(crate) trait WorkLoop: Sync {
    /// The time.
    fn now(&self) -> Time;
    /// Time since any fixed moment, by a steady clock.
    fn steady(&self) -> Duration;
    /// Something has happened in the loop.
    fn record(&self, event: LoopEvent<'_>);
    /// A watch reports an object that is new or has changed; gives the objects to be reconciled.
    fn on_apply(&self, of: usize, object: &Value) -> Vec<Key>;
    /// A watch reports that an object is gone; gives the objects to be reconciled.
    fn on_delete(&self, of: usize, object: &Value) -> Vec<Key>;
    /// A watch has listed all objects; gives the objects to be reconciled.
    fn on_list(&self, of: usize, uids: &BTreeSet<String>, namespace: Option<&str>) -> Vec<Key>;
    /// The server does not serve a kind; gives the objects to be reconciled.
    fn on_missing(&self, _of: usize) -> Vec<Key> {
        Vec::new()
    }
    /// All objects to be reconciled once everything was listed.
    fn keys(&self) -> Vec<Key>;
    /// Whether passes over an object come before those over others.
    fn comes_first(&self, _key: &Key) -> bool {
        true
    }
    /// The next object to be reconciled because of background work. The future is dropped and made anew between events, and must
    /// lose nothing by that.
    fn next_wake(&self) -> impl Future<Output = Key> + Send {
        std::future::pending()
    }
    /// One pass.
    fn pass(&self, key: &Key) -> impl Future<Output = Next> + Send;
}

/// How long the loop sleeps when nothing is due; a heartbeat is reported as often.
const IDLE: Duration = Duration::from_secs(10);

/// Watches and passes until `stop` is ready; passes under way are finished first.
pub(crate) async fn run(
    controller: &impl WorkLoop,
    watched: Vec<Watched>,
    watches: impl Fn() -> Watches + Send,
    options: &RunOptions,
    stop: impl Future<Output = ()> + Send,
) {
    let mut news = watches();
    let mut stop = pin!(stop.fuse());
    let mut resync = pin!(tokio::time::sleep(options.resync).fuse());
    let mut work = Work::new(&options.namespaces, watched);
    let mut passes = FuturesUnordered::new();
    loop {
        if work.synced {
            while passes.len() < options.passes.max(1)
                && let Some(key) = work.queue.take_first(controller.now(), |key| controller.comes_first(key))
            {
                passes.push(async move {
                    let began = controller.steady();
                    let next = controller.pass(&key).await;
                    controller.record(LoopEvent::Reconciled {
                        took: controller.steady().saturating_sub(began),
                        failed: next.failed,
                    });
                    (key, next)
                });
            }
        }
        controller.record(LoopEvent::Heartbeat { depth: work.queue.depth() });
        let wait = work.queue.next_due().map_or(IDLE, |at| at.since(controller.now()).max(Duration::from_millis(1)));
        let mut woken = pin!(controller.next_wake().fuse());
        let mut timer = pin!(tokio::time::sleep(wait.min(IDLE)).fuse());
        select_biased! {
            () = stop => break,
            (key, pass) = passes.select_next_some() => work.passed(&key, pass),
            event = news.next().fuse() => match event {
                Some((source, event)) => work.handle(controller, source, event),
                None => break,
            },
            key = woken => work.queue.add(key),
            () = resync => {
                news = watches();
                work.again();
                resync.set(tokio::time::sleep(options.resync).fuse());
            }
            () = timer => {}
        }
    }
    while passes.next().await.is_some() {}
}

/// The state of the loop.
struct Work {
    queue: Queue<Key>,
    namespaces: Vec<String>,
    watched: Vec<(Watched, Vec<Listing>)>,
    synced: bool,
}

/// How far a watch is with listing what exists.
#[derive(Clone, Default)]
struct Listing {
    /// What is listed so far; nothing is kept of what is seen after a list.
    listed: BTreeSet<String>,
    under_way: bool,
    complete: bool,
    /// How the last try was answered that failed.
    refused: Option<u16>,
}

impl Work {
    fn new(namespaces: &[String], watched: Vec<Watched>) -> Self {
        let listings = |watched: Watched| {
            let scopes = watched.scopes;
            (watched, vec![Listing::default(); scopes])
        };
        let watched = watched.into_iter().map(listings).collect();
        Self { queue: Queue::default(), namespaces: namespaces.to_vec(), watched, synced: false }
    }

    /// All watches are begun anew on purpose: that restarts none of them, and tells nothing again.
    fn again(&mut self) {
        for listing in self.watched.iter_mut().flat_map(|(_, listings)| listings) {
            *listing = Listing { refused: listing.refused, ..Listing::default() };
        }
    }

    fn passed(&mut self, key: &Key, pass: Next) {
        self.queue.done(key);
        if let Some(at) = pass.again_at {
            self.queue.add_at(key.clone(), at);
        }
        pass.wake.into_iter().for_each(|key| self.queue.add(key));
    }

    fn handle(&mut self, controller: &impl WorkLoop, Source { of, scope }: Source, event: WatchEvent) {
        let Some((watched, listings)) = self.watched.get_mut(of) else { return };
        let (resource, optional) = (watched.resource, watched.optional);
        let Some(listing) = listings.get_mut(scope) else { return };
        let keys = match event {
            WatchEvent::Init => {
                if listing.complete {
                    controller.record(LoopEvent::WatchRestarted { resource });
                }
                listing.listed.clear();
                listing.under_way = true;
                Vec::new()
            }
            WatchEvent::Applied(object) => {
                if listing.under_way {
                    listing.listed.insert(text(&object, "/metadata/uid"));
                }
                controller.on_apply(of, &object)
            }
            WatchEvent::Deleted(object) => controller.on_delete(of, &object),
            WatchEvent::InitDone => {
                (listing.under_way, listing.complete, listing.refused) = (false, true, None);
                controller.record(LoopEvent::WatchListed { resource });
                let listed = std::mem::take(&mut listing.listed);
                controller.on_list(of, &listed, self.namespaces.get(scope).map(String::as_str))
            }
            WatchEvent::Failed(Some(code @ (401 | 403 | 404)), _) if optional => {
                // Nobody waits for what may not be seen, or is not there.
                listing.complete = true;
                if code == 404 { controller.on_missing(of) } else { Vec::new() }
            }
            WatchEvent::Failed(code, message) => {
                // What may not be seen, or is not there, is said once.
                let known = matches!(code, Some(403 | 404)) && listing.refused == code;
                listing.refused = code;
                if !known {
                    controller.record(LoopEvent::WatchFailed { resource, code, message: &message });
                }
                Vec::new()
            }
        };
        keys.into_iter().for_each(|key| self.queue.add(key));
        if !self.synced && self.watched.iter().flat_map(|(_, listings)| listings).all(|listing| listing.complete) {
            self.synced = true;
            controller.record(LoopEvent::Synced);
            controller.keys().into_iter().for_each(|key| self.queue.add(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Hears which watches are begun again, and which are refused.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<&'static str>>);

    impl WorkLoop for Recorder {
        fn now(&self) -> Time {
            Time::EPOCH
        }

        fn steady(&self) -> Duration {
            Duration::ZERO
        }

        fn record(&self, event: LoopEvent<'_>) {
            if let LoopEvent::WatchRestarted { resource } | LoopEvent::WatchFailed { resource, .. } = event {
                self.0.lock().unwrap().push(resource);
            }
        }

        fn on_apply(&self, _of: usize, _object: &Value) -> Vec<Key> {
            Vec::new()
        }

        fn on_delete(&self, _of: usize, _object: &Value) -> Vec<Key> {
            Vec::new()
        }

        fn on_list(&self, _of: usize, _uids: &BTreeSet<String>, _namespace: Option<&str>) -> Vec<Key> {
            Vec::new()
        }

        fn keys(&self) -> Vec<Key> {
            Vec::new()
        }

        async fn pass(&self, _key: &Key) -> Next {
            Next::default()
        }
    }

    #[test]
    fn a_refusal_is_reported_once_also_over_a_resync() {
        let (recorder, source) = (Recorder::default(), Source { of: 0, scope: 0 });
        let mut work = Work::new(&[], vec![Watched { resource: "pods", scopes: 1, optional: false }]);
        for _ in 0..3 {
            work.handle(&recorder, source, WatchEvent::Failed(Some(403), String::new()));
            work.again();
        }
        assert_eq!(*recorder.0.lock().unwrap(), ["pods"]);
    }

    #[test]
    fn a_resync_restarts_no_watch() {
        let (recorder, source) = (Recorder::default(), Source { of: 0, scope: 0 });
        let mut work = Work::new(&[], vec![Watched { resource: "pods", scopes: 1, optional: false }]);
        let list = |work: &mut Work| {
            work.handle(&recorder, source, WatchEvent::Init);
            work.handle(&recorder, source, WatchEvent::InitDone);
        };
        list(&mut work);
        work.again();
        list(&mut work);
        assert!(recorder.0.lock().unwrap().is_empty() && work.synced);
        list(&mut work);
        assert_eq!(*recorder.0.lock().unwrap(), ["pods"], "this one has ended by itself");
    }
}
