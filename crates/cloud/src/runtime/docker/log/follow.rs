//! Reading a container's log from the engine while it runs and to its end. Owns when to ask again; what has been read is
//! the sink's knowledge.

use std::time::Duration;

use futures::StreamExt as _;
use orlop_core::error::{Class, Problem};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::sink::Sink;
use crate::runtime::docker::engine::Engine;
use crate::runtime::docker::error;

/// How many pieces of output are written at once, at most.
const BATCH: usize = 512;

/// How long to wait before the engine is asked again for a log that broke off.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows a container's log until it is asked to finish.
#[derive(Debug)]
pub(in crate::runtime::docker) struct Follower {
    finish: CancellationToken,
    task: AbortOnDropHandle<Result<(), Problem>>,
}

impl Follower {
    /// Begins to follow the log of container `id`, where the sink left off.
    pub(in crate::runtime::docker) fn begin(engine: Engine, id: String, sink: Sink) -> Self {
        let finish = CancellationToken::new();
        let task = follow(engine, id, sink, finish.clone());
        Self { finish, task: AbortOnDropHandle::new(tokio::spawn(task)) }
    }

    /// Reads the log of the container, which has ended, to its end.
    ///
    /// # Errors
    /// Transient and Capacity when that is to be tried again, with a new follower.
    pub(in crate::runtime::docker) async fn finish(self) -> Result<(), Problem> {
        self.finish.cancel();
        match self.task.await {
            Ok(result) => result,
            Err(stopped) => Err(Problem::new(Class::Transient, "the task that reads the log stopped").because(stopped)),
        }
    }
}

/// Why a log could not be read on.
enum FollowError {
    /// The engine did not send it; what was sent is written.
    Engine(Problem),
    /// It could not be written; what the sink knows no longer fits the files.
    Files(Problem),
}

async fn follow(engine: Engine, id: String, mut sink: Sink, finish: CancellationToken) -> Result<(), Problem> {
    while !finish.is_cancelled() {
        let read = tokio::select! {
            // What has been read is written before this is looked at: a batch is taken between two awaits.
            read = read(&engine, &id, &mut sink, true) => read,
            () = finish.cancelled() => break,
        };
        match read {
            Ok(()) => {}
            Err(FollowError::Files(error)) => return Err(error),
            Err(FollowError::Engine(error)) => {
                tracing::debug!(container = id, error = %error.chain(), "following a log was interrupted");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = finish.cancelled() => {}
        }
    }
    match read(&engine, &id, &mut sink, false).await {
        Ok(()) => sink.finish().map_err(|error| unwritten(error, &id)),
        Err(FollowError::Engine(error) | FollowError::Files(error)) => Err(error),
    }
}

/// Reads what is new; with `follow` until the container ends.
async fn read(engine: &Engine, id: &str, sink: &mut Sink, follow: bool) -> Result<(), FollowError> {
    let since = sink.rewind();
    let mut batches = engine.logs(id, since, follow).ready_chunks(BATCH);
    while let Some(batch) = batches.next().await {
        let mut pieces = Vec::with_capacity(batch.len());
        let mut end = Ok(());
        for piece in batch {
            match piece {
                Ok(piece) => pieces.push(piece),
                Err(error) => end = Err(error::engine(error, &format!("reading the log of container `{id}`"))),
            }
        }
        sink.take(&pieces).map_err(|error| FollowError::Files(unwritten(error, id)))?;
        end.map_err(FollowError::Engine)?;
    }
    Ok(())
}

fn unwritten(error: std::io::Error, id: &str) -> Problem {
    let error = Problem::from(error);
    Problem::new(error.class, format!("writing the log of container `{id}` failed: {error}"))
}
