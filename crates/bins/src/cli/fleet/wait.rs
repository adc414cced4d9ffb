//! Waiting for jobs and elements to end, over restarts of the server: `orlop wait`, and verbs that wait.

use std::time::Duration;

use clap::Args;
use orlop_core::machine::job::JobState;
use serde_json::{Value, json};

use super::super::failure::{Exit, Failure};
use super::super::output::{self, Format};
use super::address::Address;
use super::again::{Away, patiently};
use super::client::{ApiRequest, Client};
use super::elements;
use super::read::{items, number, text};
use super::target::{Patience, Target};
use super::tasks::{Progress, tasks};

/// How long one request waits.
const WAIT: Duration = Duration::from_secs(30);
/// The same where somebody is shown how far an array is.
const LOOK: Duration = Duration::from_secs(1);
/// For so many elements of an array one more.
const COUNTED: u64 = 100_000;

/// Options of `orlop wait`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  orlop wait j000040000000001                exits 0 if it has completed, else 1
  orlop wait j000040000000001 j000040000000002 --timeout 1h
  orlop wait j000040000000003.0-9            some elements of an array")]
pub(in crate::cli) struct WaitArgs {
    /// Ids of jobs, or JOB.0-9,17 for elements of arrays
    #[arg(required = true)]
    jobs: Vec<Address>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    patience: Patience,
}

/// Says which jobs go on where waiting for them is given up: by a signal, or because it took too long.
#[derive(Debug)]
struct GoesOn(Option<String>);

impl Drop for GoesOn {
    fn drop(&mut self) {
        if let Some(jobs) = &self.0 {
            output::tell(&format!("{jobs} not cancelled: `orlop wait` waits again, `orlop cancel` ends it"));
        }
    }
}

/// Waits for jobs to end, and says that they go on where that is given up.
pub(super) async fn unless_given_up<T>(jobs: &[String], waits: impl Future<Output = T>) -> T {
    let named = match jobs {
        [] => None,
        [job] => Some(format!("{job} is")),
        [job, others @ ..] => Some(format!("{job} and {} more are", others.len())),
    };
    let mut goes_on = GoesOn(named);
    let done = waits.await;
    goes_on.0 = None;
    done
}

/// Waits for jobs.
pub(super) async fn wait(args: WaitArgs) -> Result<Exit, Failure> {
    let waits = async {
        let client = args.target.client()?;
        let mut exit = Exit::Done;
        for address in &args.jobs {
            let job = ended(&client, address, Some(&mut Progress::new())).await?;
            let shown = match args.target.output {
                Format::Table if job["elements"].is_object() => {
                    format!("{address} {}: {}\n", text(&job, "state"), tasks(&job))
                }
                Format::Table => format!("{address} {}\n", text(&job, "state")),
                Format::Name => format!("{address}\n"),
                format => output::serialized(&job, format)?,
            };
            output::print(&shown)?;
            if exit == Exit::Done {
                exit = exit_of(&job);
            }
        }
        Ok(exit)
    };
    let jobs: Vec<String> = args.jobs.iter().map(ToString::to_string).collect();
    args.patience.bound(unless_given_up(&jobs, waits)).await
}

/// Whether a state is final.
fn is_final(state: &str) -> bool {
    state.parse().is_ok_and(JobState::is_terminal)
}

/// Waits until a job has ended, or the elements that are named, and gives it. Shows how far an array is, if somebody looks.
///
/// # Errors
/// There is no such job, or the server stays away.
pub(super) async fn ended(
    client: &Client,
    address: &Address,
    mut progress: Option<&mut Progress>,
) -> Result<Value, Failure> {
    if address.indices.is_some() {
        return elements_ended(client, address).await;
    }
    let mut away = Away::default();
    let mut wait = if progress.is_some() { LOOK } else { WAIT };
    loop {
        let path = format!("{}?wait={}s", address.path(), wait.as_secs());
        match client.ask(ApiRequest::get(path).waiting(wait)).await {
            Ok(answer) => {
                if is_final(&text(&answer.body, "state")) {
                    return Ok(answer.body);
                }
                away = Away::default();
                match progress.as_mut().filter(|_| text(&answer.body, "kind") == "array") {
                    Some(progress) => {
                        progress.show(&answer.body);
                        // To count the elements of a large array takes the server a while.
                        let more = u32::try_from(number(&answer.body, "count") / COUNTED).unwrap_or(u32::MAX);
                        wait = LOOK.saturating_mul(more.saturating_add(1)).min(WAIT);
                    }
                    None => wait = WAIT,
                }
            }
            Err(failure) if failure.is_passing() => away.wait(failure).await?,
            Err(failure) => return Err(failure),
        }
    }
}

/// Waits until elements have ended. Gives the only one, or the state of all.
async fn elements_ended(client: &Client, address: &Address) -> Result<Value, Failure> {
    let states = |pick: &dyn Fn(JobState) -> bool| -> Vec<String> {
        use orlop_core::named::Named as _;
        JobState::ALL.iter().filter(|state| pick(**state)).map(ToString::to_string).collect()
    };
    let live = states(&|state| !state.is_terminal());
    while !items(&patiently(async || elements::some(client, address, &live, 1).await).await?).is_empty() {
        let path = format!("{}?wait={}s", address.path(), LOOK.as_secs());
        patiently(async || client.ask(ApiRequest::get(&path).waiting(LOOK)).await).await?;
    }
    let one_of = async |states: &[String]| {
        let found = patiently(async || elements::some(client, address, states, 1).await).await?;
        Ok::<_, Failure>(items(&found).first().cloned())
    };
    if address.indices.as_ref().is_some_and(|indices| indices.single().is_some()) {
        let none = || Failure::new(Exit::NotFound, format!("there is no element {address}"));
        return one_of(&[]).await?.ok_or_else(none);
    }
    // As the state of an array follows from its elements.
    for state in [JobState::Failed, JobState::TimedOut, JobState::Cancelled] {
        if one_of(&[state.to_string()]).await?.is_some() {
            return Ok(json!({ "elements": address.to_string(), "state": state }));
        }
    }
    Ok(json!({ "elements": address.to_string(), "state": JobState::Completed }))
}

/// How a verb ends that waited for a job.
pub(super) fn exit_of(job: &Value) -> Exit {
    match text(job, "state").as_str() {
        "Completed" => Exit::Done,
        "Cancelled" => Exit::Stopped,
        _ => Exit::Failed,
    }
}

/// The signal that ended a job, of its final attempt.
pub(super) fn signal_of(attempts: &Value) -> Option<u8> {
    let ended = items(attempts).iter().filter(|attempt| attempt["final"] == true);
    ended.filter_map(|attempt| attempt["signal"].as_u64()).find_map(|signal| u8::try_from(signal).ok())
}

/// The exit code of a job that has ended, as a shell gives it: of one that a signal ended 128 and its number.
///
/// # Errors
/// When the server cannot be asked for the signal.
pub(super) async fn own_exit_of(client: &Client, job: &Value) -> Result<Exit, Failure> {
    if let Some(code) = job["exit_code"].as_i64().and_then(|code| u8::try_from(code).ok()) {
        return Ok(Exit::Job(code));
    }
    let path = format!("/jobs/{}/attempts?limit=1000", super::client::escaped(&text(job, "id")));
    let attempts = client.ask(ApiRequest::get(path)).await?.body;
    Ok(signal_of(&attempts).map_or_else(|| exit_of(job), |signal| Exit::Job(signal.saturating_add(128))))
}
