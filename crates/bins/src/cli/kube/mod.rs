//! Flows of a cluster: its operator drives them.

mod artifacts;
mod create;
mod logs;
mod watch;

use async_trait::async_trait;
use orlop_core::error::{FLOW, Problem};
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::{JobFlow, StopMode};
use orlop_core::time::Time;
use orlop_k8s::api::Client;
use orlop_k8s::client::{ApprovalDecision, FlowClient, RetryOptions};
use serde_json::json;
use tokio::sync::OnceCell;

use super::artifacts::{Artifact, ArtifactsArgs};
use super::delete::unended;
use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::logs::LogsArgs;
use super::retry::{RetryArgs, changed};
use super::target::{
    Created, FlowSnapshot, FlowTarget, ListFilter, ListedFlow, NewFlow, Reports, Retried, Taken, Wait,
};
use crate::host::cluster::{self, Way};
use crate::host::control::caller;
use crate::host::flow::{Clock as _, FlowCommand, SystemClock};
use crate::view::name::RunName;

/// What a list says of a flow without a status.
const NOT_OBSERVED: &str = "no operator has picked up this flow yet";

/// A cluster, connected to.
struct Cluster {
    client: kube::Client,
    namespace: String,
    flows: FlowClient<Client>,
}

/// An error of a verb, with where to look for flows that are there.
fn with_hint(problem: Problem) -> Failure {
    let is_no_flow = problem.fields.iter().any(|field| field.path == FLOW);
    let mut failure = Failure::from(problem);
    if is_no_flow {
        failure.message.push_str("; see `orlop flow list -A --target kube`");
    }
    failure
}

/// What is said of a flow that has no status: nobody works on it.
fn untaken(name: &str, namespace: &str) -> String {
    format!(
        "no operator has picked up flow `{name}` yet; check whether one runs (`kubectl get pods -A -l \
         app.kubernetes.io/name=orlop-operator`) and works in namespace `{namespace}` (its flag --namespaces), or start one: \
         `orlop operator --leader-elect=false`"
    )
}

/// A cluster.
pub(super) struct Kube {
    globals: GlobalArgs,
    connected: OnceCell<Cluster>,
}

impl Kube {
    /// The cluster of the options, which is connected to when it is asked.
    pub(super) fn of(globals: GlobalArgs) -> Self {
        Self { globals, connected: OnceCell::new() }
    }

    async fn cluster(&self) -> Result<&Cluster, Failure> {
        self.connected.get_or_try_init(|| self.connect()).await
    }

    /// Connects, with the namespace that the options name, else that of the context.
    async fn connect(&self) -> Result<Cluster, Failure> {
        let GlobalArgs { kubeconfig, context, namespace, .. } = self.globals.clone();
        let way = Way { kubeconfig, context, master: None };
        let client = cluster::client(&way).await.map_err(|error| Failure::usage(error.to_string()))?;
        let namespace = namespace.unwrap_or_else(|| client.default_namespace().to_owned());
        let flows = FlowClient::new(Client::new(client.clone()), &namespace);
        Ok(Cluster { client, namespace, flows })
    }
}

#[async_trait(?Send)]
impl FlowTarget for Kube {
    fn asked(&self) -> &'static str {
        "the API server"
    }

    fn named(&self, name: &str) -> RunName {
        let mut options = " --target kube".to_owned();
        if let Some(file) = &self.globals.kubeconfig {
            options.push_str(&format!(" --kubeconfig {}", file.display()));
        }
        for (flag, value) in [("--context", &self.globals.context), ("-n", &self.globals.namespace)] {
            if let Some(value) = value {
                options.push_str(&format!(" {flag} {value}"));
            }
        }
        RunName { name: name.to_owned(), options }
    }

    async fn list(&self, filter: &ListFilter) -> Result<Vec<ListedFlow>, Failure> {
        let cluster = self.cluster().await?;
        let all = FlowClient::new(Client::new(cluster.client.clone()), "");
        let found = if filter.all_namespaces { &all } else { &cluster.flows }.list(&filter.labels).await?;
        let now = SystemClock.now();
        Ok(found.into_iter().map(|flow| listed(flow, now)).filter(|flow| filter.takes(flow, now)).collect())
    }

    async fn get(&self, name: &str) -> Result<FlowSnapshot, Failure> {
        let cluster = self.cluster().await?;
        let flow = cluster.flows.get(name).await.map_err(with_hint)?;
        let notes = flow.status.is_none().then(|| untaken(name, &cluster.namespace));
        Ok(FlowSnapshot::of(flow, notes.into_iter().collect()))
    }

    async fn order(&self, name: &str, order: FlowCommand) -> Result<Taken, Failure> {
        let flows = &self.cluster().await?.flows;
        match order {
            FlowCommand::Decide { step, decision, by, reason, .. } => {
                let decided = ApprovalDecision { step: &step, decision, by: by.as_deref(), reason: reason.as_deref() };
                flows.decide(name, &decided).await.map_err(with_hint)?;
            }
            FlowCommand::ConfirmGone { step, by, reason } => {
                flows
                    .confirm_gone(name, &step, &by.unwrap_or_else(caller), reason.as_deref())
                    .await
                    .map_err(with_hint)?;
            }
            FlowCommand::Suspend { mode } => flows.suspend(name, mode).await.map_err(with_hint)?,
            FlowCommand::Resume => flows.resume(name).await.map_err(with_hint)?,
            FlowCommand::Stop { mode } => flows.stop(name, mode).await.map_err(with_hint)?,
            FlowCommand::Replace => {
                return Err(Failure::usage("only the operator replaces flows, by their concurrency key"));
            }
        }
        Ok(Taken::Now)
    }

    async fn ended(&self, name: &str, wait: Wait) -> Result<JobFlow, Failure> {
        watch::ended(self.cluster().await?, name, wait).await
    }

    async fn logs(&self, flow: &FlowSnapshot, args: &LogsArgs) -> Result<bool, Failure> {
        logs::show(self.cluster().await?, &flow.object, args).await
    }

    async fn export(&self, chosen: &mut [Artifact], _args: &ArtifactsArgs) -> Result<(), Failure> {
        artifacts::refuse(chosen, &self.cluster().await?.namespace)
    }

    async fn create(&self, new: &NewFlow<'_>) -> Result<Created, Failure> {
        create::create(&self.globals, new).await
    }

    async fn retry(&self, args: &RetryArgs) -> Result<Retried, Failure> {
        let spec = changed(self, args).await?.map(|(_, loaded)| loaded.manifest.flow.spec);
        let cluster = self.cluster().await?;
        let repeat = RetryOptions {
            steps: args.step.clone(),
            force: args.force,
            spec,
            parameters: args.param.iter().cloned().collect(),
            name: args.new_name.clone(),
            key: uuid::Uuid::new_v4().to_string(),
        };
        let made = cluster.flows.repeat(&args.name, repeat).await.map_err(with_hint)?;
        Ok(Retried::Created(created(made, &cluster.namespace)))
    }

    async fn id(&self, name: &str) -> Result<String, Failure> {
        let flow = self.cluster().await?.flows.find(name).await.map_err(with_hint)?;
        Ok(flow.metadata.uid.unwrap_or_default())
    }

    async fn delete(&self, name: &str, id: &str, force: bool) -> Result<(), Failure> {
        let cluster = self.cluster().await?;
        let flow = cluster.flows.find(name).await.map_err(with_hint)?;
        if flow.metadata.uid.as_deref() != Some(id) {
            return Err(Failure::new(
                Exit::NotFound,
                format!("another flow has the name `{name}` by now; nothing was deleted"),
            ));
        }
        if !phase_of(&flow).is_terminal() {
            if !force {
                return Err(unended(name));
            }
            match cluster.flows.stop(name, StopMode::Terminate).await.map_err(with_hint) {
                // It ended by itself.
                Err(failure) if failure.exit != Exit::Conflict => return Err(failure),
                _ => {}
            }
            watch::ended(cluster, name, Wait::for_end(Reports::Nothing)).await?;
        }
        Ok(cluster.flows.delete(&flow).await.map_err(with_hint)?)
    }
}

fn phase_of(flow: &JobFlow) -> FlowPhase {
    flow.status.as_ref().map(|status| status.phase).unwrap_or_default()
}

fn created(flow: JobFlow, namespace: &str) -> Created {
    let name = flow.metadata.name.clone();
    let (id, message) = (name.clone(), format!("created in namespace {namespace}"));
    Created { name, id, message, value: json!(flow), target: None }
}

fn listed(flow: JobFlow, now: Time) -> ListedFlow {
    let (metadata, untaken) = (flow.metadata, flow.status.is_none());
    let status = flow.status.unwrap_or_default();
    let uid = metadata.uid.unwrap_or_default();
    ListedFlow {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name,
        id: uid.clone(),
        uid,
        phase: status.phase,
        progress: status.progress.summary,
        created: metadata.creation_timestamp.unwrap_or(now),
        started: status.start_time,
        ended: status.completion_time,
        message: status.message,
        hint: untaken.then(|| NOT_OBSERVED.to_owned()),
        labels: metadata.labels,
        ..ListedFlow::default()
    }
}
