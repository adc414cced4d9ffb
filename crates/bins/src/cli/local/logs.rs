//! Logs of runs on this machine. Owns which files are meant and their order; the files are the runtime's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orlop_cloud::runtime::logs::Stream;
use orlop_cloud::runtime::logs::follow::Follower;
use orlop_cloud::runtime::logs::read::Entry;
use orlop_core::attempt::Address;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_core::time::Time;
use orlop_dag::plan::Plan;
use tokio::task::JoinSet;

use super::super::failure::Failure;
use super::super::lines::{Joiner, Lines, Merged};
use super::super::logs::LogsArgs;
use super::super::output;
use super::super::stored::{Stored, reach};
use crate::host::control::Answer;
use crate::host::flow::{Clock as _, SystemClock};
use crate::host::home::RunDir;

/// One log file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Log {
    instance: String,
    attempt: u32,
    stream: Stream,
    path: PathBuf,
    state: LogState,
}

/// What is to be expected of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogState {
    /// Its attempt is not known to have begun.
    Ahead,
    /// More may be written.
    Live,
    /// It is complete.
    Ended,
}

impl LogState {
    fn of(step: &StepStatus, is_current: bool) -> Self {
        match step.phase {
            _ if !is_current => Self::Ended,
            StepPhase::Running => Self::Live,
            StepPhase::Pending | StepPhase::PendingApproval => Self::Ahead,
            StepPhase::Succeeded | StepPhase::Failed | StepPhase::Skipped => Self::Ended,
        }
    }
}

/// Shows logs of a run. False where nothing of what is meant was written.
///
/// # Errors
/// When one cannot be read.
pub(super) async fn show(run: &RunDir, plan: &Plan, status: &FlowStatus, args: &LogsArgs) -> Result<bool, Failure> {
    let after =
        args.since.map(|since| SystemClock.now().millis() - i64::try_from(since.get().as_millis()).unwrap_or(i64::MAX));
    let writer = Writer { timestamps: args.timestamps, after: after.map(Time::from_millis) };
    if args.follow {
        return follow(run, args, plan, status.clone(), &writer).await.map(|()| true);
    }
    let mut wrote = false;
    for pair in select(run, plan, status, args).chunk_by(|a, b| (&a.instance, a.attempt) == (&b.instance, b.attempt)) {
        let failed = |error| Failure::io("reading the logs failed", &error);
        let lines = pair.iter().map(|log| Lines::new(&log.path, log.stream, 0, Joiner::default()));
        let mut merged = Merged::new(lines).map_err(failed)?;
        while let Some((file, line)) = merged.next().map_err(failed)? {
            wrote = true;
            if let Some(log) = pair.get(file)
                && !writer.write(log, &line)?
            {
                return Ok(true);
            }
        }
    }
    Ok(wrote)
}

/// The logs that are meant, by step in spec order, instance, attempt and stream.
fn select(run: &RunDir, plan: &Plan, status: &FlowStatus, args: &LogsArgs) -> Vec<Log> {
    let mut logs = Vec::new();
    for step in &status.steps {
        let Some(at) = plan.address_of(&step.name) else { continue };
        if !meant(plan, step, at, args) {
            continue;
        }
        let current = step.attempt.max(step.retry_count + 1);
        for attempt in 1..=current {
            if args.attempt.is_some_and(|wanted| wanted != attempt) {
                continue;
            }
            let state = LogState::of(step, attempt == current);
            for (stream, suffix) in [(Stream::Stdout, "out"), (Stream::Stderr, "err")] {
                let path = run.logs().join(&step.name).join(format!("{attempt}.{suffix}"));
                logs.push(Log { instance: step.name.clone(), attempt, stream, path, state });
            }
        }
    }
    logs
}

fn meant(plan: &Plan, step: &StepStatus, at: Address, args: &LogsArgs) -> bool {
    let named = args.step.as_ref().is_none_or(|name| *name == step.name || name == plan.name(at.step));
    let item = args.item.is_none_or(|item| at.item == Some(item));
    let failed = !args.failed || step.phase == StepPhase::Failed;
    named && item && failed && step.instances.is_none()
}

/// How entries become lines.
struct Writer {
    timestamps: bool,
    after: Option<Time>,
}

impl Writer {
    /// Writes an entry. False when the reader has gone.
    fn write(&self, log: &Log, entry: &Entry) -> Result<bool, Failure> {
        if self.after.is_some_and(|after| entry.time < after) {
            return Ok(true);
        }
        let mut line = format!("{}/{} ", log.instance, log.attempt).into_bytes();
        if self.timestamps {
            line.extend_from_slice(format!("{} ", entry.time).as_bytes());
        }
        line.extend_from_slice(entry.text.as_bytes());
        line.push(b'\n');
        output::log(&line)
    }
}

/// Follows all logs that are meant, those that begin later included, until the run has ended.
async fn follow(
    run: &RunDir,
    args: &LogsArgs,
    plan: &Plan,
    mut status: FlowStatus,
    writer: &Writer,
) -> Result<(), Failure> {
    let mut watch = match reach(run).await? {
        Some(client) => client.watch().await.ok(),
        None => None,
    };
    let (lines, mut written) = tokio::sync::mpsc::channel::<(Log, Entry)>(256);
    // Logs that were begun; those that are still written with what ends their following.
    let mut known: BTreeMap<PathBuf, Option<Following>> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let mut is_news = true;
    loop {
        let logs = if std::mem::take(&mut is_news) { select(run, plan, &status, args) } else { Vec::new() };
        for log in logs {
            match (known.get_mut(&log.path), log.state) {
                (_, LogState::Ahead) | (Some(_), LogState::Live) => {}
                (Some(following), LogState::Ended) => *following = None,
                (None, state) => {
                    let (following, end) = tokio::sync::watch::channel(());
                    known.insert(log.path.clone(), (state == LogState::Live).then_some(following));
                    tasks.spawn(tail(log, lines.clone(), end));
                }
            }
        }
        let Some(watching) = &mut watch else { break };
        tokio::select! {
            Some((log, entry)) = written.recv() => {
                if !writer.write(&log, &entry)? {
                    return Ok(());
                }
            }
            answer = watching.next() => match answer {
                Ok(Some(Answer::Status(next))) => (status, is_news) = (*next, true),
                Ok(Some(_)) => {}
                Ok(None) => {
                    watch = None;
                    // The journal has the last word.
                    (status, is_news) = (Stored::read(run).await?.status(), true);
                }
                Err(error) => return Err(Failure::io("the host of the flow cannot be watched", &error)),
            }
        }
    }
    // The host has gone: what is written by now is all there is to follow.
    drop((known, lines));
    while let Some((log, entry)) = written.recv().await {
        if !writer.write(&log, &entry)? {
            break;
        }
    }
    Ok(())
}

/// A log is followed as long as this is there.
type Following = tokio::sync::watch::Sender<()>;
/// Where lines of logs go.
type Teller = tokio::sync::mpsc::Sender<(Log, Entry)>;

/// Tells the lines of a log as they are written, and at the end those that are left.
async fn tail(log: Log, lines: Teller, end: tokio::sync::watch::Receiver<()>) {
    if let Err(error) = follow_one(&log, &lines, end).await {
        output::tell(&format!("warning: {} cannot be followed: {error}", log.path.display()));
    }
}

async fn follow_one(log: &Log, teller: &Teller, mut end: tokio::sync::watch::Receiver<()>) -> std::io::Result<()> {
    let mut follower = None;
    if log.state == LogState::Live {
        std::fs::create_dir_all(log.path.parent().unwrap_or(Path::new("/")))?;
        follower = Some(Follower::new(&log.path, log.stream, 0)?);
    }
    let (mut from, mut joiner) = (0, Joiner::default());
    loop {
        let live = async {
            match &mut follower {
                Some(follower) => follower.next().await,
                None => std::future::pending().await,
            }
        };
        let page = tokio::select! {
            page = live => page?,
            // Nothing is ever sent: this is the end of the sender.
            _ = end.changed() => break,
        };
        from = page.next;
        for entry in page.entries {
            // The reader may have gone.
            if let Some(line) = joiner.push(entry)
                && teller.send((log.clone(), line)).await.is_err()
            {
                return Ok(());
            }
        }
    }
    let mut rest = Lines::new(&log.path, log.stream, from, joiner);
    while let Some(line) = rest.next()? {
        if teller.send((log.clone(), line)).await.is_err() {
            break;
        }
    }
    Ok(())
}

/// The last lines of the first step that failed, for the summary of a run.
#[must_use]
pub(in crate::cli) fn tail_of_failure(run: &RunDir, status: &FlowStatus) -> String {
    const LINES: usize = 10;
    const BYTES: u64 = 64 * 1024;
    let failed = |step: &&StepStatus| step.phase == StepPhase::Failed && step.attempt > 0 && step.instances.is_none();
    let Some(step) = status.steps.iter().find(failed) else { return String::new() };
    let mut entries = Vec::new();
    for (stream, suffix) in [(Stream::Stdout, "out"), (Stream::Stderr, "err")] {
        let path = run.logs().join(&step.name).join(format!("{}.{suffix}", step.attempt));
        // Without them the summary is as true.
        entries.extend(Lines::last(&path, stream, BYTES).unwrap_or_default());
    }
    entries.sort_by_key(|entry| entry.time);
    let from = entries.len().saturating_sub(LINES);
    let lines = entries.iter().skip(from).map(|entry| {
        let text = entry.text.clone();
        format!("    {}\n", crate::view::text::one_line(&text, 200))
    });
    let text: String = lines.collect();
    if text.is_empty() { text } else { format!("  last lines of {}:\n{text}", step.name) }
}
