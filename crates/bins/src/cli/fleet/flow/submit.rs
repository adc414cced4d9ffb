//! `orlop flow submit` and `orlop run --target fleet`: a flow is handed to a server, and watched where that is asked for. Owns
//! what is sent and how waiting ends.

use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::status::FlowStatus;
use serde_json::{Value, json};

use super::super::super::drive::{exit_of, goes_on};
use super::super::super::failure::{Exit, Failure};
use super::super::super::manifest;
use super::super::super::output::{self, Format};
use super::super::super::run::RunArgs;
use super::super::super::signals::Signals;
use super::super::super::submit::SubmitArgs;
use super::super::client::{ApiRequest, escaped};
use super::show::{Watcher, end};
use super::{Remote, status};

/// What is handed over.
fn order(text: String, params: &[(String, String)], more: (Option<&str>, Option<&str>, bool)) -> Value {
    let (name, tenant, suspend) = more;
    let parameters: serde_json::Map<String, Value> =
        params.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect();
    json!({
        "definition": text, "parameters": parameters, "name": name, "tenant": tenant, "suspend": suspend,
    })
}

/// Hands a flow over.
pub(super) async fn submit(args: SubmitArgs) -> Result<Exit, Failure> {
    let remote = Remote::of(&args.globals)?;
    let more = (args.name.as_deref(), remote.tenant.as_deref(), args.suspend);
    let body = order(manifest::text(&args.file)?, &args.param, more);
    let taken = remote.post("/flows", &body, args.key.clone()).await?;
    let (id, name) = (taken["id"].as_str().unwrap_or_default(), taken["name"].as_str().unwrap_or_default());
    let waits = args.wait || args.watch || args.logs;
    match args.output {
        Format::Table if waits => output::tell(&format!("{name} submitted as {id}")),
        Format::Table | Format::Name => output::print(name)?,
        _ if waits => {}
        format => output::print(&output::serialized(&taken, format)?)?,
    }
    if !waits {
        return Ok(Exit::Done);
    }
    let watcher = Watcher { remote: &remote, flow: id, shows: args.watch && args.output == Format::Table };
    let ended = watcher.ended();
    tokio::pin!(ended);
    let object = match args.timeout {
        None => ended.await?,
        Some(limit) => match tokio::time::timeout(limit.get(), ended).await {
            Ok(object) => object?,
            Err(_) => {
                output::tell(&format!("`{name}` has not ended; it goes on"));
                return Ok(Exit::TimedOut);
            }
        },
    };
    if args.logs {
        copy_logs(&remote, id, &[]).await?;
    }
    end(&object, &args.globals, args.output)?;
    Ok(exit_of(&status(&object)))
}

/// Runs a flow of a file on a server and waits for its end. An interrupt ends it gracefully, a second one at once, a third
/// one leaves it running.
pub(super) async fn run(args: RunArgs) -> Result<Exit, Failure> {
    args.not_local()?;
    let Some(file) = &args.file else {
        return Err(Failure::usage(
            "a server goes on with its flows by itself; watch one with `orlop flow watch NAME --target fleet`",
        ));
    };
    let remote = Remote::of(&args.globals)?;
    let more = (args.name.as_deref(), remote.tenant.as_deref(), false);
    let body = order(manifest::text(file)?, &args.param, more);
    let mut signals = Signals::take()?;
    let taken = remote.post("/flows", &body, None).await?;
    let id = taken["id"].as_str().unwrap_or_default().to_owned();
    for step in &args.auto_approve {
        let path = format!("/flows/{id}/steps/{}/approve", escaped(step));
        remote.post(&path, &json!({}), None).await?;
    }
    // Changes are asked for where something but the end is waited for.
    let shows = args.output == Format::Table || args.no_wait_approval;
    let watcher = Watcher { remote: &remote, flow: &id, shows };
    let leaves = |status: &FlowStatus| args.no_wait_approval && status.phase == FlowPhase::Paused && !goes_on(status);
    let ended = watcher.until(leaves);
    tokio::pin!(ended);
    let mut interrupts = 0;
    let object = loop {
        tokio::select! {
            object = &mut ended => break object?,
            exit = signals.next() => {
                interrupts += 1;
                if interrupts > 2 {
                    output::tell("the flow goes on; see it with `orlop flow watch`");
                    return Ok(exit);
                }
                output::tell(if interrupts == 1 { "stopping: live attempts finish; interrupt again to cancel them" } else { "cancelling what runs; interrupt again to leave it running" });
                remote.post(&format!("/flows/{id}/cancel"), &json!({ "graceful": interrupts == 1 }), None).await?;
            }
        }
    };
    end(&object, &args.globals, args.output)?;
    let status = status(&object);
    Ok(if status.phase.is_terminal() { exit_of(&status) } else { Exit::Paused })
}

/// Copies what steps wrote to standard output.
pub(super) async fn copy_logs(remote: &Remote, flow: &str, members: &[(&str, String)]) -> Result<(), Failure> {
    use http_body_util::BodyExt as _;
    let path = format!("/flows/{}/logs{}", escaped(flow), super::query(members));
    let mut body = remote.client.open(ApiRequest::get(path)).await?;
    while let Some(frame) = body.frame().await {
        let broken = |error| Failure::new(Exit::Unreachable, format!("the log broke off: {error}"));
        if let Ok(bytes) = frame.map_err(broken)?.into_data() {
            output::log(&bytes)?;
        }
    }
    Ok(())
}
