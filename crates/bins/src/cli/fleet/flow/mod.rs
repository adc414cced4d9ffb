//! Flows of a fleet: a server drives them, and is asked over REST.

mod artifacts;
mod logs;
mod order;
mod waiting;
mod watch;

use std::collections::BTreeMap;

use async_trait::async_trait;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::{JobFlow, StopMode};
use orlop_core::time::{Rfc3339, Time};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::artifacts::{Artifact, ArtifactsArgs};
use super::super::delete::unended;
use super::super::failure::{Exit, Failure};
use super::super::globals::{GlobalArgs, Target};
use super::super::logs::LogsArgs;
use super::super::retry::{RetryArgs, changed};
use super::super::target::{
    Created, FlowSnapshot, FlowTarget, INTERRUPTED, ListFilter, ListedFlow, NewFlow, Reports, Retried, Taken, Wait,
};
use super::client::{ApiRequest, Client, escaped, query};
use super::read::text;
use crate::host::flow::{Clock as _, FlowCommand, SystemClock};
use crate::view::name::RunName;

/// A server, as verbs of flows ask it.
struct Remote {
    client: Client,
    tenant: Option<String>,
    /// The option that leads to it, with a blank before it; empty where none is needed.
    server: String,
}

impl Remote {
    fn of(globals: &GlobalArgs) -> Result<Self, Failure> {
        let (token, authority) = (globals.token_file.as_deref(), globals.ca_file.as_deref());
        let client = super::target::client(&globals.server, token, authority, globals.insecure)?;
        let server = match globals.server.as_str() {
            super::client::SERVER => String::new(),
            server => format!(" --server {server}"),
        };
        Ok(Self { client, tenant: globals.tenant.clone(), server })
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
        serde_json::from_value(flow["object"].take()).map_err(|error| unreadable(&error))
    }
}

fn unreadable(error: &serde_json::Error) -> Failure {
    Failure::unreachable(format!("cannot decode the server's response: {error}; use the same version as the server"))
}

/// A fleet.
pub(in crate::cli) struct Fleet {
    remote: Remote,
}

impl Fleet {
    /// The fleet of the options.
    ///
    /// # Errors
    /// When an option for the connection is wrong.
    pub(in crate::cli) fn of(globals: &GlobalArgs) -> Result<Self, Failure> {
        Ok(Self { remote: Remote::of(globals)? })
    }
}

#[async_trait(?Send)]
impl FlowTarget for Fleet {
    fn asked(&self) -> &'static str {
        "the server"
    }

    fn named(&self, name: &str) -> RunName {
        RunName { name: name.to_owned(), options: format!(" --target fleet{}", self.remote.server) }
    }

    async fn list(&self, filter: &ListFilter) -> Result<Vec<ListedFlow>, Failure> {
        let labels = filter.labels.iter().map(|(key, value)| ("label", format!("{key}={value}")));
        // A server drives all of its flows.
        let states = filter.phase.iter().filter(|phase| *phase != INTERRUPTED).map(|phase| ("state", phase.clone()));
        let found = self.remote.list("/flows", states.chain(labels).collect()).await?;
        let mut flows = found.into_iter().map(listed).collect::<Result<Vec<ListedFlow>, Failure>>()?;
        let now = SystemClock.now();
        flows.retain(|flow| filter.takes(flow, now));
        flows.sort_by_key(|flow| flow.created);
        Ok(flows)
    }

    async fn get(&self, name: &str) -> Result<FlowSnapshot, Failure> {
        Ok(FlowSnapshot::of(self.remote.object(name, None).await?, Vec::new()))
    }

    async fn order(&self, name: &str, order: FlowCommand) -> Result<Taken, Failure> {
        order::give(&self.remote, name, order).await.map(|()| Taken::Now)
    }

    async fn ended(&self, name: &str, wait: Wait) -> Result<JobFlow, Failure> {
        watch::ended(&self.remote, name, wait).await
    }

    async fn logs(&self, _flow: &FlowSnapshot, args: &LogsArgs) -> Result<bool, Failure> {
        logs::show(&self.remote, args).await
    }

    async fn export(&self, chosen: &mut [Artifact], args: &ArtifactsArgs) -> Result<(), Failure> {
        artifacts::export(&self.remote, chosen, args).await
    }

    async fn create(&self, new: &NewFlow<'_>) -> Result<Created, Failure> {
        let (text, _) = new.read(Target::Fleet)?;
        let body = json!({
            "definition": text, "parameters": parameters(new.parameters), "name": new.name,
            "tenant": self.remote.tenant, "suspend": new.suspend,
        });
        Ok(created(self.remote.post("/flows", &body, new.key.map(str::to_owned)).await?))
    }

    async fn retry(&self, args: &RetryArgs) -> Result<Retried, Failure> {
        let definition = changed(self, args).await?.map(|(text, _)| text);
        let body = json!({
            "steps": args.step, "force": args.force, "definition": definition, "parameters": parameters(&args.param),
            "name": args.new_name,
        });
        let made = self.remote.post(&format!("/flows/{}/retry", escaped(&args.name)), &body, None).await?;
        Ok(Retried::Created(created(made)))
    }

    async fn id(&self, name: &str) -> Result<String, Failure> {
        Ok(text(&self.remote.get(&format!("/flows/{}", escaped(name))).await?, "id"))
    }

    async fn delete(&self, name: &str, id: &str, force: bool) -> Result<(), Failure> {
        if force {
            match self.order(id, FlowCommand::Stop { mode: StopMode::Terminate }).await {
                // It has ended by itself.
                Err(failure) if failure.exit != Exit::Conflict => return Err(failure),
                _ => {}
            }
            self.ended(id, Wait::for_end(Reports::Nothing)).await?;
        }
        match self.remote.client.ask(ApiRequest::delete(format!("/flows/{}", escaped(id)))).await {
            Err(failure) if failure.exit == Exit::Conflict && !force => Err(unended(name)),
            deleted => deleted.map(drop),
        }
    }
}

fn parameters(given: &[(String, String)]) -> Map<String, Value> {
    given.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect()
}

fn created(answer: Value) -> Created {
    let id = text(&answer, "id");
    let message = format!("submitted as {id}");
    Created { name: text(&answer, "name"), id, message, value: answer, target: None }
}

/// A flow in a list of a server.
#[derive(Deserialize)]
struct RemoteFlow {
    id: String,
    tenant: String,
    name: String,
    phase: FlowPhase,
    #[serde(default)]
    message: String,
    progress: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default, with = "Rfc3339")]
    created_at: Option<Time>,
    #[serde(default, with = "Rfc3339")]
    started_at: Option<Time>,
    #[serde(default, with = "Rfc3339")]
    ended_at: Option<Time>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

fn listed(flow: Value) -> Result<ListedFlow, Failure> {
    let mut flow: RemoteFlow = serde_json::from_value(flow).map_err(|error| unreadable(&error))?;
    flow.more.retain(|member, _| matches!(member.as_str(), "pipeline" | "version"));
    Ok(ListedFlow {
        namespace: flow.tenant,
        name: flow.name,
        id: flow.id.clone(),
        uid: flow.id,
        phase: flow.phase,
        progress: flow.progress,
        created: flow.created_at.unwrap_or_default(),
        started: flow.started_at,
        ended: flow.ended_at,
        message: flow.message,
        labels: flow.labels,
        more: flow.more,
        ..ListedFlow::default()
    })
}
