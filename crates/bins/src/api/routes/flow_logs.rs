//! What the steps of a flow wrote, each line behind the step and the attempt that wrote it: of what there is one after the
//! other, and where a flow is followed as it comes, of steps that begin later too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use orlop_core::attempt::AttemptKey;
use orlop_core::error::{Code, Problem};
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
use crate::host::scheduler::{LogNews, LogOrder, LogReader};

/// Pieces that wait for a reader.
const WAITING: usize = 16;
/// Bytes after which a line is broken: a program may write without end and never end a line.
const LINE_MAX: usize = 1 << 20;
/// Logs of one flow that are followed at once.
const AT_ONCE: usize = 256;

/// Whose logs are wanted.
#[derive(Clone, Debug)]
struct Wanted {
    step: Option<String>,
    item: Option<u32>,
    attempt: Option<u32>,
    failed: bool,
    since: Option<Time>,
    follow: bool,
    timestamps: bool,
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
        item: call.read("item")?,
        attempt: call.read("attempt")?,
        failed: call.switch("failed")?,
        since: call.read("since")?,
        follow: call.switch("follow")?,
        timestamps: call.switch("timestamps")?,
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
            drop(sender.send(Err(std::io::Error::other(problem.message))).await);
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    Ok(Reply::stream("text/plain; charset=utf-8", Body::from_stream(pieces)))
}

impl Tail {
    /// Wanted logs that were not there before, in the order of the flow's steps.
    async fn more(&mut self) -> Result<Vec<Log>, Problem> {
        let read = self.api.flows().read(self.flow.clone()).await?;
        let steps = read.status().steps;
        let numbered = steps.iter().enumerate().map(|(number, step)| (step.name.as_str(), (number, step.phase)));
        let known: BTreeMap<&str, (usize, StepPhase)> = numbered.collect();
        let of = |instance: &str| known.get(instance).copied();
        let fleet = ServerFleet::new(self.api.handle().clone(), self.flow.tenant.clone());
        let mut jobs = fleet.of_flow(&self.flow.id).await.map_err(|error| store(&error))?;
        let step = self.wanted.step.as_deref().map(|step| read.internal(step).to_owned());
        jobs.retain(|FlowJob { key, job, .. }| {
            let instance = key.instance();
            !self.seen.contains(job)
                && step.as_deref().is_none_or(|step| *key.step == *step || instance == step)
                && self.wanted.item.is_none_or(|item| key.item == Some(item))
                && self.wanted.attempt.is_none_or(|attempt| key.attempt == attempt)
                && (!self.wanted.failed || of(&instance).is_some_and(|(_, phase)| phase == StepPhase::Failed))
        });
        // As the flow has its steps.
        jobs.sort_by_key(|FlowJob { key, job, .. }| (of(&key.instance()).map(|(number, _)| number), key.attempt, *job));
        self.seen.extend(jobs.iter().map(|known| known.job));
        let prefix = |key: &AttemptKey| {
            let item = key.item.map(|item| format!("-i{item}")).unwrap_or_default();
            format!("{}{item}/{} ", read.shown(&key.step), key.attempt)
        };
        Ok(jobs.iter().map(|known| Log { prefix: prefix(&known.key), job: known.job }).collect())
    }

    /// Sends what there is, one log after the other.
    async fn all(&self, logs: Vec<Log>, to: &Pieces) -> Result<(), Problem> {
        for log in logs {
            if !copy(&self.api, &self.wanted, log, to).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends what comes, of all logs at once, until the flow has ended.
    async fn follow(&mut self, first: Vec<Log>, to: &Pieces) -> Result<(), Problem> {
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
async fn copy(api: &Api, wanted: &Wanted, log: Log, to: &Pieces) -> Result<bool, Problem> {
    let order = LogOrder { follow: wanted.follow, since: wanted.since, ..LogOrder::of(log.job) };
    let mut reader = match LogReader::open(api.handle().clone(), api.stop.clone(), order).await {
        Ok(reader) => reader,
        // It has not begun.
        Err(error) if error.code == Code::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let mut lines = Lines { prefix: log.prefix, timestamps: wanted.timestamps, begun: Vec::new(), time: None };
    loop {
        let mut text = Vec::new();
        let chunks = match reader.next().await? {
            Some(LogNews::Chunks(chunks)) => Some(chunks),
            Some(LogNews::End(_)) | None => None,
        };
        match &chunks {
            Some(chunks) => chunks.iter().for_each(|chunk| lines.add(&chunk.data, chunk.written(), &mut text)),
            None => lines.end(&mut text),
        }
        if !text.is_empty() && to.send(Ok(Bytes::from(text))).await.is_err() {
            return Ok(false);
        }
        if chunks.is_none() {
            return Ok(true);
        }
    }
}

/// Makes lines of pieces of a log, each with what stands before it.
struct Lines {
    prefix: String,
    timestamps: bool,
    /// The line that has not ended, and when it began.
    begun: Vec<u8>,
    time: Option<Time>,
}

impl Lines {
    /// Adds a piece, and writes the lines that have ended.
    fn add(&mut self, data: &[u8], time: Option<Time>, text: &mut Vec<u8>) {
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            if self.begun.is_empty() {
                self.time = time;
            }
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") || self.begun.len() >= LINE_MAX {
                self.end(text);
            }
        }
    }

    /// Writes what has begun as a line.
    fn end(&mut self, text: &mut Vec<u8>) {
        if self.begun.is_empty() {
            return;
        }
        text.extend_from_slice(self.prefix.as_bytes());
        if let Some(time) = self.time.filter(|_| self.timestamps) {
            text.extend_from_slice(format!("{time} ").as_bytes());
        }
        text.append(&mut self.begun);
        if !text.ends_with(b"\n") {
            text.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines { prefix: "a/1 ".to_owned(), timestamps: true, begun: Vec::new(), time: None };
        let mut text = Vec::new();
        for (second, piece) in (0..).zip(pieces) {
            lines.add(piece, Some(Time::from_millis(second * 1000)), &mut text);
        }
        lines.end(&mut text);
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_in_pieces_has_one_prefix_and_the_time_at_which_it_began() {
        let given = lines(&[b"one\ntw", b"o\n", b"", b"three"]);
        let wanted = ["00Z one", "00Z two", "03Z three"].map(|line| format!("a/1 1970-01-01T00:00:{line}"));
        assert_eq!(given, wanted);
        assert!(lines(&[b""]).is_empty());
    }

    #[test]
    fn a_line_without_an_end_is_broken_after_a_mebibyte() {
        let half = vec![b'x'; LINE_MAX / 2];
        let given = lines(&[&half, &half, &half, b"\nlast\n"]);
        let lengths: Vec<_> = given.iter().map(|line| line.bytes().filter(|byte| *byte == b'x').count()).collect();
        assert_eq!(lengths, [LINE_MAX, LINE_MAX / 2, 0]);
        assert!(given.iter().all(|line| line.starts_with("a/1 ")));
    }
}
