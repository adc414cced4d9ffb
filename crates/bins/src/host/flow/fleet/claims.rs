//! Claims on a fleet: a claim is a directory of one worker, that on which the first step with it ran, and later steps with it
//! run there too.

use std::collections::BTreeSet;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::hardware::placement::LabelExpr;
use orlop_core::id::WorkerId;
use orlop_core::spec::job::JobSpec;

use super::FleetSubstrate;
use super::label::{CLAIMS, WORKER};
use super::place::invalid;
use super::port::JobPlace;

/// How long until it is looked again where the first step with a claim runs.
const AGAIN: Duration = Duration::from_millis(500);

impl FleetSubstrate {
    /// Has a job run where the claims are that it mounts. The first one goes anywhere.
    ///
    /// # Errors
    /// Transient while the first step with one of them waits for a worker; Invalid when they are on different ones.
    pub(super) async fn pin(&self, flow: &str, claims: &[String], asked: &mut JobSpec) -> Result<(), Problem> {
        let mut holders = BTreeSet::new();
        for claim in claims {
            holders.extend(self.holder(flow, claim).await?);
        }
        let mut holders = holders.into_iter();
        match (holders.next(), holders.next()) {
            (None, _) => {}
            (Some(worker), None) => {
                self.fleet.name_worker(&worker).await?;
                asked.requires.labels.push(LabelExpr::equal(WORKER, worker.to_string()));
            }
            (Some(one), Some(other)) => {
                let text = format!(
                    "its claims {} are on different workers, {one} and {other}; hand files on as artifacts",
                    claims.join(", ")
                );
                return Err(invalid(text));
            }
        }
        asked.labels.insert(CLAIMS.to_owned(), claims.join(","));
        Ok(())
    }

    /// The worker with a claim; none when no step has used it yet.
    async fn holder(&self, flow: &str, claim: &str) -> Result<Option<WorkerId>, Problem> {
        for job in self.attempts.claimed(flow, claim) {
            match self.fleet.place_of(job).await? {
                JobPlace::On(worker) => return Ok(Some(worker)),
                JobPlace::Never => {}
                JobPlace::Nowhere => {
                    let text = format!("claim {claim} will be where job {job} runs, which waits for a worker");
                    return Err(Problem::new(Class::Transient, text).with_reason("Queued").retry_after(AGAIN));
                }
            }
        }
        Ok(None)
    }
}
