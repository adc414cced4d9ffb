//! What steps of a server's flow wrote.

use http_body_util::BodyExt as _;
use orlop_core::error::innermost;
use orlop_core::time::Time;

use super::super::super::failure::{Exit, Failure};
use super::super::super::logs::LogsArgs;
use super::super::super::output;
use super::super::client::{ApiRequest, escaped, query};
use super::Remote;
use crate::host::flow::{Clock as _, SystemClock};

/// Copies what attempts wrote to standard output. False where that was nothing.
///
/// # Errors
/// When the server refuses, or the log breaks off.
pub(super) async fn show(remote: &Remote, args: &LogsArgs) -> Result<bool, Failure> {
    let mut members = Vec::new();
    members.extend(args.step.clone().map(|step| ("step", step)));
    members.extend(args.item.map(|item| ("item", item.to_string())));
    members.extend(args.attempt.map(|attempt| ("attempt", attempt.to_string())));
    if let Some(since) = args.since {
        let since = i64::try_from(since.get().as_millis()).unwrap_or(i64::MAX);
        members.push(("since", Time::from_millis(SystemClock.now().millis().saturating_sub(since)).to_string()));
    }
    for (name, on) in [("follow", args.follow), ("failed", args.failed), ("timestamps", args.timestamps)] {
        members.extend(on.then(|| (name, "true".to_owned())));
    }
    let path = format!("/flows/{}/logs{}", escaped(&args.name), query(&members));
    let mut body = remote.client.open(ApiRequest::get(path)).await?;
    let mut wrote = false;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            Failure::new(Exit::Unreachable, format!("the log was interrupted: {}", innermost(&error)))
        })?;
        if let Ok(bytes) = frame.into_data() {
            wrote |= !bytes.is_empty();
            if !output::log(&bytes)? {
                return Ok(true);
            }
        }
    }
    Ok(wrote)
}
