//! What is written down of a pod in its directory, so that another process can go on with it. Owns the files and their
//! forms; never holds a secret: of those only the names of their variables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use orlop_core::time::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::state::Progress;
use crate::durable::{Durable, replace};
use crate::runtime::pod::{PodExit, PodKey, PodPlan};

/// A pod whose containers are all created: written before the first one starts, never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Which pod.
    pub(super) key: PodKey,
    /// Name of its main container.
    pub(super) name: String,
    /// When it was started; its deadline counts from then.
    pub(super) created_at: Time,
    /// The boot of the machine it was started in, where that is known.
    pub(super) boot: Option<String>,
    /// Its deadline.
    pub(super) active_deadline: Option<Duration>,
    /// Whether failed containers are started again.
    pub(super) restart_on_failure: bool,
    /// How often.
    pub(super) restart_limit: u32,
    /// Time to end in, at the deadline.
    pub(super) grace: Duration,
    /// Files whose content is masked in its logs; what they hold is not written down.
    #[serde(default)]
    pub(super) secret_files: Vec<PathBuf>,
    /// Log of standard output.
    pub(super) stdout: PathBuf,
    /// Log of standard error.
    pub(super) stderr: PathBuf,
    /// Its containers, init containers first, main last.
    pub(super) containers: Vec<Container>,
}

/// A container of a recorded pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Container {
    /// Its name within the pod.
    pub(super) name: String,
    /// Its id.
    pub(super) id: String,
    /// Names of its variables that hold secrets.
    pub(super) secrets: Vec<String>,
    /// Where it writes its last words.
    pub(super) words: Words,
    /// Whether the end of its log stands in for missing last words.
    pub(super) falls_back: bool,
}

/// Where the last words of a container are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Words {
    /// Nowhere.
    None,
    /// In a file of this machine that the container sees.
    File(PathBuf),
    /// At a path inside the container that is a mount itself.
    Inside(String),
}

/// What was asked of a pod while it ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Control {
    /// That it ends.
    pub(super) stop: Option<Stop>,
    /// That its clock stands still, since then.
    pub(super) frozen_since: Option<Time>,
    /// How long its clock stood still before.
    pub(super) frozen: Duration,
}

/// That a pod ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stop {
    /// Why.
    pub(super) why: Why,
    /// When it was asked to.
    pub(super) at: Time,
    /// When it is killed.
    pub(super) kill_at: Time,
}

/// Why a pod ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Why {
    /// On request.
    Cancel,
    /// Its time is over.
    Deadline,
}

impl Control {
    /// Asks the pod to end; asking again can only shorten the time it has. A frozen pod goes on, to be able to.
    pub(super) fn stop(&mut self, why: Why, now: Time, grace: Duration) {
        let kill_at = now.plus(grace);
        match &mut self.stop {
            Some(stop) => stop.kill_at = stop.kill_at.min(kill_at),
            None => self.stop = Some(Stop { why, at: now, kill_at }),
        }
        self.thaw(now);
    }

    /// Stops the clock, unless the pod is to end.
    pub(super) fn freeze(&mut self, now: Time) {
        if self.stop.is_none() {
            self.frozen_since.get_or_insert(now);
        }
    }

    /// Lets the clock go on.
    pub(super) fn thaw(&mut self, now: Time) {
        if let Some(since) = self.frozen_since.take() {
            self.frozen = self.frozen.saturating_add(now.since(since));
        }
    }
}

/// The files of a pod in its directory. They are small, and each is replaced as a whole.
#[derive(Clone, Debug)]
pub(super) struct Files {
    directory: PathBuf,
}

impl Files {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    pub(super) fn record(&self) -> Result<Option<Record>, Problem> {
        self.read("docker.json")
    }

    pub(super) fn write_record(&self, record: &Record) -> Result<(), Problem> {
        self.write("docker.json", record)
    }

    pub(super) fn control(&self) -> Result<Control, Problem> {
        Ok(self.read("docker-control.json")?.unwrap_or_default())
    }

    pub(super) fn write_control(&self, control: &Control) -> Result<(), Problem> {
        self.write("docker-control.json", control)
    }

    pub(super) fn progress(&self) -> Result<Vec<Progress>, Problem> {
        Ok(self.read("docker-progress.json")?.unwrap_or_default())
    }

    pub(super) fn write_progress(&self, progress: &[Progress]) -> Result<(), Problem> {
        self.write("docker-progress.json", progress)
    }

    pub(super) fn exit(&self) -> Result<Option<PodExit>, Problem> {
        self.read("docker-exit.json")
    }

    pub(super) fn write_exit(&self, exit: &PodExit) -> Result<(), Problem> {
        self.write("docker-exit.json", exit)
    }

    /// Where the reader of a container's log keeps its place.
    pub(super) fn log_cursor(&self, index: usize) -> PathBuf {
        self.directory.join(format!("docker-log-{index}.json"))
    }

    /// The file a container's last words go to.
    pub(super) fn words(&self, index: usize) -> PathBuf {
        self.directory.join(format!("termination-{index}"))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Problem> {
        let path = self.directory.join(name);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(trouble(error, "reading", &path)),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            let message = format!("the record {} of a pod cannot be read", path.display());
            Problem::new(Class::Fatal, message).because(error)
        })
    }

    fn write<T: Serialize + ?Sized>(&self, name: &str, value: &T) -> Result<(), Problem> {
        let path = self.directory.join(name);
        let bytes = serde_json::to_vec(value).map_err(|error| {
            Problem::new(Class::Invalid, format!("{} cannot be written as JSON", path.display())).because(error)
        })?;
        replace(&path, &bytes, Durable::Yes).map_err(|error| trouble(error, "writing", &path))
    }
}

fn trouble(error: std::io::Error, doing: &str, path: &Path) -> Problem {
    let class = match Problem::from(std::io::Error::from(error.kind())).class {
        // A directory that is not there is no answer about the pod.
        Class::NotFound | Class::Exists => Class::Fatal,
        class => class,
    };
    Problem::new(class, format!("{doing} {} failed: {error}", path.display())).because(error)
}

/// The boot this machine is in, where it tells.
fn boot() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// When this machine booted, where it tells.
fn booted_at() -> Option<Time> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<i64>().ok()?;
    Some(Time::from_millis(seconds.saturating_mul(1000)))
}

impl Record {
    /// The record of a pod whose containers have been created.
    pub(super) fn new(plan: &PodPlan, containers: Vec<Container>, now: Time) -> Self {
        Self {
            key: plan.key.clone(),
            name: plan.name.clone(),
            created_at: now,
            boot: boot(),
            active_deadline: plan.active_deadline,
            restart_on_failure: plan.restart_on_failure,
            restart_limit: plan.restart_limit,
            grace: plan.grace,
            secret_files: plan.secret_files.clone(),
            stdout: plan.stdout.clone(),
            stderr: plan.stderr.clone(),
            containers,
        }
    }

    /// Whether an execution ended because its machine did: it began in another boot and is said to have ended in this
    /// one, where it never ran.
    pub(super) fn died_with_machine(&self, started_at: Time, ended_at: Time) -> bool {
        self.crossed(boot().as_deref(), booted_at(), started_at, ended_at)
    }

    pub(super) fn crossed(
        &self,
        boot: Option<&str>,
        booted_at: Option<Time>,
        started_at: Time,
        ended_at: Time,
    ) -> bool {
        let (Some(then), Some(boot), Some(booted_at)) = (self.boot.as_deref(), boot, booted_at) else { return false };
        then != boot && started_at < booted_at && booted_at <= ended_at
    }

    /// The main container.
    pub(super) fn main(&self) -> Option<&Container> {
        self.containers.last()
    }
}
