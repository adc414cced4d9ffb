//! `orlop flow logs`: what attempts wrote. Owns which logs are meant and their order; the files are the runtime's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use orlop_cloud::runtime::logs::Stream;
use orlop_cloud::runtime::logs::follow::Follower;
use orlop_cloud::runtime::logs::read::Entry;
use orlop_core::attempt::Address;
use orlop_core::machine::step::StepPhase;
use orlop_core::name::instance;
use orlop_core::spec::status::{FlowStatus, StepStatus};
use orlop_core::time::{HumanDuration, Time};
use orlop_dag::engine::{Explanation, explain};
use tokio::task::JoinSet;

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::lines::{Joiner, Lines, Merged};
use super::output;
use super::signals::Signals;
use super::stored::{Stored, reach};
use crate::host::control::Answer;
use crate::host::flow::{Clock as _, SystemClock};
use crate::host::home::RunDir;

/// Options of `orlop flow logs`.
#[derive(Args, Debug)]
pub(super) struct LogsArgs {
    /// Name of the run
    pub name: String,
    /// The step, or `<step>-i<k>` for one instance; all steps without it
    pub step: Option<String>,
    #[command(flatten)]
    pub globals: GlobalArgs,
    /// Go on as more is written, until the run has ended
    #[arg(short, long)]
    pub follow: bool,
    /// Only this attempt
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only this instance of a fan-out
    #[arg(long, value_name = "K")]
    pub item: Option<u32>,
    /// Only steps that failed
    #[arg(long)]
    pub failed: bool,
    /// Only what was written in the last while, such as `10m`
    #[arg(long, value_name = "DURATION")]
    pub since: Option<HumanDuration>,
    /// Begin every line with its time
    #[arg(long)]
    pub timestamps: bool,
}

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

/// Shows logs.
///
/// # Errors
/// When there is no such run or step.
pub(super) async fn logs(args: LogsArgs) -> Result<Exit, Failure> {
    let run = args.globals.existing(&args.name)?;
    let stored = Stored::read(&run).await?;
    if let Some(step) = &args.step
        && stored.plan.address_of(step).is_none()
    {
        let message = format!("flow `{}` has no step `{step}`", args.name);
        return Err(Failure::new(Exit::NotFound, message));
    }
    let after =
        args.since.map(|since| SystemClock.now().millis() - i64::try_from(since.get().as_millis()).unwrap_or(i64::MAX));
    let writer = Writer { timestamps: args.timestamps, after: after.map(Time::from_millis) };
    if args.follow {
        return follow(&run, &args, &stored, &writer).await;
    }
    let status = stored.status();
    selects(&args, &status)?;
    let mut wrote = false;
    for pair in
        select(&run, &stored, &status, &args).chunk_by(|a, b| (&a.instance, a.attempt) == (&b.instance, b.attempt))
    {
        let failed = |error| Failure::io("reading the logs failed", &error);
        let lines = pair.iter().map(|log| Lines::new(&log.path, log.stream, 0, Joiner::default()));
        let mut merged = Merged::new(lines).map_err(failed)?;
        while let Some((file, line)) = merged.next().map_err(failed)? {
            wrote = true;
            if let Some(log) = pair.get(file)
                && !writer.write(log, &line)?
            {
                return Ok(Exit::Done);
            }
        }
    }
    if let Some(name) = args.step.as_ref().filter(|_| !wrote)
        && let Some(why) = stored.plan.address_of(name).and_then(|at| explain(&stored.plan, &stored.state, at))
        && let Some(told) = without_log(&args, &status, &why)
    {
        output::tell(&told);
    }
    Ok(Exit::Done)
}

/// Checks that there is the instance and the attempt that options name.
///
/// # Errors
/// When the step has no such instance, or that attempt has not begun.
pub(super) fn selects(args: &LogsArgs, status: &FlowStatus) -> Result<(), Failure> {
    let (Some(step), false) = (&args.step, args.follow) else { return Ok(()) };
    let name = args.item.map_or_else(|| step.clone(), |item| instance(step, item));
    let missing = |message: String| Err(Failure::new(Exit::NotFound, message));
    let Some(record) = status.steps.iter().find(|record| record.name == name) else {
        let Some(item) = args.item else { return Ok(()) };
        let of_step = |record: &&StepStatus| {
            let number = record.name.strip_prefix(step.as_str()).and_then(|rest| rest.strip_prefix("-i"));
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        return match status.steps.iter().filter(of_step).count() {
            0 => missing(format!("step `{step}` has no instances; leave --item out")),
            count => missing(format!("step `{step}` has no instance {item}; its {count} are numbered from 0")),
        };
    };
    match args.attempt.filter(|wanted| record.instances.is_none() && *wanted > record.attempt.max(1)) {
        Some(wanted) => missing(format!("`{name}` has no attempt {wanted}; it has begun {} so far", record.attempt)),
        None => Ok(()),
    }
}

/// What is said of a step that was asked for by its name and has no log; nothing where that goes without saying.
pub(super) fn without_log(args: &LogsArgs, status: &FlowStatus, why: &Explanation) -> Option<String> {
    let step = args.step.as_ref()?;
    if args.failed || args.since.is_some() || matches!(why.phase, StepPhase::Running | StepPhase::Succeeded) {
        return None;
    }
    let began =
        status.steps.iter().any(|record| record.name == *step && (record.attempt > 0 || record.instances.is_some()));
    Some(if began {
        format!("`{step}` wrote nothing; {why}")
    } else {
        format!("no attempt of `{step}` has started, so it has no log; {why}")
    })
}

/// The logs that are meant, by step in spec order, instance, attempt and stream.
fn select(run: &RunDir, stored: &Stored, status: &FlowStatus, args: &LogsArgs) -> Vec<Log> {
    let mut logs = Vec::new();
    for step in &status.steps {
        let Some(at) = stored.plan.address_of(&step.name) else { continue };
        if !meant(stored, step, at, args) {
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

fn meant(stored: &Stored, step: &StepStatus, at: Address, args: &LogsArgs) -> bool {
    let named = args.step.as_ref().is_none_or(|name| *name == step.name || name == stored.plan.name(at.step));
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
async fn follow(run: &RunDir, args: &LogsArgs, stored: &Stored, writer: &Writer) -> Result<Exit, Failure> {
    let mut signals = Signals::take()?;
    let mut watch = match reach(run).await? {
        Some(client) => client.watch().await.ok(),
        None => None,
    };
    let (lines, mut written) = tokio::sync::mpsc::channel::<(Log, Entry)>(256);
    // Logs that were begun; those that are still written with what ends their following.
    let mut known: BTreeMap<PathBuf, Option<Following>> = BTreeMap::new();
    let mut tasks = JoinSet::new();
    let mut status = stored.status();
    let mut is_news = true;
    loop {
        let logs = if std::mem::take(&mut is_news) { select(run, stored, &status, args) } else { Vec::new() };
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
            exit = signals.next() => return Ok(exit),
            Some((log, entry)) = written.recv() => {
                if !writer.write(&log, &entry)? {
                    return Ok(Exit::Done);
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
    Ok(Exit::Done)
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
pub(super) fn tail_of_failure(run: &RunDir, status: &FlowStatus) -> String {
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
