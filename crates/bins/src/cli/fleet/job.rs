//! `orlop job`: one job with its attempts. Owns the page people read.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::super::output;
use super::client::{Asked, escaped};
use super::exit::{Exit, Trouble};
use super::read::{ago, items, text};
use super::target::{Patience, Target};
use crate::view::table::columns;

/// What is asked of one job.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Verb {
    /// Show a job with its attempts
    Get(GetArgs),
}

/// Options of `orlop job get`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop job get j000040000000001
  orlop job get j000040000000001 -o json")]
pub(in crate::cli) struct GetArgs {
    /// Id of the job
    id: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Runs a verb.
pub(super) async fn run(verb: Verb) -> Result<Exit, Trouble> {
    match verb {
        Verb::Get(args) => args.patience.bound(get(&args)).await,
    }
}

async fn get(args: &GetArgs) -> Result<Exit, Trouble> {
    let client = args.target.client()?;
    let path = format!("/jobs/{}", escaped(&args.id));
    let job = client.ask(Asked::get(&path)).await?.body;
    if let Some(shown) = args.target.shown(&job, |job| vec![text(job, "id")])? {
        output::print(&shown)?;
        return Ok(Exit::Done);
    }
    let attempts = client.ask(Asked::get(format!("{path}/attempts?limit=100"))).await?.body;
    output::print(&page(&job, &attempts))?;
    Ok(Exit::Done)
}

fn page(job: &Value, attempts: &Value) -> String {
    let mut page = String::new();
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            page.push_str(&format!("{name:<11}{value}\n"));
        }
    };
    for field in ["id", "name", "tenant", "kind", "state", "reason", "exit_code", "worker", "priority"] {
        line(&field.replace('_', " "), text(job, field));
    }
    if job["count"].as_u64() != Some(1) {
        line("count", text(job, "count"));
    }
    for field in ["submitted_at", "not_before", "started_at", "finished_at"] {
        line(&field.trim_end_matches("_at").replace('_', " "), text(job, field));
    }
    let retries = [("retries", "retries"), ("losses", "infra")];
    for (name, field) in retries.into_iter().filter(|(_, field)| job[*field].as_u64() != Some(0)) {
        line(name, text(job, field));
    }
    line("retry of", text(job, "retry_of"));
    for (key, value) in job["labels"].as_object().into_iter().flatten() {
        line("label", format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    let rows: Vec<Vec<String>> = items(attempts).iter().map(row).collect();
    if !rows.is_empty() {
        page.push('\n');
        page.push_str(&columns(&["INDEX", "MEMBER", "ATTEMPT", "STATE", "WORKER", "CODE", "REASON", "AGE"], &rows));
    }
    page
}

fn row(attempt: &Value) -> Vec<String> {
    let mut row: Vec<String> = ["index", "member", "attempt", "state", "worker", "exit_code", "reason"]
        .into_iter()
        .map(|field| text(attempt, field))
        .collect();
    row.push(ago(attempt, "assigned_at"));
    row
}
