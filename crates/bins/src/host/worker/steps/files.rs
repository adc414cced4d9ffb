//! What is written down of a step below the directory of its job, by which an agent that starts later goes on with it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use orlop_cloud::durable::{Durable, replace};
use orlop_cloud::runtime::worker::{AttemptPlan, Cause, Started};
use orlop_core::error::{Class, Problem};
use orlop_core::exact;
use orlop_core::spec::job::StepSpec;
use orlop_core::task::TaskRef;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::host::flow::fleet::{GIVEN, LEFT};
use crate::host::home::RunDir;

/// The folder of a step's work in the directory of its job.
const WORK: &str = ".step";

/// Why a step is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum EndCause {
    /// Somebody asked.
    Asked(Cause),
    /// Its time is over.
    Timeout,
    /// It wrote more than it may.
    LogLimit,
    /// It cannot be run here.
    Refused,
}

/// That a step is to end, why, and how long it may take: the first cause counts, and the shortest time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ending {
    pub(super) cause: EndCause,
    /// None: as long as its template says.
    pub(super) grace: Option<Duration>,
}

impl Ending {
    /// After a further order.
    pub(super) fn merge(self, next: Self) -> Self {
        let shortest = [self.grace, next.grace].into_iter().flatten().min();
        Self { cause: self.cause, grace: shortest }
    }
}

/// The directory of a step.
#[derive(Clone, Debug)]
pub(super) struct StepDir(PathBuf);

impl StepDir {
    /// That of a step below the directory of attempts.
    pub(super) fn of(work: &Path, id: &TaskRef) -> Self {
        Self(work.join(id.to_string()).join(WORK))
    }

    /// As that of a flow's run.
    pub(super) fn run(&self) -> RunDir {
        RunDir::new(self.0.clone())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes it.
    pub(super) fn make(&self) -> Result<(), Problem> {
        Ok(DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?)
    }

    /// Where artifacts that the step leaves are stored from.
    pub(super) fn output_dir(&self) -> PathBuf {
        self.0.with_file_name(LEFT)
    }

    /// Where the artifacts are that the step needs, in the folder of its inputs.
    pub(super) fn input_dir(folder: &Path) -> PathBuf {
        folder.join(GIVEN)
    }

    /// How much of the output was handed on.
    pub(super) fn notes(&self) -> PathBuf {
        self.0.join("handed-on")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes the plan down, without the values of secrets.
    pub(super) fn write_plan(&self, plan: &AttemptPlan) -> Result<(), Problem> {
        let mut bare = plan.clone();
        bare.secrets.iter_mut().for_each(|secret| secret.value.clear());
        write(&self.file("plan.json"), &bare)
    }

    /// The plan that an earlier agent wrote down, without the values of secrets, and the step that it is of.
    pub(super) fn plan(&self) -> io::Result<Option<(AttemptPlan, Arc<StepSpec>)>> {
        let plan: Option<AttemptPlan> = read(&self.file("plan.json"))?;
        Ok(plan.and_then(|plan| plan.run.step.clone().map(|step| (plan, step))))
    }

    /// Whether all was prepared, so that an agent that starts later can go on.
    pub(super) fn is_prepared(&self) -> io::Result<bool> {
        Ok(self.file("plan.json").try_exists()? && self.file("started.json").try_exists()?)
    }

    /// Whether there may be attempts; without their directory nothing was started.
    pub(super) fn has_attempts(&self) -> io::Result<bool> {
        self.file("attempts").try_exists()
    }

    /// Since when the worker has it, if that is written down.
    pub(super) fn started(&self) -> io::Result<Option<Started>> {
        read(&self.file("started.json"))
    }

    pub(super) fn write_started(&self, started: &Started) -> Result<(), Problem> {
        write(&self.file("started.json"), started)
    }

    /// Whether its attempt was accepted by what runs it.
    pub(super) fn is_accepted(&self) -> io::Result<bool> {
        self.file("accepted").try_exists()
    }

    pub(super) fn write_accepted(&self) -> Result<(), Problem> {
        write(&self.file("accepted"), &true)
    }

    /// That it is to end, if that is written down.
    pub(super) fn ending(&self) -> io::Result<Option<Ending>> {
        read(&self.file("ending.json"))
    }

    pub(super) fn write_ending(&self, ending: &Ending) -> Result<(), Problem> {
        write(&self.file("ending.json"), ending)
    }
}

/// Reads a file that was written whole; none where there is none, or the machine lost its power before its content was on the disk.
fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(exact::from_slice(&bytes).ok()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file of a step whole, for its user alone.
fn write(path: &Path, value: &impl Serialize) -> Result<(), Problem> {
    let text = serde_json::to_vec(value).map_err(|error| Problem::new(Class::Fatal, error.to_string()))?;
    Ok(replace(path, &text, Durable::No)?)
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};
    use orlop_core::task::Run;

    use super::*;

    #[test]
    fn of_several_orders_to_end_the_first_cause_counts_and_the_shortest_time() {
        let cancel = |grace| Ending { cause: EndCause::Asked(Cause::Cancel), grace };
        let timeout = Ending { cause: EndCause::Timeout, grace: None };
        let second = Duration::from_secs(1);
        assert_eq!(timeout.merge(cancel(Some(second))), Ending { cause: EndCause::Timeout, grace: Some(second) });
        assert_eq!(cancel(Some(second)).merge(cancel(Some(second * 2))), cancel(Some(second)));
        assert_eq!(cancel(Some(second)).merge(timeout), cancel(Some(second)));
    }

    #[test]
    fn what_is_written_down_of_a_step_reads_back_and_holds_no_secret() {
        let work = tempfile::tempdir().unwrap();
        let id = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        let dir = StepDir::of(work.path(), &id);
        dir.make().unwrap();
        let ending = Ending { cause: EndCause::Asked(Cause::Preempt), grace: Some(Duration::from_millis(1500)) };
        assert!(dir.ending().unwrap().is_none() && dir.started().unwrap().is_none() && !dir.is_prepared().unwrap());
        dir.write_ending(&ending).unwrap();
        assert_eq!(dir.ending().unwrap(), Some(ending));
        let step = serde_json::json!({ "attempt": {
            "key": { "flow": "u", "step": "s", "attempt": 1 }, "flow_name": "f", "namespace": "default", "job_name": "f-s",
            "template": {}, "inputs": [], "output_files": [], "output_artifacts": [],
        } });
        let step: Arc<StepSpec> = serde_json::from_value(step).unwrap();
        let run = Run { step: Some(Arc::clone(&step)), ..Run::default() };
        let mut plan = AttemptPlan::new(id, Arc::new(run));
        plan.secrets.push(orlop_cloud::runtime::worker::Secret {
            name: "db".to_owned(),
            value: "hunter2".to_owned(),
            given_as: orlop_core::spec::job::SecretAs::File,
            target: "db/password".to_owned(),
        });
        dir.write_plan(&plan).unwrap();
        assert!(!fs::read_to_string(dir.file("plan.json")).unwrap().contains("hunter2"));
        let (plan, read) = dir.plan().unwrap().unwrap();
        assert_eq!((plan.secrets[0].value.as_str(), read), ("", step));
        fs::write(dir.file("plan.json"), "").unwrap();
        assert!(dir.plan().unwrap().is_none(), "the machine lost its power");
        fs::remove_file(dir.file("plan.json")).unwrap();
        fs::create_dir(dir.file("plan.json")).unwrap();
        assert!(dir.plan().is_err(), "what cannot be read is not taken for missing");
    }
}
