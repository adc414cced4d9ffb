//! `status --watch` of a deployment that is to go once it has nothing to do: observations and what is done about them. Owns where
//! it looks; the decision is the library's.

use std::path::PathBuf;
use std::time::Duration;

use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::openstack::port::Clock as _;
use orlop_cloud::provision::deployments::StoredDeployment;
use orlop_cloud::provision::fleet::work_of;
use orlop_cloud::provision::idle::{Decision, Idle, Work, decide};
use orlop_cloud::provision::journal::Kind;
use orlop_cloud::provision::probe::{PORT, Ssh};
use orlop_cloud::scrub::scrubbed;
use serde_json::Value;

use super::args::StatusArgs;
use super::failure::Failure;
use super::fleet::{FleetTarget, fleet};
use super::settings::Settings;

/// How soon a worker that was asked to leave is looked at again.
const LEAVING: Duration = Duration::from_secs(5);
/// States of a server in which nothing runs on it.
const OFF: [&str; 3] = ["SHUTOFF", "PAUSED", "SUSPENDED"];

/// Watches a deployment for work.
pub(super) struct Watcher {
    after: Duration,
    fleet: Option<FleetTarget>,
    state: Idle,
    /// What could not be found out the last time, so that it is reported once.
    trouble: String,
}

impl Watcher {
    /// For a deployment that is to go after some time without work; nothing for others.
    ///
    /// # Errors
    /// It has a worker, and no fleet is named that could tell of it.
    pub(super) fn of(
        known: &StoredDeployment,
        args: &StatusArgs,
        settings: &Settings,
    ) -> Result<Option<Self>, Failure> {
        let Some(after) = known.notes.idle_stop_s.filter(|_| args.watch).map(Duration::from_secs) else {
            return Ok(None);
        };
        let joins = known.saga.order().join.is_some();
        let fleet = if joins { Some(fleet(&args.fleet, settings, known.notes.fleet.as_deref())?) } else { None };
        Ok(Some(Self { after, fleet, state: Idle::default(), trouble: String::new() }))
    }

    /// Looks, and says what follows. A worker that is to leave is asked to.
    pub(super) async fn look(&mut self, known: &StoredDeployment, live: &Value) -> Decision {
        let (work, worker) = self.work(known, live).await;
        let (state, decision) = decide(&self.state, self.after, &work, SystemClock.now());
        self.state = state;
        if let (Decision::Drain, Some(asked), Some(worker)) = (decision, &self.fleet, worker) {
            match asked.fleet.drain(&worker).await {
                Ok(()) => self.state = std::mem::take(&mut self.state).drained(),
                Err(error) => self.complain(Some(error.chain())),
            }
        }
        decision
    }

    /// How long nothing has to be looked at.
    pub(super) fn pause(&self, decision: Decision, most: Duration) -> Duration {
        if decision == Decision::Drain {
            return LEAVING.min(most);
        }
        let left = self.state.lasts(SystemClock.now()).map_or(most, |lasts| self.after.saturating_sub(lasts));
        // Time that is over and changes nothing says that nobody can tell.
        if left.is_zero() { most } else { left.clamp(Duration::from_secs(1), most) }
    }

    async fn work(&mut self, known: &StoredDeployment, live: &Value) -> (Work, Option<String>) {
        let server = live["server"]["status"].as_str().unwrap_or_default();
        if OFF.contains(&server) {
            return (Work::Off, None);
        }
        let Some(asked) = self.fleet.clone() else { return (login(known).await, None) };
        match asked.fleet.worker(&known.id).await {
            // One that never joined may never: the machine itself tells.
            Ok(None) if !self.state.has_met() => {
                let seen = login(known).await;
                let words =
                    "the fleet knows no worker of this deployment, and no one can sign in to check whether it is idle";
                self.complain((seen == Work::Unknown).then(|| words.to_owned()));
                (seen, None)
            }
            Ok(seen) => {
                self.complain(None);
                (work_of(seen.as_ref()), seen.map(|worker| worker.id))
            }
            Err(error) => {
                self.complain(Some(error.chain()));
                (Work::Unknown, None)
            }
        }
    }

    fn complain(&mut self, trouble: Option<String>) {
        let trouble = trouble.map(|words| scrubbed(&words)).unwrap_or_default();
        if !trouble.is_empty() && trouble != self.trouble {
            super::say(&format!("warning: {}", crate::view::text::one_line(&trouble, 400)));
        }
        self.trouble = trouble;
    }
}

/// What a machine without a worker does, from within.
async fn login(known: &StoredDeployment) -> Work {
    let saga = &known.saga;
    let user = saga.image().and_then(|image| image.user.as_deref());
    let (Some(user), Some(address)) = (user, saga.detail_of(Kind::Address).or(saga.fixed_address())) else {
        return Work::Unknown;
    };
    let key = saga.order().key.made_file.clone().or_else(|| known.notes.key_file.clone());
    let known_hosts = known.folder.join("known_hosts");
    Ssh { program: PathBuf::from("ssh"), key: key.map(PathBuf::from), known_hosts }.work(address, PORT, user).await
}
