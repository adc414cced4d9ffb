//! The end of a batch: tasks and workers that changed are written as they stand now, once each, and what goes out to workers
//! is lined up behind the commit.

use orlop_core::id::JobId;
use orlop_core::machine::job::JobState;
use orlop_core::ports::fleet_store::{ElementChange, JobChange, Record, TaskStatus};
use orlop_core::time::Time;
use orlop_scheduler::effect::Reason;
use orlop_scheduler::stored::UnitRow;

use super::super::commit::Release;
use super::super::session::Batch;
use super::super::words;
use super::Core;
use super::write_set::TaskMark;

impl Core {
    /// Completes the draft: rows of what changed, frames of who is touched.
    pub(super) fn flush(&mut self) {
        let mut marks = std::mem::take(&mut self.writes.tasks);
        marks.sort_by_key(|mark| (mark.job, mark.element, mark.revision));
        for group in marks.chunk_by(|one, two| (one.job, one.element) == (two.job, two.element)) {
            if let Some(record) = self.unit_record(group) {
                self.writes.records.push(record);
            }
        }
        marks.clear();
        self.writes.tasks = marks;
        self.flush_workers();
        for key in std::mem::take(&mut self.writes.touched) {
            let Some(live) = self.registry.workers.get_mut(key) else { continue };
            let out = Batch { ack: live.applied, ..std::mem::take(&mut live.out) };
            if let Some(session) = &live.session {
                let release = Release::Frame(std::sync::Arc::clone(session), Box::new(out));
                self.writes.releases.push(release);
            }
        }
    }

    /// The record of a task after the changes of this batch, in order.
    fn unit_record(&self, marks: &[TaskMark]) -> Option<Record> {
        let last = marks.last()?;
        let (job, element) = (last.job, last.element);
        let whole_array = element.is_none() && self.scheduler.task_row(job, None).is_none();
        let row = if whole_array { None } else { self.scheduler.task_row(job, element) };
        let mut unit = match row {
            Some(row) => self.unit_of(job, element, row),
            None => TaskStatus::new(last.to),
        };
        // That nothing more is tried is the reason then, whatever the last try said of itself.
        let fields = last.fields.reason.clone().filter(|_| last.reason != Reason::InfraLimit);
        unit.reason = fields.or_else(|| words::reason(last.reason));
        for mark in marks {
            self.note_times(&mut unit, mark);
        }
        Some(match element {
            Some(index) => Record::Element(Box::new(ElementChange { job, index, unit })),
            None => Record::Job(Box::new(JobChange { id: job, revision: last.revision, unit })),
        })
    }

    fn note_times(&self, unit: &mut TaskStatus, mark: &TaskMark) {
        let fields = &mark.fields;
        match mark.to {
            JobState::Queued => unit.queued_at = Some(self.wall),
            JobState::Running => unit.started_at = fields.started_at.or(Some(self.wall)),
            to if to.is_terminal() => {
                unit.started_at = fields.started_at.or(unit.started_at);
                unit.finished_at = fields.finished_at.or(Some(self.wall));
                unit.exit_code = fields.exit_code.or(match mark.reason {
                    Reason::Exit(code) => code,
                    Reason::Command(code) => Some(code),
                    _ => None,
                });
            }
            _ => {}
        }
    }

    /// A task as the store keeps it.
    fn unit_of(&self, job: JobId, element: Option<u32>, row: UnitRow) -> TaskStatus {
        let worker = self.scheduler.job(job, element).and_then(|view| view.worker);
        let worker = worker.and_then(|key| self.registry.workers.get(key)).map(|live| live.id.clone());
        TaskStatus {
            attempt: row.attempt,
            epoch: row.epoch,
            answered: row.answered,
            lost: row.lost,
            second_try: row.second_try,
            retries: row.retries,
            infra: row.infra,
            worker: worker.or(row.lost_by),
            avoid: row.avoid.map(|incarnation| incarnation.id),
            due_at: row.due.map(|due| self.wall_of(due)),
            ..TaskStatus::new(row.state)
        }
    }

    /// The wall time of a monotonic one.
    pub(super) fn wall_of(&self, monotonic: u64) -> Time {
        let ahead =
            i64::try_from(monotonic).unwrap_or(i64::MAX).saturating_sub(i64::try_from(self.now).unwrap_or(i64::MAX));
        Time::from_millis(self.wall.millis().saturating_add(ahead))
    }

    /// The monotonic time of a wall time; times before the clock ran are 0.
    pub(super) fn monotonic_of(&self, wall: Time) -> u64 {
        let ahead = wall.millis().saturating_sub(self.wall.millis());
        u64::try_from(i64::try_from(self.now).unwrap_or(i64::MAX).saturating_add(ahead)).unwrap_or(0)
    }
}
