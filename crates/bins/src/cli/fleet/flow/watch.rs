//! Waiting for flows of a server.

use std::time::Duration;

use orlop_core::spec::flow::JobFlow;
use tokio::time::{Instant, sleep};

use super::super::super::changes::ReportedChanges;
use super::super::super::failure::{Exit, Failure};
use super::super::super::target::{Reports, Wait};
use super::Remote;
use super::waiting::Waiting;

/// How long a server may be away before waiting ends.
const AWAY: Duration = Duration::from_secs(60);
/// Between two tries to reach it.
const RETRY: Duration = Duration::from_millis(500);

/// How long one request waits for the end: as long as nothing has to be reported meanwhile.
const fn pace(wait: Wait) -> &'static str {
    match wait.reports {
        Reports::Steps | Reports::Printed | Reports::Statuses => "1s",
        _ if wait.leaves_paused => "1s",
        Reports::Reasons => "5s",
        Reports::Nothing => "60s",
    }
}

/// The flow once it has ended, or once it is to be left. A server that is away for a while is waited for.
///
/// # Errors
/// When the server refuses, or is away for longer.
pub(super) async fn ended(remote: &Remote, flow: &str, wait: Wait) -> Result<JobFlow, Failure> {
    let (mut reported, mut waiting) = (ReportedChanges::default(), Waiting::new());
    let mut away = None::<Instant>;
    loop {
        let object = match remote.object(flow, Some(pace(wait))).await {
            Ok(object) => object,
            Err(failure) if failure.exit == Exit::Unreachable => {
                if away.get_or_insert_with(Instant::now).elapsed() > AWAY {
                    return Err(failure);
                }
                sleep(RETRY).await;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        away = None;
        let status = object.status.clone().unwrap_or_default();
        reported.report(wait.reports, &object.metadata.name, &status)?;
        if status.phase.is_terminal() || wait.leaves(&status) {
            return Ok(object);
        }
        if matches!(wait.reports, Reports::Steps | Reports::Printed) {
            waiting.tell(remote, flow).await;
        }
    }
}
