//! What a page sees as it happens: one stream of events, whose topics can be changed while it is open.

mod overview;
mod source;
mod stream;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use orlop_core::error::{Code, Problem};
use orlop_dag::layout::{Fold, of_plan};
use tokio::sync::{Semaphore, watch};

use self::source::FleetViews;
use super::auth::Caller;
use super::call::{Call, internal, not_found};
use super::guard::{PATIENCE, silent};
use super::reply::{Answer, Reply};
use super::state::Api;
use super::view::flow_state::Shown;
use super::view::list::Listed;
use crate::host::scheduler::Listening;
use crate::web::{Hub, TOPICS, Topic};

/// What is watched is looked through as often while nothing changes.
const LOOK: Duration = Duration::from_secs(1);
/// The longest time for which changes are gathered, and the share of a core that making them may take.
const LONGEST: Duration = Duration::from_millis(500);
const SHARE: u32 = 33;
/// Streams of one session.
const OF_SESSION: usize = 8;

/// The live views of a server.
#[derive(Debug)]
pub(super) struct Live {
    hub: Arc<Hub>,
    views: FleetViews,
    streams: Mutex<HashMap<String, OpenStream>>,
    /// Somebody makes deltas.
    running: AtomicBool,
    since: Instant,
    /// Graphs that are drawn at once.
    drawings: Semaphore,
}

/// Graphs that are drawn at once.
const DRAWINGS: usize = 2;

/// A stream whose topics can be changed.
#[derive(Debug)]
struct OpenStream {
    session: Option<String>,
    caller: String,
    wanted: watch::Sender<Vec<Topic>>,
}

impl Default for Live {
    fn default() -> Self {
        let epoch = uuid::Uuid::new_v4().simple().to_string();
        Self {
            hub: Arc::new(Hub::new(epoch.chars().take(12).collect())),
            views: FleetViews::default(),
            streams: Mutex::default(),
            running: AtomicBool::new(false),
            since: Instant::now(),
            drawings: Semaphore::new(DRAWINGS),
        }
    }
}

impl Live {
    fn streams(&self) -> MutexGuard<'_, HashMap<String, OpenStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the server began.
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Has deltas made, if nobody does. To be called once a view is watched and before it is read: what changes from now on is seen.
    fn start(&self, api: &Arc<Api>) {
        if !self.running.swap(true, Ordering::SeqCst) {
            tokio::spawn(make(Arc::downgrade(api), api.handle.changes().listen()));
        }
    }
}

/// Makes deltas as long as somebody watches.
async fn make(api: Weak<Api>, listening: Listening) {
    let Some(strong) = api.upgrade() else { return };
    let changes = Arc::clone(strong.handle.changes());
    let stop = strong.stop.clone();
    drop(strong);
    loop {
        tokio::select! {
            () = changes.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
            () = stop.stopped() => return,
        }
        let Some(api) = api.upgrade() else { return };
        let begun = Instant::now();
        let live = &api.live;
        let views = live.hub.watched(live.now());
        let gathered = changes.take();
        if views.is_empty() {
            live.running.store(false, Ordering::SeqCst);
            // Somebody may have come since.
            if live.hub.watched(live.now()).is_empty() || live.running.swap(true, Ordering::SeqCst) {
                drop(listening);
                return;
            }
            continue;
        }
        let publish = |view: &Arc<_>, data: &_| live.hub.publish(view, data);
        let deltas = live.views.deltas(&api, || live.hub.watched(live.now()), &gathered, publish);
        if let Err(problem) = tokio::time::timeout(PATIENCE, deltas).await.unwrap_or_else(|_| Err(silent())) {
            // The streams ask for the whole again, and end while that cannot be read.
            live.views.forget().await;
            tracing::warn!(target: "orlop::api", problem = problem.chain(), "live views could not be brought up to date");
            live.hub.restart();
        }
        let tick = api.options.console.as_ref().map_or(LOOK, |console| console.tick);
        let rest = tick.max((begun.elapsed() * SHARE).min(LONGEST));
        drop(api);
        tokio::time::sleep(rest).await;
    }
}

/// The topics of a text, separated by commas.
fn topics<'t>(texts: impl Iterator<Item = &'t str>) -> Result<Vec<Topic>, Problem> {
    let mut topics: Vec<Topic> = texts.filter(|text| !text.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    topics.sort();
    topics.dedup();
    if topics.len() > TOPICS {
        return Err(Problem::field("topics", format!("use at most {TOPICS} topics")));
    }
    Ok(topics)
}

/// GET /live
pub(super) async fn live(api: Arc<Api>, call: Call) -> Answer {
    call.concern.decide();
    let topics = topics(call.all("topics").flat_map(|text| text.split(',')).map(str::trim))?;
    let permit = api.streams.permit(&call.caller)?;
    let id = uuid::Uuid::new_v4().simple().to_string();
    let (wanted, changes) = watch::channel(topics);
    {
        let mut streams = api.live.streams();
        let session = call.caller.session.clone();
        let own = streams.values().filter(|stream| session.is_some() && stream.session == session).count();
        if own >= OF_SESSION {
            let text = format!("{OF_SESSION} streams of this session are open, the maximum");
            let problem = Problem::coded(Code::RateLimited, text);
            return Err(problem.retry_after(Duration::from_secs(5)));
        }
        let caller = call.caller.name().to_owned();
        streams.insert(id.clone(), OpenStream { session, caller, wanted });
    }
    let last = call.headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let stream = stream::LiveStream::new(Arc::clone(&api), call.caller, id, changes, permit);
    Ok(Reply::stream("text/event-stream", stream.body(last)).ends_with(stream::signed_out()))
}

/// POST /live/{stream}
pub(super) async fn change(api: Arc<Api>, call: Call) -> Answer {
    call.concern.decide();
    let wanted: super::view::live::Topics = call.json()?;
    let topics = topics(wanted.topics.iter().map(String::as_str))?;
    let streams = api.live.streams();
    let own = |stream: &&OpenStream| stream.session == call.caller.session && stream.caller == call.caller.name();
    let stream = streams.get(call.part("stream")).filter(own).ok_or_else(|| not_found("this stream"))?;
    stream.wanted.send_replace(topics);
    Ok(Reply::empty(204))
}

/// GET /approvals
pub(super) async fn approvals(api: Arc<Api>, call: Call) -> Answer {
    call.concern.decide();
    let view = source::view_of(Topic::Approvals, &call.caller);
    let rows = source::pending(&api, &view).await?;
    let items: Vec<serde_json::Value> = rows.into_values().collect();
    Reply::json(200, &Listed { items, next_cursor: None })
}

/// GET /flows/{id}/state
pub(super) async fn state(api: Arc<Api>, call: Call) -> Answer {
    let flow = api.flow(&call).await?;
    let (plan, current) = api.flows.planned(&flow.id).await?;
    Reply::json(200, &Shown::new(&source::names(&plan), &current.status, current.revision).state())
}

/// GET /flows/{id}/graph
pub(super) async fn graph(api: Arc<Api>, call: Call) -> Answer {
    let fold = match call.one("fold")?.map(str::to_ascii_lowercase).as_deref() {
        None | Some("auto") => Fold::Auto,
        Some("always") => Fold::Always,
        Some("never") => Fold::Never,
        Some(_) => return Err(Problem::field("fold", "use auto, always or never")),
    };
    let flow = api.flow(&call).await?;
    let plan = api.flows.plan(&flow.id).await?;
    // A large one takes a while: nobody waits for it, and only few are made at once.
    let _turn = api.live.drawings.acquire().await.map_err(internal)?;
    let drawn = tokio::task::spawn_blocking(move || of_plan(&plan, fold)).await.map_err(internal)?;
    Reply::json(200, &drawn.map_err(|error| Problem::coded(Code::Conflict, error.to_string()))?)
}

/// Whether a caller may watch a topic: it is about something that the caller sees.
async fn check(api: &Api, caller: &Caller, topic: &Topic) -> Result<(), Problem> {
    match topic {
        Topic::Flow(id) => {
            let flow = api.flows.find(id, caller.visible().as_deref()).await?;
            if flow.id == *id { Ok(()) } else { Err(not_found(format_args!("flow {id}"))) }
        }
        Topic::Job(id) => {
            let row = api.handle.store().job(*id).await.map_err(|error| super::state::store(&error))?;
            let seen = row.filter(|row| caller.sees(&row.job.tenant));
            seen.map(|_| ()).ok_or_else(|| not_found(format_args!("job {id}")))
        }
        _ => Ok(()),
    }
}
