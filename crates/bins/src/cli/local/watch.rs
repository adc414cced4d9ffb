//! What happens to a run, as its host tells it.

use std::time::Duration;

use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;

use super::super::failure::{Exit, Failure};
use super::super::output;
use super::super::progress::{Retries, line};
use super::super::stored::{Stored, reach, stopped};
use super::super::target::Reports;
use crate::host::control::{Answer, Watch};
use crate::host::home::RunDir;
use crate::view::name::RunName;

/// Follows a run until it has ended.
///
/// # Errors
/// When its host cannot be watched, or there is none and it has not ended.
pub(super) async fn ended(run: &RunDir, name: &RunName, reports: Reports) -> Result<JobFlow, Failure> {
    if let Some(client) = reach(run).await? {
        let gone = |error| Failure::io("the host of the flow cannot be watched", &error);
        tell(client.watch().await.map_err(gone)?, name, reports).await?;
    }
    // The journal has the last word: the host may be gone, or have been gone before.
    let stored = Stored::read(run).await?;
    let phase = stored.state.phase();
    if !phase.is_terminal() {
        let message = format!(
            "no process drives `{name}` now: it is {}; continue it with `orlop run --resume --name {}`",
            phase,
            name.call()
        );
        return Err(Failure::new(Exit::Unreachable, message));
    }
    Ok(stored.object())
}

/// Between two looks for supervisors that were stopped.
const LOOK: Duration = Duration::from_secs(2);

async fn tell(mut watch: Watch, name: &RunName, reports: Reports) -> Result<(), Failure> {
    let failed = |error| Failure::io("the host of the flow cannot be watched", &error);
    let (mut looks, mut shown) = (tokio::time::interval(LOOK), Vec::new());
    let (mut known, mut retries) = (FlowStatus::default(), Retries::default());
    loop {
        let answer = tokio::select! {
            answer = watch.next() => answer.map_err(failed)?,
            _ = looks.tick() => {
                let found = stopped(watch.stopped(), &known);
                found.iter().filter(|line| !shown.contains(*line)).for_each(|line| output::tell(line));
                shown = found;
                continue;
            }
        };
        match (answer, reports) {
            (Some(Answer::Notice(notice)), Reports::Printed) => {
                if let Some(line) = line(&notice, name) {
                    output::print(&line)?;
                }
            }
            (Some(Answer::Status(status)), _) => {
                known = *status;
                if reports == Reports::Statuses && !known.phase.is_terminal() {
                    output::print(&serde_json::to_string(&known).unwrap_or_default())?;
                }
                for line in retries.news(&known).iter().filter(|_| reports == Reports::Printed) {
                    output::print(line)?;
                }
            }
            (None, _) => return Ok(()),
            _ => {}
        }
    }
}
