//! What an agent makes of its predecessor's attempts when it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orlop_cloud::outbox::Recovered;
use orlop_cloud::runtime::worker::{AttemptEnd, RemainsState};
use orlop_core::error::{Class, Problem};
use orlop_core::spec::job::Runtime;
use orlop_core::task::{TaskEnd, TaskRef};

use super::clock::now;
use super::shared::Shared;
use super::work::Taken;

/// What is to be done about an attempt of the predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Its runtime goes on with it, or tells its end.
    Adopt,
    /// It never started: the server may give it to another worker, and nothing counts.
    GiveBack,
    /// It is gone, and nobody knows how it ended.
    Lost,
    /// Its end is in the spool: what it left behind goes.
    Settled,
}

/// What an agent does about an attempt that it finds after a restart.
fn fate(known: &Recovered, remains: Option<&RemainsState>) -> Fate {
    match (known.ended, remains, &known.started) {
        (true, ..) => Fate::Settled,
        (false, Some(RemainsState::Gone) | None, Some(_)) => Fate::Lost,
        (false, Some(RemainsState::Gone) | None, None) => Fate::GiveBack,
        (false, Some(_), _) => Fate::Adopt,
    }
}

/// Deals with everything that is left.
///
/// # Errors
/// When a runtime cannot tell what is left, or the spool cannot be written.
pub(super) async fn recover(shared: &Arc<Shared>, recovered: Vec<Recovered>) -> Result<(), Problem> {
    let runtimes = shared.runtimes();
    let mut left: BTreeMap<TaskRef, (Runtime, RemainsState)> = BTreeMap::new();
    // What cannot tell now what is left finds it out when it can.
    let mut silent = BTreeSet::new();
    for (kind, runtime) in &runtimes {
        match runtime.list().await {
            Ok(all) => left.extend(all.into_iter().map(|remains| (remains.id, (*kind, remains.state)))),
            Err(error) if *kind == Runtime::Docker => {
                tracing::warn!(runtime = %kind, error = %error.chain(), "what is left is looked at later");
                silent.insert(*kind);
            }
            Err(error) => return Err(error),
        }
    }
    for known in recovered {
        let remains = left.remove(&known.id);
        let taken = Taken::decode(&known.body);
        let kind = remains.as_ref().map_or(taken.runtime, |(kind, _)| *kind);
        let state = remains.as_ref().map(|(_, state)| state);
        let fate = fate(&known, state.or(silent.contains(&kind).then_some(&RemainsState::Orphaned)));
        tracing::info!(attempt = %known.id, ?fate, "an attempt of an agent before this one");
        match fate {
            Fate::Adopt => {
                shared.lock().adopt(&known);
                let Some(runtime) = shared.runtime(kind) else { continue };
                match runtime.adopt(known.id, known.last_seq).await {
                    Err(error) if error.class == Class::NotFound => shared.lock().vanished(&known, now())?,
                    adopted => adopted?,
                }
            }
            Fate::GiveBack => shared.lock().spool.revoked(known.id)?,
            Fate::Lost => {
                let end = AttemptEnd::without_run(TaskEnd::Lost, "agent_restart", now());
                shared.lock().spool.ended(known.id, end)?;
            }
            Fate::Settled => {}
        }
        if fate != Fate::Adopt
            && !silent.contains(&kind)
            && let Some(runtime) = shared.runtime(kind)
        {
            runtime.remove(known.id).await?;
        }
    }
    // Nobody knows these: whatever runs of them is ended, and nothing is reported.
    for (id, (kind, _)) in left {
        tracing::warn!(attempt = %id, "an attempt that the spool does not know; it is cleared away");
        if let Some(runtime) = shared.runtime(kind) {
            runtime.remove(id).await?;
        }
    }
    shared.lock().spool.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use orlop_cloud::runtime::worker::Started;
    use orlop_core::id::{Epoch, JobId};
    use orlop_core::time::Time;

    use super::*;

    #[test]
    fn agent_restart_table() {
        let id = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
        let started = Started { handle: "7@8".to_owned(), at: Time::EPOCH };
        let alive = RemainsState::Alive { started: started.clone() };
        let known = |ended, ran: bool| Recovered {
            id,
            body: Arc::from(&[0_u8][..]),
            started: ran.then(|| started.clone()),
            ended,
            last_seq: 0,
        };
        let table = [
            (known(false, true), Some(&RemainsState::Ended), Fate::Adopt),
            (known(false, true), Some(&alive), Fate::Adopt),
            (known(false, true), Some(&RemainsState::Orphaned), Fate::Adopt),
            (known(false, false), Some(&RemainsState::Orphaned), Fate::Adopt),
            (known(false, true), Some(&RemainsState::Gone), Fate::Lost),
            (known(false, true), None, Fate::Lost),
            (known(false, false), None, Fate::GiveBack),
            (known(true, true), Some(&RemainsState::Gone), Fate::Settled),
            (known(true, true), None, Fate::Settled),
        ];
        for (known, remains, expected) in table {
            assert_eq!(fate(&known, remains), expected, "{known:?} {remains:?}");
        }
    }
}
