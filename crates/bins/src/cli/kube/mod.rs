//! `orlop flow … --target kube`: flows of a cluster that its operator drives. Owns what each verb asks;
//! pages are those of flows on this machine.

mod artifacts;
mod logs;
mod order;
mod show;
mod submit;
mod watch;

use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;
use orlop_k8s::api::Client;
use orlop_k8s::client::{ClientError, FlowClient};

use super::failure::{Exit, Failure};
use super::globals::GlobalArgs;
use super::{Command, Flow};
use crate::host::cluster::{self, Way};
use crate::view::name::RunName;

/// A cluster, as verbs of flows ask it.
struct Cluster {
    client: kube::Client,
    namespace: String,
    flows: FlowClient<Client>,
}

impl Cluster {
    /// The cluster of the options, and the namespace they name, else that of the context.
    async fn of(globals: &GlobalArgs) -> Result<Self, Failure> {
        let way = Way { kubeconfig: globals.kubeconfig.clone(), context: globals.context.clone(), master: None };
        let client = cluster::client(&way).await.map_err(|error| Failure::usage(error.to_string()))?;
        let namespace = globals.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let flows = FlowClient::new(Client::new(client.clone()), &namespace);
        Ok(Self { client, namespace, flows })
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::new(error.class().into(), error.to_string())
    }
}

fn status(flow: &JobFlow) -> FlowStatus {
    flow.status.clone().unwrap_or_default()
}

/// What is said of a flow that has no status: nobody works on it.
fn untaken(name: &str, namespace: &str) -> String {
    format!(
        "no operator has taken flow `{name}` up yet; look whether one runs (`kubectl get pods -A -l \
         app.kubernetes.io/name=orlop-operator`) and works in namespace `{namespace}` (its flag --namespaces), or start one: \
         `orlop operator --leader-elect=false`"
    )
}

/// How a flow of a cluster is named in hints.
fn named(globals: &GlobalArgs, name: &str) -> RunName {
    let mut options = " --target kube".to_owned();
    if let Some(file) = &globals.kubeconfig {
        options.push_str(&format!(" --kubeconfig {}", file.display()));
    }
    for (flag, value) in [("--context", &globals.context), ("-n", &globals.namespace)] {
        if let Some(value) = value {
            options.push_str(&format!(" {flag} {value}"));
        }
    }
    RunName { name: name.to_owned(), options }
}

/// Runs a verb.
///
/// # Errors
/// When the server refuses, cannot be reached, or the verb means nothing there.
pub(super) async fn run(command: Command) -> Result<Exit, Failure> {
    let flow = match command {
        Command::Run(args) => return submit::run(*args).await,
        Command::Flow(flow) => flow,
        _ => return Err(Failure::usage("this verb is not about flows")),
    };
    match flow {
        Flow::Run(args) => submit::run(*args).await,
        Flow::Submit(args) => submit::submit(*args).await,
        Flow::List(args) => show::list(args).await,
        Flow::Get(args) => show::get(args).await,
        Flow::Watch(args) => watch::watch(args).await,
        Flow::Logs(args) => logs::logs(args).await,
        Flow::Artifacts(args) => artifacts::artifacts(args).await,
        Flow::Approve(args) => order::decide(args, true).await,
        Flow::Reject(args) => order::decide(args, false).await,
        Flow::Suspend(args) => order::suspend(args).await,
        Flow::Resume(args) => order::resume(args).await,
        Flow::Stop(args) => order::stop(args, true).await,
        Flow::Terminate(args) => order::stop(args, false).await,
        Flow::Retry(args) => order::retry(*args).await,
        Flow::Delete(args) => order::delete(args).await,
        Flow::Graph(args) if !args.is_file() => show::graph(args).await,
        Flow::Graph(args) => super::graph::graph(args).await,
        Flow::Plan(args) => super::plan::plan(*args).await,
        Flow::Validate(args) => super::validate::validate(&args),
        Flow::ConfirmGone(args) => order::confirm_gone(args).await,
        Flow::Explain(args) => show::explain(args).await,
    }
}
