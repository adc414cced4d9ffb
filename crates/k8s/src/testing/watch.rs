//! A watch as the body of an answer: changes of one table from a version on, one JSON document a line, until time is up.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::time::Sleep;

use super::Shared;
use super::answer::{bookmark, initial_end, only_metadata};
use super::faults::Twist;
use super::refusal::Refusal;
use super::selector::Selector;
use super::state::State;
use super::store::{Change, Event, Stored};

/// What a watch follows.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) table: usize,
    /// How keys begin.
    pub(crate) prefix: String,
    pub(crate) selector: Selector,
    pub(crate) metadata_only: bool,
}

impl Scope {
    fn sees(&self, key: &str, stored: &Stored) -> bool {
        key.starts_with(&self.prefix) && self.selector.matches(&stored.object)
    }
}

/// A watch under way.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    pub(crate) scope: Scope,
    /// The version up to which everything has been queued.
    pub(crate) cursor: u64,
    queue: VecDeque<Bytes>,
    bookmarks: bool,
    /// When it ends by itself, in milliseconds of the double's clock.
    deadline: i64,
    /// Streams begun before this count have been cut.
    generation: u64,
    timer: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl Watch {
    pub(crate) fn new(
        shared: Arc<Shared>,
        state: &State,
        scope: Scope,
        cursor: u64,
        bookmarks: bool,
        seconds: u64,
    ) -> Self {
        let length = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        let timer =
            state.follows_tokio().then(|| Box::pin(tokio::time::sleep(std::time::Duration::from_secs(seconds))));
        let generation = state.faults.generation(scope.table);
        let deadline = state.now().saturating_add(length);
        Self { shared, scope, cursor, queue: VecDeque::new(), bookmarks, deadline, generation, timer, ended: false }
    }

    /// What is there when the watch begins, as if just added.
    pub(crate) fn begin(&mut self, state: &State, at: u64, mark_end: bool) {
        let Some(table) = state.tables.get(self.scope.table) else { return };
        for (key, stored) in &table.at(at) {
            if self.scope.sees(key, stored) {
                self.queue.push_back(line("ADDED", &self.text(stored)));
            }
        }
        if mark_end {
            self.queue.push_back(line("BOOKMARK", initial_end(&table.kind, at).to_string().as_bytes()));
        }
        self.cursor = at;
    }

    fn text(&self, stored: &Stored) -> Bytes {
        if self.scope.metadata_only { only_metadata(&stored.object).to_string().into() } else { stored.bytes().clone() }
    }

    /// What one change is to this watch: objects come into sight and leave it as their labels change.
    fn translate(&self, event: &Event) -> Option<Bytes> {
        let after = event.change != Change::Deleted && self.scope.sees(&event.key, &event.object);
        let before = event.previous.as_ref().is_some_and(|previous| self.scope.sees(&event.key, previous));
        match (before, after) {
            (false, false) => None,
            (false, true) => Some(line("ADDED", &self.text(&event.object))),
            (true, true) => Some(line("MODIFIED", &self.text(&event.object))),
            (true, false) if event.change == Change::Deleted => Some(line("DELETED", &self.text(&event.object))),
            (true, false) => {
                // Out of sight, not gone: the last state that was seen, under the version at which it left.
                let mut object = event.previous.as_ref()?.object.clone();
                super::object::set_meta(&mut object, "resourceVersion", event.revision.to_string());
                Some(line("DELETED", &self.text(&Stored::new(event.revision, object))))
            }
        }
    }

    /// Queues what is new. Returns whether the stream goes on.
    fn advance(&mut self, state: &mut State) -> bool {
        if state.faults.generation(self.scope.table) != self.generation {
            return false;
        }
        let now = state.now();
        let Some(table) = state.tables.get(self.scope.table) else { return false };
        if self.cursor < table.floor() {
            let refusal = Refusal::expired("The resourceVersion for the provided watch is too old.");
            self.queue.push_back(line("ERROR", refusal.body().to_string().as_bytes()));
            return false;
        }
        let mut lines = Vec::new();
        let mut cursor = self.cursor;
        for event in table.visible(self.cursor) {
            cursor = event.revision;
            lines.extend(self.translate(event));
        }
        self.cursor = cursor;
        match state.faults.twist(self.scope.table, lines.len()) {
            Twist::None => {}
            Twist::Duplicate => lines.extend(lines.last().cloned()),
            Twist::Swap => lines.reverse(),
        }
        self.queue.extend(lines);
        if now < self.deadline {
            return true;
        }
        if self.bookmarks
            && let Some(table) = state.tables.get(self.scope.table)
        {
            let version = table.held().unwrap_or(state.revision).max(self.cursor);
            self.queue.push_back(line("BOOKMARK", bookmark(&table.kind, version).to_string().as_bytes()));
        }
        false
    }
}

impl http_body::Body for Watch {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if this.queue.is_empty() && !this.ended {
            let shared = Arc::clone(&this.shared);
            let mut state = shared.lock();
            this.ended = !this.advance(&mut state);
            if this.queue.is_empty() && !this.ended {
                if let Some(table) = state.tables.get_mut(this.scope.table) {
                    table.wait(context.waker());
                }
                drop(state);
                if let Some(timer) = &mut this.timer
                    && timer.as_mut().poll(context).is_ready()
                {
                    this.timer = None;
                    context.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(this.queue.pop_front().map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// One event of a stream.
fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
}

/// A stream that says at once why it cannot be.
pub(crate) fn refused(refusal: &Refusal) -> Value {
    json!({"type": "ERROR", "object": refusal.body()})
}
