//! `orlop jobs`: the jobs of a fleet. Owns filters and columns.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use orlop_core::time::{HumanDuration, Time};
use serde_json::Value;

use super::super::failure::{Exit, Failure};
use super::super::output::{self, Format};
use super::super::setup::pair;
use super::again::Looks;
use super::client::{Answered, ApiRequest, query};
use super::read::{ago, each, items, text, took};
use super::target::{Patience, Target};
use super::tasks::tasks;
use crate::host::flow::{Clock as _, SystemClock};
use crate::view::table::columns;
use crate::view::text::one_line;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);

/// Options of `orlop jobs`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop jobs                                the newest 100
  orlop jobs --state Failed,TimedOut --since 24h
  orlop jobs --label experiment=7 -o name   ids only")]
pub(in crate::cli) struct JobsArgs {
    /// Only in these states (repeatable, or separated by commas)
    #[arg(long)]
    state: Vec<String>,
    /// Only with this label (repeatable)
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
    /// Only those submitted since: a duration such as 24h, or a time in RFC 3339 form
    #[arg(long, value_parser = since)]
    since: Option<Time>,
    /// At most as many, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Look again every two seconds
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// A time, or how long ago it is.
pub(super) fn since(text: &str) -> Result<Time, String> {
    if let Ok(time) = text.parse::<Time>() {
        return Ok(time);
    }
    let duration: HumanDuration = text.parse().map_err(|error| format!("{error}; or give a time in RFC 3339 form"))?;
    let millis = i64::try_from(duration.get().as_millis()).unwrap_or(i64::MAX);
    Ok(Time::from_millis(SystemClock.now().millis().saturating_sub(millis)))
}

/// Lists jobs.
pub(super) async fn jobs(args: JobsArgs) -> Result<Exit, Failure> {
    args.patience.bound(list(&args)).await
}

async fn list(args: &JobsArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let mut members: Vec<(&str, String)> = vec![("limit", args.limit.to_string())];
    members.extend(args.state.iter().map(|state| ("state", state.clone())));
    members.extend(args.label.iter().map(|(key, value)| ("label", format!("{key}={value}"))));
    members.extend(args.since.map(|since| ("since", since.to_string())));
    members.extend(args.target.tenant.iter().map(|tenant| ("tenant", tenant.clone())));
    members.push(("details", "true".to_owned()));
    let path = format!("/jobs{}", query(&members));
    let mut looks = Looks::default();
    loop {
        let look = client.ask(ApiRequest::get(&path)).await;
        let found = match args.watch {
            true => looks.see(look).await?,
            false => Some(look?),
        };
        let Some(Answered { body: found, .. }) = found else { continue };
        let shown = args.target.shown(&found, |found| each(found, "id"))?;
        let shown = shown.unwrap_or_else(|| table(&found));
        let page = args.watch && args.target.output == Format::Table && std::io::stdout().is_terminal();
        if page { output::screen(&shown) } else { output::print(&shown) }?;
        if !args.watch {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn table(found: &Value) -> String {
    let rows: Vec<Vec<String>> = items(found).iter().map(row).collect();
    if rows.is_empty() {
        return "no jobs\n".to_owned();
    }
    columns(&["ID", "NAME", "STATE", "REASON", "TENANT", "TASKS", "PRIORITY", "WORKER", "TIME", "AGE"], &rows)
}

/// What a job is called: where nobody gave it a name, after the program that it runs.
fn name(job: &Value) -> String {
    let name = text(job, "name");
    if !name.is_empty() {
        return name;
    }
    let program = text(job, "program");
    program.rsplit('/').next().unwrap_or_default().to_owned()
}

fn row(job: &Value) -> Vec<String> {
    vec![
        text(job, "id"),
        one_line(&name(job), 32),
        text(job, "state"),
        text(job, "reason"),
        text(job, "tenant"),
        tasks(job),
        text(job, "priority"),
        text(job, "worker"),
        took(job),
        ago(job, "submitted_at"),
    ]
}
