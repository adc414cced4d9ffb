//! Calls that write, on their way to the one connection that carries them out, and which of them share a transaction. Owns
//! the queue's form; carries nothing out.

use orlop_core::error::Problem;
use orlop_core::id::Epoch;
use orlop_core::ports::fleet_store::{Holder, Retained, Retention, WriteBatch};
use tokio::sync::{mpsc, oneshot};

use super::batch::Batch;

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
