//! `orlop quota`: limits of tenants and what they hold. Owns the words of limits.

use clap::{Args, Subcommand};
use orlop_core::quantity::{Quantity, Step};
use serde_json::{Map, Value, json};

use super::super::output;
use super::super::setup::pair;
use super::client::{Asked, Client, escaped};
use super::exit::{Exit, Trouble};
use super::read::{items, number, text};
use super::target::{Patience, Target};
use crate::view::table::columns;
use crate::wire::problem::Code;

/// Words of limits, the fields they set, and the step of their quantities.
const LIMITS: &[(&str, &str, Step)] = &[
    ("cpu", "max_cpu_m", Step::Milli),
    ("memory", "max_memory_bytes", Step::One),
    ("gpus", "max_gpus", Step::One),
    ("running", "max_running_jobs", Step::One),
    ("pending", "max_pending_jobs", Step::One),
    ("active", "max_active_jobs", Step::One),
    ("rate", "submit_per_second", Step::One),
    ("array", "max_array", Step::One),
    ("artifacts", "max_artifact_bytes", Step::One),
    ("log", "max_log_bytes_per_job", Step::One),
];

/// What is asked about limits.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Verb {
    /// Show the limits of a tenant
    Get(OneArgs),
    /// Set limits of a tenant, which is made if there is none
    Set(SetArgs),
    /// Show what tenants hold
    Usage(UsageArgs),
}

/// A tenant.
#[derive(Args, Debug)]
pub(in crate::cli) struct OneArgs {
    /// Name of the tenant
    name: String,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Options of `orlop quota usage`.
#[derive(Args, Debug)]
pub(in crate::cli) struct UsageArgs {
    /// Name of the tenant; all without one
    name: Option<String>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Options of `orlop quota set`.
#[derive(Args, Debug)]
#[command(
    after_help = "Limits: cpu, memory, gpus, running, pending, active, rate (submits per second), array, artifacts
(bytes stored), log (bytes of one attempt); `none` removes one.
Beside them: weight=1..1000 in fair division, exceed=wait|deny.

Examples:
  orlop quota set physics cpu=64 memory=256Gi gpus=8 running=500 pending=100000 weight=200
  orlop quota set physics running=none exceed=deny"
)]
pub(in crate::cli) struct SetArgs {
    /// Name of the tenant
    name: String,
    /// What to set
    #[arg(required = true, value_name = "LIMIT=VALUE", value_parser = pair)]
    limits: Vec<(String, String)>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Runs a verb.
pub(super) async fn run(verb: Verb) -> Result<Exit, Trouble> {
    match verb {
        Verb::Get(args) => args.patience.bound(get(&args)).await,
        Verb::Set(args) => args.patience.bound(set(&args)).await,
        Verb::Usage(args) => args.patience.bound(usage(&args)).await,
    }
}

fn path(name: &str) -> String {
    format!("/tenants/{}", escaped(name))
}

async fn get(args: &OneArgs) -> Result<Exit, Trouble> {
    let client = args.target.client()?;
    let tenant = client.ask(Asked::get(path(&args.name))).await?.body;
    let shown = args.target.shown(&tenant, |tenant| vec![text(tenant, "name")])?;
    output::print(&shown.unwrap_or_else(|| page(&tenant)))?;
    Ok(Exit::Done)
}

fn page(tenant: &Value) -> String {
    let mut page = String::new();
    for (name, field) in [("tenant", "name"), ("state", "state"), ("weight", "weight")] {
        page.push_str(&format!("{name:<10}{}\n", text(tenant, field)));
    }
    for (word, field, _) in LIMITS {
        let value = tenant["quota"][*field].as_u64();
        let unit = if *word == "cpu" { "m" } else { "" };
        let value = value.map_or_else(|| "none".to_owned(), |value| format!("{value}{unit}"));
        page.push_str(&format!("{word:<10}{value}\n"));
    }
    let exceed = tenant["quota"]["on_exceed"].as_str().unwrap_or("wait");
    page.push_str(&format!("{:<10}{exceed}\n", "exceed"));
    page
}

/// Fields of a request.
type Fields = Map<String, Value>;

/// What is to change, of the limits and of the tenant itself.
fn changes(pairs: &[(String, String)]) -> Result<(Fields, Fields), Trouble> {
    let (mut limits, mut tenant) = (Map::new(), Map::new());
    for (word, value) in pairs {
        if word == "weight" {
            let weight: u32 = value.parse().map_err(|_| Trouble::usage("weight: use 1 to 1000"))?;
            tenant.insert("weight".to_owned(), weight.into());
            continue;
        }
        if word == "exceed" {
            limits.insert("on_exceed".to_owned(), json!(value));
            continue;
        }
        let Some((_, field, step)) = LIMITS.iter().find(|(known, _, _)| known == word) else {
            let known: Vec<&str> = LIMITS.iter().map(|(known, _, _)| *known).collect();
            return Err(Trouble::usage(format!("`{word}` is no limit; use {}, weight or exceed", known.join(", "))));
        };
        let amount = match value.as_str() {
            "none" => Value::Null,
            text => {
                let quantity: Quantity = text.parse().map_err(|error| Trouble::usage(format!("{word}: {error}")))?;
                let steps = quantity.round_up(*step);
                steps.ok_or_else(|| Trouble::usage(format!("{word}: use 0 or more, or none")))?.into()
            }
        };
        limits.insert((*field).to_owned(), amount);
    }
    Ok((limits, tenant))
}

/// Makes the tenant if there is none.
async fn ensure(client: &Client, name: &str) -> Result<(), Trouble> {
    match client.ask(Asked::get(path(name))).await {
        Err(unknown) if unknown.code == Some(Code::NotFound) => {
            client.ask(Asked::post("/tenants", Some(&json!({ "name": name })))).await?;
            output::tell(&format!("tenant {name} is made"));
            Ok(())
        }
        other => other.map(|_| ()),
    }
}

async fn set(args: &SetArgs) -> Result<Exit, Trouble> {
    let client = args.target.client()?;
    let (limits, tenant) = changes(&args.limits)?;
    ensure(&client, &args.name).await?;
    if !tenant.is_empty() {
        client.ask(Asked::patch(path(&args.name), &Value::Object(tenant))).await?;
    }
    if !limits.is_empty() {
        let place = format!("{}/quota", path(&args.name));
        let known = client.ask(Asked::get(&place)).await?;
        let mut quota = known.body;
        for (field, value) in limits {
            quota[field] = value;
        }
        // Somebody else's change in between is not overwritten.
        client.ask(Asked::put(place, &quota).with("if-match", known.etag)).await?;
    }
    let tenant = client.ask(Asked::get(path(&args.name))).await?.body;
    let shown = args.target.shown(&tenant, |tenant| vec![text(tenant, "name")])?;
    output::print(&shown.unwrap_or_else(|| page(&tenant)))?;
    Ok(Exit::Done)
}

async fn usage(args: &UsageArgs) -> Result<Exit, Trouble> {
    let client = args.target.client()?;
    let found = match &args.name {
        Some(name) => {
            let one = client.ask(Asked::get(format!("{}/usage", path(name)))).await?.body;
            json!({ "items": [one] })
        }
        None => {
            let stats = client.ask(Asked::get("/stats")).await?.body;
            json!({ "items": stats["tenants"] })
        }
    };
    let shown = args.target.shown(&found, |found| super::read::each(found, "tenant"))?;
    output::print(&shown.unwrap_or_else(|| tenants(items(&found))))?;
    Ok(Exit::Done)
}

/// What tenants hold, as a table.
pub(super) fn tenants(tenants: &[Value]) -> String {
    let row = |tenant: &Value| {
        let share = tenant["weighted_share"].as_f64().unwrap_or_default();
        vec![
            text(tenant, "tenant"),
            text(tenant, "pending"),
            text(tenant, "active"),
            text(tenant, "running"),
            format!("{}m", number(tenant, "cpu_m")),
            format!("{}Mi", number(tenant, "memory_bytes") >> 20),
            format!("{}Mi", number(tenant, "artifact_bytes") >> 20),
            format!("{share:.4}"),
        ]
    };
    if tenants.is_empty() {
        return "no tenants with jobs\n".to_owned();
    }
    let rows: Vec<Vec<String>> = tenants.iter().map(row).collect();
    columns(&["TENANT", "PENDING", "ACTIVE", "RUNNING", "CPU", "MEMORY", "ARTIFACTS", "SHARE"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s10_limits_by_their_words() {
        let pairs: Vec<_> = ["cpu=64", "memory=1Gi", "running=500", "pending=none", "weight=200", "exceed=deny"]
            .iter()
            .map(|text| pair(text).unwrap())
            .collect();
        let (limits, tenant) = changes(&pairs).unwrap();
        let expected = json!({
            "max_cpu_m": 64_000, "max_memory_bytes": 1_u64 << 30, "max_running_jobs": 500, "max_pending_jobs": null,
            "on_exceed": "deny",
        });
        assert_eq!((Value::Object(limits), Value::Object(tenant)), (expected, json!({ "weight": 200 })));
        assert!(changes(&[("cpus".into(), "1".into())]).unwrap_err().message.contains("use cpu, memory"));
    }
}
