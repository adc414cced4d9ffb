//! Calls that write, on their way to the one connection that carries them out, and their turns merged into the rows they end
//! in: what is written several times in one commit is written once. Owns the queue's form, which calls share a transaction, the
//! merging and the checks that need no database; never touches one.

use std::collections::{HashMap, HashSet};

use orlop_core::error::{Class, Problem};
use orlop_core::id::{Epoch, JobId};
use orlop_core::ports::fleet_store::{
    AttemptChange, AttemptDetail, AttemptRow, AuditEntry, ElementChange, Entry, FINAL_TWICE, Holder, IdempotencyKey,
    IdempotencyRecord, JobChange, JobRow, Kind, MAX_JOB_ID, NewSpec, OutboxEvent, RangeChange, Record, Retained,
    Retention, SpecHash, TaskStatus, WriteBatch,
};
use orlop_core::task::TaskRef;
use tokio::sync::{mpsc, oneshot};

/// Where the newest state of something stands.
#[derive(Clone, Copy, Debug)]
enum RowIndex {
    /// Among the new rows.
    New(usize),
    /// Among the changes of stored rows.
    Stored(usize),
}

/// The rows of a commit.
#[derive(Debug, Default)]
pub(in crate::store) struct Batch {
    /// Specs, each once, with the number of new jobs that use it.
    pub(in crate::store) specs: Vec<(NewSpec, u64)>,
    /// Specs that are not among those and must be stored, with the number of new jobs that use each.
    pub(in crate::store) needed: HashMap<SpecHash, u64>,
    /// New jobs in order of their ids.
    pub(in crate::store) jobs: Vec<JobRow>,
    /// Changes of stored jobs, one a job.
    pub(in crate::store) job_changes: Vec<JobChange>,
    /// Ranges, in order.
    pub(in crate::store) ranges: Vec<RangeChange>,
    /// Elements, each once.
    pub(in crate::store) elements: Vec<ElementChange>,
    /// New attempts.
    pub(in crate::store) attempts: Vec<AttemptRow>,
    /// Changes of stored attempts, one an attempt.
    pub(in crate::store) attempt_changes: Vec<AttemptChange>,
    /// Details, in order.
    pub(in crate::store) details: Vec<(TaskRef, AttemptDetail)>,
    /// Documents by kind and key; none = it goes.
    pub(in crate::store) entries: Vec<(Kind, String, Option<Entry>)>,
    /// Answers, each key once.
    pub(in crate::store) keys: Vec<IdempotencyRecord>,
    /// Lines of the audit trail, in order.
    pub(in crate::store) audit: Vec<AuditEntry>,
    /// Events, in order.
    pub(in crate::store) events: Vec<OutboxEvent>,
    places: Places,
}

#[derive(Debug, Default)]
struct Places {
    specs: HashMap<SpecHash, usize>,
    jobs: HashMap<JobId, RowIndex>,
    elements: HashMap<(JobId, u32), usize>,
    attempts: HashMap<TaskRef, RowIndex>,
    finals: HashMap<(JobId, u32), TaskRef>,
    entries: HashMap<(Kind, String), usize>,
    keys: HashMap<IdempotencyKey, usize>,
    /// Jobs that were named before they were written.
    named: HashSet<JobId>,
}

fn invalid(message: String) -> Problem {
    Problem::new(Class::Invalid, message)
}

fn sound(unit: &TaskStatus, whose: JobId) -> Result<(), Problem> {
    if unit.is_sound() {
        return Ok(());
    }
    let finished = unit.finished_at;
    Err(invalid(format!("a state of job {whose} says {} and that it became final at {finished:?}", unit.state)))
}

/// The error for something that is named and not stored.
pub(in crate::store) fn missing(what: impl std::fmt::Display) -> Problem {
    invalid(format!("{what} is not stored"))
}

/// The error for something that is new and stored already.
pub(in crate::store) fn double(what: impl std::fmt::Display) -> Problem {
    invalid(format!("{what} is already stored"))
}

/// The error for a second accepted final result.
pub(in crate::store) fn final_twice(what: impl std::fmt::Display) -> Problem {
    let message = format!("{what} has an accepted final result already");
    Problem::new(Class::Fatal, message).with_reason(FINAL_TWICE)
}

impl Batch {
    /// The rows of some turns.
    pub(in crate::store) fn of(turns: impl IntoIterator<Item = WriteBatch>) -> Result<Self, Problem> {
        let mut batch = Self::default();
        for turn in turns {
            for record in turn.records {
                batch.add(record)?;
            }
        }
        batch.jobs.sort_unstable_by_key(|row| row.job.id);
        batch.elements.sort_unstable_by_key(|element| (element.job, element.index));
        batch.attempts.sort_unstable_by_key(|row| row.attempt.id);
        Ok(batch)
    }

    /// Jobs that must be stored before the batch is, although it does not change them first.
    pub(in crate::store) fn named_jobs(&self) -> Vec<JobId> {
        self.places.named.iter().copied().collect()
    }

    fn name(&mut self, job: JobId) {
        if !self.places.jobs.contains_key(&job) {
            self.places.named.insert(job);
        }
    }

    fn add(&mut self, record: Record) -> Result<(), Problem> {
        match record {
            Record::Spec(spec) => self.add_spec(*spec),
            Record::JobNew(row) => self.add_job(*row)?,
            Record::Job(change) => self.change_job(*change)?,
            Record::Ranges(change) => {
                self.name(change.job);
                self.ranges.push(change);
            }
            Record::Element(change) => self.change_element(*change)?,
            Record::AttemptNew(attempt) => {
                let id = attempt.id;
                self.name(id.job);
                if self.places.attempts.insert(id, RowIndex::New(self.attempts.len())).is_some() {
                    return Err(double(format_args!("attempt {} of {}.{}", id.attempt, id.job, id.index)));
                }
                self.attempts.push(AttemptRow::issued(*attempt));
            }
            Record::Attempt(change) => self.change_attempt(*change)?,
            Record::Put(entry) => self.put(entry.kind, entry.key.clone(), Some(*entry)),
            Record::Delete(kind, key) => self.put(kind, key, None),
            Record::Idempotency(record) => match self.places.keys.get(&record.key) {
                Some(&at) => replace(&mut self.keys, at, *record),
                None => {
                    self.places.keys.insert(record.key.clone(), self.keys.len());
                    self.keys.push(*record);
                }
            },
            Record::Audit(entry) => self.audit.push(*entry),
            Record::Event(event) => self.events.push(*event),
            other => return Err(invalid(format!("this store does not know the record {other:?}; use a newer Orlop"))),
        }
        Ok(())
    }

    fn add_spec(&mut self, spec: NewSpec) {
        if !self.places.specs.contains_key(&spec.hash) {
            self.places.specs.insert(spec.hash, self.specs.len());
            self.specs.push((spec, 0));
        }
    }

    fn add_job(&mut self, row: JobRow) -> Result<(), Problem> {
        let id = row.job.id;
        sound(&row.unit, id)?;
        if id.as_u64() > MAX_JOB_ID {
            return Err(invalid(format!("job {id} has a number above 2^63 - 1")));
        }
        let brought = self.places.specs.get(&row.job.spec).and_then(|&at| self.specs.get_mut(at));
        match brought {
            Some((_, uses)) => *uses += 1,
            None => *self.needed.entry(row.job.spec).or_default() += 1,
        }
        if self.places.jobs.insert(id, RowIndex::New(self.jobs.len())).is_some() {
            return Err(double(format_args!("job {id}")));
        }
        self.jobs.push(row);
        Ok(())
    }

    fn change_job(&mut self, change: JobChange) -> Result<(), Problem> {
        sound(&change.unit, change.id)?;
        match self.places.jobs.get(&change.id) {
            Some(&RowIndex::New(at)) => {
                if let Some(row) = self.jobs.get_mut(at) {
                    row.unit.become_newer(change.unit);
                    row.revision = change.revision;
                }
            }
            Some(&RowIndex::Stored(at)) => {
                if let Some(held) = self.job_changes.get_mut(at) {
                    held.unit.become_newer(change.unit);
                    held.revision = change.revision;
                }
            }
            None => {
                self.places.jobs.insert(change.id, RowIndex::Stored(self.job_changes.len()));
                self.job_changes.push(change);
            }
        }
        Ok(())
    }

    fn change_element(&mut self, change: ElementChange) -> Result<(), Problem> {
        sound(&change.unit, change.job)?;
        self.name(change.job);
        let unit = (change.job, change.index);
        match self.places.elements.get(&unit).and_then(|&at| self.elements.get_mut(at)) {
            Some(held) => held.unit.become_newer(change.unit),
            None => {
                self.places.elements.insert(unit, self.elements.len());
                self.elements.push(change);
            }
        }
        Ok(())
    }

    fn change_attempt(&mut self, mut change: AttemptChange) -> Result<(), Problem> {
        let id = change.id;
        if change.end.as_ref().is_some_and(|end| end.accepted_final) {
            let held = self.places.finals.insert((id.job, id.index), id);
            if held.is_some_and(|held| held != id) {
                return Err(final_twice(format_args!("{}.{}", id.job, id.index)));
            }
        }
        match self.places.attempts.get(&id) {
            Some(&RowIndex::New(at)) => {
                if let Some(detail) = self.attempts.get_mut(at).and_then(|row| row.change(change)) {
                    self.details.push((id, *detail));
                }
                return Ok(());
            }
            Some(&RowIndex::Stored(at)) => {
                if let Some(held) = self.attempt_changes.get_mut(at) {
                    change.accepted_at = change.accepted_at.or(held.accepted_at);
                    change.started_at = change.started_at.or(held.started_at);
                    change.finished_at = change.finished_at.or(held.finished_at);
                    if change.end.is_none() {
                        change.end = held.end.take();
                    }
                    self.details.extend(detail(&mut change));
                    *held = change;
                }
            }
            None => {
                self.places.attempts.insert(id, RowIndex::Stored(self.attempt_changes.len()));
                self.details.extend(detail(&mut change));
                self.attempt_changes.push(change);
            }
        }
        Ok(())
    }

    fn put(&mut self, kind: Kind, key: String, entry: Option<Entry>) {
        match self.places.entries.get(&(kind, key.clone())) {
            Some(&at) => replace(&mut self.entries, at, (kind, key, entry)),
            None => {
                self.places.entries.insert((kind, key.clone()), self.entries.len());
                self.entries.push((kind, key, entry));
            }
        }
    }
}

/// The detail that a change brings, taken out of it.
fn detail(change: &mut AttemptChange) -> Option<(TaskRef, AttemptDetail)> {
    let detail = change.end.as_mut()?.detail.take()?;
    Some((change.id, *detail))
}

fn replace<T>(list: &mut [T], at: usize, value: T) {
    if let Some(place) = list.get_mut(at) {
        *place = value;
    }
}

/// Requests that may wait before callers wait to hand theirs over.
pub(in crate::store) const QUEUE: usize = 256;

/// Records committed together at most, so that the first commit does not wait for ever.
const GROUP: usize = 65_536;

/// Where an answer goes. A caller that went away no longer wants it.
pub(in crate::store) type Answer<T> = oneshot::Sender<Result<T, Problem>>;

/// A call of [`orlop_core::ports::fleet_store::FleetStore::commit`].
#[derive(Debug)]
pub(in crate::store) struct Commit {
    pub(in crate::store) epoch: Epoch,
    pub(in crate::store) turns: Vec<WriteBatch>,
    pub(in crate::store) answer: Answer<()>,
}

/// A call under way.
#[derive(Debug)]
pub(in crate::store) enum Request {
    Commit(Commit),
    Acquire(Holder, Answer<Epoch>),
    Renew(Epoch, Answer<()>),
    Release(Epoch, Answer<()>),
    Confirm(Epoch, Vec<u64>, Answer<()>),
    Retain(Epoch, Retention, Answer<Retained>),
}

/// The commits that wait behind a first one, and the request behind them that is none.
pub(in crate::store) fn gather(first: Commit, inbox: &mut mpsc::Receiver<Request>) -> (Vec<Commit>, Option<Request>) {
    let records = |commit: &Commit| commit.turns.iter().map(|turn| turn.records.len()).sum::<usize>();
    let mut size = records(&first);
    let mut group = vec![first];
    while size < GROUP {
        match inbox.try_recv() {
            Ok(Request::Commit(commit)) => {
                size += records(&commit);
                group.push(commit);
            }
            Ok(other) => return (group, Some(other)),
            Err(_) => break,
        }
    }
    (group, None)
}

/// The rows of all commits together, when they are several of one epoch. What they are refused for is reported one by one.
pub(in crate::store) fn together(group: &[Commit]) -> Option<(Epoch, Batch)> {
    let epoch = group.first()?.epoch;
    if group.len() < 2 || group.iter().any(|commit| commit.epoch != epoch) {
        return None;
    }
    let batch = Batch::of(group.iter().flat_map(|commit| commit.turns.iter().cloned()));
    batch.ok().map(|batch| (epoch, batch))
}
