//! `orlop top`: the fleet at a glance, again and again on a terminal, once elsewhere. Owns the page; why a shape of jobs
//! waits it has the server explain.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use clap::Args;
use orlop_core::time::HumanDuration;
use serde_json::Value;

use super::super::failure::{Exit, Failure};
use super::super::output::{self, Format};
use super::again::Looks;
use super::client::{Answered, ApiRequest, Client, escaped};
use super::quota::tenants;
use super::read::{ago, number, percent, text};
use super::target::{Patience, Target};
use crate::view::table::columns;
use crate::view::text::{Colour, one_line};

/// The most shapes that are explained: each costs the server a look at all workers.
const EXPLAINED: usize = 5;
/// The shortest time between two looks.
const LEAST: Duration = Duration::from_millis(100);

/// Options of `orlop top`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop top
  orlop top --once                          one page, with the rates of one second
  orlop top -o json                         once, for programs")]
pub(in crate::cli) struct TopArgs {
    /// Between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: HumanDuration,
    /// Show one page
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Shows the fleet.
pub(super) async fn top(args: TopArgs) -> Result<Exit, Failure> {
    args.patience.bound(look(&args)).await
}

async fn look(args: &TopArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let mut before = client.ask(ApiRequest::get("/stats")).await?.body;
    let mut looked = Instant::now();
    let shown =
        args.target.shown(&before, |stats| list(stats, "tenants").map(|tenant| text(tenant, "tenant")).collect())?;
    if let Some(shown) = shown {
        output::print(&shown)?;
        return Ok(Exit::Done);
    }
    let again = !args.once && args.target.output == Format::Table && std::io::stdout().is_terminal();
    let mut looks = Looks::default();
    looks.see(Ok(())).await?;
    loop {
        // Rates are what two looks differ in.
        tokio::time::sleep(args.interval.get().max(LEAST)).await;
        let look = client.ask(ApiRequest::get("/stats")).await;
        let stats = match again {
            true => looks.see(look).await?,
            false => Some(look?),
        };
        let Some(Answered { body: stats, .. }) = stats else { continue };
        let rates = rates(&before, &stats, looked.elapsed());
        (before, looked) = (stats, Instant::now());
        let why = reasons(&client, &before).await;
        let page = page(&before, &rates, &why, args.target.colour());
        if again { output::screen(&page) } else { output::print(&page) }?;
        if !again {
            return Ok(Exit::Done);
        }
    }
}

/// The rows of a list.
fn list<'a>(stats: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    stats[field].as_array().into_iter().flatten()
}

/// Why what waits longest fits nowhere: how many workers each filter turns down, and what the nearest lacks.
async fn reasons(client: &Client, stats: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for row in list(stats, "blocked").take(EXPLAINED) {
        let path = format!("/jobs/{}/explain", escaped(&text(row, "first")));
        // It may have been placed or cancelled in between: then there is nothing to tell.
        let why = client.ask(ApiRequest::get(path)).await.map(|answer| reason(&answer.body));
        all.push(why.unwrap_or_default());
    }
    all
}

fn reason(why: &Value) -> String {
    let counts = why["counts"].as_object().into_iter().flatten();
    let mut parts: Vec<String> = counts.map(|(filter, count)| format!("{filter} {count}")).collect();
    if parts.is_empty() {
        parts.push("no workers".to_owned());
    }
    let nearest = list(why, "workers").find(|fit| fit["worker"] == why["nearest"] && !fit["worker"].is_null());
    let lacking = nearest.into_iter().flat_map(|fit| list(fit, "lacking")).filter_map(Value::as_str);
    parts.extend(lacking.map(str::to_owned));
    parts.join("; ")
}

/// What happened to jobs in a second, between two looks. The time is the looker's own: an idle server shows an old picture.
fn rates(before: &Value, after: &Value, between: Duration) -> String {
    let rate = |field: &str| {
        let grown = number(&after["totals"], field).saturating_sub(number(&before["totals"], field));
        grown as f64 / between.as_secs_f64().max(LEAST.as_secs_f64())
    };
    format!("{:.1} submitted/s, {:.1} started/s, {:.1} ended/s", rate("submitted"), rate("started"), rate("ended"))
}

/// A share as a bar of twenty characters.
fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * 20.0).round() as usize;
    format!("{}{}", "#".repeat(full), ".".repeat(20 - full))
}

fn page(stats: &Value, rates: &str, why: &[String], colour: Colour) -> String {
    let fleet = &stats["allocation"];
    let bold = |text: &str| match colour {
        Colour::Always => format!("\u{1b}[1m{text}\u{1b}[0m"),
        Colour::Never => text.to_owned(),
    };
    let mut page = format!("{} epoch {}  {}\n", bold(&text(stats, "status")), text(stats, "epoch"), text(stats, "at"));
    page.push_str(&format!("jobs     {} not ended; {rates}\n", number(stats, "jobs")));
    for (name, field) in [("cpu", "cpu"), ("memory", "memory")] {
        let share = fleet[field].as_f64().unwrap_or_default();
        page.push_str(&format!("{name:<9}[{}] {}\n", bar(share), percent(fleet, field)));
    }
    let of = |field: &str| number(fleet, field);
    let (below, within, above) = (of("below"), of("in"), of("above"));
    page.push_str(&format!("band     {below} below, {within} in, {above} above 60-85%\n"));
    let states = stats["workers"].as_object();
    let states: Vec<String> = states.into_iter().flatten().map(|(state, count)| format!("{count} {state}")).collect();
    page.push_str(&format!("workers  {}\n", if states.is_empty() { "none".to_owned() } else { states.join(", ") }));
    for part in [queues(stats), blocked(stats, why), tenants(stats["tenants"].as_array().map_or(&[], Vec::as_slice))] {
        if !part.is_empty() {
            page.push('\n');
            page.push_str(&part);
        }
    }
    page
}

/// Queues by band, and those of tenants below.
fn queues(stats: &Value) -> String {
    let counts = ["ready", "blocked", "quota", "pending"];
    let row = |queue: &Value| {
        let tenant = text(queue, "tenant");
        let mut row = vec![text(queue, "band"), if tenant.is_empty() { "all".to_owned() } else { tenant }];
        row.extend(counts.map(|field| text(queue, field)));
        row
    };
    let bands = list(stats, "bands").filter(|band| counts.iter().any(|field| number(band, field) > 0));
    let rows: Vec<Vec<String>> = bands.chain(list(stats, "queues")).map(row).collect();
    if rows.is_empty() {
        return "nothing waits\n".to_owned();
    }
    columns(&["QUEUE", "TENANT", "READY", "BLOCKED", "QUOTA", "PENDING"], &rows)
}

/// What fits nowhere, and why.
fn blocked(stats: &Value, why: &[String]) -> String {
    let why = why.iter().map(String::as_str).chain(std::iter::repeat(""));
    let row = |(queue, why): (&Value, &str)| {
        let mut asks = format!("{}m {}Mi", number(queue, "cpu_m"), number(queue, "memory_bytes") >> 20);
        if number(queue, "gpus") > 0 {
            asks.push_str(&format!(" {} gpus", number(queue, "gpus")));
        }
        let first = text(queue, "first");
        vec![text(queue, "jobs"), asks, text(queue, "tenant"), ago(queue, "since"), first, one_line(why, 80)]
    };
    let rows: Vec<Vec<String>> = list(stats, "blocked").zip(why).map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    columns(&["BLOCKED", "ASKS", "TENANT", "SINCE", "FIRST", "WHY"], &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_shows_allocation_queues_rates_blocked_classes_workers_and_tenants() {
        let stats = json!({
            "status": "leading", "epoch": 3, "at": "2026-11-21T09:00:02Z", "jobs": 7,
            "allocation": {"workers": 2, "cpu": 0.75, "memory": 0.1, "below": 1, "in": 1, "above": 0},
            "workers": {"Running": 2},
            "bands": [
                {"band": "high", "ready": 0, "blocked": 0, "quota": 0, "pending": 0},
                {"band": "normal", "ready": 3, "blocked": 1, "quota": 0, "pending": 1},
            ],
            "queues": [{"tenant": "default", "band": "normal", "ready": 3, "blocked": 1, "quota": 0}],
            "blocked": [{"tenant": "default", "band": "normal", "jobs": 1, "first": "j1",
                "cpu_m": 64000, "memory_bytes": 268_435_456, "gpus": 2}],
            "totals": {"submitted": 30, "started": 25, "ended": 23},
            "tenants": [{"tenant": "default", "pending": 5, "active": 7, "running": 2, "cpu_m": 1500,
                "memory_bytes": 536_870_912, "artifact_bytes": 3_500_000, "weighted_share": 0.25}],
        });
        let before = json!({
            "totals": {"submitted": 10, "started": 20, "ended": 20},
        });
        let why = reason(&json!({
            "counts": {"capacity": 1, "labels": 1}, "nearest": "w1",
            "workers": [
                {"worker": "w1", "misfit": "capacity", "lacking": ["cpu: needs 64000m, free 500m of 2000m"]},
                {"worker": "w2", "misfit": "labels", "lacking": []},
            ],
        }));
        let rates = rates(&before, &stats, Duration::from_secs(2));
        insta::assert_snapshot!(page(&stats, &rates, &[why], Colour::Never), @r"
        leading epoch 3  2026-11-21T09:00:02Z
        jobs     7 not ended; 10.0 submitted/s, 2.5 started/s, 1.5 ended/s
        cpu      [###############.....] 75%
        memory   [##..................] 10%
        band     1 below, 1 in, 0 above 60-85%
        workers  2 Running

        QUEUE   TENANT   READY  BLOCKED  QUOTA  PENDING
        normal  all      3      1        0      1
        normal  default  3      1        0

        BLOCKED  ASKS                 TENANT   SINCE  FIRST  WHY
        1        64000m 256Mi 2 gpus  default         j1     capacity 1; labels 1; cpu: needs 64000m, free 500m of 2000m

        TENANT   PENDING  ACTIVE  RUNNING  CPU    MEMORY  ARTIFACTS  SHARE
        default  5        7       2        1500m  512Mi   3Mi        0.2500
        ");
    }
}
