//! What runs attempts on this machine: which runtimes there are, and which of them answer. Never starts an attempt.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use orlop_cloud::runtime::worker::process::{ProcessOptions, ProcessRuntime};
use orlop_cloud::runtime::worker::{AttemptEvents, JobRuntime};
use orlop_core::error::Problem;
use orlop_core::spec::job::Runtime;
use tokio::time::{sleep, timeout};

use super::gpus::Gpu;
use super::options::AgentOptions;
use super::shared::Shared;
use super::state::State;
use super::steps::{StepOptions, StepRuntime};
use crate::wire::status::HealthCheck;

/// How long a runtime may take to say that it works.
const ANSWER: Duration = Duration::from_secs(10);

/// Between two times they are asked.
const EVERY: Duration = Duration::from_secs(5);

/// Runtimes by kind. What runs nothing needs none.
pub(super) type Runtimes = BTreeMap<Runtime, Arc<dyn JobRuntime>>;

/// Where directories of attempts are, below the state directory.
pub(super) fn directory(state: &Path, runtime: Runtime) -> PathBuf {
    state.join(if runtime == Runtime::Docker { "containers" } else { "work" })
}

/// Makes the runtimes that are asked for; they tell `events`.
pub(super) fn make(
    options: &AgentOptions,
    state: &State,
    gpus: &[Gpu],
    events: &Arc<dyn AttemptEvents>,
) -> Result<Runtimes, Problem> {
    let mut runtimes = Runtimes::new();
    if options.processes {
        let vendors: BTreeSet<String> = gpus.iter().map(|gpu| gpu.device.vendor.clone()).collect();
        let mut chosen = ProcessOptions::new(state.worker.to_string(), directory(&options.state, Runtime::Process));
        chosen.mark.clone_from(&state.id);
        chosen.supervisor.clone_from(&options.supervisor);
        chosen.launcher.clone_from(&options.launcher);
        chosen.cgroup.clone_from(&options.cgroup);
        chosen.limits.clone_from(&options.limits);
        chosen.users = !options.users.is_empty();
        (chosen.enforce, chosen.keep_failed) = (options.enforce, options.keep_failed);
        (chosen.exclusive, chosen.gpu_vendors) = (options.exclusive, vendors.into_iter().collect());
        let processes = ProcessRuntime::new(chosen, Arc::clone(events))?;
        let runtime: Arc<dyn JobRuntime> = match &options.supervisor {
            Some(supervisor) => {
                let (steps, tasks) = (step_options(options), tokio::runtime::Handle::current());
                Arc::new(StepRuntime::new(processes, supervisor.clone(), steps, Arc::clone(events), tasks))
            }
            None => Arc::new(processes),
        };
        runtimes.insert(Runtime::Process, runtime);
    }
    #[cfg(feature = "docker")]
    if let Some(containers) = &options.containers {
        use orlop_cloud::runtime::worker::docker::{ContainerOptions, ContainerRuntime};
        let mut chosen = ContainerOptions::new(state.worker.to_string(), directory(&options.state, Runtime::Docker));
        chosen.mark.clone_from(&state.id);
        chosen.address.clone_from(&containers.address);
        chosen.network.clone_from(&containers.network);
        chosen.capabilities.clone_from(&containers.capabilities);
        chosen.supervisor.clone_from(&options.supervisor);
        chosen.keep_failed = options.keep_failed;
        runtimes.insert(Runtime::Docker, Arc::new(ContainerRuntime::new(chosen, Arc::clone(events))?));
    }
    Ok(runtimes)
}

/// Options of the steps of flows on this worker.
fn step_options(options: &AgentOptions) -> StepOptions {
    // None: the engine that is found as for jobs.
    let engine = options.containers.as_ref().and_then(|containers| containers.address.clone());
    StepOptions {
        work: directory(&options.state, Runtime::Process),
        flows: options.state.join("flows"),
        limits: options.limits.clone(),
        users: !options.users.is_empty(),
        engine,
    }
}

/// Which runtimes answered when they were last asked.
#[derive(Debug, Default)]
pub(super) struct Answers(Mutex<BTreeMap<Runtime, Result<(), String>>>);

impl Answers {
    /// Asks all of them from time to time, for as long as it is polled.
    pub(super) async fn keep_asking(self: Arc<Self>, shared: Arc<Shared>) {
        loop {
            sleep(EVERY).await;
            let mut found = BTreeMap::new();
            for kind in shared.runtimes().into_keys() {
                // Held no longer than it takes to answer: the end of the agent is the end of its runtimes.
                if let Some(runtime) = shared.runtime(kind) {
                    found.insert(kind, answer(&*runtime).await);
                }
            }
            self.note(found);
        }
    }

    /// Asks all of them. True when one has changed its answer.
    pub(super) async fn ask(&self, runtimes: &Runtimes) -> bool {
        let mut found = BTreeMap::new();
        for (kind, runtime) in runtimes {
            found.insert(*kind, answer(&**runtime).await);
        }
        self.note(found)
    }

    fn note(&self, found: BTreeMap<Runtime, Result<(), String>>) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (runtime, answer) in &found {
            let before = known.get(runtime).map(Result::is_ok);
            match answer {
                Err(why) if before != Some(false) => tracing::warn!(%runtime, why, "a runtime does not work"),
                Ok(()) if before == Some(false) => tracing::info!(%runtime, "a runtime works again"),
                _ => {}
            }
        }
        let works = |answers: &BTreeMap<Runtime, Result<(), String>>| -> Vec<bool> {
            answers.values().map(Result::is_ok).collect()
        };
        let changed = works(&known) != works(&found);
        *known = found;
        changed
    }

    /// Runtimes that work.
    pub(super) fn working(&self) -> BTreeSet<Runtime> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|(_, answer)| answer.is_ok()).map(|(runtime, _)| *runtime).collect()
    }

    /// Whether those that are offered work.
    pub(super) fn health(&self, offered: &BTreeSet<Runtime>) -> Vec<HealthCheck> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_offered = known.iter().filter(|(runtime, _)| offered.contains(runtime));
        let check = |(runtime, answer): (&Runtime, &Result<(), String>)| HealthCheck {
            check: format!("runtime.{runtime}"),
            ok: answer.is_ok(),
            detail: answer.as_ref().err().cloned().unwrap_or_default(),
        };
        of_offered.map(check).collect()
    }
}

async fn answer(runtime: &dyn JobRuntime) -> Result<(), String> {
    match timeout(ANSWER, runtime.check()).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it did not answer within {} s", ANSWER.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use orlop_cloud::runtime::worker::{AttemptPlan, Cause, InUse, Remains};
    use orlop_core::error::Class;
    use orlop_core::task::TaskRef;

    use super::*;

    /// A runtime that may be away.
    #[derive(Debug, Default)]
    struct Moody(Mutex<bool>);

    #[async_trait::async_trait]
    impl JobRuntime for Moody {
        fn kind(&self) -> &'static str {
            "docker"
        }
        fn start(&self, _: AttemptPlan) {}
        fn end(&self, _: TaskRef, _: Cause, _: Duration) {}
        fn resume(&self, _: TaskRef) {}
        fn renew_lease(&self, _: Duration) {}
        async fn list(&self) -> Result<Vec<Remains>, Problem> {
            Ok(Vec::new())
        }
        async fn adopt(&self, _: TaskRef, _: u64) -> Result<(), Problem> {
            Ok(())
        }
        async fn remove(&self, _: TaskRef) -> Result<(), Problem> {
            Ok(())
        }
        async fn in_use(&self, _: &[TaskRef]) -> Result<Vec<(TaskRef, InUse)>, Problem> {
            Ok(Vec::new())
        }
        async fn check(&self) -> Result<(), Problem> {
            let there = *self.0.lock().unwrap();
            there.then_some(()).ok_or_else(|| Problem::new(Class::Transient, "no container engine"))
        }
    }

    #[tokio::test]
    async fn a_runtime_that_does_not_answer_is_not_offered_and_one_that_was_is_bad_health() {
        let moody = Arc::new(Moody::default());
        let runtimes = Runtimes::from([(Runtime::Docker, Arc::clone(&moody) as Arc<dyn JobRuntime>)]);
        let (answers, offered) = (Answers::default(), BTreeSet::from([Runtime::Docker]));
        assert!(answers.ask(&runtimes).await);
        assert!(answers.working().is_empty() && answers.health(&BTreeSet::new()).is_empty());
        let health = answers.health(&offered);
        assert_eq!((health[0].check.as_str(), health[0].ok), ("runtime.docker", false));
        assert_eq!(health[0].detail, "no container engine");
        *moody.0.lock().unwrap() = true;
        assert!(answers.ask(&runtimes).await && !answers.ask(&runtimes).await);
        assert!(answers.working() == offered && answers.health(&offered)[0].ok);
    }
}
