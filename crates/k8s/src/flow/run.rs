//! Running the controller of flows: watches feed it, a queue orders its passes, a clock wakes it. Owns that loop in one task:
//! passes of different flows run side by side, nothing is spawned.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use futures::{FutureExt as _, select_biased};
use serde_json::Value;

use super::watch::{News, Of, Source, streams};
use super::{Controller, Key, Next, Note};
use crate::api;
use crate::shell::Queue;

/// How the loop works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOptions {
    /// The namespaces that are watched, each by watches of its own; all of them by two watches where none is given.
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

/// How long the loop sleeps when nothing is due: whoever watches over it hears of it as often.
const IDLE: Duration = Duration::from_secs(10);

impl<A: api::Api> Controller<A> {
    /// Watches flows and Jobs and passes over flows until `stop` is ready; passes under way are finished first. `client`
    /// reads; writes go through the client this controller has.
    pub async fn run(&self, client: kube::Client, options: &RunOptions, stop: impl Future<Output = ()>) {
        let mut news = streams(&client, &options.namespaces);
        let mut stop = pin!(stop.fuse());
        let mut resync = pin!(tokio::time::sleep(options.resync).fuse());
        let mut work = Work::new(&options.namespaces);
        let mut passes = FuturesUnordered::new();
        loop {
            if work.primed {
                while passes.len() < options.passes.max(1)
                    && let Some(key) = work.queue.take(self.now())
                {
                    passes.push(async move {
                        let began = self.monitor.now();
                        let next = self.reconcile(&key).await;
                        self.monitor.note(Note::Passed { took: self.monitor.now().saturating_sub(began) });
                        (key, next)
                    });
                }
            }
            self.monitor.note(Note::Beat { depth: work.queue.depth() });
            let wait = work.queue.next_due().map_or(IDLE, |at| at.since(self.now()).max(Duration::from_millis(1)));
            let mut timer = pin!(tokio::time::sleep(wait.min(IDLE)).fuse());
            select_biased! {
                () = stop => break,
                (key, next) = passes.select_next_some() => work.passed(&key, next),
                told = news.next().fuse() => match told {
                    Some((source, told)) => work.told(self, source, told),
                    None => break,
                },
                () = resync => {
                    news = streams(&client, &options.namespaces);
                    resync.set(tokio::time::sleep(options.resync).fuse());
                }
                () = timer => {}
            }
        }
        while passes.next().await.is_some() {}
    }
}

/// What the loop knows.
struct Work {
    queue: Queue<Key>,
    namespaces: Vec<String>,
    listings: [Vec<Listing>; 2],
    primed: bool,
}

/// How far a watch is with listing what exists.
#[derive(Clone, Default)]
struct Listing {
    /// What is listed so far; nothing is kept of what is seen after a list.
    listed: BTreeSet<String>,
    under_way: bool,
    complete: bool,
}

impl Work {
    fn new(namespaces: &[String]) -> Self {
        let listings = vec![Listing::default(); namespaces.len().max(1)];
        let namespaces = namespaces.to_vec();
        Self { queue: Queue::default(), namespaces, listings: [listings.clone(), listings], primed: false }
    }

    fn passed(&mut self, key: &Key, next: Next) {
        self.queue.done(key);
        if let Some(at) = next.again_at {
            self.queue.add_at(key.clone(), at);
        }
        next.wake.into_iter().for_each(|key| self.queue.add(key));
    }

    fn told<A: api::Api>(&mut self, controller: &Controller<A>, source: Source, news: News) {
        let Source { of, place } = source;
        let [flows, jobs] = &mut self.listings;
        let listings = if of == Of::Flows { flows } else { jobs };
        let Some(listing) = listings.get_mut(place) else { return };
        let resource = of.resource();
        let keys = match news {
            News::Begin => {
                if listing.complete {
                    controller.monitor.note(Note::Restarted { resource });
                }
                listing.listed.clear();
                listing.under_way = true;
                Vec::new()
            }
            News::Seen(object) => {
                if listing.under_way {
                    listing.listed.insert(super::gate::uid(&object));
                }
                seen(controller, of, &object)
            }
            News::Gone(object) => match of {
                Of::Flows => controller.flow_gone(&object),
                Of::Jobs => controller.job_gone(&object),
            },
            News::Complete => {
                (listing.under_way, listing.complete) = (false, true);
                controller.monitor.note(Note::Watched { resource });
                let listed = std::mem::take(&mut listing.listed);
                let namespace = self.namespaces.get(place).map(String::as_str);
                match of {
                    Of::Flows => controller.only_flows(&listed, namespace),
                    Of::Jobs => controller.only_jobs(&listed, namespace),
                }
            }
            News::Broken(code, message) => {
                controller.monitor.note(Note::Broken { resource, code, message: &message });
                Vec::new()
            }
        };
        keys.into_iter().for_each(|key| self.queue.add(key));
        if !self.primed && self.listings.iter().flatten().all(|listing| listing.complete) {
            self.primed = true;
            controller.monitor.note(Note::Synced);
            controller.prime().into_iter().for_each(|key| self.queue.add(key));
        }
    }
}

fn seen<A: api::Api>(controller: &Controller<A>, of: Of, object: &Value) -> Vec<Key> {
    match of {
        Of::Flows => controller.flow_seen(object),
        Of::Jobs => controller.job_seen(object),
    }
}
