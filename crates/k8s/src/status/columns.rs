//! Step records as columns: one list per member over all records, compressed together. Owns the form and the way there and
//! back; knows nothing of objects and their limits.
//!
//! What follows from the spec is left out: names, and the names of Jobs. Uids of Jobs are left out too: they are noise to a
//! compressor, and nothing that has ended needs them.

use std::collections::BTreeMap;
use std::io::Read as _;

use orlop_core::machine::step::StepPhase;
use orlop_core::name;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::{ApprovalRecord, InstanceCounts, StepOutputs, StepStatus, Waiting};
use orlop_core::time::Time;
use orlop_dag::attempt::indexed;
use serde::{Deserialize, Serialize};

/// How columns are written down, as `stepsPacked.encoding` says it.
pub const ENCODING: &str = "columns-v1+zstd";
/// Level of compression: past it the time doubles for a few per cent.
const LEVEL: i32 = 9;
/// Most bytes of columns before compression that are read: a flow of the greatest size with the largest outputs needs less.
const BYTES_MAX: u64 = 64 << 20;
/// Most records that are read.
const RECORDS_MAX: usize = 2_000_000;

/// The flow that records belong to; names of Jobs follow from it.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// The spec the flow was admitted with.
    pub spec: &'a FlowSpec,
    /// Name of the flow.
    pub flow: &'a str,
    /// Namespace of the flow.
    pub namespace: &'a str,
    /// Unique id of the flow.
    pub uid: &'a str,
}

/// Why packed records cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// They are not in the form this version writes.
    #[error("step records are packed as `{0}`, which this version does not read; use a newer one")]
    Encoding(String),
    /// They are damaged.
    #[error("packed step records are damaged: {0}")]
    Damaged(String),
    /// They are of another spec.
    #[error("packed step records do not fit the spec: {0}")]
    Misfit(String),
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Columns {
    /// Instances of fan-outs, by step.
    groups: BTreeMap<u32, u32>,
    /// One letter a record.
    phase: String,
    /// Texts of reasons and messages; the first is empty.
    texts: Vec<String>,
    reason: Vec<u32>,
    message: Vec<u32>,
    attempt: Vec<u32>,
    retries: Vec<u32>,
    lost: Vec<u32>,
    counted: Vec<u32>,
    /// Seconds since the last start before it.
    start: Vec<Option<i64>>,
    /// Seconds since the record's own start, or since the epoch.
    end: Vec<Option<i64>>,
    next: BTreeMap<u32, i64>,
    /// Records whose Job has the name that follows from flow, step and attempt, with what else is known of it.
    job: Vec<u8>,
    jobs: BTreeMap<u32, ObjectReference>,
    outputs: BTreeMap<u32, StepOutputs>,
    approval: BTreeMap<u32, ApprovalRecord>,
    instances: BTreeMap<u32, InstanceCounts>,
    waiting: BTreeMap<u32, Waiting>,
    waited: BTreeMap<u32, u64>,
}

const PHASES: [(StepPhase, char); 6] = [
    (StepPhase::Pending, 'p'),
    (StepPhase::Running, 'r'),
    (StepPhase::Succeeded, 's'),
    (StepPhase::Failed, 'f'),
    (StepPhase::Skipped, 'k'),
    (StepPhase::PendingApproval, 'a'),
];

/// Packs the records of a flow: one per step in spec order, `finally` last, instances after their step.
///
/// # Errors
/// When the records are not those of the spec, or memory for the compressor is lacking.
pub fn pack(names: Names<'_>, records: &[StepStatus]) -> Result<Vec<u8>, UnpackError> {
    let columns = columns(names, records)?;
    let text = serde_json::to_vec(&columns).map_err(damaged)?;
    zstd::bulk::compress(&text, LEVEL).map_err(damaged)
}

/// Reads packed records.
///
/// # Errors
/// When they are damaged, or of another spec.
pub fn unpack(names: Names<'_>, packed: &[u8]) -> Result<Vec<StepStatus>, UnpackError> {
    let decoder = zstd::stream::read::Decoder::new(packed).map_err(damaged)?;
    let mut text = Vec::new();
    decoder.take(BYTES_MAX).read_to_end(&mut text).map_err(damaged)?;
    records(names, &serde_json::from_slice(&text).map_err(damaged)?)
}

fn damaged(error: impl std::fmt::Display) -> UnpackError {
    UnpackError::Damaged(error.to_string())
}

/// What a record is called, and whether its Jobs carry an index.
#[derive(Clone, Debug)]
struct Slot {
    name: String,
    indexed: Option<u32>,
}

impl Slot {
    fn job(&self, names: Names<'_>, attempt: u32) -> ObjectReference {
        ObjectReference {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
            name: name::job(names.flow, &self.name, names.uid, attempt, self.indexed),
            namespace: names.namespace.to_owned(),
            uid: String::new(),
        }
    }
}

/// The records a flow has, in order, given how many instances each fan-out has.
fn slots(names: Names<'_>, groups: &BTreeMap<u32, u32>) -> Result<Vec<Slot>, UnpackError> {
    let steps = names.spec.steps.iter().chain(&names.spec.finally);
    let total = groups.values().fold(0_usize, |sum, count| sum.saturating_add(*count as usize));
    if total > RECORDS_MAX {
        return Err(UnpackError::Misfit(format!("{total} instances")));
    }
    let mut slots = Vec::with_capacity(total + names.spec.steps.len());
    for (index, step) in (0_u32..).zip(steps) {
        let indexed = step.template.as_ref().and_then(indexed);
        slots.push(Slot { name: step.name.clone(), indexed });
        for item in 0..groups.get(&index).copied().unwrap_or(0) {
            slots.push(Slot { name: name::instance(&step.name, item), indexed });
        }
    }
    Ok(slots)
}

/// How many instances each fan-out has, by the names of the records.
fn groups(names: Names<'_>, records: &[StepStatus]) -> BTreeMap<u32, u32> {
    let mut groups = BTreeMap::new();
    let mut rest = records.iter().peekable();
    for (index, step) in (0_u32..).zip(names.spec.steps.iter().chain(&names.spec.finally)) {
        rest.next();
        let mut count = 0;
        while rest.next_if(|record| step.is_fan_out() && record.name == name::instance(&step.name, count)).is_some() {
            count += 1;
        }
        if count > 0 {
            groups.insert(index, count);
        }
    }
    groups
}

fn columns(names: Names<'_>, records: &[StepStatus]) -> Result<Columns, UnpackError> {
    let groups = groups(names, records);
    let slots = slots(names, &groups)?;
    if slots.len() != records.len() {
        return Err(UnpackError::Misfit(format!("{} records for {} steps and instances", records.len(), slots.len())));
    }
    let mut texts = Texts::default();
    texts.number("");
    let mut columns = Columns { groups, ..Columns::default() };
    let mut before = 0;
    for ((number, record), slot) in (0_u32..).zip(records).zip(&slots) {
        if record.name != slot.name {
            return Err(UnpackError::Misfit(format!("a record of `{}` is stored as `{}`", record.name, slot.name)));
        }
        let letter = PHASES.iter().find(|(phase, _)| *phase == record.phase).map_or('p', |(_, letter)| *letter);
        columns.phase.push(letter);
        columns.reason.push(texts.number(&record.reason));
        columns.message.push(texts.number(&record.message));
        columns.attempt.push(record.attempt);
        columns.retries.push(record.retry_count);
        columns.lost.push(record.lost_count);
        columns.counted.push(record.counted_failures);
        let (start, end) = (record.start_time.map(seconds), record.completion_time.map(seconds));
        columns.start.push(start.map(|start| start - std::mem::replace(&mut before, start)));
        columns.end.push(end.map(|end| end - start.unwrap_or(0)));
        columns.job.push(job(&mut columns.jobs, number, record, &slot.job(names, record.attempt)));
        columns.next.extend(record.next_retry_time.map(|time| (number, seconds(time))));
        columns.outputs.extend(record.outputs.clone().map(|outputs| (number, outputs)));
        columns.approval.extend(record.approval.clone().map(|approval| (number, approval)));
        columns.instances.extend(record.instances.map(|counts| (number, counts)));
        columns.waiting.extend(record.waiting.clone().map(|waiting| (number, waiting)));
        columns.waited.extend((record.waited_seconds > 0).then_some((number, record.waited_seconds)));
    }
    columns.texts = texts.list;
    Ok(columns)
}

/// 0: no Job; 1: the Job whose name follows from flow, step and attempt; 2: another, which is kept.
fn job(others: &mut BTreeMap<u32, ObjectReference>, number: u32, record: &StepStatus, derived: &ObjectReference) -> u8 {
    let Some(reference) = &record.job_ref else { return 0 };
    let bare = ObjectReference { uid: String::new(), ..reference.clone() };
    if bare == *derived {
        return 1;
    }
    others.insert(number, reference.clone());
    2
}

fn seconds(time: Time) -> i64 {
    time.millis().div_euclid(1000)
}

fn time(seconds: i64) -> Time {
    Time::from_millis(seconds.saturating_mul(1000))
}

#[derive(Default)]
struct Texts {
    list: Vec<String>,
    known: BTreeMap<String, u32>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(text.to_owned());
        self.known.insert(text.to_owned(), number);
        number
    }
}

fn records(names: Names<'_>, columns: &Columns) -> Result<Vec<StepStatus>, UnpackError> {
    let slots = slots(names, &columns.groups)?;
    let count = slots.len();
    let lengths = [
        columns.phase.len(),
        columns.reason.len(),
        columns.message.len(),
        columns.attempt.len(),
        columns.retries.len(),
        columns.lost.len(),
        columns.counted.len(),
        columns.start.len(),
        columns.end.len(),
        columns.job.len(),
    ];
    if let Some(length) = lengths.into_iter().find(|length| *length != count) {
        return Err(UnpackError::Misfit(format!("{length} records for {count} steps and instances")));
    }
    let mut before = 0_i64;
    let mut records = Vec::with_capacity(count);
    for ((number, slot), letter) in (0_u32..).zip(&slots).zip(columns.phase.chars()) {
        let at = number as usize;
        let count = |column: &[u32]| column.get(at).copied().unwrap_or(0);
        let text = |column: &[u32]| columns.texts.get(count(column) as usize).cloned().unwrap_or_default();
        let phase = PHASES.iter().find(|(_, known)| *known == letter).map(|(phase, _)| *phase);
        let phase = phase.ok_or_else(|| UnpackError::Damaged(format!("there is no phase `{letter}`")))?;
        let start = columns.start.get(at).copied().flatten().map(|delta| {
            before = before.saturating_add(delta);
            before
        });
        let end = columns.end.get(at).copied().flatten().map(|delta| delta.saturating_add(start.unwrap_or(0)));
        let attempt = count(&columns.attempt);
        let job_ref = match columns.job.get(at) {
            Some(1) => Some(slot.job(names, attempt)),
            Some(2) => columns.jobs.get(&number).cloned(),
            _ => None,
        };
        records.push(StepStatus {
            name: slot.name.clone(),
            phase,
            reason: text(&columns.reason),
            message: text(&columns.message),
            start_time: start.map(time),
            completion_time: end.map(time),
            next_retry_time: columns.next.get(&number).copied().map(time),
            job_ref,
            retry_count: count(&columns.retries),
            attempt,
            lost_count: count(&columns.lost),
            counted_failures: count(&columns.counted),
            outputs: columns.outputs.get(&number).cloned(),
            approval: columns.approval.get(&number).cloned(),
            instances: columns.instances.get(&number).copied(),
            waiting: columns.waiting.get(&number).cloned(),
            waited_seconds: columns.waited.get(&number).copied().unwrap_or(0),
        });
    }
    Ok(records)
}
