//! Waiting for jobs to end, over restarts of the server. Owns the patience; gives the last state.

use std::time::Duration;

use orlop_core::machine::job::JobState;
use serde_json::Value;

use super::super::failure::{Exit, Failure};
use super::client::{Asked, Client};
use super::read::text;

/// How long a server may be away before waiting ends.
const AWAY: Duration = Duration::from_secs(60);
/// How long one request waits.
const WAIT: Duration = Duration::from_secs(30);
/// Between two tries to reach it.
const RETRY: Duration = Duration::from_millis(500);

/// Whether a state is final.
pub(super) fn is_final(state: &str) -> bool {
    state.parse().is_ok_and(JobState::is_terminal)
}

/// Waits until a job has ended, and gives it.
///
/// # Errors
/// There is no such job, or the server stays away.
pub(super) async fn ended(client: &Client, id: &str) -> Result<Value, Failure> {
    let mut away: Option<tokio::time::Instant> = None;
    loop {
        let path = format!("/jobs/{}?wait={}s", super::client::escaped(id), WAIT.as_secs());
        match client.ask(Asked::get(path).waiting(WAIT)).await {
            Ok(answer) if is_final(&text(&answer.body, "state")) => return Ok(answer.body),
            Ok(_) => away = None,
            Err(failure) if failure.is_passing() => {
                let since = *away.get_or_insert_with(tokio::time::Instant::now);
                if since.elapsed() > AWAY {
                    return Err(failure);
                }
                tokio::time::sleep(RETRY).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// How a verb ends that waited for a job.
pub(super) fn exit_of(job: &Value) -> Exit {
    if text(job, "state") == "Completed" { Exit::Done } else { Exit::Failed }
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
    let attempts = client.ask(Asked::get(path)).await?.body;
    let ended = attempts["items"].as_array().into_iter().flatten().filter(|attempt| attempt["final"] == true);
    let signal = ended.filter_map(|attempt| attempt["signal"].as_u64()).find_map(|signal| u8::try_from(signal).ok());
    Ok(signal.map_or_else(|| exit_of(job), |signal| Exit::Job(signal.saturating_add(128))))
}
