//! Events as a stream (SSE): what happens to jobs and workers from now on. Owns whose events a caller sees, and that streams
//! are few and end with the server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use orlop_cloud::bus::local::LocalSubscription;
use orlop_core::ports::bus::{BusEvent, Delivery, EventBody, SUBJECT_ROOT, SubjectFilter, Subscription as _};
use tokio::sync::OwnedSemaphorePermit;

use super::super::auth::{Caller, Scope};
use super::super::call::{Call, wrong};
use super::super::reply::{Answer, Reply};
use super::super::state::Api;
use crate::wire::problem::{Code, Problem};

/// A stream with nothing to say says so after this time, so that nobody in between closes it.
const QUIET: Duration = Duration::from_secs(15);

/// A stream under way.
struct Streaming {
    api: Arc<Api>,
    events: LocalSubscription,
    caller: Caller,
    _room: OwnedSemaphorePermit,
}

/// GET /events
pub(in super::super) async fn events(api: Arc<Api>, call: Call) -> Answer {
    let kind = call.one("type")?.unwrap_or(">").to_ascii_lowercase();
    let filter = SubjectFilter::new(&format!("{SUBJECT_ROOT}{kind}"));
    let filter = filter.map_err(|error| wrong("type", format!("{error}; such as `job.*` or `job.completed`")))?;
    let room = Arc::clone(&api.streams).try_acquire_owned();
    let room = room.map_err(|_| Box::new(Problem::new(Code::RateLimited, "too many streams are open").after(5000)))?;
    let events = api.handle.subscribe(filter)?;
    let first = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b": events from now on\n\n")) });
    call.concern.decide();
    let streaming = Streaming { caller: call.caller, api, events, _room: room };
    let rest = stream::unfold(streaming, |mut streaming| async move {
        let text = streaming.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), streaming))
    });
    Ok(Reply::stream("text/event-stream", Body::from_stream(futures::StreamExt::chain(first, rest))))
}

impl Streaming {
    /// What goes out next; none when the server ends.
    async fn next(&mut self) -> Option<String> {
        loop {
            let delivered = tokio::select! {
                delivered = self.events.next() => delivered?,
                () = self.api.stop.stopped() => return None,
                () = tokio::time::sleep(QUIET) => return Some(": still here\n\n".to_owned()),
            };
            match delivered {
                Delivery::Event(event) if sees(&self.caller, &event) => return Some(said(&event)),
                Delivery::Event(_) => {}
                Delivery::Lagged { from } => {
                    return Some(format!("event: lagged\ndata: {{\"from\":\"{from}\"}}\n\n"));
                }
            }
        }
    }
}

/// Whether an event is a caller's business: those of its tenants, and those of nobody's, such as of workers, for who sees all.
fn sees(caller: &Caller, event: &BusEvent) -> bool {
    if caller.scope == Scope::All {
        return true;
    }
    let body: Option<EventBody> = serde_json::from_str(&event.body).ok();
    let tenant = body.and_then(|body| body.tenant).and_then(|tenant| tenant.parse().ok());
    tenant.is_some_and(|tenant| caller.sees(&tenant))
}

fn said(event: &BusEvent) -> String {
    let kind = event.subject.strip_prefix(SUBJECT_ROOT).unwrap_or(&event.subject);
    // Bodies are JSON without line feeds.
    format!("id: {}\nevent: {kind}\ndata: {}\n\n", event.id, event.body)
}
