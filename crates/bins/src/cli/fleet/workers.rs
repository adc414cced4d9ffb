//! `orlop workers` and `orlop drain`: the machines of a fleet and orders for them. Owns columns and pages.

use std::time::Duration;

use clap::{Args, Subcommand};
use orlop_core::time::HumanDuration;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::super::setup::pair;
use super::client::{ApiRequest, Client, escaped, query};
use super::join::{self, TokenVerb};
use super::read::{ago, each, items, number, percent, text};
use super::target::{Patience, Target};
use crate::view::table::columns;
use crate::view::text::one_line;

/// Between two looks at a worker that drains.
const LOOK: Duration = Duration::from_millis(500);

/// Options of `orlop workers`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  orlop workers                             list them
  orlop workers --state Unhealthy
  orlop workers --label zone=a
  orlop workers get node-7
  orlop workers token create --uses 5       five machines may join; prints how
  orlop workers cordon node-7               no new work; running jobs continue
  orlop workers revoke node-7               revoke it; it can join again with a new join token")]
pub(in crate::cli) struct WorkersArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Only in these states (repeatable, or separated by commas)
    #[arg(long)]
    state: Vec<String>,
    /// Only with this label (repeatable)
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// What is asked of one worker.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Verb {
    /// Show a worker
    Get(OneArgs),
    /// Mark a worker as unschedulable
    Cordon(OneArgs),
    /// Mark a worker as schedulable again
    Uncordon(OneArgs),
    /// Remove a worker that runs nothing, and release its name
    Remove(RemoveArgs),
    /// Revoke a worker: its attempts are given up, its certificate is rejected
    Revoke(OneArgs),
    /// Tokens with which workers join over TLS
    #[command(subcommand, arg_required_else_help = true)]
    Token(TokenVerb),
}

/// A worker.
#[derive(Args, Debug)]
pub(in crate::cli) struct OneArgs {
    /// Id of the worker
    id: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Options of `orlop workers remove`.
#[derive(Args, Debug)]
pub(in crate::cli) struct RemoveArgs {
    #[command(flatten)]
    one: OneArgs,
    /// Give up its attempts, and revoke it, as `revoke` does
    #[arg(long)]
    force: bool,
}

/// Options of `orlop drain`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop drain node-7 --deadline 30m --reason 'new disks' --wait
  orlop drain node-7 --undo")]
pub(in crate::cli) struct DrainArgs {
    /// Id of the worker
    worker: String,
    /// After this time its remaining attempts are cancelled and run elsewhere
    #[arg(long, value_name = "DURATION", conflicts_with = "undo")]
    deadline: Option<HumanDuration>,
    /// Why: shown with the worker, and given to its agent
    #[arg(long, value_name = "TEXT", conflicts_with = "undo")]
    reason: Option<String>,
    /// Wait until it has left
    #[arg(long, conflicts_with = "undo")]
    wait: bool,
    /// Withdraw the drain
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Runs a verb about workers.
pub(super) async fn run(args: WorkersArgs) -> Result<Exit, Failure> {
    match args.verb {
        None => args.patience.bound(list(&args)).await,
        Some(Verb::Get(one)) => one.patience.bound(get(&one)).await,
        Some(Verb::Cordon(one)) => one.patience.bound(order(&one.target, &one.id, "cordon", None)).await,
        Some(Verb::Revoke(one)) => one.patience.bound(order(&one.target, &one.id, "revoke", None)).await,
        Some(Verb::Remove(args)) => args.one.patience.bound(remove(&args)).await,
        Some(Verb::Token(verb)) => join::run(verb).await,
        Some(Verb::Uncordon(one)) => one.patience.bound(order(&one.target, &one.id, "uncordon", None)).await,
    }
}

async fn list(args: &WorkersArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let found = all(&client, &args.state, &args.label).await?;
    let shown = args.target.shown(&found, |found| each(found, "id"))?;
    output::print(&shown.unwrap_or_else(|| table(&found)))?;
    Ok(Exit::Done)
}

/// All workers, page by page.
pub(super) async fn all(client: &Client, states: &[String], labels: &[(String, String)]) -> Result<Value, Failure> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let mut members = vec![("limit", "1000".to_owned())];
        members.extend(states.iter().map(|state| ("state", state.clone())));
        members.extend(labels.iter().map(|(key, value)| ("label", format!("{key}={value}"))));
        members.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page = client.ask(ApiRequest::get(format!("/workers{}", query(&members)))).await?.body;
        found.extend(items(&page).iter().cloned());
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(json!({ "items": found }));
        }
    }
}

fn table(found: &Value) -> String {
    let rows: Vec<Vec<String>> = items(found).iter().map(row).collect();
    if rows.is_empty() {
        return "no workers\n".to_owned();
    }
    columns(&["ID", "STATE", "JOBS", "CPU", "MEMORY", "BAND", "FLAGS", "SINCE", "REASON"], &rows)
}

fn row(worker: &Value) -> Vec<String> {
    let flags = [("cordoned", "cordoned"), ("draining", "draining")];
    let set = flags.into_iter().filter(|(field, _)| worker[*field] == Value::Bool(true)).map(|(_, word)| word);
    vec![
        text(worker, "id"),
        text(worker, "state"),
        text(worker, "attempts"),
        percent(worker, "cpu_allocated"),
        percent(worker, "memory_allocated"),
        text(worker, "band"),
        set.collect::<Vec<_>>().join(","),
        ago(worker, "since"),
        why(worker),
    ]
}

/// Why it leaves, or is not well.
fn why(worker: &Value) -> String {
    let given = text(&worker["drain"], "reason");
    if !given.is_empty() {
        return format!("drain: {}", one_line(&given, 40));
    }
    match unwell(worker).next() {
        Some(check) if text(worker, "state") == "Unhealthy" => one_line(&check, 60),
        _ => text(worker, "reason"),
    }
}

/// What a worker checked and did not find good.
fn unwell(worker: &Value) -> impl Iterator<Item = String> {
    let bad = worker["report"]["health"].as_array().into_iter().flatten().filter(|check| check["ok"] == json!(false));
    bad.map(|check| format!("{}: {}", text(check, "check"), text(check, "detail")))
}

async fn get(one: &OneArgs) -> Result<Exit, Failure> {
    let client = one.target.client()?;
    let worker = client.ask(ApiRequest::get(format!("/workers/{}", escaped(&one.id)))).await?.body;
    let shown = one.target.shown(&worker, |worker| vec![text(worker, "id")])?;
    output::print(&shown.unwrap_or_else(|| page(&worker)))?;
    Ok(Exit::Done)
}

fn page(worker: &Value) -> String {
    let mut page = String::new();
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            page.push_str(&format!("{name:<12}{value}\n"));
        }
    };
    for field in ["id", "incarnation", "state", "since", "reason", "connected", "cordoned", "draining", "band"] {
        line(field, text(worker, field));
    }
    for (name, field) in [("drain for", "reason"), ("drain until", "deadline")] {
        line(name, text(&worker["drain"], field));
    }
    let offer = &worker["capabilities"];
    line("jobs", format!("{} of {}", text(worker, "attempts"), text(offer, "max_jobs")));
    line("cpu", format!("{} of {}m", percent(worker, "cpu_allocated"), text(offer, "cpu_m")));
    let memory = number(offer, "memory_bytes") >> 20;
    line("memory", format!("{} of {memory}Mi", percent(worker, "memory_allocated")));
    for gpu in offer["gpus"].as_array().into_iter().flatten() {
        line("gpu", format!("{} x {} {}", text(gpu, "count"), text(gpu, "vendor"), text(gpu, "model")));
    }
    for gpu in offer["gpu_units"].as_array().into_iter().flatten() {
        line("gpu unit", ["index", "vendor", "model", "uuid"].map(|field| text(gpu, field)).join(" "));
    }
    for extra in worker["further"].as_array().into_iter().flatten() {
        if let Some(name) = extra["name"].as_str().and_then(|name| name.strip_prefix("extra:")) {
            line("extra", format!("{name} {} of {}", text(extra, "allocated"), text(extra, "total")));
        }
    }
    for list in ["runtimes", "features", "tenants"] {
        let words = offer[list].as_array().into_iter().flatten().filter_map(Value::as_str);
        line(list, words.collect::<Vec<_>>().join(" "));
    }
    for (key, value) in offer["labels"].as_object().into_iter().flatten() {
        line("label", format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    line("agent", text(worker, "agent_version"));
    let report = &worker["report"];
    if report.is_object() {
        line("host cpu", format!("{:.0}%, load {:.2}", real(report, "cpu_percent"), real(report, "load")));
        line("host memory", format!("{}Mi in use", number(report, "memory_bytes") >> 20));
        line("host disk", format!("{}Mi free, {}", number(report, "disk_free") >> 20, rate(report, "disk_io")));
        line("host net", rate(report, "net_io"));
        let busy = report["gpu_percent"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        line("host gpus", busy.map(|busy| format!("{busy:.0}%")).collect::<Vec<_>>().join(" "));
        let (waits, results) = (number(report, "spool_bytes"), number(report, "spool_results"));
        line("spool", format!("{waits} bytes and {results} results wait for the server"));
        unwell(worker).for_each(|check| line("unwell", check));
    }
    page
}

fn real(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_default()
}

fn rate(value: &Value, field: &str) -> String {
    format!("{}Ki/s", number(value, field) >> 10)
}

async fn order(target: &Target, id: &str, word: &str, body: Option<&Value>) -> Result<Exit, Failure> {
    let client = target.client()?;
    let answer = client.ask(ApiRequest::post(format!("/workers/{}/{word}", escaped(id)), body)).await?.body;
    if let Some(shown) = target.shown(&answer, |_| vec![id.to_owned()])? {
        output::print(&shown)?;
        return Ok(Exit::Done);
    }
    let done = match word {
        "drain" => "takes no more jobs, and leaves when its running jobs have ended",
        "undrain" => "is no longer drained",
        "cordon" => "takes no more jobs",
        "uncordon" => "takes jobs again",
        "revoke" => "is revoked; it can join again with a new join token",
        _ => word,
    };
    output::tell(&format!("{id} {done}"));
    Ok(Exit::Done)
}

async fn remove(args: &RemoveArgs) -> Result<Exit, Failure> {
    let one = &args.one;
    let force = if args.force { "?force=true" } else { "" };
    one.target.client()?.ask(ApiRequest::delete(format!("/workers/{}{force}", escaped(&one.id)))).await?;
    output::tell(&format!("{} is removed; the list shows it as Terminated for a while", one.id));
    Ok(Exit::Done)
}

/// Drains a worker.
pub(super) async fn drain(args: DrainArgs) -> Result<Exit, Failure> {
    args.patience.bound(drained(&args)).await
}

async fn drained(args: &DrainArgs) -> Result<Exit, Failure> {
    if args.undo {
        return order(&args.target, &args.worker, "undrain", None).await;
    }
    let mut body = json!({});
    for (field, value) in [("deadline", args.deadline.map(|it| it.to_string())), ("reason", args.reason.clone())] {
        if let Some(value) = value {
            body[field] = value.into();
        }
    }
    order(&args.target, &args.worker, "drain", Some(&body)).await?;
    if args.wait {
        let client = args.target.client()?;
        let path = format!("/workers/{}", escaped(&args.worker));
        loop {
            match client.ask(ApiRequest::get(&path)).await {
                Ok(answer) if text(&answer.body, "state") == "Terminated" => break,
                Ok(_) => tokio::time::sleep(LOOK).await,
                // One that has left is forgotten after a while.
                Err(gone) if gone.exit == Exit::NotFound => break,
                Err(failure) => return Err(failure),
            }
        }
        output::tell(&format!("{} has left", args.worker));
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_is_not_well_says_why_in_the_list_and_on_its_page() {
        let worker = json!({
            "id": "w1", "state": "Unhealthy", "reason": "report_bad", "attempts": 0, "band": "below",
            "cpu_allocated": 0.5, "memory_allocated": 0.0,
            "further": [
                {"name": "gpu:nvidia/a100", "allocated": 0, "total": 1},
                {"name": "extra:fpga", "allocated": 2, "total": 4}
            ],
            "capabilities": {
                "cpu_m": 2000, "max_jobs": 8, "gpus": [{"vendor": "nvidia", "model": "a100", "count": 1}],
                "gpu_units": [{"vendor": "nvidia", "model": "a100", "index": 0, "uuid": "GPU-5c89852c-d268"}]
            },
            "report": {
                "cpu_percent": 51.4, "memory_bytes": 700_000_000, "disk_free": 12_000_000_000_u64, "disk_io": 5000,
                "net_io": 0, "load": 2.678, "gpu_percent": [37.0, 0.0], "spool_bytes": 91, "spool_results": 1,
                "health": [
                    {"check": "clock", "ok": true},
                    {"check": "room work", "ok": false, "detail": "12235 MiB of 258019 MiB are free"}
                ]
            }
        });
        insta::assert_snapshot!(table(&json!({ "items": [worker] })), @r"
        ID  STATE      JOBS  CPU  MEMORY  BAND   FLAGS  SINCE  REASON
        w1  Unhealthy  0     50%  0%      below                room work: 12235 MiB of 258019 MiB are free
        ");
        insta::assert_snapshot!(page(&worker), @r"
        id          w1
        state       Unhealthy
        reason      report_bad
        band        below
        jobs        0 of 8
        cpu         50% of 2000m
        memory      0% of 0Mi
        gpu         1 x nvidia a100
        gpu unit    0 nvidia a100 GPU-5c89852c-d268
        extra       fpga 2 of 4
        host cpu    51%, load 2.68
        host memory 667Mi in use
        host disk   11444Mi free, 4Ki/s
        host net    0Ki/s
        host gpus   37% 0%
        spool       91 bytes and 1 results wait for the server
        unwell      room work: 12235 MiB of 258019 MiB are free
        ");
        let leaving = json!({"id": "w2", "state": "Draining", "drain": {"reason": "new disks"}});
        assert_eq!(why(&leaving), "drain: new disks");
        assert_eq!(why(&json!({"state": "Unhealthy", "reason": "silent"})), "silent");
    }
}
