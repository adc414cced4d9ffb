//! `orlop flow … --target fleet`: flows that a server drives, asked over REST. Owns what each verb asks; pages are those of flows on this machine.

mod artifacts;
mod order;
mod show;
mod submit;
mod waiting;

use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;
use serde_json::Value;

use super::super::failure::{Exit, Failure};
use super::super::globals::GlobalArgs;
use super::super::{Command, Flow};
use super::client::{ApiRequest, Client, escaped, query};

/// A server, as verbs of flows ask it.
struct Remote {
    client: Client,
    tenant: Option<String>,
}

impl Remote {
    fn of(globals: &GlobalArgs) -> Result<Self, Failure> {
        let (token, authority) = (globals.token_file.as_deref(), globals.ca_file.as_deref());
        let client = super::target::client(&globals.server, token, authority, globals.insecure)?;
        Ok(Self { client, tenant: globals.tenant.clone() })
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        Ok(self.client.ask(ApiRequest::get(path)).await?.body)
    }

    async fn post(&self, path: &str, body: &Value, key: Option<String>) -> Result<Value, Failure> {
        // A lost answer is asked for again under the same key.
        let key = key.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let asked = || ApiRequest::post(path, Some(body)).with("idempotency-key", Some(key.clone()));
        let answered = match self.client.ask(asked()).await {
            Err(failure) if failure.is_passing() => self.client.ask(asked()).await?,
            answered => answered?,
        };
        Ok(answered.body)
    }

    /// All items of a list.
    async fn list(&self, path: &str, mut members: Vec<(&str, String)>) -> Result<Vec<Value>, Failure> {
        members.push(("limit", "1000".to_owned()));
        members.extend(self.tenant.clone().map(|tenant| ("tenant", tenant)));
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let next = cursor.take().map(|cursor| ("cursor", cursor));
            let asked: Vec<(&str, String)> = members.iter().cloned().chain(next).collect();
            let mut page = self.get(&format!("{path}{}", query(&asked))).await?;
            if let Some(items) = page["items"].as_array_mut() {
                found.append(items);
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(found),
            }
        }
    }

    /// A flow as an object with its status; with `wait` once it has ended, or after that time.
    async fn object(&self, name: &str, wait: Option<&str>) -> Result<JobFlow, Failure> {
        let mut members = vec![("object", "true".to_owned())];
        members.extend(wait.map(|wait| ("wait", wait.to_owned())));
        let mut flow = self.get(&format!("/flows/{}{}", escaped(name), query(&members))).await?;
        serde_json::from_value(flow["object"].take()).map_err(|error| {
            Failure::new(
                Exit::Unreachable,
                format!("the server's answer cannot be read: {error}; use its version of this program"),
            )
        })
    }
}

fn status(object: &JobFlow) -> FlowStatus {
    object.status.clone().unwrap_or_default()
}

/// Runs a verb.
///
/// # Errors
/// When the server refuses, cannot be reached, or the verb means nothing there.
pub(in crate::cli) async fn run(command: Command) -> Result<Exit, Failure> {
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
        Flow::Watch(args) => show::watch(args).await,
        Flow::Logs(args) => show::logs(args).await,
        Flow::Artifacts(args) => artifacts::artifacts(args).await,
        Flow::Approve(args) => order::decide(args, "approve").await,
        Flow::Reject(args) => order::decide(args, "reject").await,
        Flow::Suspend(args) => order::suspend(args).await,
        Flow::Resume(args) => order::resume(args).await,
        Flow::Stop(args) => order::stop(args, true).await,
        Flow::Terminate(args) => order::stop(args, false).await,
        Flow::Retry(args) => order::retry(*args).await,
        Flow::Delete(args) => order::delete(args).await,
        Flow::Graph(args) if !args.is_file() => show::graph(args).await,
        Flow::Graph(args) => super::super::graph::graph(args).await,
        Flow::Plan(args) => super::super::plan::plan(*args).await,
        Flow::Validate(args) => super::super::validate::validate(&args),
        Flow::ConfirmGone(args) => order::confirm_gone(args).await,
        Flow::Explain(_) => Err(Failure::usage(
            "why a step of a server's flow waits is shown by `orlop flow get NAME --target fleet`, and of its \
             job by `orlop job get ID --explain`",
        )),
    }
}
