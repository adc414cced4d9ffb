//! `orlop top`: the fleet at a glance, again and again on a terminal, once elsewhere. Owns the page.

use std::io::IsTerminal as _;

use clap::Args;
use orlop_core::time::GoDuration;
use serde_json::Value;

use super::super::output::{self, Format};
use super::client::Asked;
use super::exit::{Exit, Trouble};
use super::quota::tenants;
use super::read::{number, percent, text};
use super::target::{Patience, Target};
use crate::view::text::Colour;

/// Options of `orlop top`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop top
  orlop top -o json                         once, for programs")]
pub(in crate::cli) struct TopArgs {
    /// Between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: GoDuration,
    /// Look once
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Shows the fleet.
pub(super) async fn top(args: TopArgs) -> Result<Exit, Trouble> {
    args.patience.bound(look(&args)).await
}

async fn look(args: &TopArgs) -> Result<Exit, Trouble> {
    let client = args.target.client()?;
    let again = !args.once && args.target.output == Format::Table && std::io::stdout().is_terminal();
    loop {
        let stats = client.ask(Asked::get("/stats")).await?.body;
        let shown = args.target.shown(&stats, |stats| {
            stats["tenants"].as_array().into_iter().flatten().map(|tenant| text(tenant, "tenant")).collect()
        })?;
        let shown = shown.unwrap_or_else(|| page(&stats, args.target.colour()));
        output::print(&if again { format!("\u{1b}[2J\u{1b}[H{shown}") } else { shown })?;
        if !again {
            return Ok(Exit::Done);
        }
        tokio::time::sleep(args.interval.get().max(std::time::Duration::from_millis(100))).await;
    }
}

/// A share as a bar of twenty characters.
fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * 20.0).round() as usize;
    format!("{}{}", "#".repeat(full), ".".repeat(20 - full))
}

fn page(stats: &Value, colour: Colour) -> String {
    let fleet = &stats["allocation"];
    let bold = |text: &str| match colour {
        Colour::Always => format!("\u{1b}[1m{text}\u{1b}[0m"),
        Colour::Never => text.to_owned(),
    };
    let mut page = format!("{} epoch {}  {}\n", bold(&text(stats, "status")), text(stats, "epoch"), text(stats, "at"));
    page.push_str(&format!("jobs     {} not ended\n", number(stats, "jobs")));
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
    page.push('\n');
    page.push_str(&tenants(stats["tenants"].as_array().map_or(&[], Vec::as_slice)));
    page
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn s10_the_page_shows_allocation_workers_and_tenants() {
        let stats = json!({
            "status": "leading", "epoch": 3, "at": "2026-11-21T09:00:00Z", "jobs": 7,
            "allocation": {"workers": 2, "cpu": 0.75, "memory": 0.1, "below": 1, "in": 1, "above": 0},
            "workers": {"Running": 2},
            "tenants": [{"tenant": "default", "pending": 5, "active": 7, "running": 2, "cpu_m": 1500,
                "memory_bytes": 536_870_912, "weighted_share": 0.25}],
        });
        insta::assert_snapshot!(page(&stats, Colour::Never), @r"
        leading epoch 3  2026-11-21T09:00:00Z
        jobs     7 not ended
        cpu      [###############.....] 75%
        memory   [##..................] 10%
        band     1 below, 1 in, 0 above 60-85%
        workers  2 Running

        TENANT   PENDING  ACTIVE  RUNNING  CPU    MEMORY  SHARE
        default  5        7       2        1500m  512Mi   0.2500
        ");
    }
}
