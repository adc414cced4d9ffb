//! A run as its journal has it. Owns reading it beside a live host and writing to it where there is none.

use orlop_cloud::store::sqlite::{Access, SqliteJournal};
use orlop_core::ports::journal::{FlowJournal as _, FlowRecord, StoredFlow};
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;
use orlop_dag::engine::{State, apply, view};
use orlop_dag::plan::Plan;

use super::failure::{Exit, Failure};
use crate::host::control::Client;
use crate::host::flow::{Clock as _, Order, SystemClock, entry, event, plan_of, replay, summary};
use crate::host::home::RunDir;

/// A run, read.
pub(super) struct Stored {
    /// Its record.
    pub record: FlowRecord,
    /// Its plan.
    pub plan: Plan,
    /// Its state.
    pub state: State,
    /// Number of its last journal entry.
    pub last: u64,
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
            let message = format!("{} holds no flow; it was not written to its end", journal.path().display());
            Failure::new(Exit::NotFound, message)
        };
        let stored = journal.load(&flow.ok_or_else(missing)?.uid).await?;
        Self::of(stored)
    }

    fn of(mut stored: StoredFlow) -> Result<Self, Failure> {
        let plan = plan_of(&mut stored)?;
        let state = replay(&plan, &stored)?;
        let StoredFlow { record, last, .. } = stored;
        Ok(Self { record, plan, state, last })
    }

    /// Its status with all records.
    #[must_use]
    pub(super) fn status(&self) -> FlowStatus {
        view(&self.plan, &self.state, 0..usize::MAX).status
    }

    /// The object with its status.
    #[must_use]
    pub(super) fn object(&self) -> JobFlow {
        JobFlow { status: Some(self.status()), ..self.record.flow.clone() }
    }
}

/// Who calls, as far as the environment says.
#[must_use]
pub(super) fn caller() -> Option<String> {
    ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok()).filter(|name| !name.is_empty())
}

/// Gives an order to a run: to its host, or where none lives to its journal, for the next one. True when a host took it.
///
/// # Errors
/// When the order does not fit or cannot be written.
pub(super) async fn order(run: &RunDir, order: Order) -> Result<bool, Failure> {
    for _ in 0..ATTEMPTS {
        let client = Client::connect(run.path()).await;
        let client = client.map_err(|error| Failure::io("the host of the flow cannot be reached", &error))?;
        if let Some(mut client) = client {
            client.order(order.clone()).await?;
            return Ok(true);
        }
        let lock = run.lock().map_err(|error| Failure::io("the run directory cannot be locked", &error))?;
        if let Some(_lock) = lock {
            write(run, &order).await?;
            return Ok(false);
        }
        // A host is just starting or ending: it will answer, or its lock will be free.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let message = format!("the host of the flow in {} does not answer; try again", run.path().display());
    Err(Failure::new(Exit::Unreachable, message))
}

/// Tries of an order while a host starts or ends.
const ATTEMPTS: usize = 100;

/// Writes an order into the journal of a run whose lock the caller holds.
///
/// # Errors
/// When the order does not fit or cannot be written.
pub(super) async fn write(run: &RunDir, order: &Order) -> Result<(), Failure> {
    let journal = SqliteJournal::open(run.journal(), Access::Host).await?;
    let mut stored = Stored::from(&journal).await?;
    let now = SystemClock.now();
    if let Some(event) = event(&stored.plan, &stored.state, order, now)? {
        let uid = stored.record.uid.clone();
        journal.append(&uid, stored.last, &[entry(now, &event)?]).await?;
        apply(&stored.plan, &mut stored.state, &event, now, &mut Vec::new());
        journal.summarize(&uid, &summary(&stored.plan, &stored.state)).await?;
    }
    journal.close().await;
    Ok(())
}
