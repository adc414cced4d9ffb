//! The suite of flows on Kubernetes: an operator makes Jobs of them, and a node runs their pods as processes of this machine.
//! Owns how a case is driven through an API server; which one it is, is said by those who run it.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use orlop::conformance::{Case, Control, Harness, Trigger, all, check};
use orlop::core::spec::flow::{JobFlow, StopMode, SuspendMode};
use orlop::core::spec::status::FlowStatus;
use orlop::host::operator::{Operator, Plan, Stop, Which};
use orlop::k8s::api::Client;
use orlop::k8s::client::{ApprovalDecision, FlowClient, NewFlow};
use orlop::k8s::render::helper::{HelperOptions, Tokens};
use orlop::k8s::shell::Clock;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::double::{ServerClock, plain_server};
use super::pods::Pods;

/// The node of these flows.
const NODE: &str = "orlop-suite";
/// Flows that run at once: enough to hide their waiting, few enough for a small machine.
const AT_ONCE: usize = 12;
/// No case takes longer.
const LONGEST: Duration = Duration::from_secs(120);

/// A namespace whose flows an operator drives.
struct Operated(FlowClient<Client>);

impl Operated {
    /// The flow of a case as it is meant for Kubernetes: Jobs that say nothing about it try their pods once elsewhere, and the
    /// pods run on our node.
    fn flow(&self, case: &Case) -> Result<JobFlow, String> {
        let plain = case.flow(self.image()).map_err(|error| error.to_string())?;
        let mut spec = serde_json::to_value(&plain.spec).map_err(|error| error.to_string())?;
        for part in ["steps", "finally"] {
            for step in spec.get_mut(part).and_then(Value::as_array_mut).into_iter().flatten() {
                let Some(job) = step.pointer_mut("/template/spec").and_then(Value::as_object_mut) else { continue };
                job.entry("backoffLimit").or_insert(json!(0));
                job["template"]["spec"]["nodeName"] = json!(NODE);
            }
        }
        let spec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
        Ok(JobFlow::new(case.name, spec))
    }

    /// The status as soon as it is enough, or final.
    async fn until(&self, name: &str, enough: impl Fn(&FlowStatus) -> bool) -> Result<FlowStatus, String> {
        loop {
            let flow = self.0.get(name).await.map_err(|error| error.to_string())?;
            let status = flow.status.unwrap_or_default();
            if status.phase.is_terminal() || enough(&status) {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn give(&self, name: &str, control: Control) -> Result<(), String> {
        let given = match control {
            Control::Decide(step, decision) => {
                self.0.decide(name, &ApprovalDecision { step, decision, by: Some("suite"), reason: None }).await
            }
            Control::Suspend(true) => self.0.suspend(name, Some(SuspendMode::Suspend)).await,
            Control::Suspend(false) => self.0.suspend(name, Some(SuspendMode::Drain)).await,
            Control::Resume => self.0.resume(name).await,
            Control::Stop => self.0.stop(name, StopMode::Graceful).await,
            Control::Terminate => self.0.stop(name, StopMode::Terminate).await,
        };
        given.map_err(|error| format!("{control:?} was refused: {error}"))
    }
}

#[async_trait::async_trait]
impl Harness for Operated {
    fn image(&self) -> &str {
        "busybox"
    }

    fn runs_scripts(&self) -> bool {
        true
    }

    async fn run(&self, case: &Case) -> Result<FlowStatus, String> {
        let new = NewFlow { flow: self.flow(case)?, parameters: case.parameters.clone(), key: case.name.to_owned() };
        self.0.create(new).await.map_err(|error| error.to_string())?;
        for (trigger, control) in &case.controls {
            let holds = |status: &FlowStatus| match trigger {
                Trigger::AtStart => true,
                Trigger::When { step, phase } => {
                    status.steps.iter().any(|record| record.name == *step && record.phase.to_string() == *phase)
                }
            };
            self.until(case.name, holds).await?;
            self.give(case.name, *control).await?;
        }
        self.until(case.name, |_| false).await
    }
}

/// A case as Kubernetes tells of it: a Job says itself why it failed.
fn told_by_jobs(mut case: Case) -> Case {
    for outcome in case.expect.steps.values_mut() {
        *outcome = outcome.replace("NonZeroExit", "BackoffLimitExceeded");
    }
    case
}

/// Runs every case in a namespace, with an operator of this process over its own client. Gives what differs.
pub(super) async fn run_all(
    user: kube::Client,
    operator: kube::Client,
    clock: Arc<dyn Clock>,
    namespace: &str,
) -> Vec<String> {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let mut plan = Plan::default();
    plan.controllers = vec![Which::JobFlow];
    plan.namespaces = vec![namespace.to_owned()];
    let tokens = Tokens::new(|| uuid::Uuid::new_v4().to_string());
    plan.flows.helper = Some(HelperOptions::new("orlop-helper", &url, tokens));
    let operator = Operator::new(plan, operator, clock);
    operator.take_artifacts(socket, None).unwrap();
    let (tell, stop) = Stop::new();
    let pods = Pods::on(user.clone(), NODE);
    let cases = async {
        let harness = Operated(FlowClient::new(Client::new(user.clone()), namespace));
        let runs = all().into_iter().map(told_by_jobs).map(|case| {
            let harness = &harness;
            async move {
                match tokio::time::timeout(LONGEST, check(harness, &case)).await {
                    Ok(found) => found,
                    Err(_) => {
                        let status = harness.0.get(case.name).await.ok().and_then(|flow| flow.status);
                        vec![format!("{} did not end: {status:?}", case.name)]
                    }
                }
            }
        });
        let found = futures::stream::iter(runs).buffer_unordered(AT_ONCE).concat().await;
        tell.send(true).unwrap();
        found
    };
    let (worked, found) = tokio::join!(operator.run(&stop), cases);
    pods.end().await;
    worked.unwrap();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_case_conforms_on_the_double_of_kubernetes() {
    let server = plain_server(true);
    let clock = Arc::new(ServerClock(server.clone()));
    let differences = run_all(server.client(), server.client_named("operator"), clock, "default").await;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
