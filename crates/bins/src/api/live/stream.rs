//! One stream of a page: the whole of each topic first, then what changes, a sign of life, and a word before the end.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use orlop_core::error::{Class, Problem};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::auth::Caller;
use super::super::guard::{PATIENCE, silent};
use super::super::state::Api;
use super::super::streams::StreamPermit;
use super::super::view::time;
use super::{check, source};
use crate::host::scheduler::Status;
use crate::web::{Subscription, Taken, Topic, View, build, event};
use crate::wire::problem::body;

/// Between two signs of life.
const PING: Duration = Duration::from_secs(10);
/// How long a page waits before it asks again, in milliseconds: after the end of a server, and while the store does not answer.
const STOPPING_MS: u64 = 250;
const UNAVAILABLE_MS: u64 = 2000;

/// Why a stream goes on.
enum Woken {
    News,
    Topics,
    Ping,
    End,
}

/// A stream under way.
pub(super) struct LiveStream {
    api: Arc<Api>,
    caller: Caller,
    id: String,
    wanted: watch::Receiver<Vec<Topic>>,
    news: watch::Receiver<u64>,
    status: watch::Receiver<Status>,
    shown: BTreeMap<Topic, Subscription>,
    /// Has all deltas up to this one.
    at: u64,
    queue: VecDeque<Bytes>,
    /// The id of the last event of an earlier stream, until it is known whether this one goes on there.
    last: Option<String>,
    ping: Instant,
    over: bool,
    _permit: StreamPermit,
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        self.api.live.streams().remove(&self.id);
    }
}

/// What is said when the session has ended.
pub(super) fn signed_out() -> Bytes {
    event("", "bye", &json!({ "reason": "signed-out" }))
}

fn bye(reason: &str, retry_ms: u64) -> Bytes {
    event("", "bye", &json!({ "reason": reason, "retry_ms": retry_ms }))
}

impl LiveStream {
    pub(super) fn new(
        api: Arc<Api>,
        caller: Caller,
        id: String,
        mut wanted: watch::Receiver<Vec<Topic>>,
        permit: StreamPermit,
    ) -> Self {
        wanted.mark_changed();
        let (news, status, at) = (api.live.hub.news(), api.handle.status_changes(), api.live.hub.seq());
        let ping = Instant::now() + PING;
        let (shown, queue) = (BTreeMap::new(), VecDeque::new());
        let (last, over) = (None, false);
        Self { api, caller, id, wanted, news, status, shown, at, queue, last, ping, over, _permit: permit }
    }

    /// Its bytes. `last`: the id of the last event that the page had of an earlier stream.
    pub(super) fn body(mut self, last: Option<String>) -> Body {
        self.queue.push_back(self.hello());
        self.last = last;
        Body::from_stream(stream::unfold(self, |mut stream| async move {
            let bytes = stream.next().await?;
            Some((Ok::<_, Infallible>(bytes), stream))
        }))
    }

    fn hello(&self) -> Bytes {
        let hub = &self.api.live.hub;
        let tick = self.api.options.console.as_ref().map_or(0, |console| console.tick.as_millis());
        let data = json!({
            "stream": self.id,
            "epoch": hub.epoch(),
            "seq": self.at,
            "time": time(self.api.now()),
            "build": build(),
            "tick": u64::try_from(tick).unwrap_or(u64::MAX),
        });
        event("", "hello", &data)
    }

    /// Goes on where an earlier stream was cut, if all its topics were made without a gap since.
    async fn resume(&mut self, last: &str) {
        let wanted: Vec<Topic> = self.wanted.borrow().clone();
        let views: Vec<View> = wanted.iter().map(|topic| source::view_of(topic.clone(), &self.caller)).collect();
        let sees_all = tokio::time::timeout(PATIENCE, self.sees(&wanted)).await.unwrap_or(false);
        let hub = &self.api.live.hub;
        match hub.seq_of(last) {
            Some(seq) if sees_all && hub.resumes(seq, &views) => {
                self.at = seq;
                self.wanted.mark_unchanged();
                let live = &self.api.live;
                for (topic, view) in wanted.into_iter().zip(views) {
                    self.shown.insert(topic, live.hub.subscribe(view, live.since));
                }
                live.start(&self.api);
            }
            known => {
                let why = if known.is_some() { "trimmed" } else { "epoch" };
                self.queue.push_back(resync(&wanted, why));
            }
        }
    }

    /// Whether the caller may see all of these: views of one flow or job are the same for all who may.
    async fn sees(&self, topics: &[Topic]) -> bool {
        for topic in topics {
            if check(&self.api, &self.caller, topic).await.is_err() {
                return false;
            }
        }
        true
    }

    /// What goes out next; none once it is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.queue.pop_front() {
                return Some(bytes);
            }
            if self.over {
                return None;
            }
            if let Some(last) = self.last.take() {
                self.resume(&last).await;
                continue;
            }
            if self.wanted.has_changed().unwrap_or(false) {
                self.change_topics().await;
                continue;
            }
            match self.take().await {
                Some(bytes) => return Some(bytes),
                None => self.wait().await,
            }
        }
    }

    /// The deltas that are there.
    async fn take(&mut self) -> Option<Bytes> {
        self.news.mark_unchanged();
        let views: Vec<Arc<View>> = self.shown.values().map(|shown| Arc::clone(shown.view())).collect();
        match self.api.live.hub.after(self.at, &views) {
            Taken::Deltas { text, seq } => {
                self.at = seq;
                Some(text)
            }
            Taken::Nothing { seq } => {
                self.at = seq;
                None
            }
            Taken::Lagged => {
                self.at = self.api.live.hub.seq();
                let topics: Vec<Topic> = self.shown.keys().cloned().collect();
                self.queue.push_back(resync(&topics, "lagged"));
                for topic in topics {
                    if !self.over {
                        self.begin(topic).await;
                    }
                }
                self.queue.pop_front()
            }
        }
    }

    async fn wait(&mut self) {
        let stops = self.api.stop.clone();
        let leads = |status: &Status| !matches!(status, Status::Leading { .. });
        let woken = tokio::select! {
            _ = self.news.changed() => Woken::News,
            _ = self.wanted.changed() => Woken::Topics,
            () = tokio::time::sleep_until(self.ping) => Woken::Ping,
            () = stops.stopped() => Woken::End,
            _ = self.status.wait_for(leads) => Woken::End,
        };
        match woken {
            Woken::News => {}
            Woken::Topics => self.wanted.mark_changed(),
            Woken::End => {
                self.queue.push_back(bye("stopping", STOPPING_MS));
                self.over = true;
            }
            Woken::Ping => {
                self.ping = Instant::now() + PING;
                let data = json!({ "time": time(self.api.now()), "seq": self.at });
                self.queue.push_back(event("", "ping", &data));
                self.keep().await;
            }
        }
    }

    /// An open stream keeps its session from going idle.
    async fn keep(&self) {
        if let Some(session) = &self.caller.session
            && let Err(problem) = self.api.guard.sessions().keep(session, self.api.now()).await
        {
            tracing::debug!(target: "orlop::api", problem = problem.chain(), "the use of a session was not noted");
        }
    }

    /// Shows the topics that are wanted now, and no others.
    async fn change_topics(&mut self) {
        let wanted: Vec<Topic> = self.wanted.borrow_and_update().clone();
        self.shown.retain(|topic, _| wanted.contains(topic));
        for topic in wanted {
            if !self.over && !self.shown.contains_key(&topic) {
                self.begin(topic).await;
            }
        }
    }

    /// Begins to show a topic: the whole of it now, then what changes.
    async fn begin(&mut self, topic: Topic) {
        let whole = tokio::time::timeout(PATIENCE, self.whole(&topic)).await.unwrap_or_else(|_| Err(silent()));
        let bytes = match whole {
            Ok((data, seq)) => {
                let hub = &self.api.live.hub;
                event(&hub.id(seq), "snapshot", &json!({ "topic": topic.to_string(), "seq": seq, "data": data }))
            }
            // The page opens another stream, which begins with all topics.
            Err(problem) if problem.class == Class::Transient => {
                tracing::debug!(target: "orlop::api", topic = %topic, problem = problem.chain(), "a topic cannot be read now");
                self.over = true;
                self.api.live.hub.gap(&source::view_of(topic, &self.caller));
                bye("unavailable", UNAVAILABLE_MS)
            }
            Err(problem) => {
                self.shown.remove(&topic);
                event("", "refused", &json!({ "topic": topic.to_string(), "problem": body(&problem) }))
            }
        };
        self.queue.push_back(bytes);
    }

    async fn whole(&mut self, topic: &Topic) -> Result<(Value, u64), Problem> {
        check(&self.api, &self.caller, topic).await?;
        let (view, live) = (source::view_of(topic.clone(), &self.caller), &self.api.live);
        // Before it is read: what changes meanwhile is a delta.
        self.shown.insert(topic.clone(), live.hub.subscribe(view.clone(), live.since));
        live.start(&self.api);
        live.views.whole(&self.api, &view, || live.hub.seq()).await
    }
}

fn resync(topics: &[Topic], why: &str) -> Bytes {
    let topics: Vec<String> = topics.iter().map(ToString::to_string).collect();
    event("", "resync", &json!({ "topics": topics, "why": why }))
}
