//! `orlop job`: one job with its attempts. Owns the page people read.

use clap::{Args, Subcommand};
use nix::sys::signal::Signal;
use orlop_core::attempt::AttemptKey;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::address::Address;
use super::client::{ApiRequest, Client, query};
use super::read::{ago, items, number, text};
use super::target::{Patience, Target};
use super::tasks::tasks;
use super::{elements, wait};
use crate::view::table::columns;
use crate::view::text::one_line;

/// Attempts that are shown.
const ATTEMPTS: u32 = 100;
/// Characters of a command that are shown.
const COMMAND: usize = 2000;

/// What is asked of one job.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Verb {
    /// Show a job with its attempts
    Get(GetArgs),
    /// Submit a job that has ended again; of an array its unsuccessful elements
    Retry(RetryArgs),
}

/// Options of `orlop job retry`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop job retry j000040000000001           of an array what did not succeed
  orlop job retry j000040000000001.0-9,17    elements of an array, whatever became of them")]
pub(in crate::cli) struct RetryArgs {
    /// Id of the job, or JOB.0-9,17 for elements of an array
    job: Address,
    /// Idempotency key: repeated within a day, the retry takes effect once
    #[arg(long)]
    key: Option<String>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Options of `orlop job get`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop job get j000040000000001
  orlop job get j000040000000001 --explain  why it waits, worker by worker
  orlop job get j000040000000001.17         one element of an array with its attempts
  orlop job get j000040000000001 -o json")]
pub(in crate::cli) struct GetArgs {
    /// Id of the job, or JOB.0-9,17 for elements of an array
    job: Address,
    /// Explain why it is in its state
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Runs a verb.
pub(super) async fn run(verb: Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::Get(args) => args.patience.bound(get(&args)).await,
        Verb::Retry(args) => args.patience.bound(retry(&args)).await,
    }
}

async fn get(args: &GetArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let path = args.job.path();
    if args.explain {
        return explain(args, &client).await;
    }
    let index = match &args.job.indices {
        Some(indices) => match indices.single() {
            Some(index) => Some(index),
            None => return several(args, &client).await,
        },
        None => None,
    };
    let job = match index {
        Some(_) => element(&client, &args.job).await?,
        None => client.ask(ApiRequest::get(&path)).await?.body,
    };
    if let Some(shown) = args.target.shown(&job, |_| vec![args.job.to_string()])? {
        output::print(&shown)?;
        return Ok(Exit::Done);
    }
    let only = index.map(|index| format!("&index={index}")).unwrap_or_default();
    let attempts = client.ask(ApiRequest::get(format!("{path}/attempts?limit={ATTEMPTS}{only}"))).await?.body;
    output::print(&page(&job, &attempts))?;
    Ok(Exit::Done)
}

/// An element of an array.
async fn element(client: &Client, address: &Address) -> Result<Value, Failure> {
    let found = elements::some(client, address, &[], 1).await?;
    let none = || Failure::new(Exit::NotFound, format!("there is no element {address}"));
    items(&found).first().cloned().ok_or_else(none)
}

/// Several elements of an array.
async fn several(args: &GetArgs, client: &Client) -> Result<Exit, Failure> {
    let found = elements::some(client, &args.job, &[], u32::MAX).await?;
    let names = |found: &Value| {
        items(found).iter().map(|element| format!("{}.{}", args.job.job, text(element, "index"))).collect()
    };
    let shown = args.target.shown(&found, names)?;
    output::print(&shown.unwrap_or_else(|| elements::table(&found)))?;
    Ok(Exit::Done)
}

async fn retry(args: &RetryArgs) -> Result<Exit, Failure> {
    let client = args.target.client()?;
    let body = args.job.indices.as_ref().map(|elements| json!({ "elements": elements.to_string() }));
    let asked = ApiRequest::post(format!("{}/retry", args.job.path()), body.as_ref());
    let made = client.ask(asked.with("idempotency-key", client.key(args.key.as_ref()))).await?.body;
    let id = text(&made, "id");
    let shown = args.target.shown(&made, |_| vec![id.clone()])?;
    output::print(&shown.unwrap_or(id))?;
    Ok(Exit::Done)
}

async fn explain(args: &GetArgs, client: &Client) -> Result<Exit, Failure> {
    if args.job.indices.as_ref().is_some_and(|indices| indices.single().is_none()) {
        return Err(Failure::usage("--explain shows one element at a time; give it as JOB.INDEX"));
    }
    let path = format!("{}/explain{}", args.job.path(), query(&args.job.members()));
    let why = client.ask(ApiRequest::get(path)).await?.body;
    if let Some(shown) = args.target.shown(&why, |_| vec![args.job.to_string()])? {
        output::print(&shown)?;
        return Ok(Exit::Done);
    }
    let words = |list: &Value| -> String {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
    };
    let workers = why["workers"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |fit: &Value| {
        let misfit = text(fit, "misfit");
        vec![text(fit, "worker"), if misfit.is_empty() { "fits".to_owned() } else { misfit }, words(&fit["lacking"])]
    };
    let rows: Vec<Vec<String>> = workers.iter().map(row).collect();
    let mut page = format!("{}\n", text(&why, "summary"));
    if !rows.is_empty() {
        page.push_str(&format!("\n{}", columns(&["WORKER", "FILTER", "LACKS"], &rows)));
    }
    output::print(&page)?;
    Ok(Exit::Done)
}

fn page(job: &Value, attempts: &Value) -> String {
    let mut page = String::new();
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            page.push_str(&format!("{name:<11}{value}\n"));
        }
    };
    for field in ["id", "index", "name", "tenant", "kind", "state", "reason", "exit_code"] {
        line(&field.replace('_', " "), text(job, field));
    }
    if is_one(job) && job["exit_code"].is_null() {
        line("signal", wait::signal_of(attempts).map(signal).unwrap_or_default());
    }
    line("worker", text(job, "worker"));
    line("priority", text(job, "priority"));
    if !is_one(job) {
        line("tasks", tasks(job));
    }
    line("command", command(&job["spec"]));
    line("step", step(&job["spec"]["step"]));
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
        if !attempts["next_cursor"].is_null() {
            page.push_str(&format!(
                "\nthe first {ATTEMPTS} attempts; `orlop elements JOB` lists elements, `orlop job get JOB.INDEX` the attempts of one\n"
            ));
        }
        page.push('\n');
        page.push_str(&columns(
            &["INDEX", "MEMBER", "ATTEMPT", "STATE", "WORKER", "CPU", "MEMORY", "CODE", "REASON", "AGE"],
            &rows,
        ));
    }
    page
}

/// Whether it is neither an array nor a gang.
fn is_one(job: &Value) -> bool {
    job["count"].is_null() || job["count"].as_u64() == Some(1)
}

/// A signal with its name.
fn signal(number: u8) -> String {
    let name = Signal::try_from(i32::from(number)).map(|signal| format!(" ({signal})"));
    format!("{number}{}", name.unwrap_or_default())
}

/// What a job runs, as a shell would take it.
fn command(spec: &Value) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:=@_{}".contains(c);
    let quoted = |word: &str| match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = spec["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<String> = words.map(quoted).collect();
    one_line(&words.join(" "), COMMAND)
}

/// Which attempt of a flow's step a job is; empty where it is none.
fn step(step: &Value) -> String {
    let attempt = &step["attempt"];
    let key = AttemptKey::deserialize(&attempt["key"]);
    let of =
        |key: AttemptKey| format!("{} of flow {}, attempt {}", key.instance(), text(attempt, "flow_name"), key.attempt);
    key.map(of).unwrap_or_default()
}

fn row(attempt: &Value) -> Vec<String> {
    let of = |fields: &[&str]| fields.iter().map(|field| text(attempt, field)).collect::<Vec<_>>();
    let mut row = of(&["index", "member", "attempt", "state", "worker"]);
    row.extend(used(attempt));
    let code = attempt["signal"].as_u64().map(|signal| format!("signal {signal}"));
    row.push(code.unwrap_or_else(|| text(attempt, "exit_code")));
    row.push(text(attempt, "reason"));
    row.push(ago(attempt, "assigned_at"));
    row
}

/// CPU and memory: of an attempt that runs millicores and what it holds, of one that has ended CPU time and the most it held.
fn used(attempt: &Value) -> [String; 2] {
    let mebi = |bytes: u64| if bytes > 0 { format!("{}Mi", bytes.div_ceil(1 << 20)) } else { String::new() };
    let (now, ended) = (&attempt["in_use"], &attempt["usage"]);
    if now.is_object() {
        return [format!("{}m", number(now, "cpu_m")), mebi(number(now, "memory_bytes"))];
    }
    if ended.is_object() {
        let seconds = number(ended, "cpu_ms") as f64 / 1000.0;
        return [format!("{seconds:.2}s"), mebi(number(ended, "max_rss"))];
    }
    [String::new(), String::new()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_attempts_use_is_shown_while_they_run_and_afterwards() {
        let attempts = json!({"items": [
            {"index": 0, "member": 0, "attempt": 1, "state": "Failed", "worker": "w1", "exit_code": 3,
             "usage": {"cpu_ms": 1234, "max_rss": 10_000_000}},
            {"index": 0, "member": 0, "attempt": 2, "state": "Running", "worker": "w2",
             "in_use": {"cpu_m": 950, "memory_bytes": 4096}},
            {"index": 0, "member": 0, "attempt": 3, "state": "Assigned", "worker": "w3"}
        ]});
        let shown = page(&json!({"id": "7", "count": 1, "retries": 0, "infra": 0}), &attempts);
        insta::assert_snapshot!(shown, @r"
        id         7

        INDEX  MEMBER  ATTEMPT  STATE     WORKER  CPU    MEMORY  CODE  REASON  AGE
        0      0       1        Failed    w1      1.23s  10Mi    3
        0      0       2        Running   w2      950m   1Mi
        0      0       3        Assigned  w3
        ");
    }

    #[test]
    fn a_job_of_a_step_shows_which_one() {
        let key = json!({"flow": "0198", "step": "train", "item": 3, "attempt": 2});
        let spec = json!({"step": {"attempt": {"key": key, "flow_name": "nightly", "template": {}}}});
        let shown = page(&json!({"id": "7", "count": 1, "retries": 0, "infra": 0, "spec": spec}), &json!({}));
        insta::assert_snapshot!(shown, @r"
        id         7
        step       train-i3 of flow nightly, attempt 2
        ");
    }

    #[test]
    fn a_job_shows_its_command_its_tasks_the_signal_and_that_there_are_more_attempts() {
        let spec = json!({"command": ["sh", "-c", "echo 'a b' {{index}}", "--x=1", ""]});
        let attempts = json!({"items": [{"index": 0, "member": 0, "attempt": 1, "state": "Failed", "signal": 9,
            "final": true}], "next_cursor": "more"});
        let job = json!({"id": "7", "count": 1, "retries": 0, "infra": 0, "spec": spec});
        insta::assert_snapshot!(page(&job, &attempts), @r"
        id         7
        signal     9 (SIGKILL)
        command    sh -c 'echo '\''a b'\'' {{index}}' --x=1 ''

        the first 100 attempts; `orlop elements JOB` lists elements, `orlop job get JOB.INDEX` the attempts of one

        INDEX  MEMBER  ATTEMPT  STATE   WORKER  CPU  MEMORY  CODE      REASON  AGE
        0      0       1        Failed                       signal 9
        ");
        let elements = json!({"completed": 3, "failed": 1, "timed_out": 1, "cancelled": 0});
        let array = json!({"id": "7", "count": 9, "retries": 0, "infra": 0, "elements": elements});
        assert!(page(&array, &json!({})).contains("tasks      3/9, 2 failed"));
    }
}
