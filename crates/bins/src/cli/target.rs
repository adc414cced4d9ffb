//! Where flows run, as verbs ask it: this machine, a fleet or a cluster. A verb is written once, over [`FlowTarget`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use orlop_core::machine::flow::FlowPhase;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::status::{ConditionStatus, FlowStatus};
use orlop_core::time::{HumanDuration, Time};
use orlop_dag::engine::{Explanation, FlowMeta, State, explain, init, reconstruct};
use orlop_dag::params::check_given;
use orlop_dag::plan::Plan;
use serde_json::{Map, Value};

use super::artifacts::{Artifact, ArtifactsArgs};
#[cfg(any(feature = "fleet", feature = "kube"))]
use super::drive::goes_on;
use super::failure::{Exit, Failure};
use super::globals::{GlobalArgs, Target};
use super::local::Local;
use super::logs::LogsArgs;
use super::manifest::{self, Loaded};
use super::output;
use super::retry::RetryArgs;
use super::run::approvals;
use crate::host::flow::{Clock as _, FlowCommand, SystemClock};
use crate::view::items::Items;
use crate::view::name::RunName;

/// Where flows run.
#[async_trait(?Send)]
pub(super) trait FlowTarget {
    /// Who is asked, for a message.
    fn asked(&self) -> &'static str;

    /// How a flow is named in commands.
    fn named(&self, name: &str) -> RunName;

    /// The flows that a filter takes.
    ///
    /// # Errors
    /// The flows cannot be read.
    async fn list(&self, filter: &ListFilter) -> Result<Vec<ListedFlow>, Failure>;

    /// A flow as it is now.
    ///
    /// # Errors
    /// There is no such flow, or it cannot be read.
    async fn get(&self, name: &str) -> Result<FlowSnapshot, Failure>;

    /// Gives an order to a flow.
    ///
    /// # Errors
    /// There is no such flow, it is not in a state for the order, or the target cannot be reached.
    async fn order(&self, name: &str, order: FlowCommand) -> Result<Taken, Failure>;

    /// A flow once it has ended, or what else is waited for holds.
    ///
    /// # Errors
    /// There is no such flow, or nobody drives it any more.
    async fn ended(&self, name: &str, wait: Wait) -> Result<JobFlow, Failure>;

    /// Shows what attempts of a flow wrote. False where nothing of what is meant has a log.
    ///
    /// # Errors
    /// A log cannot be read.
    async fn logs(&self, flow: &FlowSnapshot, args: &LogsArgs) -> Result<bool, Failure>;

    /// Writes artifacts to the places that are meant for them.
    ///
    /// # Errors
    /// One cannot be fetched or written.
    async fn export(&self, chosen: &mut [Artifact], args: &ArtifactsArgs) -> Result<(), Failure>;

    /// Hands over a new flow.
    ///
    /// # Errors
    /// The flow is refused, or the target takes none.
    async fn create(&self, new: &NewFlow<'_>) -> Result<Created, Failure>;

    /// Begins a flow that repeats another; one on this machine is run to its end.
    ///
    /// # Errors
    /// The flow has not ended, or the new one is refused.
    async fn retry(&self, args: &RetryArgs) -> Result<Retried, Failure>;

    /// How [`FlowTarget::delete`] finds a flow of this name.
    ///
    /// # Errors
    /// There is no such flow.
    async fn id(&self, name: &str) -> Result<String, Failure>;

    /// Deletes a flow; one that has not ended only by force, and then it is terminated first.
    ///
    /// # Errors
    /// The flow has not ended and `force` was not said, or it cannot be deleted.
    async fn delete(&self, name: &str, id: &str, force: bool) -> Result<(), Failure>;
}

/// The target of the options.
///
/// # Errors
/// This program was built without it.
pub(super) fn of(globals: &GlobalArgs) -> Result<Box<dyn FlowTarget>, Failure> {
    Ok(match globals.target {
        Target::Local | Target::Process | Target::Docker => Box::new(Local { globals: globals.clone() }),
        #[cfg(feature = "fleet")]
        Target::Fleet => Box::new(super::fleet::flow::Fleet::of(globals)?),
        #[cfg(feature = "kube")]
        Target::Kube => Box::new(super::kube::Kube::of(globals.clone())),
        #[cfg(not(feature = "fleet"))]
        Target::Fleet => return Err(Failure::usage(crate::features::lacking("`--target fleet`", "fleet"))),
        #[cfg(not(feature = "kube"))]
        Target::Kube => return Err(Failure::usage(crate::features::lacking("`--target kube`", "kube"))),
    })
}

/// Which flows are meant.
#[derive(Debug, Default)]
pub(super) struct ListFilter {
    /// Of all namespaces.
    pub all_namespaces: bool,
    /// In this phase, as a list shows it.
    pub phase: Option<String>,
    /// With these labels.
    pub labels: Vec<(String, String)>,
    /// Accepted at least this long ago.
    pub older_than: Option<HumanDuration>,
    /// Whether all is asked for that the JSON form has, though it costs more.
    pub whole: bool,
    /// Whether it is found out which runs of this machine have a host.
    pub hosts: bool,
}

impl ListFilter {
    /// Whether it takes a flow, whose labels and namespace are looked at elsewhere.
    pub(super) fn takes(&self, flow: &ListedFlow, now: Time) -> bool {
        self.phase.as_ref().is_none_or(|phase| *phase == flow.shown_phase())
            && self.older_than.is_none_or(|limit| now.since(flow.created) >= limit.get())
    }
}

/// What a list shows of a run that has not ended and that nobody drives.
pub(super) const INTERRUPTED: &str = "Interrupted";

/// A flow in a list.
#[derive(Clone, Debug, Default)]
pub(super) struct ListedFlow {
    /// Its namespace; empty where there are none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How it is found among several of its name.
    pub id: String,
    /// Its unique id.
    pub uid: String,
    /// Its phase.
    pub phase: FlowPhase,
    /// Whether it has not ended and nobody drives it.
    pub interrupted: bool,
    /// How far it is.
    pub progress: String,
    /// When it was accepted.
    pub created: Time,
    /// When it began.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// Why it stands where it stands.
    pub message: String,
    /// What to do about it, which a table shows in place of the message.
    pub hint: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What only some targets know of it, as members of the JSON form.
    pub more: Map<String, Value>,
}

impl ListedFlow {
    /// Its phase, as people see it: one that goes on by itself is interrupted where nobody drives it.
    pub(super) fn shown_phase(&self) -> String {
        match self.phase {
            FlowPhase::Pending | FlowPhase::Running if self.interrupted => INTERRUPTED.to_owned(),
            phase => phase.to_string(),
        }
    }
}

/// Whether an order is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is.
    Now,
    /// It is written down for the next host of the flow.
    OnceResumed,
}

/// What is reported while a flow is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reports {
    /// Steps as they change, and what the flow waits for.
    Steps,
    /// The same on standard output: it is what was asked for.
    Printed,
    /// Each status that is seen, as a line of JSON.
    Statuses,
    /// Only what the flow waits for.
    Reasons,
    /// Nothing.
    Nothing,
}

/// For what a flow is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// What is reported meanwhile.
    pub reports: Reports,
    /// Whether it ends too once only a decision of a person can make the flow go on. Flows on this machine have another way.
    pub leaves_paused: bool,
}

impl Wait {
    /// For the end.
    pub(super) const fn for_end(reports: Reports) -> Self {
        Self { reports, leaves_paused: false }
    }

    /// Whether a flow in this state is to be left.
    #[cfg(any(feature = "fleet", feature = "kube"))]
    pub(super) fn leaves(self, status: &FlowStatus) -> bool {
        self.leaves_paused && status.phase == FlowPhase::Paused && !goes_on(status)
    }
}

/// A flow to hand over.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewFlow<'a> {
    /// The file that holds it.
    pub file: &'a Path,
    /// Its name, in place of the one in the file; of several flows in a file, which.
    pub name: Option<&'a str>,
    /// Values of parameters.
    pub parameters: &'a [(String, String)],
    /// Repeated under this key it is created once.
    pub key: Option<&'a str>,
    /// Whether it begins suspended.
    pub suspend: bool,
    /// Whether what is otherwise only warned about is refused.
    pub strict: bool,
    /// Manual steps that will be approved.
    pub approved: &'a [String],
}

impl NewFlow<'_> {
    /// The text of the file and its flow, checked for a target with the values that are given. Warnings are reported.
    ///
    /// # Errors
    /// When the file is refused, holds several flows and none is named, or an option does not fit the flow.
    pub(super) fn read(&self, target: Target) -> Result<(String, Loaded), Failure> {
        let text = manifest::text(self.file)?;
        let loaded = manifest::one_of(self.file, &text, target.submit_limits(self.strict), self.name)?;
        check_given(&loaded.manifest.flow.spec.parameters, &self.parameters.iter().cloned().collect())?;
        approvals(&loaded.plan, self.approved)?;
        Ok((text, loaded))
    }
}

/// What became of a repeat.
pub(super) enum Retried {
    /// It ran and has ended so.
    Ended(Exit),
    /// Somebody else drives it.
    Created(Created),
}

/// A flow that was handed over.
pub(super) struct Created {
    /// Its name.
    pub name: String,
    /// How it is found among several of its name.
    pub id: String,
    /// Where it went, such as `submitted as ID`.
    pub message: String,
    /// The item as `-o json` prints it.
    pub value: Value,
    /// Where it is asked for, if not where it was created: its file may name another namespace.
    pub target: Option<Box<dyn FlowTarget>>,
}

/// A flow at one moment.
pub(super) struct FlowSnapshot {
    /// The object with its status; without one where nobody has taken the flow up.
    pub object: JobFlow,
    /// Items of its instances.
    pub items: Items,
    /// The end of times that run on: now, or when something happened last.
    pub now: Time,
    /// Its plan and state where the journal is at hand.
    pub replayed: Option<Arc<(Plan, State)>>,
    /// Whether it has not ended and nobody drives it.
    pub interrupted: bool,
    /// What else a person has to know.
    pub notes: Vec<String>,
}

impl FlowSnapshot {
    /// A flow of which the object is known and no more.
    pub(super) fn of(object: JobFlow, notes: Vec<String>) -> Self {
        let (items, now) = (Items::of_spec(&object.spec), SystemClock.now());
        let mut known = Self { object, items, now, replayed: None, interrupted: false, notes };
        // One that this version cannot plan has the names without items.
        if known.object.spec.steps.iter().any(|step| step.with_param.is_some())
            && let Ok(replayed) = known.replayed()
        {
            let steps = known.object.status.iter().flat_map(|status| &status.steps);
            known.items = Items::of_run(&replayed.0, &replayed.1, steps.map(|step| step.name.as_str()));
            known.replayed = Some(replayed);
        }
        known
    }

    /// Its status.
    pub(super) fn status(&self) -> FlowStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// Its plan, and its state as far as the status tells it.
    ///
    /// # Errors
    /// When it cannot be planned.
    pub(super) fn replayed(&self) -> Result<Arc<(Plan, State)>, Failure> {
        if let Some(replayed) = &self.replayed {
            return Ok(Arc::clone(replayed));
        }
        let flow = &self.object;
        let plan = Plan::build(Arc::new(flow.spec.clone())).map_err(|errors| {
            let first = errors.into_iter().next().map(|error| error.to_string()).unwrap_or_default();
            let name = &flow.metadata.name;
            Failure::new(Exit::Refused, format!("flow `{name}` cannot be planned by this version: {first}"))
        })?;
        let meta = FlowMeta {
            uid: flow.metadata.uid.clone().unwrap_or_default(),
            name: flow.metadata.name.clone(),
            namespace: flow.metadata.namespace.clone().unwrap_or_default(),
            ..FlowMeta::default()
        };
        let now = SystemClock.now();
        let state = match &flow.status {
            Some(status) => reconstruct(&plan, &meta, status, &[], now, &mut Vec::new()),
            None => init(&plan, &meta, now, &mut Vec::new()),
        };
        Ok(Arc::new((plan, state)))
    }

    /// Why a step or instance stands where it stands; none where there is no such one.
    ///
    /// # Errors
    /// When the flow cannot be planned.
    pub(super) fn explanation(&self, step: &str) -> Result<Option<Explanation>, Failure> {
        let replayed = self.replayed()?;
        let (plan, state) = &*replayed;
        Ok(plan.address_of(step).and_then(|at| explain(plan, state, at)))
    }

    /// Why the flow as a whole does not run of which no step has anything to say: nobody works on it, it was refused before it
    /// began, or its operator cannot go on with it.
    pub(super) fn refusal(&self) -> Option<String> {
        let Some(status) = &self.object.status else { return Some(self.notes.join("\n")) };
        let holds = |kind: &str| {
            status.conditions.iter().find(|known| known.kind == kind && known.status == ConditionStatus::True)
        };
        let refused = holds("Failed").filter(|_| status.steps.is_empty());
        let why = refused.or_else(|| holds("NotUnderstood").or_else(|| holds("SpecChanged")))?;
        Some(format!("{} is {} ({})\n  {}", self.object.metadata.name, status.phase, why.reason, why.message))
    }
}

/// Waits so long at most; none when that was not enough, and a line that says so.
///
/// # Errors
/// Those of what is waited for.
pub(super) async fn within<T>(
    limit: Option<HumanDuration>,
    name: &str,
    what: impl Future<Output = Result<T, Failure>>,
) -> Result<Option<T>, Failure> {
    let Some(limit) = limit else { return what.await.map(Some) };
    match tokio::time::timeout(limit.get(), what).await {
        Ok(done) => done.map(Some),
        Err(_) => {
            output::tell(&format!("`{name}` has not ended; it continues"));
            Ok(None)
        }
    }
}
