//! Logs of the containers of a flow's attempts. Owns which containers these are and in what order; the kubelet has the bytes.

use futures::io::AsyncBufRead;
use futures::stream::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, LogParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use orlop_core::error::{Problem, chain};
use orlop_core::spec::flow::{GROUP, JobFlow};

use crate::api::ApiError;

/// A started container of an attempt, whose log can be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerLog {
    /// The step, or the instance of a step that fans out.
    pub step: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// When its pod was made, as the server writes times.
    pub created: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
}

/// What of a log is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether to wait for more until the container has ended.
    pub follow: bool,
    /// Only what was written in the last seconds, this many.
    pub since_seconds: Option<i64>,
    /// Whether every line begins with its time.
    pub timestamps: bool,
}

/// An event of the watch on the pods of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum PodLogEvent {
    /// Containers of a pod that have started by now.
    Started(Vec<ContainerLog>),
    /// All pods that existed at the beginning were reported.
    InitDone,
    /// The server refused or did not answer; the watch tries again.
    Failed(String),
}

/// The label selector of a flow's pods.
fn selector(flow: &JobFlow) -> String {
    let uid = flow.metadata.uid.as_deref().unwrap_or_default();
    format!("{GROUP}/flow-uid={uid}")
}

fn pods(client: kube::Client, flow: &JobFlow) -> Api<Pod> {
    Api::namespaced(client, flow.metadata.namespace.as_deref().unwrap_or("default"))
}

/// The containers of a flow's attempts that have begun, by step in the order of their names, attempt and pod.
///
/// # Errors
/// When the server refuses.
pub async fn written(client: kube::Client, flow: &JobFlow) -> Result<Vec<ContainerLog>, Problem> {
    let list = pods(client, flow).list(&kube::api::ListParams::default().labels(&selector(flow))).await;
    let list = list.map_err(|error| failed("listing the pods of the flow", &error))?;
    let mut found: Vec<ContainerLog> = list.items.iter().flat_map(begun).collect();
    found.sort();
    Ok(found)
}

/// The same as they begin, beginning with those there are.
pub fn watched(client: kube::Client, flow: &JobFlow) -> impl Stream<Item = PodLogEvent> + Send + use<> {
    let events = watcher(pods(client, flow), watcher::Config::default().labels(&selector(flow))).default_backoff();
    events.filter_map(|event| {
        let news = match event {
            Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => Some(PodLogEvent::Started(begun(&pod))),
            Ok(watcher::Event::InitDone) => Some(PodLogEvent::InitDone),
            Ok(watcher::Event::Init | watcher::Event::Delete(_)) => None,
            Err(error) => Some(PodLogEvent::Failed(chain(&error))),
        };
        std::future::ready(news)
    })
}

/// What a container wrote.
///
/// # Errors
/// When the server refuses: the pod has gone, or its node does not answer.
pub async fn read(
    client: kube::Client,
    flow: &JobFlow,
    written: &ContainerLog,
    options: LogOptions,
) -> Result<impl AsyncBufRead + Send + Unpin + use<>, Problem> {
    let params = LogParams {
        container: Some(written.container.clone()),
        follow: options.follow,
        since_seconds: options.since_seconds,
        timestamps: options.timestamps,
        ..LogParams::default()
    };
    let stream = pods(client, flow).log_stream(&written.pod, &params).await;
    stream.map(Box::pin).map_err(|error| failed(&format!("reading the log of pod `{}`", written.pod), &error))
}

fn failed(doing: &str, error: &kube::Error) -> Problem {
    ApiError::from_client(error).problem(doing)
}

/// Containers of a pod that have begun: the others have no log yet, and asking for it is an error.
fn begun(pod: &Pod) -> Vec<ContainerLog> {
    let metadata = &pod.metadata;
    let annotation = |name: &str| metadata.annotations.as_ref()?.get(&format!("{GROUP}/{name}")).cloned();
    let label = |name: &str| metadata.labels.as_ref()?.get(&format!("{GROUP}/{name}")).cloned();
    let Some(step) = annotation("instance").or_else(|| annotation("step-name")).or_else(|| label("step")) else {
        return Vec::new();
    };
    let attempt = label("attempt").and_then(|text| text.parse().ok()).unwrap_or(1);
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()).unwrap_or_default();
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let begun = statuses.into_iter().flatten().filter(|status| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    let written = |container: String| ContainerLog {
        step: step.clone(),
        attempt,
        created: created.clone(),
        pod: metadata.name.clone().unwrap_or_default(),
        container,
    };
    begun.map(|status| written(status.name.clone())).collect()
}
