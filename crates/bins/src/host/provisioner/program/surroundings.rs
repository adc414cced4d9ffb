//! What stands around a deployment while it is carried out: the machine that is probed, the state file, the steps on the
//! screen, signals.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use orlop_cloud::openstack::client::SystemClock;
use orlop_cloud::openstack::port::Clock as _;
use orlop_cloud::provision::drive::Surroundings;
use orlop_cloud::provision::fleet::Fleet;
use orlop_cloud::provision::info::{Info, JournalPlace};
use orlop_cloud::provision::join::Token;
use orlop_cloud::provision::journal::FileJournal;
use orlop_cloud::provision::keep::{add_failed, write_private};
use orlop_cloud::provision::mark::DeploymentId;
use orlop_cloud::provision::notes::Notes;
use orlop_cloud::provision::probe::{PORT, Ssh};
use orlop_cloud::provision::saga::{Elsewhere, FailedOffering, Login, Probe, Saga, Stop};
use orlop_cloud::provision::steps::{STEPS, doing, limit, step_of};
use orlop_cloud::scrub::scrubbed;
use orlop_core::machine::saga::SagaState;
use orlop_core::time::Time;
use tokio::time::Instant;

use super::carry::CliContext;
use super::signals::Signals;
use super::steps::{HEARTBEAT, StepProgress, Steps, clock};
use super::watch::Watch;

/// The last step, which takes no time.
const SAVE: usize = STEPS.len() - 1;
/// What goes on behind a machine that is ready, in words.
const WATCHING: &str = "watching for objects of a request without an answer; Ctrl-C leaves the server as it is";
/// How long removing may take.
const REMOVING: std::time::Duration = std::time::Duration::from_secs(900);

/// The step that is under way.
#[derive(Debug, Clone)]
struct Current {
    number: usize,
    state: SagaState,
    attempt: u32,
    started: Instant,
    limit: Option<std::time::Duration>,
    /// When the lease starts that is waited for, if that is later.
    starts: Option<Time>,
}

impl Current {
    /// What is waited for, and how long it takes.
    fn waiting(&self, now: Time) -> String {
        let so_far = clock(self.started.elapsed());
        if let Some(start) = self.starts.filter(|start| *start > now) {
            return format!("the lease starts at {}, {so_far} so far", at(start, now));
        }
        let usual = STEPS.get(self.number).and_then(|step| step.usual);
        let usual = usual.map(|usual| format!(" in ~{}", clock(usual))).unwrap_or_default();
        let most = self.limit.map(|limit| format!(" of {}", clock(limit))).unwrap_or_default();
        format!("{}{usual}, {so_far}{most}", doing(self.state))
    }
}

/// A time of day, with its date where that is not soon.
fn at(time: Time, now: Time) -> String {
    let form = if time.since(now).as_secs() < 12 * 3600 { "%H:%M UTC" } else { "%Y-%m-%d %H:%M UTC" };
    Timestamp::from_millisecond(time.millis()).unwrap_or_default().strftime(form).to_string()
}

/// Something that goes on and is no step.
#[derive(Debug, Clone, Copy)]
struct Aside {
    words: &'static str,
    since: Instant,
    most: std::time::Duration,
}

/// What stands around a deployment.
pub(super) struct DeploymentSurroundings {
    pub(super) folder: PathBuf,
    pub(super) state_dir: PathBuf,
    pub(super) notes: Notes,
    pub(super) journal: Arc<FileJournal>,
    pub(super) signals: Signals,
    pub(super) steps: Steps,
    current: Mutex<Option<Current>>,
    /// What goes on beside the steps: removing, or watching for what nobody saw being made.
    aside: Mutex<Option<Aside>>,
    trouble: Mutex<Vec<String>>,
    /// Who knows whether the machine's worker joined.
    fleet: OnceLock<Arc<dyn Fleet>>,
    info_failed: AtomicBool,
    /// Other sites where a free host is waited for.
    pub(super) watch: OnceLock<Watch>,
}

impl DeploymentSurroundings {
    /// What stands around a deployment of a folder, and which of the steps are shown.
    pub(super) fn new(
        context: &CliContext<'_>,
        folder: PathBuf,
        notes: Notes,
        journal: Arc<FileJournal>,
        shown: Range<usize>,
    ) -> Arc<Self> {
        Arc::new(Self {
            folder,
            state_dir: context.state_dir.clone(),
            notes,
            journal,
            signals: context.signals.clone(),
            steps: Steps::new(context.output, shown),
            current: Mutex::default(),
            aside: Mutex::default(),
            trouble: Mutex::default(),
            fleet: OnceLock::new(),
            info_failed: AtomicBool::new(false),
            watch: OnceLock::new(),
        })
    }

    /// Has a fleet asked for the machine's worker.
    pub(super) fn asks(&self, fleet: Option<&Arc<dyn Fleet>>) {
        if let Some(fleet) = fleet {
            self.fleet.get_or_init(|| Arc::clone(fleet));
        }
    }

    fn aside(&self) -> MutexGuard<'_, Option<Aside>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What went wrong around the deployment and not with it.
    pub(super) fn trouble(&self) -> Vec<String> {
        std::mem::take(&mut self.trouble.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn complain(&self, what: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// What there is to tell of the deployment.
    pub(super) fn info(&self, saga: &Saga) -> Info {
        let path = self.journal.path().display().to_string();
        let journal = JournalPlace { path, last_seq: self.journal.last_seq() };
        Info::of(saga, &self.notes, journal, SystemClock.now())
    }

    /// Writes the state file.
    pub(super) fn write_info(&self, saga: &Saga) {
        let path = Path::new(&self.notes.info_file);
        if path.as_os_str().is_empty() {
            return;
        }
        let written = serde_json::to_vec_pretty(&self.info(saga))
            .map_err(std::io::Error::other)
            .and_then(|bytes| write_private(path, &bytes));
        match written {
            Ok(()) => self.info_failed.store(false, Ordering::Relaxed),
            Err(error) if !self.info_failed.swap(true, Ordering::Relaxed) => {
                self.complain(format!("the state file {} cannot be written: {error}", path.display()));
            }
            Err(_) => {}
        }
    }

    /// Shows the step of a state, and what became of the one before.
    fn show(&self, saga: &Saga) {
        let (state, attempt, now) = (saga.state(), saga.attempt(), SystemClock.now());
        let next = step_of(state);
        let starts = saga.starts_at(now);
        let mut current = self.current();
        if let Some(one) =
            current.as_mut().filter(|one| Some((one.number, one.attempt)) == next.map(|at| (at, attempt)))
        {
            one.state = state;
            if starts.is_some() && one.starts.is_none() {
                one.starts = starts;
                self.tell(one, "waiting", &one.waiting(now));
            }
            return;
        }
        if let Some(one) = current.take().filter(|one| one.number != SAVE) {
            let failure = saga.failure().map(|failure| failure.message.clone()).unwrap_or_default();
            let (how, words) = match state {
                SagaState::Degraded => ("warning", saga.warnings().last().cloned().unwrap_or_default()),
                _ if next.is_some_and(|number| number > one.number) => ("done", String::new()),
                _ => ("failed", failure),
            };
            self.tell(&one, how, &words);
        }
        if let Some(number) = next {
            let limit = limit(number, &saga.order().pace);
            let one = Current { number, state, attempt, started: Instant::now(), limit, starts };
            self.tell(&one, "running", "");
            if number == SAVE {
                self.tell(&one, "done", "");
            }
            *current = Some(one);
        }
        drop(current);
        self.show_aside(saga, now);
    }

    /// Shows what goes on beside the steps.
    fn show_aside(&self, saga: &Saga, now: Time) {
        let (words, most) = match (saga.state(), saga.watches_until()) {
            (SagaState::RollingBack, _) => (doing(SagaState::RollingBack), REMOVING),
            (_, Some(until)) => (WATCHING, until.since(now)),
            _ => return *self.aside() = None,
        };
        let mut aside = self.aside();
        if aside.is_some_and(|known| known.words == words) {
            return;
        }
        *aside = Some(Aside { words, since: Instant::now(), most });
        if words == WATCHING
            && let Some(done) = super::show::complete(&self.info(saga))
        {
            self.steps.note(&done);
        }
        self.steps.note(words);
    }

    fn tell(&self, one: &Current, state: &str, message: &str) {
        let (number, attempt, started) = (one.number, one.attempt, one.started);
        self.steps.show(&StepProgress { number, state, message, attempt, started });
    }

    /// Says from time to time what is waited for; never returns.
    pub(super) async fn beat(&self) {
        let every = if self.steps.is_moving() { std::time::Duration::from_secs(1) } else { HEARTBEAT };
        loop {
            tokio::time::sleep(every).await;
            let aside = *self.aside();
            if let Some(aside) = aside.filter(|_| !self.steps.is_moving()) {
                let Aside { words, since, most } = aside;
                self.steps.note(&format!("{words}: {} of {}", clock(since.elapsed()), clock(most)));
            }
            let Some(one) = self.current().clone().filter(|one| one.number != SAVE) else { continue };
            let message = one.waiting(SystemClock.now());
            self.tell(&one, "waiting", &message);
        }
    }
}

#[async_trait]
impl Surroundings for DeploymentSurroundings {
    async fn probe(&self, address: &str, login: Option<&Login>) -> Probe {
        let ssh = Ssh {
            program: PathBuf::from("ssh"),
            key: self.notes.key_file.clone().map(PathBuf::from),
            known_hosts: self.folder.join("known_hosts"),
        };
        ssh.probe(address, PORT, login).await
    }

    async fn joined(&self, deployment: &DeploymentId) -> Result<bool, String> {
        let Some(fleet) = self.fleet.get() else { return Err("no fleet is named".to_owned()) };
        let worker = fleet.worker(deployment).await.map_err(|error| scrubbed(&error.chain()))?;
        Ok(worker.is_some_and(|worker| worker.is_registered()))
    }

    async fn join_token(&self, file: &str) -> Result<Token, String> {
        super::join::token(Path::new(file))
    }

    fn changed(&self, saga: &Saga) {
        self.write_info(saga);
        self.show(saga);
    }

    fn console(&self, text: &str) {
        let path = self.folder.join("console.log");
        if let Err(error) = write_private(&path, scrubbed(text).as_bytes()) {
            self.complain(format!("the console cannot be kept in {}: {error}", path.display()));
        }
    }

    async fn elsewhere(&self) -> Elsewhere {
        match self.watch.get() {
            Some(watch) => watch.look().await,
            None => Elsewhere::default(),
        }
    }

    fn remember(&self, failed: &FailedOffering) {
        let path = self.state_dir.join("failed.json");
        if let Err(error) = add_failed(&path, failed, SystemClock.now()) {
            self.complain(format!("{} cannot be written: {error}", path.display()));
        }
    }

    fn stop(&self) -> Option<Stop> {
        self.signals.stop()
    }

    async fn stopped(&self) {
        self.signals.stopped().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_says_when_a_later_lease_starts_and_else_how_long_it_usually_takes() {
        let now: Time = "2026-01-05T21:38:00Z".parse().unwrap();
        let minutes = |minutes: u64| now.plus(std::time::Duration::from_secs(minutes * 60));
        let limit = Some(std::time::Duration::from_secs(300));
        let state = SagaState::LeaseWait;
        let shown = |starts: Option<Time>| {
            Current { number: 5, state, attempt: 1, started: Instant::now(), limit, starts }.waiting(now)
        };
        assert_eq!(shown(Some(minutes(2))), "the lease starts at 21:40 UTC, 0:00 so far");
        assert_eq!(shown(Some(minutes(60 * 24))), "the lease starts at 2026-01-06 21:38 UTC, 0:00 so far");
        assert_eq!(shown(Some(now)), "ACTIVE in ~2:00, 0:00 of 5:00");
        assert_eq!(shown(None), "ACTIVE in ~2:00, 0:00 of 5:00");
    }
}
