//! The thread that owns the writing connection: carries out requests in their order and commits those that wait together in one
//! transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orlop_core::id::Epoch;
use orlop_core::ports::fleet_store::Holder;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::mpsc;

use super::open::Writer;
use super::specs::SpecNumbers;
use super::{restore, stamp, write};
use crate::store::fleet::batch::{Answer, Batch, Commit, Request, gather, together};
use crate::store::sqlite::error::CallError;

/// What the thread counts for its owner.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) commits: AtomicU64,
    /// Commits that were missing when the file was opened.
    pub(super) lost: AtomicU64,
}

/// Serves requests until nobody can send one any more, then closes the file.
pub(super) fn run(writer: Writer, mut inbox: mpsc::Receiver<Request>, counters: Arc<Counters>) {
    let mut work = Work { writer, specs: SpecNumbers::default(), counters };
    let mut next = inbox.blocking_recv();
    while let Some(request) = next.take() {
        match request {
            Request::Commit(commit) => {
                let (group, other) = gather(commit, &mut inbox);
                next = other;
                work.commit_group(group);
            }
            Request::Acquire(holder, answer) => {
                work.acquire(&holder, answer);
            }
            Request::Renew(epoch, answer) => work.serve(answer, Some(epoch), |_| Ok(())),
            Request::Release(epoch, answer) => {
                work.serve(answer, None, |connection| write::release(connection, epoch));
            }
            Request::Confirm(epoch, ids, answer) => {
                work.serve(answer, Some(epoch), |connection| write::confirm(connection, &ids));
            }
            Request::Retain(epoch, policy, answer) => {
                work.serve(answer, Some(epoch), |connection| restore::retain(connection, &policy));
                // Specs may have gone.
                work.specs.forget();
            }
        }
        if next.is_none() {
            next = inbox.blocking_recv();
        }
    }
}

struct Work {
    writer: Writer,
    specs: SpecNumbers,
    counters: Arc<Counters>,
}

impl Work {
    /// Commits calls together; when that is refused, one by one, so that a bad one does not touch the others.
    fn commit_group(&mut self, group: Vec<Commit>) {
        if let Some((epoch, batch)) = together(&group)
            && self.commit(epoch, &batch).is_ok()
        {
            group.into_iter().for_each(|commit| drop(commit.answer.send(Ok(()))));
            return;
        }
        for Commit { epoch, turns, answer } in group {
            let written = Batch::of(turns).map_err(CallError::from).and_then(|batch| self.commit(epoch, &batch));
            drop(
                answer
                    .send(written.map_err(|trouble| trouble.into_problem("fleet store", &self.writer.path, "writing"))),
            );
        }
    }

    fn commit(&mut self, epoch: Epoch, batch: &Batch) -> Result<(), CallError> {
        let specs = &mut self.specs;
        let written = in_transaction(&mut self.writer, Some(epoch), |connection| write_batch(connection, batch, specs));
        match &written {
            Ok(()) => drop(self.counters.commits.fetch_add(1, Ordering::Relaxed)),
            // Numbers of specs that were taken back are not theirs.
            Err(_) => self.specs.forget(),
        }
        written
    }

    fn acquire(&mut self, holder: &Holder, answer: Answer<Epoch>) {
        let taken = in_transaction(&mut self.writer, None, |connection| write::acquire(connection, holder));
        if let Ok(epoch) = &taken {
            self.writer.stamp.acquired(epoch.0, &self.writer.path);
        }
        drop(answer.send(taken.map_err(|trouble| trouble.into_problem("fleet store", &self.writer.path, "writing"))));
    }

    fn serve<T>(
        &mut self,
        answer: Answer<T>,
        fence: Option<Epoch>,
        work: impl FnOnce(&Connection) -> Result<T, CallError>,
    ) {
        let done = in_transaction(&mut self.writer, fence, work);
        drop(answer.send(done.map_err(|trouble| trouble.into_problem("fleet store", &self.writer.path, "writing"))));
    }
}

fn in_transaction<T>(
    writer: &mut Writer,
    fence: Option<Epoch>,
    work: impl FnOnce(&Connection) -> Result<T, CallError>,
) -> Result<T, CallError> {
    let number = writer.stamp.check()?;
    let transaction = writer.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if let Some(epoch) = fence {
        write::fence(&transaction, epoch)?;
    }
    let value = work(&transaction)?;
    stamp::count(&transaction, number)?;
    transaction.commit()?;
    writer.stamp.committed(number, &writer.path);
    Ok(value)
}

fn write_batch(connection: &Connection, batch: &Batch, specs: &mut SpecNumbers) -> Result<(), CallError> {
    write::expect_jobs(connection, &batch.named_jobs())?;
    specs.write(connection, &batch.specs, &batch.needed)?;
    write::insert_jobs(connection, &batch.jobs, specs)?;
    write::change_jobs(connection, &batch.job_changes)?;
    write::insert_ranges(connection, &batch.ranges)?;
    write::write_elements(connection, &batch.elements)?;
    write::insert_attempts(connection, &batch.attempts)?;
    write::change_attempts(connection, &batch.attempt_changes)?;
    write::write_details(connection, &batch.details)?;
    write::write_entries(connection, &batch.entries)?;
    write::write_keys(connection, &batch.keys)?;
    write::insert_audit(connection, &batch.audit)?;
    write::insert_events(connection, &batch.events)
}
