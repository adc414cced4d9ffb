//! A run as its journal has it.

use orlop_cloud::store::sqlite::{Access, SqliteJournal};
use orlop_core::machine::step::StepPhase;
use orlop_core::ports::journal::{FlowJournal as _, FlowRecord, StoredFlow};
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::Time;
use orlop_dag::engine::{State, view};
use orlop_dag::plan::Plan;
use std::collections::BTreeMap;

use super::failure::{Exit, Failure};
use crate::host::control::{Client, is_stopped};
use crate::host::flow::{Clock as _, FlowCommand, RecordOptions, SystemClock, leave, plan_of, replay};
use crate::host::home::RunDir;
use crate::host::local::LocalSetup;
use crate::view::items::Items;
use crate::view::name::RunName;

/// A run, read.
pub(super) struct Stored {
    /// Its record.
    pub record: FlowRecord,
    /// Its plan.
    pub plan: Plan,
    /// Its state.
    pub state: State,
}

impl Stored {
    /// Reads a run, also while a host writes it.
    ///
    /// # Errors
    /// When there is none or its journal cannot be read.
    pub(super) async fn read(run: &RunDir) -> Result<Self, Failure> {
        let journal = SqliteJournal::open(run.journal(), Access::Viewer).await?;
        Self::from(&journal).await
    }

    async fn from(journal: &SqliteJournal) -> Result<Self, Failure> {
        let flow = journal.list().await?.into_iter().next();
        let missing = || {
            let message = format!("{} contains no flow; it was not written completely", journal.path().display());
            Failure::new(Exit::NotFound, message)
        };
        let stored = journal.load(&flow.ok_or_else(missing)?.uid).await?;
        Self::of(stored)
    }

    fn of(mut stored: StoredFlow) -> Result<Self, Failure> {
        let plan = plan_of(&mut stored)?;
        let state = replay(&plan, &stored)?;
        let StoredFlow { record, .. } = stored;
        Ok(Self { record, plan, state })
    }

    /// What it may use.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn setup(&self) -> Result<LocalSetup, Failure> {
        match self.options()?.driver {
            // A flow that was submitted by another program than this one.
            serde_json::Value::Null => Ok(LocalSetup::default()),
            driver => serde_json::from_value(driver).map_err(|error| {
                let message = format!(
                    "the settings of the run cannot be read: {error}; use the version of this program that started it"
                );
                Failure::new(Exit::Failed, message)
            }),
        }
    }

    /// What its host keeps beside the object.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn options(&self) -> Result<RecordOptions, Failure> {
        serde_json::from_value(self.record.options.clone())
            .map_err(|error| Failure::new(Exit::Failed, format!("what is stored of the run cannot be read: {error}")))
    }

    /// Its status with all records.
    #[must_use]
    pub(super) fn status(&self) -> FlowStatus {
        view(&self.plan, &self.state, 0..usize::MAX).status
    }

    /// Items of its instances.
    #[must_use]
    pub(super) fn items(&self) -> Items {
        Items::of_run(&self.plan, &self.state, self.status().steps.iter().map(|step| step.name.as_str()))
    }

    /// The object with its status.
    #[must_use]
    pub(super) fn object(&self) -> JobFlow {
        JobFlow { status: Some(self.status()), ..self.record.flow.clone() }
    }
}

/// Gives an order to a run: to its host, or where none lives to its journal, for the next one. True when a host took it.
///
/// # Errors
/// When the order does not fit or cannot be written.
pub(super) async fn order(run: &RunDir, order: FlowCommand) -> Result<bool, Failure> {
    let mut tries = 0;
    loop {
        let door = run.door().await.map_err(|error| Failure::io("the run directory cannot be locked", &error))?;
        let Some(mut client) = connect(run).await? else {
            let lock = run.lock().map_err(|error| Failure::io("the run directory cannot be locked", &error))?;
            let Some(_lock) = lock else {
                let message =
                    format!("the process that drives the flow in {} does not answer; try again", run.path().display());
                return Err(Failure::new(Exit::Unreachable, message));
            };
            write(run, &order).await?;
            return Ok(false);
        };
        drop(door);
        match client.order(order.clone()).await {
            Ok(true) => return Ok(true),
            // It was just ending: there is none now, or a new one.
            Ok(false) if tries < TRIES => tries += 1,
            Ok(false) => return Err(Failure::unreachable("the process that drives the flow has exited; try again")),
            Err(error) => return Err(error.into()),
        }
    }
}

/// How often an order is given anew to the next host.
const TRIES: u32 = 3;

/// Connects to the host of a run, which may just be coming or going; none when there is none.
///
/// # Errors
/// When a host cannot be reached.
pub(super) async fn reach(run: &RunDir) -> Result<Option<Client>, Failure> {
    // Who may not write here can still look.
    let _door = run.door().await.ok();
    connect(run).await
}

/// Who drives a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// One that works, as far as can be seen.
    Works,
    /// This process, which was stopped.
    Stopped(i32),
    /// Nobody.
    None,
}

impl Host {
    /// The host of a run at this moment.
    pub(super) async fn of(run: &RunDir) -> Self {
        match reach(run).await {
            Ok(None) => Self::None,
            Ok(Some(client)) => client.stopped().map_or(Self::Works, Self::Stopped),
            // A host that cannot be asked is one.
            Err(_) => Self::Works,
        }
    }

    /// Its process where that was stopped.
    pub(super) const fn stopped(self) -> Option<i32> {
        match self {
            Self::Stopped(pid) => Some(pid),
            Self::Works | Self::None => None,
        }
    }
}

/// Whether no host drives a run that has not ended, at this moment.
pub(super) async fn is_left(run: &RunDir) -> bool {
    Host::of(run).await == Host::None
}

/// What to do about processes of a run that were stopped: its host, and supervisors of live attempts. A line each.
pub(super) fn stopped(host: Option<i32>, status: &FlowStatus) -> Vec<String> {
    let host = host.map(|pid| {
        format!(
            "the run's supervisor process {pid} is stopped: nothing new starts and nothing is recorded before it is continued, with \
             `kill -CONT {pid}` or `fg` in its terminal"
        )
    });
    let running = status.steps.iter().filter(|step| step.phase == StepPhase::Running);
    let mut supervisors: BTreeMap<i32, Vec<&str>> = BTreeMap::new();
    for step in running {
        let of = step.job_ref.as_ref().filter(|of| of.kind == "Process");
        let identity = of.and_then(|of| of.uid.split_once('@'));
        let identity = identity.and_then(|(pid, start)| pid.parse().ok().zip(start.parse().ok()));
        if let Some((pid, _)) = identity.filter(|(pid, start)| is_stopped(*pid, Some(*start))) {
            supervisors.entry(pid).or_default().push(&step.name);
        }
    }
    let supervisors = supervisors.into_iter().map(|(pid, steps)| {
        let steps: Vec<String> = steps.iter().map(|step| format!("`{step}`")).collect();
        format!(
            "the supervisor process {pid} of step {} is stopped: its end is not noticed before it is continued, with \
             `kill -CONT {pid}`",
            steps.join(", ")
        )
    });
    host.into_iter().chain(supervisors).collect()
}

/// Since when nothing has happened in a run: its last recorded time.
pub(super) fn last_time(status: &FlowStatus) -> Time {
    let of_steps = status.steps.iter().flat_map(|step| [step.start_time, step.completion_time]);
    of_steps.chain([status.start_time, status.completion_time]).flatten().max().unwrap_or(Time::EPOCH)
}

/// What to do about a run that has not ended and that no host drives.
pub(super) fn interrupted(name: &RunName) -> String {
    format!("interrupted: no process drives it now; continue it: orlop run --resume --name {}", name.call())
}

async fn connect(run: &RunDir) -> Result<Option<Client>, Failure> {
    let client = Client::connect(run.path()).await;
    client.map_err(|error| Failure::io("the process that drives the flow cannot be reached", &error))
}

/// Writes an order into the journal of a run whose lock the caller holds.
///
/// # Errors
/// When the order does not fit or cannot be written.
pub(super) async fn write(run: &RunDir, order: &FlowCommand) -> Result<(), Failure> {
    let journal = SqliteJournal::open(run.journal(), Access::Host).await?;
    let stored = Stored::from(&journal).await?;
    leave(&journal, &stored.record.uid, order, SystemClock.now()).await?;
    journal.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orlop_core::testing::{MemoryJournal, ScriptedSubstrate};
    use orlop_dag::manifest::substrate::Runtime;
    use serde_json::{Value, json};

    use super::*;
    use crate::host::flow::{FlowHost, HostParts, Submission};

    async fn setup(driver: Value) -> Result<LocalSetup, Failure> {
        let journal = MemoryJournal::new();
        let parts = HostParts::new(Arc::new(ScriptedSubstrate::new()), Arc::new(journal.clone()));
        let spec = serde_json::from_value(json!({"steps": [{"name": "ok", "type": "Manual"}]})).unwrap();
        let submission = Submission { driver, ..Submission::new(JobFlow::new("f", spec), "uid") };
        FlowHost::submit(parts, submission, Vec::new()).await.unwrap();
        Stored::of(journal.load("uid").await.unwrap())?.setup()
    }

    #[tokio::test]
    async fn a_setup_that_cannot_be_read_is_no_other_setup() {
        assert_eq!(setup(Value::Null).await.unwrap(), LocalSetup::default());
        let kept = LocalSetup { allow_privileged: true, ..LocalSetup::default() };
        assert_eq!(setup(json!(kept)).await.unwrap(), kept);
        for (stored, runtime) in
            [("docker", Runtime::ByImage), ("process", Runtime::Process), ("containers", Runtime::Docker)]
        {
            assert_eq!(
                setup(json!({"backend": stored})).await.unwrap().runtime,
                runtime,
                "as earlier versions wrote it"
            );
        }
        let error = setup(json!({"backend": "steam"})).await.unwrap_err();
        assert!(error.message.contains("the settings of the run cannot be read"), "{}", error.message);
    }
}
