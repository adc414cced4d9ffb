//! `orlop flow logs --target kube`: what containers of a flow's attempts wrote. Owns which of them are meant, their order, and
//! lines.

use std::collections::HashSet;
use std::pin::pin;

use futures::{AsyncBufReadExt as _, StreamExt as _};
use orlop_core::error::Problem;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::flow::JobFlow;
use orlop_core::time::HumanDuration;
use orlop_k8s::api::ApiError;
use orlop_k8s::client::logs::{ContainerLog, LogOptions, PodLogEvent, read, watched, written};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::failure::Failure;
use super::super::logs::LogsArgs;
use super::super::output;
use super::super::target::{Reports, Wait};
use super::Cluster;
use super::watch::ended;

/// Lines that wait for standard output.
const WAITING: usize = 256;

/// What of a flow is meant.
#[derive(Default)]
struct Wanted {
    step: Option<String>,
    item: Option<u32>,
    attempt: Option<u32>,
    failed: bool,
    options: LogOptions,
}

impl Wanted {
    fn of(args: &LogsArgs) -> Self {
        let seconds = |since: HumanDuration| i64::try_from(since.get().as_secs().max(1)).unwrap_or(i64::MAX);
        Self {
            step: args.step.clone(),
            item: args.item,
            attempt: args.attempt,
            failed: args.failed,
            options: LogOptions {
                follow: args.follow,
                since_seconds: args.since.map(seconds),
                timestamps: args.timestamps,
            },
        }
    }

    /// Whether a container is meant: of the step or instance, or of any instance of the step.
    fn takes(&self, flow: &JobFlow, log: &ContainerLog) -> bool {
        let instance = |step: &str| {
            let number = log.step.strip_prefix(step).and_then(|rest| rest.strip_prefix("-i"));
            number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let failed = || {
            let found = flow.status.iter().flat_map(|status| &status.steps).find(|step| step.name == log.step);
            found.is_some_and(|step| step.phase == StepPhase::Failed)
        };
        self.step.as_ref().is_none_or(|step| *step == log.step || instance(step))
            && self.item.is_none_or(|item| log.step.ends_with(&format!("-i{item}")))
            && self.attempt.is_none_or(|attempt| attempt == log.attempt)
            && (!self.failed || failed())
    }
}

/// Shows what attempts of a flow wrote. False where nothing of what is meant has a log.
///
/// # Errors
/// When the server refuses, or a log breaks off.
pub(super) async fn show(cluster: &Cluster, flow: &JobFlow, args: &LogsArgs) -> Result<bool, Failure> {
    let wanted = Wanted::of(args);
    let ended = flow.status.as_ref().is_some_and(|status| status.phase.is_terminal());
    if args.follow && !ended {
        return follow(cluster, flow, &wanted).await.map(|()| true);
    }
    copy(cluster, flow, &wanted).await
}

/// By step in the order of the spec, instance, attempt and pod. False where nothing of what is meant has a log.
async fn copy(cluster: &Cluster, flow: &JobFlow, wanted: &Wanted) -> Result<bool, Failure> {
    let mut found = written(cluster.client.clone(), flow).await?;
    let steps: Vec<&str> = flow.spec.steps.iter().chain(&flow.spec.finally).map(|step| step.name.as_str()).collect();
    let position = |log: &ContainerLog| {
        steps.iter().position(|step| log.step == *step || log.step.starts_with(&format!("{step}-i")))
    };
    // Those of one step stand in order already.
    found.sort_by_key(position);
    found.retain(|log| wanted.takes(flow, log));
    let options = LogOptions { follow: false, ..wanted.options };
    for log in &found {
        let mut stream = match read(cluster.client.clone(), flow, log, options).await {
            Ok(stream) => stream,
            Err(error) => {
                gone(&error)?;
                continue;
            }
        };
        let mut line = Vec::new();
        while next_line(&mut stream, log, &mut line).await? {
            if !output::log(&line)? {
                return Ok(true);
            }
        }
    }
    Ok(!found.is_empty())
}

/// A pod that has gone took its log along: that is reported, and the others are shown.
fn gone(error: &Problem) -> Result<(), Failure> {
    match ApiError::of(error).and_then(|error| error.code) {
        Some(400 | 404 | 500) => {
            output::tell(&format!("warning: {error}"));
            Ok(())
        }
        _ => Err(error.clone().into()),
    }
}

/// The next line of a log with step and attempt before it; false at its end.
async fn next_line(
    stream: &mut (impl futures::io::AsyncBufRead + Unpin),
    log: &ContainerLog,
    line: &mut Vec<u8>,
) -> Result<bool, Failure> {
    line.clear();
    line.extend_from_slice(format!("{}/{} ", log.step, log.attempt).as_bytes());
    let before = line.len();
    let read = stream.read_until(b'\n', line).await;
    read.map_err(|error| Failure::io(&format!("the log of pod `{}` was interrupted", log.pod), &error))?;
    if line.len() == before {
        return Ok(false);
    }
    if line.last() != Some(&b'\n') {
        line.push(b'\n');
    }
    Ok(true)
}

/// Logs that are followed.
struct Followed<'a> {
    cluster: &'a Cluster,
    flow: &'a JobFlow,
    wanted: &'a Wanted,
    /// Pods and containers whose logs were begun.
    known: HashSet<(String, String)>,
    readers: JoinSet<Result<(), Failure>>,
    lines: mpsc::Sender<Vec<u8>>,
}

impl Followed<'_> {
    /// Begins with those that are meant and were not begun.
    fn begin(&mut self, found: Vec<ContainerLog>) {
        for log in found.into_iter().filter(|log| self.wanted.takes(self.flow, log)) {
            if self.known.insert((log.pod.clone(), log.container.clone())) {
                let (client, flow, lines) = (self.cluster.client.clone(), self.flow.clone(), self.lines.clone());
                let options = self.wanted.options;
                self.readers.spawn(async move { tail(client, &flow, &log, options, lines).await });
            }
        }
    }
}

/// Follows all logs that are meant, those that begin later included, until the flow has ended and all is read.
async fn follow(cluster: &Cluster, flow: &JobFlow, wanted: &Wanted) -> Result<(), Failure> {
    let mut pods = pin!(watched(cluster.client.clone(), flow));
    let mut ended = pin!(ended(cluster, &flow.metadata.name, Wait::for_end(Reports::Reasons)));
    let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING);
    let (known, readers) = (HashSet::new(), JoinSet::new());
    let mut followed = Followed { cluster, flow, wanted, known, readers, lines };
    let mut over = false;
    while !over || !followed.readers.is_empty() {
        tokio::select! {
            Some(line) = waiting.recv() => {
                if !output::log(&line)? {
                    return Ok(());
                }
            }
            Some(news) = pods.next(), if !over => match news {
                PodLogEvent::Started(found) => followed.begin(found),
                PodLogEvent::InitDone => {}
                PodLogEvent::Failed(why) => output::tell(&format!("warning: {why}")),
            },
            flow = &mut ended, if !over => {
                over = true;
                // Pods that began and ended between two looks are read as they are.
                followed.begin(written(cluster.client.clone(), &flow?).await?);
            }
            Some(read) = followed.readers.join_next() => match read {
                Ok(Err(failure)) => output::tell(&format!("warning: {failure}")),
                Ok(Ok(())) => {}
                Err(error) => output::tell(&format!("warning: a log is not followed any more: {error}")),
            },
        }
    }
    drop(followed);
    while let Some(line) = waiting.recv().await {
        if !output::log(&line)? {
            break;
        }
    }
    Ok(())
}

/// Sends the lines of one log until it ends. A reader that has gone is no error.
async fn tail(
    client: kube::Client,
    flow: &JobFlow,
    log: &ContainerLog,
    options: LogOptions,
    lines: mpsc::Sender<Vec<u8>>,
) -> Result<(), Failure> {
    let mut stream = read(client, flow, log, options).await?;
    let mut line = Vec::new();
    while next_line(&mut stream, log, &mut line).await? {
        if lines.send(std::mem::take(&mut line)).await.is_err() {
            break;
        }
    }
    Ok(())
}
