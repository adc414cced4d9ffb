//! Waiting for jobs to end, over restarts of the server. Owns the patience; gives the last state.

use std::time::Duration;

use orlop_core::machine::job::JobState;
use serde_json::Value;

use super::client::{Asked, Client};
use super::exit::{Exit, Trouble};
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
pub(super) async fn ended(client: &Client, id: &str) -> Result<Value, Trouble> {
    let mut away: Option<tokio::time::Instant> = None;
    loop {
        let path = format!("/jobs/{}?wait={}s", super::client::escaped(id), WAIT.as_secs());
        match client.ask(Asked::get(path).waiting(WAIT)).await {
            Ok(answer) if is_final(&text(&answer.body, "state")) => return Ok(answer.body),
            Ok(_) => away = None,
            Err(trouble) if trouble.is_passing() => {
                let since = *away.get_or_insert_with(tokio::time::Instant::now);
                if since.elapsed() > AWAY {
                    return Err(trouble);
                }
                tokio::time::sleep(RETRY).await;
            }
            Err(trouble) => return Err(trouble),
        }
    }
}

/// How a verb ends that waited for a job.
pub(super) fn exit_of(job: &Value, own_code: bool) -> Exit {
    let code = job["exit_code"].as_i64().and_then(|code| u8::try_from(code).ok());
    match (text(job, "state").as_str(), code) {
        (_, Some(code)) if own_code => Exit::Job(code),
        ("Completed", _) => Exit::Done,
        _ => Exit::Failed,
    }
}
