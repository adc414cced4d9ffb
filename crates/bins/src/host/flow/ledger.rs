//! The journal of one flow as its host uses it: events in one transaction before anything is done about them, snapshots,
//! summaries, and the way back to a state. Never decides what an event does.

use std::collections::BTreeMap;
use std::sync::Arc;

use orlop_core::effect::FlowEffect;
use orlop_core::error::{Class, FieldError, Problem};
use orlop_core::event::FlowEvent;
use orlop_core::exact;
use orlop_core::ports::journal::{FlowJournal, FlowRecord, FlowSummary, JournalEntry, StoredFlow};
use orlop_core::time::Time;
use orlop_dag::engine::{FlowMeta, State, apply, init, restore, view};
use orlop_dag::manifest::{Report, Severity, Violation};
use orlop_dag::plan::Plan;
use serde::{Deserialize, Serialize};

/// Writes that are tried before the host gives up.
const TRIES: u32 = 6;
/// Entries after which a snapshot is worth writing, at least.
const SNAPSHOT_AFTER: u64 = 1000;

/// What the host keeps of a flow beside its object, as the record's `options`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordOptions {
    /// What the engine was given at submission.
    pub meta: FlowMeta,
    /// What the program around the host keeps: backend, directories, limits.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub driver: serde_json::Value,
    /// Limits of attempts in milliseconds by step, where a pipeline gave them: no member of the object holds them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub timeouts: BTreeMap<String, u64>,
    /// What the engine is given before all else. They are part of the beginning: no entry of the journal repeats them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<FlowEvent>,
}

/// The plan of a stored flow. Its object gets back what no member of it holds.
///
/// # Errors
/// When what is stored cannot be read or planned.
pub fn plan_of(stored: &mut StoredFlow) -> Result<Plan, Problem> {
    let timeouts = options(&stored.record)?.timeouts;
    let spec = &mut stored.record.flow.spec;
    for step in spec.steps.iter_mut().chain(&mut spec.finally) {
        step.timeout_millis = timeouts.get(&step.name).copied();
    }
    Plan::build(Arc::new(spec.clone())).map_err(|errors| unreadable(&errors))
}

/// A flow that breaks rules.
pub(super) fn invalid(report: Report) -> Problem {
    let errors = report.violations.into_iter().filter(|found| found.severity == Severity::Error);
    let field = |Violation { path, message, help, .. }: Violation| {
        let message = help.map_or(message.clone(), |help| format!("{message}; {help}"));
        FieldError { path: path.to_string(), message }
    };
    let fields: Vec<FieldError> = errors.map(field).collect();
    let message = fields.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    Problem { fields, ..Problem::new(Class::Invalid, format!("the flow is invalid: {message}")) }
}

/// What is stored cannot be read.
pub(super) fn unreadable(error: &dyn std::fmt::Display) -> Problem {
    let message = format!("the stored flow cannot be read: {error}; use the version that wrote it");
    Problem::new(Class::Fatal, message)
}

/// The journal cannot be read or written.
pub(super) fn unjournaled(error: Problem) -> Problem {
    Problem { message: format!("the journal of the flow cannot be used: {}", error.chain()), ..error }
}

/// The journal of one flow.
pub(super) struct Ledger {
    journal: Arc<dyn FlowJournal>,
    uid: String,
    last: u64,
    since_snapshot: u64,
}

/// One event as the journal holds it.
///
/// # Errors
/// Never for events that the engine can be given; an error is a broken invariant.
pub fn entry(now: Time, event: &FlowEvent) -> Result<JournalEntry, Problem> {
    let event = serde_json::to_string(event).map_err(|error| unreadable(&error))?;
    Ok(JournalEntry { now, event })
}

/// The beginning of a stored flow: its first events included, whatever was written after them.
pub(super) fn begin(plan: &Plan, record: &FlowRecord, effects: &mut Vec<FlowEffect>) -> Result<State, Problem> {
    let RecordOptions { meta, first, .. } = options(record)?;
    let mut state = init(plan, &meta, record.created_at, effects);
    for event in &first {
        apply(plan, &mut state, event, record.created_at, effects);
    }
    Ok(state)
}

/// The state of a stored flow: its snapshot, or its beginning, and every event after it.
///
/// # Errors
/// When what is stored is not of this plan or cannot be read.
pub fn replay(plan: &Plan, stored: &StoredFlow) -> Result<State, Problem> {
    let mut effects = Vec::new();
    let mut state = match &stored.snapshot {
        Some((_, bytes)) => restore(plan, bytes).map_err(|error| unreadable(&error))?,
        None => begin(plan, &stored.record, &mut effects)?,
    };
    for entry in &stored.entries {
        let event: FlowEvent = exact::from_str(&entry.event).map_err(|error| unreadable(&error))?;
        apply(plan, &mut state, &event, entry.now, &mut effects);
        effects.clear();
    }
    Ok(state)
}

/// What the host wrote beside a flow.
///
/// # Errors
/// When it cannot be read.
pub fn options(record: &FlowRecord) -> Result<RecordOptions, Problem> {
    serde_json::from_value(record.options.clone()).map_err(|error| unreadable(&error))
}

/// What lists show of a flow.
#[must_use]
pub fn summary(plan: &Plan, state: &State) -> FlowSummary {
    let status = view(plan, state, 0..0).status;
    FlowSummary {
        phase: status.phase,
        progress: status.progress.summary,
        message: status.message,
        started_at: status.start_time,
        ended_at: status.completion_time,
    }
}

impl Ledger {
    pub(super) fn new(journal: Arc<dyn FlowJournal>, uid: &str, last: u64) -> Self {
        Self { journal, uid: uid.to_owned(), last, since_snapshot: 0 }
    }

    /// Writes events down, all or none.
    pub(super) async fn append(&mut self, now: Time, events: &[FlowEvent]) -> Result<(), Problem> {
        let entries: Vec<JournalEntry> = events.iter().map(|event| entry(now, event)).collect::<Result<_, _>>()?;
        let mut tries = 0;
        loop {
            match self.journal.append(&self.uid, self.last, &entries).await {
                Ok(()) => break,
                Err(error) => {
                    tries += 1;
                    if self.is_written(&error, &entries).await {
                        break;
                    }
                    if error.class != Class::Transient || tries >= TRIES {
                        return Err(unjournaled(error));
                    }
                    tracing::warn!(error = %error.chain(), tries, "writing the journal failed, trying again");
                    tokio::time::sleep(orlop_dag::attempt::patience(&error, tries)).await;
                }
            }
        }
        let count = entries.len() as u64;
        self.last += count;
        self.since_snapshot += count;
        Ok(())
    }

    /// After an error: whether the entries are there nevertheless, because only the answer was lost.
    async fn is_written(&self, error: &Problem, entries: &[JournalEntry]) -> bool {
        if !matches!(error.class, Class::Transient | Class::Conflict) {
            return false;
        }
        let stored = self.journal.load(&self.uid).await;
        stored.is_ok_and(|stored| stored.last == self.last + entries.len() as u64 && stored.entries.ends_with(entries))
    }

    /// Writes a snapshot when enough has happened since the last one that it pays: one record is worth one entry.
    pub(super) async fn snapshot(&mut self, plan: &Plan, state: &State, now_anyway: bool) {
        let due = self.since_snapshot >= SNAPSHOT_AFTER.max(plan.len() as u64);
        if self.since_snapshot == 0 || !(due || now_anyway) {
            return;
        }
        let bytes = orlop_dag::engine::snapshot(state);
        match self.journal.snapshot(&self.uid, self.last, &bytes).await {
            Ok(()) => self.since_snapshot = 0,
            // Entries are kept, so nothing is lost: the next one may fit.
            Err(error) => tracing::warn!(error = %error.chain(), "writing a snapshot failed"),
        }
    }

    /// Writes what lists show; a failure is reported and costs nothing else.
    pub(super) async fn summarize(&self, plan: &Plan, state: &State) {
        if let Err(error) = self.journal.summarize(&self.uid, &summary(plan, state)).await {
            tracing::warn!(error = %error.chain(), "writing the summary failed");
        }
    }
}
