//! `orlop elements`: the elements of an array, in pages, by state. Owns its columns.

use clap::Args;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::address::Address;
use super::client::{ApiRequest, Client, query};
use super::read::{items, text, took};
use super::target::{Patience, Target};
use crate::view::table::columns;

/// Items of one request.
const PAGE: u32 = 1000;

/// Options of `orlop elements`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop elements j000040000000001                          the first 100
  orlop elements j000040000000001 --state failed,timedout
  orlop elements j000040000000001.100-199 -o json
  orlop elements j000040000000001 --state failed -o name | xargs -n 1 orlop logs")]
pub(in crate::cli) struct ElementsArgs {
    /// Id of the job, or JOB.0-9,17 for some of its elements
    job: Address,
    /// Only in these states (repeatable, or separated by commas)
    #[arg(long)]
    state: Vec<String>,
    /// At most as many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Lists elements.
pub(super) async fn elements(args: ElementsArgs) -> Result<Exit, Failure> {
    args.patience.bound(list(&args)).await
}

async fn list(args: &ElementsArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let found = some(&client, &args.job, &args.state, args.limit).await?;
    let names = |found: &Value| {
        items(found).iter().map(|element| format!("{}.{}", args.job.job, text(element, "index"))).collect()
    };
    let shown = args.target.shown(&found, names)?;
    output::print(&shown.unwrap_or_else(|| table(&found)))?;
    if !found["next_cursor"].is_null() {
        output::tell(&format!("these are the first {}; see more with --limit N", args.limit));
    }
    Ok(Exit::Done)
}

/// Elements in some states, at most so many, as the list of a server.
///
/// # Errors
/// There is no such job, or it is no array.
pub(super) async fn some(client: &Client, address: &Address, states: &[String], limit: u32) -> Result<Value, Failure> {
    let (mut all, mut cursor): (Vec<Value>, Option<String>) = (Vec::new(), None);
    let mut left = limit;
    loop {
        let mut members = address.members();
        members.push(("limit", left.min(PAGE).to_string()));
        members.extend(states.iter().map(|state| ("state", state.clone())));
        members.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let found = client.ask(ApiRequest::get(format!("{}/elements{}", address.path(), query(&members)))).await?.body;
        let page = items(&found);
        left = left.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        all.extend_from_slice(page);
        cursor = found["next_cursor"].as_str().map(str::to_owned);
        if left == 0 || cursor.is_none() {
            return Ok(json!({ "items": all, "next_cursor": cursor }));
        }
    }
}

/// Elements as rows.
pub(super) fn table(found: &Value) -> String {
    let row = |element: &Value| {
        let mut row: Vec<String> =
            ["index", "state", "reason", "attempt", "worker", "exit_code"].map(|field| text(element, field)).into();
        row.push(took(element));
        row
    };
    let rows: Vec<Vec<String>> = items(found).iter().map(row).collect();
    if rows.is_empty() {
        return "no elements\n".to_owned();
    }
    columns(&["INDEX", "STATE", "REASON", "ATTEMPT", "WORKER", "CODE", "TIME"], &rows)
}
