//! `orlop cancel`: jobs by their ids, or all that pass a filter. Owns which are meant, and that many are asked for on
//! purpose.

use clap::Args;
use orlop_core::spec::job::Indices;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output::{self, Format};
use super::super::setup::pair;
use super::address::Address;
use super::client::{ApiRequest, Client};
use super::read::{number, text};
use super::target::{Patience, Target};
use super::wait;

/// Options of `orlop cancel`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop cancel j000040000000001 j000040000000002
  orlop cancel j000040000000003.100-199       some elements of an array
  orlop cancel --label experiment=7 --yes --wait
  orlop cancel --all --yes                  every job that you may cancel")]
pub(in crate::cli) struct CancelArgs {
    /// Ids of jobs, or JOB.0-9,17 for elements of arrays
    #[arg(required_unless_present_any = ["state", "label", "all"], conflicts_with_all = ["state", "label", "all"])]
    ids: Vec<Address>,
    /// Only these elements of an array, such as 0-99,200
    #[arg(long, value_name = "INDICES", requires = "ids")]
    elements: Option<Indices>,
    /// Jobs in this state (repeatable)
    #[arg(long)]
    state: Vec<String>,
    /// Jobs with this label (repeatable)
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
    /// All jobs
    #[arg(long)]
    all: bool,
    /// Confirm: required where jobs are not named one by one
    #[arg(short, long)]
    yes: bool,
    /// Wait until they have ended
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Cancels jobs.
pub(super) async fn cancel(args: CancelArgs) -> Result<Exit, Failure> {
    args.patience.bound(run(&args)).await
}

async fn run(args: &CancelArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    if args.ids.is_empty() {
        return many(args, &client).await;
    }
    let ids = args.ids.iter().map(|id| id.with("--elements", args.elements.as_ref()));
    let ids = ids.collect::<Result<Vec<Address>, _>>()?;
    let (mut items, table) = (Vec::new(), args.target.output == Format::Table);
    for id in &ids {
        let body = id.indices.as_ref().map(|elements| json!({ "elements": elements.to_string() }));
        let answer = client.ask(ApiRequest::post(format!("{}/cancel", id.path()), body.as_ref())).await?;
        if table {
            let ended = answer.status == 200;
            output::tell(&format!("{id} {}", if ended { "had ended before" } else { "is being cancelled" }));
        }
        let mut item = answer.body;
        item["id"] = id.to_string().into();
        items.push(item);
    }
    if args.wait {
        for (id, item) in ids.iter().zip(&mut items) {
            let state = text(&wait::ended(&client, id, None).await?, "state");
            if table {
                output::print(&format!("{id} {state}\n"))?;
            }
            item["state"] = state.into();
        }
    }
    show(args, &json!({ "items": items }), || ids.iter().map(ToString::to_string).collect())
}

/// Shows what a server answered, in the form asked for; sentences were said before.
fn show(args: &CancelArgs, answer: &Value, names: impl FnOnce() -> Vec<String>) -> Result<Exit, Failure> {
    if let Some(shown) = args.target.shown(answer, |_| names())? {
        output::print(&shown)?;
    }
    Ok(Exit::Done)
}

async fn many(args: &CancelArgs, client: &Client) -> Result<Exit, Failure> {
    if !args.yes {
        return Err(Failure::usage("this cancels all jobs that match the filter; confirm with --yes"));
    }
    let mut wanted = json!({ "all": args.all });
    if !args.state.is_empty() {
        let words = args.state.iter().flat_map(|text| text.split(','));
        wanted["state"] = words.map(|word| Value::from(word.trim())).collect();
    }
    for (key, value) in &args.label {
        wanted["label"][key] = value.as_str().into();
    }
    if let Some(tenant) = &args.target.tenant {
        wanted["tenant"] = tenant.as_str().into();
    }
    let mut first = None;
    loop {
        let answer = client.ask(ApiRequest::post("/jobs/cancel", Some(&wanted))).await?.body;
        let count = number(&answer, "cancelled");
        let over = count == 0 && number(&answer, "ended") == 0;
        let answer = first.get_or_insert(answer);
        if !args.wait && args.target.output == Format::Table {
            output::tell(&format!("{count} jobs are being cancelled"));
        }
        if !args.wait || over {
            return show(args, answer, Vec::new);
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}
