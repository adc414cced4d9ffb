//! What is asked of flows of a server: decisions, suspension, ends, repeats, deletion.

use orlop_core::spec::flow::SuspendMode;
use serde_json::{Value, json};

use super::super::super::control::{ConfirmGoneArgs, DecideArgs, NameArgs, SuspendArgs};
use super::super::super::delete::DeleteArgs;
use super::super::super::drive::exit_of;
use super::super::super::failure::{Exit, Failure};
use super::super::super::manifest;
use super::super::super::output::{self, Format};
use super::super::super::retry::RetryArgs;
use super::super::client::{ApiRequest, escaped};
use super::super::read::text;
use super::Remote;
use super::show::{Watcher, created, end};
use crate::host::flow::{Clock as _, SystemClock};

/// `orlop flow approve` and `reject`
pub(super) async fn decide(args: DecideArgs, verb: &str) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    let path = format!("/flows/{}/steps/{}/{verb}", escaped(&args.name), escaped(&args.step));
    remote.post(&path, &json!({ "reason": args.reason }), None).await?;
    let answer = if verb == "approve" { "approved" } else { "rejected" };
    output::print(&format!("{}: {answer} {}", args.name, args.step))?;
    Ok(Exit::Done)
}

/// `orlop flow confirm-gone`
pub(super) async fn confirm_gone(args: ConfirmGoneArgs) -> Result<Exit, Failure> {
    let (remote, step) = (Remote::of(&args.globals)?, args.record());
    let path = format!("/flows/{}/steps/{}/confirm-gone", escaped(&args.name), escaped(&step));
    remote.post(&path, &json!({ "reason": args.reason }), None).await?;
    output::print(&format!("{}: {step} is confirmed to be gone", args.name))?;
    Ok(Exit::Done)
}

/// `orlop flow suspend`
pub(super) async fn suspend(args: SuspendArgs) -> Result<Exit, Failure> {
    if args.mode() == Some(SuspendMode::Suspend) {
        return Err(Failure::usage("jobs of a fleet cannot be frozen; use `--mode drain`"));
    }
    tell(&args.name, &Remote::of(&args.globals)?, "suspend", "suspended").await
}

/// `orlop flow resume`
pub(super) async fn resume(args: NameArgs) -> Result<Exit, Failure> {
    tell(&args.name, &Remote::of(&args.globals)?, "resume", "resumed").await
}

async fn tell(name: &str, remote: &Remote, verb: &str, answer: &str) -> Result<Exit, Failure> {
    remote.post(&format!("/flows/{}/{verb}", escaped(name)), &json!({}), None).await?;
    output::print(&format!("{name}: {answer}"))?;
    Ok(Exit::Done)
}

/// `orlop flow stop` and `terminate`
pub(super) async fn stop(args: NameArgs, graceful: bool) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    let path = format!("/flows/{}/cancel", escaped(&args.name));
    let (asked, body) =
        (format!("{}: the server is asked and has not answered yet", args.name), json!({ "graceful": graceful }));
    let answer = output::with_patience(&asked, remote.post(&path, &body, None)).await?;
    if answer["taken"] == false {
        return Err(Failure::new(Exit::Conflict, format!("flow `{}` has ended; nothing can change it", args.name)));
    }
    output::print(&format!("{}: {}", args.name, if graceful { "stopping" } else { "terminating" }))?;
    Ok(Exit::Done)
}

/// `orlop flow retry`
pub(super) async fn retry(args: RetryArgs) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    let parameters: serde_json::Map<String, serde_json::Value> =
        args.param.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let definition = args.file.as_deref().map(manifest::text).transpose()?;
    let body = json!({
        "steps": args.step, "force": args.force, "definition": definition, "parameters": parameters, "name": args.new_name,
    });
    let made = remote.post(&format!("/flows/{}/retry", escaped(&args.name)), &body, None).await?;
    if !args.wait {
        output::print(&text(&made, "name"))?;
        return Ok(Exit::Done);
    }
    let (name, id) = (text(&made, "name"), text(&made, "id"));
    output::tell(&format!("{name} created"));
    let object = Watcher { remote: &remote, flow: &id, shows: args.output == Format::Table }.ended().await?;
    end(&object, &args.globals, args.output)?;
    Ok(exit_of(&super::status(&object)))
}

/// `orlop flow delete`
pub(super) async fn delete(args: DeleteArgs) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    // The name for people, and what the server is asked for: of several flows of one name all go.
    let mut chosen: Vec<(String, String)> = args.names.iter().map(|name| (name.clone(), name.clone())).collect();
    if args.completed || args.older_than.is_some() {
        let now = SystemClock.now();
        let old = |flow: &Value| {
            let ended = flow["ended_at"].is_string();
            ended && args.older_than.is_none_or(|limit| now.since(created(flow).unwrap_or(now)) >= limit.get())
        };
        let flows = remote.list("/flows", Vec::new()).await?;
        chosen.extend(flows.iter().filter(|flow| old(flow)).map(|flow| (text(flow, "name"), text(flow, "id"))));
    }
    for (name, flow) in chosen {
        if args.force {
            remote.post(&format!("/flows/{}/cancel", escaped(&flow)), &json!({ "graceful": false }), None).await?;
            Watcher { remote: &remote, flow: &flow, shows: false }.ended().await?;
        }
        match remote.client.ask(ApiRequest::delete(format!("/flows/{}", escaped(&flow)))).await {
            Err(failure) if failure.exit == Exit::Conflict && !args.force => {
                let message = format!("`{name}` has not ended; terminate it first, or say --force");
                return Err(Failure::new(Exit::Conflict, message));
            }
            deleted => deleted?,
        };
        output::print(&format!("{name} deleted"))?;
    }
    Ok(Exit::Done)
}
