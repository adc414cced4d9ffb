//! The task that owns the writing connection: carries out requests in their order and commits those that wait together in one
//! transaction, whose statements travel together.

use std::time::Duration;

use futures::future::{join_all, join3};
use orlop_core::error::{Class, Problem};
use orlop_core::id::{Epoch, JobId};
use orlop_core::ports::fleet_store::{FENCED, HELD, Holder};
use tokio::sync::mpsc;

use super::connection::{Connection, Param, Session, borrowed};
use super::error::classify;
use super::write::{Step, steps};
use super::{read, restore};
use crate::store::fleet::batch::{Batch, Commit, Request, gather, missing, together};
use crate::store::fleet::column::{integer, natural};

/// The leader row of this epoch, kept as it is until the end of the transaction.
const FENCE: &str = "SELECT 1 FROM leader WHERE id = 1 AND epoch = $1 AND holder <> '' FOR SHARE";

/// Serves requests until nobody can send one any more.
pub(super) async fn run(connection: Connection, mut inbox: mpsc::Receiver<Request>, term: Duration) {
    let mut next = inbox.recv().await;
    while let Some(request) = next.take() {
        match request {
            Request::Commit(first) => {
                let (group, other) = gather(first, &mut inbox);
                next = other;
                commit_group(&connection, group).await;
            }
            Request::Acquire(holder, answer) => drop(answer.send(acquire(&connection, &holder, term).await)),
            Request::Renew(epoch, answer) => drop(answer.send(renew(&connection, epoch, term).await)),
            Request::Release(epoch, answer) => drop(answer.send(release(&connection, epoch).await)),
            Request::Confirm(epoch, ids, answer) => {
                let ids: Vec<i64> = ids.into_iter().map(integer).collect();
                let params: Vec<Param> = vec![Box::new(ids)];
                let step = Step { text: "DELETE FROM outbox WHERE id = ANY($1)".to_owned(), params, expects: None };
                drop(answer.send(transact(&connection, epoch, vec![step]).await));
            }
            Request::Retain(epoch, policy, answer) => {
                drop(answer.send(restore::retain(&connection, epoch, &policy).await));
            }
        }
        if next.is_none() {
            next = inbox.recv().await;
        }
    }
}

/// Commits calls together; when that is refused, one by one, so that a bad one does not touch the others.
async fn commit_group(connection: &Connection, group: Vec<Commit>) {
    if let Some((epoch, batch)) = together(&group) {
        match transact(connection, epoch, steps(&batch)).await {
            Ok(()) => {
                group.into_iter().for_each(|commit| drop(commit.answer.send(Ok(()))));
                return;
            }
            // It may be written: to write it again would be wrong.
            Err(error) if error.class == Class::Transient => {
                for commit in group {
                    drop(commit.answer.send(Err(Problem::new(error.class, error.message.clone()))));
                }
                return;
            }
            Err(_) => {}
        }
    }
    for Commit { epoch, turns, answer } in group {
        let written = match Batch::of(turns) {
            Ok(batch) => transact(connection, epoch, steps(&batch)).await,
            Err(error) => Err(error),
        };
        drop(answer.send(written));
    }
}

fn fenced(epoch: Epoch) -> Problem {
    let message = format!("epoch {epoch} is not the current leader; take leadership and restore");
    Problem::new(Class::Denied, message).with_reason(FENCED)
}

/// Carries statements out in one transaction that an older epoch cannot commit. All of them are on their way before the
/// first answer comes.
async fn transact(connection: &Connection, epoch: Epoch, steps: Vec<Step>) -> Result<(), Problem> {
    let session = connection.session().await?;
    let failed = |error: tokio_postgres::Error| classify("writing", &error);
    let mut prepared = Vec::with_capacity(steps.len() + 1);
    for step in &steps {
        prepared.push(session.prepare(&step.text).await?);
    }
    let fence = session.prepare(FENCE).await?;
    let number = integer(epoch.0);
    let begin = session.client.batch_execute("BEGIN");
    let all = join_all(prepared.iter().zip(&steps).map(|(statement, step)| {
        let session = &session;
        async move { session.client.execute(statement, &borrowed(&step.params)).await }
    }));
    let check = async { session.client.execute(&fence, &[&number]).await };
    // Polled in this order, and so sent.
    let (begun, counts, leads) = join3(begin, all, check).await;
    let verdict = begun.map_err(failed).and_then(|()| {
        for (count, step) in counts.into_iter().zip(&steps) {
            let count = count.map_err(failed)?;
            if let Some((wanted, what)) = step.expects
                && count != wanted
            {
                return Err(missing(what));
            }
        }
        if leads.map_err(failed)? == 0 { Err(fenced(epoch)) } else { Ok(()) }
    });
    end(&session, verdict).await
}

/// Ends a transaction as its verdict says.
pub(super) async fn end<T>(session: &Session, verdict: Result<T, Problem>) -> Result<T, Problem> {
    let last = if verdict.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = session.client.batch_execute(last).await;
    let value = verdict?;
    ended.map_err(|error| {
        let reported = classify("committing to", &error);
        // Whether it was written is not known, whatever the reason.
        let class = if reported.class == Class::Capacity { Class::Capacity } else { Class::Transient };
        Problem::new(class, reported.message)
    })?;
    Ok(value)
}

/// Refuses an epoch that does not lead, inside a transaction.
pub(super) async fn fence(session: &Session, epoch: Epoch) -> Result<(), Problem> {
    let params: Vec<Param> = vec![Box::new(integer(epoch.0))];
    if session.execute(FENCE, &params).await? == 0 { Err(fenced(epoch)) } else { Ok(()) }
}

fn seconds(term: Duration) -> Param {
    Box::new(term.as_secs_f64())
}

/// Takes leadership if nobody has it or the term is over, and counts the epoch up in the same statement.
async fn acquire(connection: &Connection, holder: &Holder, term: Duration) -> Result<Epoch, Problem> {
    let session = connection.session().await?;
    let name = if holder.name.is_empty() { "server".to_owned() } else { holder.name.clone() };
    let params: Vec<Param> = vec![
        Box::new(name),
        Box::new(holder.url.clone()),
        seconds(term),
        // Ids of jobs carry the epoch, and must stay below 2^63.
        Box::new(integer(JobId::MAX_EPOCH.0 / 2)),
    ];
    let take = "UPDATE leader SET holder = $1, url = $2, epoch = epoch + 1,
                    expires_at = clock_timestamp() + make_interval(secs => $3)
                WHERE id = 1 AND (holder = '' OR expires_at <= clock_timestamp()) AND epoch < $4
                RETURNING epoch";
    if let Some(row) = session.query(take, &params).await?.first() {
        return Ok(Epoch(natural(read::get(row, 0)?)));
    }
    let leader = read::leader(&session).await?;
    let Some(leader) = leader.filter(|leader| !leader.holder.is_empty()) else {
        return Err(Problem::new(Class::Fatal, "the epochs of the fleet store are used up; start a new one"));
    };
    let message = format!("server `{}` at {} leads in epoch {}", leader.holder, leader.url, leader.epoch);
    let error = Problem::new(Class::Conflict, message).with_reason(HELD);
    Err(error.retry_after(leader.remaining.unwrap_or_default()))
}

async fn renew(connection: &Connection, epoch: Epoch, term: Duration) -> Result<(), Problem> {
    let session = connection.session().await?;
    let params: Vec<Param> = vec![Box::new(integer(epoch.0)), seconds(term)];
    let prolong = "UPDATE leader SET expires_at = clock_timestamp() + make_interval(secs => $2)
                   WHERE id = 1 AND epoch = $1 AND holder <> '' AND expires_at > clock_timestamp()";
    if session.execute(prolong, &params).await? == 0 { Err(fenced(epoch)) } else { Ok(()) }
}

async fn release(connection: &Connection, epoch: Epoch) -> Result<(), Problem> {
    let session = connection.session().await?;
    let params: Vec<Param> = vec![Box::new(integer(epoch.0))];
    let give = "UPDATE leader SET holder = '', url = '', expires_at = to_timestamp(0) WHERE id = 1 AND epoch = $1";
    session.execute(give, &params).await.map(drop)
}
