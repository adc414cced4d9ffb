//! How the double takes a commit in: first every check, then every change, so that a refused commit leaves no trace.

use std::collections::{BTreeMap, BTreeSet};

use super::{JobEntry, State};
use crate::error::{Class, Problem};
use crate::id::JobId;
use crate::ports::fleet_store::{AttemptRow, FINAL_TWICE, MAX_JOB_ID, Record, SpecHash, TaskStatus, WriteBatch};
use crate::task::TaskRef;

/// What the commit itself brings, for checks of its later records.
#[derive(Default)]
struct Brought {
    specs: BTreeSet<SpecHash>,
    jobs: BTreeSet<JobId>,
    attempts: BTreeSet<TaskRef>,
    finals: BTreeMap<(JobId, u32), TaskRef>,
}

fn sound(unit: &TaskStatus, whose: JobId) -> Result<(), Problem> {
    if unit.is_sound() {
        return Ok(());
    }
    Err(invalid(format!(
        "a state of job {whose} says {} and that it became final at {:?}",
        unit.state, unit.finished_at
    )))
}

fn invalid(message: String) -> Problem {
    Problem::new(Class::Invalid, message)
}

impl State {
    pub(super) fn check(&self, turns: &[WriteBatch]) -> Result<(), Problem> {
        let mut brought = Brought::default();
        turns.iter().flat_map(|turn| &turn.records).try_for_each(|record| self.check_record(record, &mut brought))
    }

    fn has_job(&self, id: JobId, brought: &Brought) -> Result<(), Problem> {
        if self.jobs.contains_key(&id) || brought.jobs.contains(&id) {
            return Ok(());
        }
        Err(invalid(format!("job {id} is not stored")))
    }

    fn check_record(&self, record: &Record, brought: &mut Brought) -> Result<(), Problem> {
        match record {
            Record::Spec(spec) => {
                brought.specs.insert(spec.hash);
            }
            Record::JobNew(row) => {
                let id = row.job.id;
                sound(&row.unit, id)?;
                if id.as_u64() > MAX_JOB_ID {
                    return Err(invalid(format!("job {id} has a number above 2^63 - 1")));
                }
                if !self.specs.contains_key(&row.job.spec) && !brought.specs.contains(&row.job.spec) {
                    return Err(invalid(format!("the spec of job {id} is not stored")));
                }
                if self.jobs.contains_key(&id) || !brought.jobs.insert(id) {
                    return Err(invalid(format!("job {id} is already stored")));
                }
            }
            Record::Job(change) => {
                sound(&change.unit, change.id)?;
                self.has_job(change.id, brought)?;
            }
            Record::Ranges(change) => self.has_job(change.job, brought)?,
            Record::Element(change) => {
                sound(&change.unit, change.job)?;
                self.has_job(change.job, brought)?;
            }
            Record::AttemptNew(attempt) => {
                self.has_job(attempt.id.job, brought)?;
                if self.attempts.contains_key(&attempt.id) || !brought.attempts.insert(attempt.id) {
                    return Err(invalid(format!("attempt {:?} is already stored", attempt.id)));
                }
            }
            Record::Attempt(change) => {
                let id = change.id;
                if !self.attempts.contains_key(&id) && !brought.attempts.contains(&id) {
                    return Err(invalid(format!("attempt {id:?} is not stored")));
                }
                if change.end.as_ref().is_some_and(|end| end.accepted_final) {
                    let unit = (id.job, id.index);
                    let held = self.finals.get(&unit).or_else(|| brought.finals.get(&unit));
                    if held.is_some_and(|held| *held != id) {
                        let message = format!("{}.{} has an accepted final result already", id.job, id.index);
                        return Err(Problem::new(Class::Fatal, message).with_reason(FINAL_TWICE));
                    }
                    brought.finals.insert(unit, id);
                }
            }
            Record::Put(_) | Record::Delete(..) | Record::Idempotency(_) | Record::Audit(_) | Record::Event(_) => {}
        }
        Ok(())
    }

    /// Takes a record in that was checked.
    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Spec(spec) => drop(self.specs.entry(spec.hash).or_insert((spec.body, 0))),
            Record::JobNew(row) => {
                if let Some((_, refs)) = self.specs.get_mut(&row.job.spec) {
                    *refs += 1;
                }
                let held = JobEntry { row: *row, changes: Vec::new(), elements: BTreeMap::new() };
                self.jobs.insert(held.row.job.id, held);
            }
            Record::Job(change) => {
                if let Some(held) = self.jobs.get_mut(&change.id) {
                    held.row.unit.become_newer(change.unit);
                    held.row.revision = change.revision;
                }
            }
            Record::Ranges(change) => {
                if let Some(held) = self.jobs.get_mut(&change.job) {
                    held.changes.push(change);
                }
            }
            Record::Element(change) => {
                if let Some(held) = self.jobs.get_mut(&change.job) {
                    match held.elements.get_mut(&change.index) {
                        Some(unit) => unit.become_newer(change.unit),
                        None => drop(held.elements.insert(change.index, change.unit)),
                    }
                }
            }
            Record::AttemptNew(attempt) => {
                self.attempts.insert(attempt.id, AttemptRow::issued(*attempt));
            }
            Record::Attempt(change) => {
                let id = change.id;
                let Some(row) = self.attempts.get_mut(&id) else { return };
                if let Some(detail) = row.change(*change) {
                    self.details.insert(id, *detail);
                }
                if row.end.as_ref().is_some_and(|end| end.accepted_final) {
                    self.finals.insert((id.job, id.index), id);
                }
            }
            Record::Put(entry) => drop(self.entries.insert((entry.kind, entry.key.clone()), *entry)),
            Record::Delete(kind, key) => drop(self.entries.remove(&(kind, key))),
            Record::Idempotency(record) => drop(self.keys.insert(record.key.clone(), *record)),
            Record::Audit(mut entry) => {
                self.audited += 1;
                entry.number = self.audited;
                self.audit.insert(entry.number, *entry);
            }
            Record::Event(event) => {
                self.events += 1;
                self.outbox.insert(self.events, *event);
            }
        }
    }
}
