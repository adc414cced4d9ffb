//! What the steps of a flow wrote, each line behind the step and the attempt that wrote it: of what there is one after the
//! other, and where a flow is followed as it comes, of steps that begin later too.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use orlop_core::attempt::AttemptKey;
use orlop_core::id::JobId;
use orlop_core::machine::step::StepPhase;
use orlop_core::ports::fleet_store::FleetFlow;
use orlop_core::time::Time;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::super::call::Call;
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use crate::host::flow::fleet::{FlowJob, StepFleet as _};
use crate::host::scheduler::flows::ServerFleet;
use crate::host::scheduler::{Error, LogNews, LogOrder, LogReader};
use crate::wire::problem::Code;

/// Pieces that wait for a reader.
const WAITING: usize = 16;
/// Logs of one flow that are followed at once.
const AT_ONCE: usize = 256;

/// Whose logs are wanted.
#[derive(Clone, Debug)]
struct Wanted {
    step: Option<String>,
    attempt: Option<u32>,
    failed: bool,
    since: Option<Time>,
    follow: bool,
}

/// An attempt whose log is shown.
struct Log {
    prefix: String,
    job: JobId,
}

/// The logs of a flow.
struct Tail {
    api: Arc<Api>,
    flow: FleetFlow,
    wanted: Wanted,
    seen: BTreeSet<JobId>,
}

type Pieces = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// GET /flows/{id}/logs
pub(in super::super) async fn logs(api: Arc<Api>, call: Call) -> Answer {
    let wanted = Wanted {
        step: call.one("step")?.map(str::to_owned),
        attempt: call.read("attempt")?,
        failed: call.switch("failed")?,
        since: call.read("since")?,
        follow: call.switch("follow")?,
    };
    let flow = api.flows().find(call.part("id"), call.visible().as_deref()).await?;
    let mut tail = Tail { api, flow, wanted, seen: BTreeSet::new() };
    // What is wrong with the request is said before anything is sent.
    let first = tail.more().await?;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let done = if tail.wanted.follow { tail.follow(first, &sender).await } else { tail.all(first, &sender).await };
        if let Err(problem) = done {
            // A reader that has gone needs no reason.
            drop(sender.send(Err(std::io::Error::other(problem.detail))).await);
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    Ok(Reply::stream("text/plain; charset=utf-8", Body::from_stream(pieces)))
}

impl Tail {
    /// Wanted logs that were not there before, in order of their jobs.
    async fn more(&mut self) -> Result<Vec<Log>, Error> {
        let read = self.api.flows().read(self.flow.clone()).await?;
        let failed: Option<Vec<String>> = self.wanted.failed.then(|| {
            let steps = read.status().steps;
            steps.iter().filter(|step| step.phase == StepPhase::Failed).map(|step| step.name.clone()).collect()
        });
        let fleet = ServerFleet::new(self.api.handle().clone(), self.flow.tenant.clone());
        let mut jobs = fleet.of_flow(&self.flow.id).await.map_err(|error| store(&error))?;
        let step = self.wanted.step.as_deref().map(|step| read.internal(step).to_owned());
        jobs.retain(|FlowJob { key, job, .. }| {
            let instance = key.instance();
            !self.seen.contains(job)
                && step.as_deref().is_none_or(|step| *key.step == *step || instance == step)
                && self.wanted.attempt.is_none_or(|attempt| key.attempt == attempt)
                && failed.as_ref().is_none_or(|failed| failed.contains(&instance))
        });
        jobs.sort_by_key(|known| known.job);
        self.seen.extend(jobs.iter().map(|known| known.job));
        let prefix = |key: &AttemptKey| {
            let item = key.item.map(|item| format!("-i{item}")).unwrap_or_default();
            format!("{}{item}/{} ", read.shown(&key.step), key.attempt)
        };
        Ok(jobs.iter().map(|known| Log { prefix: prefix(&known.key), job: known.job }).collect())
    }

    /// Sends what there is, one log after the other.
    async fn all(&self, logs: Vec<Log>, to: &Pieces) -> Result<(), Error> {
        for log in logs {
            if !copy(&self.api, &self.wanted, log, to).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends what comes, of all logs at once, until the flow has ended.
    async fn follow(&mut self, first: Vec<Log>, to: &Pieces) -> Result<(), Error> {
        let (mut new, mut readers, places) = (first, JoinSet::new(), Arc::new(Semaphore::new(AT_ONCE)));
        let mut changes = self.api.flows().changes(&self.flow.id);
        loop {
            for log in new {
                let (api, wanted, to, places) =
                    (Arc::clone(&self.api), self.wanted.clone(), to.clone(), Arc::clone(&places));
                readers.spawn(async move {
                    let _place = places.acquire_owned().await;
                    copy(&api, &wanted, log, &to).await
                });
            }
            // A flow that nobody drives has ended.
            let going = match &mut changes {
                Some(changes) => !changes.borrow_and_update().status.phase.is_terminal(),
                None => false,
            };
            new = self.more().await?;
            if !new.is_empty() {
                continue;
            }
            let Some(changes) = changes.as_mut().filter(|_| going) else { break };
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { break },
                () = self.api.stop.stopped() => break,
                () = to.closed() => return Ok(()),
            }
        }
        while let Some(done) = readers.join_next().await {
            if let Ok(Err(problem)) = done {
                return Err(problem);
            }
        }
        Ok(())
    }
}

/// Sends one log. Whether somebody reads on.
async fn copy(api: &Api, wanted: &Wanted, log: Log, to: &Pieces) -> Result<bool, Error> {
    let order = LogOrder { follow: wanted.follow, since: wanted.since, ..LogOrder::of(log.job) };
    let reader = match LogReader::open(api.handle().clone(), api.stop.clone(), order).await {
        Ok(reader) => reader,
        // It has not begun.
        Err(error) if error.code == Code::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let mut lines = Lines { reader, rest: Vec::new() };
    while let Some(text) = lines.next(&log.prefix).await? {
        if !text.is_empty() && to.send(Ok(Bytes::from(text))).await.is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A log line by line.
struct Lines {
    reader: LogReader,
    rest: Vec<u8>,
}

impl Lines {
    /// Lines with a prefix, as soon as there are any; none at the end.
    async fn next(&mut self, prefix: &str) -> Result<Option<Vec<u8>>, Error> {
        match self.reader.next().await? {
            Some(LogNews::Chunks(chunks)) => {
                chunks.iter().for_each(|chunk| self.rest.extend_from_slice(&chunk.data));
                let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                let whole: Vec<u8> = self.rest.drain(..end).collect();
                Ok(Some(prefixed(prefix, &whole)))
            }
            Some(LogNews::End(_)) | None if self.rest.is_empty() => Ok(None),
            Some(LogNews::End(_)) | None => {
                let last = std::mem::take(&mut self.rest);
                Ok(Some(prefixed(prefix, &last)))
            }
        }
    }
}

fn prefixed(prefix: &str, lines: &[u8]) -> Vec<u8> {
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    if lines.is_empty() {
        return Vec::new();
    }
    let each = lines.split(|byte| *byte == b'\n');
    each.flat_map(|line| [prefix.as_bytes(), line, b"\n"].concat()).collect()
}
