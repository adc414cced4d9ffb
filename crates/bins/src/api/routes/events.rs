//! Events as a stream (SSE): what happens to jobs and workers from now on.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::stream;
use orlop_core::error::Problem;
use orlop_core::ports::bus::{SUBJECT_ROOT, SubjectFilter};
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::auth::{Caller, Scope};
use super::super::call::Call;
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use super::super::streams::{EncodedEvent, Events, StreamPermit};
use crate::host::scheduler::Status;

/// A stream with nothing to say says so after this time, so that nobody in between closes it.
const QUIET: Duration = Duration::from_secs(15);

/// After a piece a stream rests: what comes meanwhile goes out together, and is one write instead of many. So long, and longer by so
/// much for each stream that is open.
const REST: Duration = Duration::from_millis(10);
const REST_OF_EACH: Duration = Duration::from_micros(200);
/// Bytes of events that go out together, about.
const TOGETHER: usize = 16 << 10;

/// A stream under way.
struct Streaming {
    api: Arc<Api>,
    events: Events,
    status: watch::Receiver<Status>,
    filter: SubjectFilter,
    caller: Caller,
    /// When it may go on.
    rested: Instant,
    _permit: StreamPermit,
}

/// GET /events
pub(in super::super) async fn events(api: Arc<Api>, call: Call) -> Answer {
    let kind = call.one("type")?.unwrap_or(">").to_ascii_lowercase();
    let filter = SubjectFilter::new(&format!("{SUBJECT_ROOT}{kind}"));
    let filter =
        filter.map_err(|error| Problem::field("type", format!("{error}; such as `job.*` or `job.completed`")))?;
    let status = api.handle.status_changes();
    if matches!(*status.borrow(), Status::Standby { .. }) {
        // Events are of the server that leads.
        api.handle.leader_snapshot()?;
    }
    let permit = api.streams.permit(&call.caller)?;
    let events = api.streams.events(&api.handle)?;
    let first = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b": events from now on\n\n")) });
    call.concern.decide();
    let streaming =
        Streaming { caller: call.caller, api, events, status, filter, rested: Instant::now(), _permit: permit };
    let rest = stream::unfold(streaming, |mut streaming| async move {
        let text = streaming.next().await?;
        Some((Ok::<_, Infallible>(text), streaming))
    });
    Ok(Reply::stream("text/event-stream", Body::from_stream(futures::StreamExt::chain(first, rest))))
}

impl Streaming {
    /// What goes out next: the events that are there; none when the server ends, or another one leads.
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            () = tokio::time::sleep_until(self.rested) => {}
            () = self.api.stop.stopped() => return None,
        }
        let mut text = loop {
            let said = tokio::select! {
                said = self.events.next() => said?,
                () = self.api.stop.stopped() => return None,
                _ = self.status.wait_for(|status| matches!(status, Status::Standby { .. })) => return None,
                () = tokio::time::sleep(QUIET) => return Some(Bytes::from_static(b": still here\n\n")),
            };
            if let Some(text) = self.text(&said) {
                break text;
            }
        };
        self.rested = Instant::now() + REST + REST_OF_EACH * self.api.streams.count();
        let Some(more) = self.events.ready() else { return Some(text) };
        let mut all = BytesMut::from(&text[..]);
        let mut next = Some(more);
        while let Some(said) = next {
            if let Some(more) = self.text(&said) {
                all.extend_from_slice(&more);
            }
            next = if all.len() < TOGETHER { self.events.ready() } else { None };
        }
        text = all.freeze();
        Some(text)
    }

    /// What this stream sends of an event: those of the caller's tenants, and those of nobody's, such as of workers, for who sees all.
    fn text(&self, said: &EncodedEvent) -> Option<Bytes> {
        let Some(text) = &said.text else {
            let from = said.id;
            return Some(format!("event: lagged\ndata: {{\"from\":\"{from}\"}}\n\n").into());
        };
        let sees = match (&self.caller.scope, &said.tenant) {
            (Scope::All, _) => true,
            (_, Some(tenant)) => self.caller.sees(tenant),
            (_, None) => false,
        };
        (sees && self.filter.passes(&said.subject)).then(|| text.clone())
    }
}
