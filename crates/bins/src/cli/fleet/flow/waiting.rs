//! Why steps of a watched flow wait for a worker: what the scheduler says of their jobs, told once.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::super::super::output;
use super::super::client::{Asked, escaped, query};
use super::super::read::{items, text};
use super::Remote;

/// How long a job may wait before anything is said, and the time between two looks.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most jobs that are looked at.
const LOOKED_AT: &str = "20";

/// What was told of which job.
pub(super) struct Waiting {
    next: Instant,
    told: BTreeMap<String, String>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self { next: Instant::now() + PATIENCE, told: BTreeMap::new() }
    }

    /// Tells why jobs of a flow wait, once it is time. A server that does not answer now is asked again later.
    pub(super) async fn tell(&mut self, remote: &Remote, flow: &str) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + PATIENCE;
        let members = [("flow", flow), ("state", "Pending,Queued"), ("order", "oldest"), ("limit", LOOKED_AT)];
        let members: Vec<_> = members.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let Ok(page) = remote.get(&format!("/jobs{}", query(&members))).await else { return };
        for job in items(&page) {
            let id = text(job, "id");
            let Ok(why) = remote.client.ask(Asked::get(format!("/jobs/{}/explain", escaped(&id)))).await else {
                return;
            };
            let summary = text(&why.body, "summary");
            if !summary.is_empty() && self.told.get(&id) != Some(&summary) {
                output::tell(&format!("{} waits: {summary}; see `orlop job get {id} --explain`", text(job, "step")));
                self.told.insert(id, summary);
            }
        }
    }
}
