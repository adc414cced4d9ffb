//! Running a controller: watches feed it, a queue orders its passes, a clock wakes it. Owns that loop in one task: passes over
//! different objects run side by side, nothing is spawned.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{BoxStream, FuturesUnordered, SelectAll, StreamExt as _};
use futures::{FutureExt as _, select_biased};
use orlop_core::time::Time;
use serde_json::Value;

use super::watch::WatchEvent;
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

/// One watch: of which of the things that are watched, and in which of its scopes: a namespace, or all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) of: usize,
    pub(crate) scope: usize,
}

/// All watches.
pub(crate) type Watches = SelectAll<BoxStream<'static, (Source, WatchEvent)>>;

/// Something that is watched.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// As in paths.
    pub(crate) resource: &'static str,
    /// In how many scopes.
    pub(crate) scopes: usize,
    /// Whether work can be done without the right to see it, or where it is not served.
    pub(crate) optional: bool,
}

/// What is run: a controller.
pub(crate) trait WorkLoop: Sync {
    /// The time.
    fn now(&self) -> Time;
    /// Time since any fixed moment, by a steady clock.
    fn steady(&self) -> Duration;
    /// Something has happened in the loop.
    fn record(&self, event: LoopEvent<'_>);
    /// An object was seen; gives who is to be looked at.
    fn seen(&self, of: usize, object: &Value) -> Vec<Key>;
    /// An object is gone; gives who is to be looked at.
    fn gone(&self, of: usize, object: &Value) -> Vec<Key>;
    /// These are all that exist; gives who is to be looked at.
    fn only(&self, of: usize, uids: &BTreeSet<String>, namespace: Option<&str>) -> Vec<Key>;
    /// Nothing of these is served, though it might be seen; gives who is to be looked at.
    fn absent(&self, _of: usize) -> Vec<Key> {
        Vec::new()
    }
    /// Everything was seen once; gives who is to be looked at.
    fn begin(&self) -> Vec<Key>;
    /// Whether passes over an object come before those over others.
    fn comes_first(&self, _key: &Key) -> bool {
        true
    }
    /// The next that is to be looked at because of what was found beside the passes. It is dropped and asked anew between news:
    /// nothing may be lost by that.
    fn woken(&self) -> impl Future<Output = Key> + Send {
        std::future::pending()
    }
    /// One pass.
    fn pass(&self, key: &Key) -> impl Future<Output = Next> + Send;
}

/// How long the loop sleeps when nothing is due: whoever watches over it hears of it as often.
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
        if work.primed {
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
        let mut woken = pin!(controller.woken().fuse());
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

/// What the loop knows.
struct Work {
    queue: Queue<Key>,
    namespaces: Vec<String>,
    watched: Vec<(Watched, Vec<Listing>)>,
    primed: bool,
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
        Self { queue: Queue::default(), namespaces: namespaces.to_vec(), watched, primed: false }
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
                controller.seen(of, &object)
            }
            WatchEvent::Deleted(object) => controller.gone(of, &object),
            WatchEvent::InitDone => {
                (listing.under_way, listing.complete, listing.refused) = (false, true, None);
                controller.record(LoopEvent::WatchListed { resource });
                let listed = std::mem::take(&mut listing.listed);
                controller.only(of, &listed, self.namespaces.get(scope).map(String::as_str))
            }
            WatchEvent::Failed(Some(code @ (401 | 403 | 404)), _) if optional => {
                // Nobody waits for what may not be seen, or is not there.
                listing.complete = true;
                if code == 404 { controller.absent(of) } else { Vec::new() }
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
        if !self.primed && self.watched.iter().flat_map(|(_, listings)| listings).all(|listing| listing.complete) {
            self.primed = true;
            controller.record(LoopEvent::Synced);
            controller.begin().into_iter().for_each(|key| self.queue.add(key));
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

        fn seen(&self, _of: usize, _object: &Value) -> Vec<Key> {
            Vec::new()
        }

        fn gone(&self, _of: usize, _object: &Value) -> Vec<Key> {
            Vec::new()
        }

        fn only(&self, _of: usize, _uids: &BTreeSet<String>, _namespace: Option<&str>) -> Vec<Key> {
            Vec::new()
        }

        fn begin(&self) -> Vec<Key> {
            Vec::new()
        }

        async fn pass(&self, _key: &Key) -> Next {
            Next::default()
        }
    }

    #[test]
    fn a_refusal_is_told_once_also_over_a_resync() {
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
        assert!(recorder.0.lock().unwrap().is_empty() && work.primed);
        list(&mut work);
        assert_eq!(*recorder.0.lock().unwrap(), ["pods"], "this one has ended by itself");
    }
}
