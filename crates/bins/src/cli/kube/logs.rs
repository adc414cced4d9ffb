//! `orlop flow logs --target kube`: what containers of a flow's attempts wrote. Owns which of them are meant, their order, and
//! lines.

use std::collections::HashSet;
use std::pin::pin;

use futures::{AsyncBufReadExt as _, StreamExt as _};
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::flow::JobFlow;
use orlop_core::time::HumanDuration;
use orlop_k8s::client::ClientError;
use orlop_k8s::client::logs::{ContainerLog, LogOptions, PodLogEvent, read, watched, written};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::super::failure::{Exit, Failure};
use super::super::logs::{LogsArgs, unstarted};
use super::super::output;
use super::super::signals::Signals;
use super::show::explanation;
use super::watch::{Tells, Watcher};
use super::{Cluster, status};

/// Lines that wait for standard output.
const WAITING: usize = 256;

/// What of a flow is meant.
#[derive(Default)]
struct Wanted {
    step: Option<String>,
    attempt: Option<u32>,
    failed: bool,
    options: LogOptions,
}

impl Wanted {
    fn of(args: &LogsArgs) -> Self {
        let item = args.item.map(|item| format!("-i{item}")).unwrap_or_default();
        let seconds = |since: HumanDuration| i64::try_from(since.get().as_secs().max(1)).unwrap_or(i64::MAX);
        Self {
            step: args.step.as_ref().map(|step| format!("{step}{item}")),
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
            && self.attempt.is_none_or(|attempt| attempt == log.attempt)
            && (!self.failed || failed())
    }
}

/// `orlop flow logs`
pub(super) async fn logs(args: LogsArgs) -> Result<Exit, Failure> {
    let cluster = Cluster::of(&args.globals).await?;
    let flow = cluster.flows.get(&args.name).await?;
    if let Some(step) = &args.step {
        let known = |name: &str| *step == name || step.strip_prefix(name).is_some_and(|rest| rest.starts_with("-i"));
        if !flow.spec.steps.iter().chain(&flow.spec.finally).any(|known_step| known(&known_step.name)) {
            return Err(Failure::new(Exit::NotFound, format!("flow `{}` has no step `{step}`", args.name)));
        }
    }
    let wanted = Wanted::of(&args);
    if args.follow && !status(&flow).phase.is_terminal() {
        return follow(&cluster, &flow, &wanted).await;
    }
    copy(&cluster, &flow, &wanted).await?;
    Ok(Exit::Done)
}

/// Copies all that a flow's attempts wrote to standard output.
pub(super) async fn all(cluster: &Cluster, flow: &JobFlow) -> Result<(), Failure> {
    copy(cluster, flow, &Wanted::default()).await
}

/// By step in the order of the spec, instance, attempt and pod.
async fn copy(cluster: &Cluster, flow: &JobFlow, wanted: &Wanted) -> Result<(), Failure> {
    let mut found = written(cluster.client.clone(), flow).await?;
    let steps: Vec<&str> = flow.spec.steps.iter().chain(&flow.spec.finally).map(|step| step.name.as_str()).collect();
    let position = |log: &ContainerLog| {
        steps.iter().position(|step| log.step == *step || log.step.starts_with(&format!("{step}-i")))
    };
    // Those of one step stand in order already.
    found.sort_by_key(position);
    if let Some(step) = &wanted.step
        && !found.iter().any(|log| wanted.takes(flow, log))
        && let Some(why) = explanation(flow, step)?
        && !matches!(why.phase, StepPhase::Running | StepPhase::Succeeded)
    {
        output::tell(&unstarted(step, &why));
    }
    let options = LogOptions { follow: false, ..wanted.options };
    for log in found.iter().filter(|log| wanted.takes(flow, log)) {
        let mut stream = match read(cluster.client.clone(), flow, log, options).await {
            Ok(stream) => stream,
            Err(error) => {
                gone(&error)?;
                continue;
            }
        };
        let mut line = Vec::new();
        while next_line(&mut stream, log, &mut line).await? {
            if !output::raw(&line)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A pod that has gone took its log along: that is reported, and the others are shown.
fn gone(error: &ClientError) -> Result<(), Failure> {
    match error {
        ClientError::Api { source, .. } if matches!(source.code, Some(400 | 404 | 500)) => {
            output::tell(&format!("warning: {error}"));
            Ok(())
        }
        error => Err(error.clone().into()),
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
    read.map_err(|error| Failure::io(&format!("the log of pod `{}` broke off", log.pod), &error))?;
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
async fn follow(cluster: &Cluster, flow: &JobFlow, wanted: &Wanted) -> Result<Exit, Failure> {
    let mut signals = Signals::take()?;
    let mut pods = pin!(watched(cluster.client.clone(), flow));
    let watcher = Watcher::new(cluster, &flow.metadata.name, Tells::Reasons);
    let mut ended = pin!(watcher.ended());
    let (lines, mut waiting) = mpsc::channel::<Vec<u8>>(WAITING);
    let (known, readers) = (HashSet::new(), JoinSet::new());
    let mut followed = Followed { cluster, flow, wanted, known, readers, lines };
    let mut over = false;
    while !over || !followed.readers.is_empty() {
        tokio::select! {
            exit = signals.next() => return Ok(exit),
            Some(line) = waiting.recv() => {
                if !output::raw(&line)? {
                    return Ok(Exit::Done);
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
        if !output::raw(&line)? {
            break;
        }
    }
    Ok(Exit::Done)
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
