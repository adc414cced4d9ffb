//! Why steps of a watched flow wait for a worker: what the scheduler says of their jobs, reported once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::super::super::output;
use super::super::client::{ApiRequest, escaped, query};
use super::super::read::{items, text};
use super::Remote;
use crate::view::text::one_line;

/// How long a job may wait before anything is said, and the time between two looks.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most jobs that are looked at.
const LOOKED_AT: &str = "20";
/// The most things that are named which workers lack.
const LACKS: usize = 4;

/// What was reported of which job.
pub(super) struct Waiting {
    next: Instant,
    reported: BTreeMap<String, String>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self { next: Instant::now() + PATIENCE, reported: BTreeMap::new() }
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
            let Ok(why) = remote.client.ask(ApiRequest::get(format!("/jobs/{}/explain", escaped(&id)))).await else {
                return;
            };
            let mut summary = text(&why.body, "summary");
            let workers = why.body["workers"].as_array().into_iter().flatten();
            let lacking = workers.flat_map(|worker| worker["lacking"].as_array().into_iter().flatten());
            let lacking: BTreeSet<&str> = lacking.filter_map(Value::as_str).take(LACKS).collect();
            if !lacking.is_empty() {
                let lacking = lacking.into_iter().collect::<Vec<_>>().join("; ");
                summary = format!("{summary}; workers lack {}", one_line(&lacking, 120));
            }
            if !summary.is_empty() && self.reported.get(&id) != Some(&summary) {
                output::tell(&format!(
                    "{} waits: {summary}; see `orlop job get {id} --explain{}`",
                    text(job, "step"),
                    remote.server
                ));
                self.reported.insert(id, summary);
            }
        }
    }
}
