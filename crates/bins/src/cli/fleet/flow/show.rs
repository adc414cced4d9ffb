//! Flows of a server as people see them: lists, pages, changes, logs.

use std::sync::Arc;

use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::{HumanDuration, Time};
use orlop_dag::plan::Plan;
use serde_json::Value;

use super::super::super::changes::ReportedChanges;
use super::super::super::drive::exit_of;
use super::super::super::failure::{Exit, Failure};
use super::super::super::get::GetArgs;
use super::super::super::globals::GlobalArgs;
use super::super::super::graph::{GraphArgs, drawn};
use super::super::super::list::ListArgs;
use super::super::super::logs::LogsArgs;
use super::super::super::output::{self, Format};
use super::super::super::progress::approval_hint;
use super::super::super::watch::WatchArgs;
use super::super::read::text;
use super::submit::copy_logs;
use super::waiting::Waiting;
use super::{Remote, status};
use crate::host::flow::{Clock as _, SystemClock};
use crate::view::graph::Graph;
use crate::view::items::Items;
use crate::view::name::RunName;
use crate::view::table::{self, fitted};
use crate::view::text::age;

/// How long one request waits for the end, where nothing is shown meanwhile.
const WAIT: &str = "60s";
/// The same where changes are shown.
const PACE: &str = "1s";

/// How a flow of a server is named in hints.
fn named(globals: &GlobalArgs, name: &str) -> RunName {
    let mut options = " --target fleet".to_owned();
    if globals.server != super::super::target::SERVER {
        options.push_str(&format!(" --server {}", globals.server));
    }
    RunName { name: name.to_owned(), options }
}

/// `orlop flow list`
pub(super) async fn list(args: ListArgs) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    let labels = args.label.iter().map(|(key, value)| ("label", format!("{key}={value}")));
    let members = args.phase.iter().map(|phase| ("state", phase.clone())).chain(labels).collect();
    let mut flows = remote.list("/flows", members).await?;
    let now = SystemClock.now();
    let created = |flow: &Value| created(flow).unwrap_or(now);
    if let Some(limit) = args.older_than {
        flows.retain(|flow| now.since(created(flow)) >= limit.get());
    }
    flows.sort_by_key(&created);
    match args.output {
        Format::Table => {
            let row = |flow: &Value| {
                let message = text(flow, "message");
                vec![
                    text(flow, "name"),
                    text(flow, "phase"),
                    text(flow, "progress"),
                    age(now.since(created(flow))),
                    message,
                ]
            };
            let rows: Vec<Vec<String>> = flows.iter().map(row).collect();
            output::print(&fitted(&["NAME", "PHASE", "PROGRESS", "AGE", "MESSAGE"], &rows, output::width()))?;
        }
        Format::Name => {
            for flow in &flows {
                output::print(&text(flow, "name"))?;
            }
        }
        format => output::print(&output::serialized(&flows, format)?)?,
    }
    Ok(Exit::Done)
}

/// When a flow was accepted.
pub(super) fn created(flow: &Value) -> Option<Time> {
    flow["created_at"].as_str().and_then(|at| at.parse().ok())
}

/// `orlop flow graph`
pub(super) async fn graph(args: GraphArgs) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    let object = remote.object(&args.subject, None).await?;
    let plan = Plan::build(Arc::new(object.spec.clone())).map_err(|_| {
        Failure::new(Exit::Unreachable, "the server's flow cannot be planned here; use its version of this program")
    })?;
    drawn(&Graph { plan: &plan, status: Some(&status(&object)) }, args.output)
}

/// `orlop flow get`
pub(super) async fn get(args: GetArgs) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    let object = remote.object(&args.name, None).await?;
    let name = &named(&args.globals, &object.metadata.name);
    let shown = match args.output {
        Format::Name => name.name.clone(),
        Format::Table => {
            let (status, now) = (status(&object), SystemClock.now());
            let items = Items::of_spec(&object.spec);
            let showing = table::Showing { now, colour: output::colour(), items: &items, width: output::width() };
            let mut text = format!("{}\n", table::steps(&status, showing));
            text.push_str(&table::summary(name, &status, now, output::colour()));
            text.extend(approval_hint(name, &status).map(|hint| format!("  {hint}\n")));
            text
        }
        format => output::serialized(&object, format)?,
    };
    output::print(&shown)?;
    Ok(Exit::Done)
}

/// `orlop flow watch`
pub(super) async fn watch(args: WatchArgs) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    let watcher = Watcher { remote: &remote, flow: &args.name, shows: args.output == Format::Table };
    let ended = watcher.ended();
    tokio::pin!(ended);
    let object = match args.timeout {
        None => ended.await?,
        Some(limit) => match tokio::time::timeout(limit.get(), ended).await {
            Ok(object) => object?,
            Err(_) => {
                output::tell(&format!("`{}` has not ended; it goes on", args.name));
                return Ok(Exit::TimedOut);
            }
        },
    };
    end(&object, &args.globals, args.output)?;
    Ok(exit_of(&status(&object)))
}

/// `orlop flow logs`
pub(super) async fn logs(args: LogsArgs) -> Result<Exit, Failure> {
    if args.timestamps {
        return Err(Failure::usage("`--timestamps` is for logs of jobs: `orlop logs JOB --timestamps`"));
    }
    let remote = Remote::of(&args.globals)?;
    let mut members = Vec::new();
    if let Some(step) = &args.step {
        let item = args.item.map(|item| format!("-i{item}")).unwrap_or_default();
        members.push(("step", format!("{step}{item}")));
    }
    members.extend(args.attempt.map(|attempt| ("attempt", attempt.to_string())));
    let since = |since: HumanDuration| {
        let since = i64::try_from(since.get().as_millis()).unwrap_or(i64::MAX);
        Time::from_millis(SystemClock.now().millis().saturating_sub(since))
    };
    members.extend(args.since.map(|time| ("since", since(time).to_string())));
    for (name, on) in [("follow", args.follow), ("failed", args.failed)] {
        members.extend(on.then(|| (name, "true".to_owned())));
    }
    copy_logs(&remote, &args.name, &members).await?;
    Ok(Exit::Done)
}

/// Waits for the end of a flow.
pub(super) struct Watcher<'a> {
    pub(super) remote: &'a Remote,
    pub(super) flow: &'a str,
    /// Whether steps are reported as they change.
    pub(super) shows: bool,
}

impl Watcher<'_> {
    /// The flow once it has ended. A server that is away for a while is waited for.
    pub(super) async fn ended(&self) -> Result<JobFlow, Failure> {
        self.until(|_| false).await
    }

    /// The flow once it has ended, or once something else holds.
    pub(super) async fn until(&self, enough: impl Fn(&FlowStatus) -> bool) -> Result<JobFlow, Failure> {
        let (mut reported, mut waiting) = (ReportedChanges::default(), Waiting::new());
        let mut away = None::<tokio::time::Instant>;
        loop {
            let object = match self.remote.object(self.flow, Some(if self.shows { PACE } else { WAIT })).await {
                Ok(object) => object,
                Err(failure) if failure.exit == Exit::Unreachable => {
                    let since = *away.get_or_insert_with(tokio::time::Instant::now);
                    if since.elapsed() > AWAY {
                        return Err(failure);
                    }
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            away = None;
            let status = status(&object);
            if self.shows {
                reported.tell(&object.metadata.name, &status);
            }
            if status.phase.is_terminal() || enough(&status) {
                return Ok(object);
            }
            if self.shows {
                waiting.tell(self.remote, self.flow).await;
            }
        }
    }
}

/// How long a server may be away before waiting ends.
const AWAY: std::time::Duration = std::time::Duration::from_secs(60);
/// Between two tries to reach it.
const RETRY: std::time::Duration = std::time::Duration::from_millis(500);

/// Shows how a flow ended.
pub(super) fn end(object: &JobFlow, globals: &GlobalArgs, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => {
            let name = named(globals, &object.metadata.name);
            output::print(&table::summary(&name, &status(object), SystemClock.now(), output::colour()))
        }
        Format::Name => output::print(&object.metadata.name),
        format => output::print(&output::serialized(object, format)?),
    }
}
