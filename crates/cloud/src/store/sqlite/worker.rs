//! The thread that owns the connection: carries out requests in their order and commits writes that wait together in one
//! transaction.

use std::sync::atomic::{AtomicU64, Ordering};

use orlop_core::error::Problem;
use orlop_core::ports::journal::{FlowRecordSummary, StoredFlow};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::error::{CallError, classify, is_of_one_statement};
use super::open::Store;
use super::statements::{self, Write};

/// Calls committed together at most, so that the first of them does not wait for ever.
const GROUP: usize = 512;

/// Where an answer goes. A caller that went away no longer wants it.
type Answer<T> = oneshot::Sender<Result<T, Problem>>;

/// A call under way.
#[derive(Debug)]
pub(super) enum Request {
    Write(Write, Answer<()>),
    Load(String, Answer<StoredFlow>),
    List(Answer<Vec<FlowRecordSummary>>),
}

/// Serves requests until nobody can send one any more, then closes the file.
pub(super) fn run(mut store: Store, mut inbox: mpsc::Receiver<Request>, commits: &AtomicU64) {
    let mut next = inbox.blocking_recv();
    while let Some(request) = next.take() {
        match request {
            Request::Write(write, answer) => {
                let mut group = vec![(write, answer)];
                // Reads keep their place: what was asked for before them is written before them.
                while group.len() < GROUP && next.is_none() {
                    match inbox.try_recv() {
                        Ok(Request::Write(write, answer)) => group.push((write, answer)),
                        Ok(read) => next = Some(read),
                        Err(_) => break,
                    }
                }
                serve_writes(&mut store, group, commits);
            }
            Request::Load(uid, answer) => {
                let loaded = statements::load(&store.path, &store.connection, &uid);
                drop(answer.send(loaded.map_err(|trouble| port_error(&store, "reading", trouble))));
            }
            Request::List(answer) => {
                let listed = statements::list(&store.path, &store.connection);
                drop(answer.send(listed.map_err(|trouble| port_error(&store, "reading", trouble))));
            }
        }
        if next.is_none() {
            next = inbox.blocking_recv();
        }
    }
}

fn serve_writes(store: &mut Store, group: Vec<(Write, Answer<()>)>, commits: &AtomicU64) {
    match commit(&mut store.connection, group.iter().map(|(write, _)| write)) {
        Ok(verdicts) => {
            commits.fetch_add(1, Ordering::Relaxed);
            for ((_, answer), verdict) in group.into_iter().zip(verdicts) {
                drop(answer.send(verdict.map_err(|trouble| port_error(store, "writing", trouble))));
            }
        }
        Err(error) => {
            // Nothing of the group was written: each caller gets the error.
            let reported = classify(&store.path, "writing", &error);
            for (_, answer) in group {
                let mut error = Problem::new(reported.class, reported.message.clone());
                error.reason = reported.reason;
                drop(answer.send(Err(error)));
            }
        }
    }
}

/// Carries out writes in one durable transaction. A write that is refused leaves no trace and does not touch the others.
fn commit<'a>(
    connection: &mut Connection,
    writes: impl Iterator<Item = &'a Write>,
) -> rusqlite::Result<Vec<Result<(), CallError>>> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut verdicts = Vec::new();
    for write in writes {
        let savepoint = transaction.savepoint()?;
        match statements::apply(&savepoint, write) {
            Ok(()) => {
                savepoint.commit()?;
                verdicts.push(Ok(()));
            }
            Err(CallError::Sqlite(error)) if !is_of_one_statement(&error) => return Err(error),
            Err(trouble) => {
                savepoint.finish()?;
                verdicts.push(Err(trouble));
            }
        }
    }
    transaction.commit()?;
    Ok(verdicts)
}

fn port_error(store: &Store, doing: &str, error: CallError) -> Problem {
    error.into_problem("journal", &store.path, doing)
}
