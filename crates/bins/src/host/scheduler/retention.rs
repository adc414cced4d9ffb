//! Keeping the store small: what has ended long ago is deleted in small batches by the server that leads.

use std::time::Duration;

use orlop_core::error::Problem;
use orlop_core::id::Epoch;
use orlop_core::ports::fleet_store::Retention;
use orlop_core::time::Time;

use super::{Handle, Status, Stop, Swept};

/// Between two batches, so that what is committed meanwhile waits for one batch at most.
const BREATH: Duration = Duration::from_millis(20);

/// How long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs that have ended, with everything of them.
    pub jobs: Duration,
    /// Logs.
    pub logs: Duration,
    /// At most so many bytes of logs.
    pub logs_bytes: u64,
    /// The audit trail.
    pub audit: Duration,
    /// Artifacts that no job refers to.
    pub artifacts: Duration,
    /// How often all artifacts are looked at.
    pub artifacts_every: Duration,
    /// At most so many jobs, and rows of each other kind, in one transaction.
    pub batch: u32,
    /// How often it is looked.
    pub every: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self {
            jobs: 7 * DAY,
            logs: 3 * DAY,
            logs_bytes: 20 << 30,
            audit: 90 * DAY,
            artifacts: DAY,
            artifacts_every: Duration::from_secs(3600),
            batch: 1000,
            every: Duration::from_secs(60),
        }
    }
}

/// Deletes what is old, until asked to stop.
pub async fn enforce(handle: Handle, limits: Limits, stop: Stop) {
    let mut artifacts = tokio::time::Instant::now() + limits.artifacts_every;
    loop {
        if let Status::Leading { epoch } = handle.status() {
            tokio::select! {
                () = stop.stopped() => return,
                done = pass(&handle, epoch, &limits) => {
                    if let Err(error) = done {
                        let error = error.chain();
                        tracing::warn!(target: "orlop::retain", error, "old records could not be deleted; retrying");
                    }
                }
            }
            // A walk over all of them, so it is made less often.
            if tokio::time::Instant::now() >= artifacts {
                tokio::select! {
                    () = stop.stopped() => return,
                    () = walk(&handle, &limits) => {}
                }
                artifacts = tokio::time::Instant::now() + limits.artifacts_every;
            }
        }
        tokio::select! {
            () = stop.stopped() => return,
            () = tokio::time::sleep(limits.every) => {}
        }
    }
}

fn before(now: Time, age: Duration) -> Time {
    Time::from_millis(now.millis().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)))
}

/// Deletes artifacts that nothing refers to.
async fn walk(handle: &Handle, limits: &Limits) {
    match handle.retain_artifacts(limits.artifacts).await {
        Ok(swept) if swept == Swept::default() => {}
        Ok(swept) => {
            let Swept { artifacts, bytes, uploads, links, orphans } = swept;
            tracing::info!(target: "orlop::retain", artifacts, bytes, uploads, links, orphans, "deleted old artifacts");
        }
        Err(problem) => {
            let error = problem.message;
            tracing::warn!(target: "orlop::retain", error, "old artifacts could not be deleted; retrying");
        }
    }
}

/// Deletes everything that is old now.
async fn pass(handle: &Handle, epoch: Epoch, limits: &Limits) -> Result<(), Problem> {
    let now = handle.clock().wall();
    let policy = Retention {
        now,
        jobs_before: before(now, limits.jobs),
        audit_before: before(now, limits.audit),
        batch: limits.batch,
    };
    let (mut jobs, mut others) = (0, 0);
    loop {
        let gone = handle.store().retain(epoch, &policy).await?;
        jobs += gone.jobs.len();
        others += gone.others;
        if !gone.more {
            break;
        }
        tokio::time::sleep(BREATH).await;
    }
    let mut bytes = 0;
    if let Some(logs) = handle.options().logs.clone() {
        let (before, most) = (before(now, limits.logs), limits.logs_bytes);
        let retained = tokio::task::spawn_blocking(move || logs.retain(before, most)).await;
        let panic = |error: tokio::task::JoinError| Problem::new(orlop_core::error::Class::Fatal, error.to_string());
        bytes = retained.map_err(panic)??;
    }
    if jobs > 0 || others > 0 || bytes > 0 {
        tracing::info!(target: "orlop::retain", jobs, others, log_bytes = bytes, "deleted what is old");
    }
    Ok(())
}
