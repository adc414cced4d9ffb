//! `orlop quota`: limits of tenants and what they hold. Owns the words of limits.

use std::time::Duration;

use clap::{Args, Subcommand};
use orlop_core::quantity::{Quantity, Step};
use orlop_core::time::{GoDuration, HumanDuration};
use serde_json::{Map, Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::super::setup::pair;
use super::client::{ApiRequest, Client, escaped};
use super::read::{items, number, text};
use super::target::{Patience, Target};
use crate::view::table::columns;

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

/// The word of the longest time limit of a job, and the field it sets.
const TIMEOUT: (&str, &str) = ("timeout", "max_timeout_ms");
/// What words of limits of GPUs by model begin with, and the field they set.
const KIND: (&str, &str) = ("gpus:", "max_gpus_by_kind");

/// What is asked about limits.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Verb {
    /// Show the limits of a tenant
    Get(OneArgs),
    /// Set limits of a tenant, which is created if it does not exist
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
(bytes stored), log (bytes of one attempt), timeout (the longest time limit of a job, such as 12h), gpus:MODEL
(GPUs of one model); `none` removes one.
Also: weight=1..1000 in fair division, exceed=wait|deny.

Examples:
  orlop quota set physics cpu=64 memory=256Gi gpus=8 running=500 pending=100000 weight=200
  orlop quota set physics gpus:a100=4 timeout=24h
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
pub(super) async fn run(verb: Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::Get(args) => args.patience.bound(get(&args)).await,
        Verb::Set(args) => args.patience.bound(set(&args)).await,
        Verb::Usage(args) => args.patience.bound(usage(&args)).await,
    }
}

fn path(name: &str) -> String {
    format!("/tenants/{}", escaped(name))
}

async fn get(args: &OneArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let tenant = client.ask(ApiRequest::get(path(&args.name))).await?.body;
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
    let timeout = tenant["quota"][TIMEOUT.1].as_u64();
    let timeout =
        timeout.map_or_else(|| "none".to_owned(), |millis| GoDuration::new(Duration::from_millis(millis)).to_string());
    page.push_str(&format!("{:<10}{timeout}\n", TIMEOUT.0));
    for (model, count) in tenant["quota"][KIND.1].as_object().into_iter().flatten() {
        page.push_str(&format!("{}{model}  {count}\n", KIND.0));
    }
    let exceed = tenant["quota"]["on_exceed"].as_str().unwrap_or("wait");
    page.push_str(&format!("{:<10}{exceed}\n", "exceed"));
    page
}

/// Fields of a request.
type Fields = Map<String, Value>;

/// What is to change, of the limits and of the tenant itself.
fn changes(pairs: &[(String, String)]) -> Result<(Fields, Fields), Failure> {
    let (mut limits, mut tenant) = (Map::new(), Map::new());
    for (word, value) in pairs {
        // The name of a model keeps its case.
        let lower = word.to_ascii_lowercase();
        let model = word.get(KIND.0.len()..).filter(|model| lower.starts_with(KIND.0) && !model.is_empty());
        let word = lower.as_str();
        if word == "weight" {
            let weight: u32 = value.parse().map_err(|_| Failure::usage("weight: use 1 to 1000"))?;
            tenant.insert("weight".to_owned(), weight.into());
            continue;
        }
        if word == "exceed" {
            limits.insert("on_exceed".to_owned(), json!(value.to_ascii_lowercase()));
            continue;
        }
        if word == TIMEOUT.0 {
            limits.insert(TIMEOUT.1.to_owned(), time(value)?);
            continue;
        }
        if let Some(model) = model {
            let count = amount(word, value, Step::One)?;
            let kinds = limits.entry(KIND.1).or_insert_with(|| Value::Object(Map::new()));
            kinds.as_object_mut().and_then(|kinds| kinds.insert(model.to_owned(), count));
            continue;
        }
        let Some((_, field, step)) = LIMITS.iter().find(|(known, _, _)| *known == word) else {
            let known: Vec<&str> = LIMITS.iter().map(|(known, _, _)| *known).collect();
            return Err(Failure::usage(format!(
                "`{word}` is not a limit; use {}, timeout, gpus:MODEL, weight or exceed",
                known.join(", ")
            )));
        };
        limits.insert((*field).to_owned(), amount(word, value, *step)?);
    }
    Ok((limits, tenant))
}

/// A quantity, or that there is none.
fn amount(word: &str, value: &str, step: Step) -> Result<Value, Failure> {
    if value.eq_ignore_ascii_case("none") {
        return Ok(Value::Null);
    }
    let quantity: Quantity = value.parse().map_err(|error| Failure::usage(format!("{word}: {error}")))?;
    let steps = quantity.round_up(step);
    Ok(steps.ok_or_else(|| Failure::usage(format!("{word}: use 0 or more, or none")))?.into())
}

/// A time in milliseconds, or that there is none.
fn time(value: &str) -> Result<Value, Failure> {
    if value.eq_ignore_ascii_case("none") {
        return Ok(Value::Null);
    }
    let time: HumanDuration =
        value.parse().map_err(|_| Failure::usage("timeout: use a duration such as 30m or 12h, or none"))?;
    let millis = u64::try_from(time.get().as_millis()).ok().filter(|millis| *millis > 0);
    Ok(millis.ok_or_else(|| Failure::usage("timeout: use more than 0, or none"))?.into())
}

/// Puts limits into those that are there. Models are set one by one, and one without a limit goes.
fn put(quota: &mut Value, limits: Fields) {
    for (field, value) in limits {
        let Some(kinds) = value.as_object().filter(|_| field == KIND.1) else {
            quota[field] = value;
            continue;
        };
        if !quota[KIND.1].is_object() {
            quota[KIND.1] = json!({});
        }
        for (model, count) in kinds {
            match quota[KIND.1].as_object_mut() {
                Some(known) if count.is_null() => drop(known.remove(model)),
                Some(known) => drop(known.insert(model.clone(), count.clone())),
                None => {}
            }
        }
    }
}

/// Makes the tenant if there is none.
async fn ensure(client: &Client, name: &str) -> Result<(), Failure> {
    match client.ask(ApiRequest::get(path(name))).await {
        Err(unknown) if unknown.exit == Exit::NotFound => {
            client.ask(ApiRequest::post("/tenants", Some(&json!({ "name": name })))).await?;
            output::tell(&format!("tenant {name} created"));
            Ok(())
        }
        other => other.map(|_| ()),
    }
}

async fn set(args: &SetArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let (limits, tenant) = changes(&args.limits)?;
    ensure(&client, &args.name).await?;
    if !tenant.is_empty() {
        client.ask(ApiRequest::patch(path(&args.name), &Value::Object(tenant))).await?;
    }
    if !limits.is_empty() {
        let place = format!("{}/quota", path(&args.name));
        let known = client.ask(ApiRequest::get(&place)).await?;
        let mut quota = known.body;
        put(&mut quota, limits);
        // Somebody else's change in between is not overwritten.
        client.ask(ApiRequest::put(place, &quota).with("if-match", known.etag)).await?;
    }
    let tenant = client.ask(ApiRequest::get(path(&args.name))).await?.body;
    let shown = args.target.shown(&tenant, |tenant| vec![text(tenant, "name")])?;
    output::print(&shown.unwrap_or_else(|| page(&tenant)))?;
    Ok(Exit::Done)
}

async fn usage(args: &UsageArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let found = match &args.name {
        Some(name) => {
            let one = client.ask(ApiRequest::get(format!("{}/usage", path(name)))).await?.body;
            json!({ "items": [one] })
        }
        None => {
            let stats = client.ask(ApiRequest::get("/stats")).await?.body;
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
    fn limits_by_their_words() {
        let pairs: Vec<_> = ["cpu=64", "Memory=1Gi", "running=500", "pending=NONE", "WEIGHT=200", "exceed=Deny"]
            .iter()
            .map(|text| pair(text).unwrap())
            .collect();
        let (limits, tenant) = changes(&pairs).unwrap();
        let expected = json!({
            "max_cpu_m": 64_000, "max_memory_bytes": 1_u64 << 30, "max_running_jobs": 500, "max_pending_jobs": null,
            "on_exceed": "deny",
        });
        assert_eq!((Value::Object(limits), Value::Object(tenant)), (expected, json!({ "weight": 200 })));
        let pairs: Vec<_> =
            ["GPUS:a100=4", "gpus:h100=None", "Timeout=12h"].iter().map(|text| pair(text).unwrap()).collect();
        let (limits, _) = changes(&pairs).unwrap();
        let mut quota = json!({ "max_gpus_by_kind": { "h100": 2, "l4": 1 }, "max_gpus": 8 });
        put(&mut quota, limits);
        let expected =
            json!({ "max_gpus_by_kind": { "a100": 4, "l4": 1 }, "max_gpus": 8, "max_timeout_ms": 43_200_000 });
        assert_eq!(quota, expected);
        let shown = page(&json!({ "name": "t", "quota": quota }));
        assert!(shown.contains("timeout   12h") && shown.contains("gpus:a100  4"), "{shown}");
        for (word, value, wanted) in
            [("timeout", "0s", "more than 0"), ("timeout", "soon", "such as 30m"), ("gpus:", "1", "is not a limit")]
        {
            let error = changes(&[(word.into(), value.into())]).unwrap_err();
            assert!(error.message.contains(wanted), "{word}={value}: {error}");
        }
        assert!(changes(&[("cpus".into(), "1".into())]).unwrap_err().message.contains("use cpu, memory"));
    }
}
