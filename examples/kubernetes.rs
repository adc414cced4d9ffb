//! A flow in a cluster, as a program submits it and steers it. The API server runs in this process, so that nothing else is
//! needed; with `kube::Client::try_default()` in its place it is your cluster.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use orlop_core::spec::flow::{FlowSpec, JobFlow, StopMode};
use orlop_core::spec::step::Step;
use orlop_k8s::api::Client;
use orlop_k8s::client::{FlowClient, NewFlow};
use orlop_k8s::crd;
use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

fn job(command: &str) -> Value {
    let container = json!({"name": "main", "image": "busybox", "command": ["sh", "-c", command]});
    json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": [container]}}}})
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let server = ApiServer::new();
    server.install(&crd::job_flow()).map_err(|error| anyhow!("{error:?}"))?;
    let flows = FlowClient::new(Client::new(server.client()), "default");

    let steps =
        [Step::new("build").template(job("make")), Step::new("test").template(job("make test")).after(["build"])];
    let new = |name: &str, steps: &[Step]| NewFlow {
        flow: JobFlow::new(name, FlowSpec::new(steps.to_vec())),
        parameters: BTreeMap::new(),
        // The same key twice is one flow: an answer that was lost makes no second one.
        key: format!("{name}-1"),
    };
    for _ in 0..2 {
        println!("created {}", flows.create(new("release", &steps)).await?.metadata.name);
    }
    let circle = [Step::new("a").template(job("true")).after(["a"])];
    match flows.create(new("circle", &circle)).await {
        Ok(flow) => println!("created {}", flow.metadata.name),
        Err(error) => println!("refused: {error}"),
    }
    flows.stop("release", StopMode::Graceful).await?;
    for flow in flows.list(&[]).await? {
        println!("{}: {} steps, stop {:?}", flow.metadata.name, flow.spec.steps.len(), flow.spec.stop);
    }
    Ok(())
}
