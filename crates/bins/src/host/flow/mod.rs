//! The host of one flow: it stores what happens in a journal, tells the engine, and lets a substrate do what the engine asks for. It never
//! decides what may run and runs nothing itself.
//!
//! A host writes an event before it acts on it. After a crash the next host replays what was written, carries out again
//! what may have been lost, adopts what runs, and goes on: no attempt runs twice.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use orlop::host::flow::{FlowHost, HostParts, Submission};
//! use orlop_core::spec::flow::JobFlow;
//! use orlop_core::testing::{MemoryJournal, ScriptedSubstrate};
//!
//! let template = serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {
//!     "containers": [{"name": "main", "image": "busybox", "command": ["true"]}]}}}});
//! let spec = serde_json::from_value(serde_json::json!({"steps": [
//!     {"name": "build", "template": template},
//!     {"name": "test", "dependencies": ["build"], "template": template},
//! ]}))?;
//! let parts = HostParts::new(Arc::new(ScriptedSubstrate::new()), Arc::new(MemoryJournal::new()));
//! let submission = Submission::new(JobFlow::new("hello", spec), "6d0d7a5e-0000-4000-8000-000000000000");
//! let mut host = FlowHost::submit(parts, submission, Vec::new()).await?;
//! host.run().await?;
//! assert_eq!(host.status().progress.summary, "2/2");
//! # Ok(()) }
//! ```

mod admission;
mod carry;
mod command;
mod configs;
mod definition;
mod drive;
#[cfg(feature = "fleet")]
pub mod fleet;
mod handle;
mod ledger;
mod publish;
mod report;
mod submit;
mod wait;
mod work;

use std::sync::Arc;
use std::time::Duration;

use orlop_core::effect::FlowEffect;
use orlop_core::error::Problem;
use orlop_core::event::FlowEvent;
use orlop_core::ports::journal::FlowJournal;
use orlop_core::ports::substrate::Substrate;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::FlowStatus;
use orlop_dag::engine::{Duty, State, duties, view};
use orlop_dag::manifest::{Limits, checked};
use orlop_dag::plan::Plan;

pub use orlop_cloud::clock::SystemClock;
pub use orlop_core::ports::clock::Clock;
pub use orlop_dag::attempt::{Subject, TemplateError, address, imported_name, key, resource_name};

pub use admission::{Admission, AdmissionDecision};
pub use command::{FlowCommand, event, leave};
pub use configs::{ConfigMaps, NoConfigMaps};
pub use definition::{Definition, definitions, flow_name};
pub use handle::{HostHandle, Notice};
pub use ledger::{RecordOptions, entry, options, plan_of, replay, summary};
pub use submit::{Submission, first_events, parameters, record, spec_hash};

use handle::Desk;
use ledger::{Ledger, begin, invalid, unjournaled};
use publish::Pace;
use work::Work;

/// Where the answer to an order goes.
type Answer = tokio::sync::oneshot::Sender<Result<bool, Problem>>;

/// What happens on the substrate with an attempt that has ended, once its end is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// It is deleted when the flow or its template says so (`jobRetention`, `ttlSecondsAfterFinished`).
    #[default]
    AsAsked,
    /// It is deleted at once: nobody needs it any more.
    Nothing,
    /// It stays until the flow is deleted.
    Everything,
}

/// The parts and settings of a host.
#[derive(Clone)]
pub struct HostParts {
    /// Where attempts run.
    pub substrate: Arc<dyn Substrate>,
    /// Where events are written.
    pub journal: Arc<dyn FlowJournal>,
    /// ConfigMaps beside those of the flow.
    pub configs: Arc<dyn ConfigMaps>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// The most attempts that are being started at the same time.
    pub starts: usize,
    /// Whether [`FlowHost::run`] returns when only a person can make the flow go on.
    pub leave_when_paused: bool,
    /// What becomes of attempts that have ended.
    pub keep: Keep,
    /// How many notices are buffered for a slow listener before it misses some. Each takes 130 bytes, allocated at the start.
    pub notices: usize,
}

impl HostParts {
    /// A substrate and a journal, with defaults otherwise: no further ConfigMaps, the clock of this machine, 16 starts at once, waiting for
    /// people, and ended attempts deleted as the flow asks.
    #[must_use]
    pub fn new(substrate: Arc<dyn Substrate>, journal: Arc<dyn FlowJournal>) -> Self {
        Self {
            substrate,
            journal,
            configs: Arc::new(NoConfigMaps),
            clock: Arc::new(SystemClock),
            starts: 16,
            leave_when_paused: false,
            keep: Keep::default(),
            notices: 4096,
        }
    }
}

/// Why [`FlowHost::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Left {
    /// The flow has ended.
    Ended,
    /// Only a person can make the flow go on, and the host was asked not to wait for one.
    Paused,
    /// The host was asked to stop; the flow goes on under the next host.
    Detached,
}

/// The host of one flow. [The module](self) has an example.
pub struct FlowHost {
    parts: HostParts,
    flow: JobFlow,
    plan: Arc<Plan>,
    state: State,
    ledger: Ledger,
    work: Work,
    desk: Desk,
    pace: Pace,
    /// Effects of the first events, until the host runs: before that nobody hears of them.
    beginning: Vec<FlowEffect>,
    /// Events that are to be written next.
    pending: Vec<FlowEvent>,
    /// Orders that are to be written next, before these.
    orders: Vec<(FlowEvent, Answer)>,
    admission: Option<Box<dyn Admission>>,
    admitted: bool,
}

impl FlowHost {
    /// Submits a flow: checks it, stores it and begins it. `first` are events for the engine before all others, such as results imported
    /// from an earlier flow ([`orlop_dag::repeat`]) and approvals; usually empty.
    ///
    /// # Errors
    /// When the flow breaks a rule of [`orlop_dag::manifest::validate`] or has no plan, a parameter has no value, or the journal
    /// cannot be written.
    pub async fn submit(parts: HostParts, submission: Submission, first: Vec<FlowEvent>) -> Result<Self, Problem> {
        let limits = Limits::elsewhere().images_optional();
        let limits = if parts.substrate.runs_functions() { limits.templates_optional() } else { limits };
        let plan = Arc::new(checked(&submission.flow, &limits).map_err(invalid)?);
        let now = parts.clock.now();
        let mut begins = first_events(&submission.flow, &plan, now);
        begins.extend(first);
        // Written with the record: a host that dies before its first entry must not lose them.
        let record = record(submission, begins, parts.configs.as_ref(), now).await?;
        parts.journal.create(&record).await.map_err(unjournaled)?;
        let mut effects = Vec::new();
        let state = begin(&plan, &record, &mut effects)?;
        let mut host = Self::assemble(parts, record.flow, plan, state, &record.uid, 0);
        host.beginning = effects;
        host.ledger.summarize(&host.plan, &host.state).await;
        Ok(host)
    }

    /// Goes on with a stored flow whose last host has ended.
    ///
    /// # Errors
    /// When there is no such flow, or what is stored of it cannot be read.
    pub async fn resume(parts: HostParts, uid: &str) -> Result<Self, Problem> {
        let mut stored = parts.journal.load(uid).await.map_err(unjournaled)?;
        let plan = plan_of(&mut stored)?;
        let state = replay(&plan, &stored)?;
        parts.clock.no_earlier_than(state.now());
        let mut host = Self::assemble(parts, stored.record.flow, Arc::new(plan), state, uid, stored.last);
        host.forget_left().await;
        for duty in duties(&host.plan, &host.state) {
            match duty {
                Duty::CarryOut(effect) => host.carry_out(vec![effect]),
                Duty::Adopt { at, attempt } => host.adopt((at, attempt)),
            }
        }
        Ok(host)
    }

    fn assemble(parts: HostParts, flow: JobFlow, plan: Arc<Plan>, state: State, uid: &str, last: u64) -> Self {
        let ledger = Ledger::new(Arc::clone(&parts.journal), uid, last);
        let admitted = view(&plan, &state, 0..0).status.start_time.is_some();
        let desk = Desk::new(&plan, &state, parts.notices);
        let work = Work::new(parts.starts);
        let (beginning, pending, orders) = (Vec::new(), Vec::new(), Vec::new());
        let pace = Pace::default();
        Self {
            parts,
            flow,
            plan,
            state,
            ledger,
            work,
            desk,
            pace,
            beginning,
            pending,
            orders,
            admission: None,
            admitted,
        }
    }

    /// Sets what decides when the flow may begin; without this it begins at once.
    pub fn set_admission(&mut self, admission: Box<dyn Admission>) {
        self.admission = Some(admission);
    }

    /// A handle to send commands to the host and to watch the flow while it runs.
    #[must_use]
    pub fn handle(&self) -> HostHandle {
        self.desk.handle()
    }

    /// The object, without status.
    #[must_use]
    pub fn flow(&self) -> &JobFlow {
        &self.flow
    }

    /// The plan of the flow.
    #[must_use]
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The state of the flow.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The status of the flow with all records.
    #[must_use]
    pub fn status(&self) -> FlowStatus {
        view(&self.plan, &self.state, 0..usize::MAX).status
    }
}

/// How long work that only tidies up may hold back the end of a host.
const TIDY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
