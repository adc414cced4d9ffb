//! What an earlier agent left behind: directories of attempts, and processes that nobody keeps. Owns finding them by
//! name and mark, and ending those without a supervisor; never touches what does not carry this worker's mark.

use std::collections::{BTreeSet, HashMap};
use std::io;

use orlop_core::error::{Class, Problem};
use orlop_core::task::{TaskEnd, TaskRef};

use super::Shared;
use super::in_use::of_attempts;
use super::supervise::{self, Control};
use crate::runtime::logs::now;
use crate::runtime::process::identity::{Identity, processes};
use crate::runtime::process::tree::{is_marked, kill, wait_for_any, with_offspring};
use crate::runtime::worker::directories::clear;
use crate::runtime::worker::event::AttemptEnd;
use crate::runtime::worker::{Remains, RemainsState};

/// All attempts that left something.
pub(super) fn list(shared: &Shared) -> Result<Vec<Remains>, Problem> {
    let mut ids: BTreeSet<TaskRef> = supervise::all(&shared.options.work)?.into_iter().collect();
    ids.extend(shared.directories.all()?);
    let (mut all, mut without_supervisor) = (Vec::new(), HashMap::new());
    for id in ids {
        if let Some(state) = supervise::state(&Control::of(&shared.options.work, &id))? {
            all.push(Remains { id, state });
        } else {
            without_supervisor.insert(shared.mark(&id).into_bytes(), id);
        }
    }
    if !without_supervisor.is_empty() {
        let alive: BTreeSet<TaskRef> = of_attempts(&without_supervisor)?.into_values().collect();
        let state = |id: &TaskRef| if alive.contains(id) { RemainsState::Orphaned } else { RemainsState::Gone };
        all.extend(without_supervisor.into_values().map(|id| Remains { state: state(&id), id }));
        all.sort_by_key(|remains| remains.id);
    }
    Ok(all)
}

/// Ends what is left of an attempt that nobody keeps, and tells that it is lost.
pub(super) fn end(shared: &Shared, id: &TaskRef, reason: &str) -> Result<(), Problem> {
    if !shared.dir(id).exists()
        && !Control::of(&shared.options.work, id).exists()
        && alive(&shared.mark(id))?.is_empty()
    {
        return Err(Problem::new(Class::NotFound, format!("attempt {id} left no trace on this machine")));
    }
    remove(shared, id)?;
    shared.events.ended(*id, AttemptEnd::without_run(TaskEnd::Lost, reason, now()));
    shared.events.flush();
    Ok(())
}

/// Ends what is left of an attempt and removes its directories.
pub(super) fn remove(shared: &Shared, id: &TaskRef) -> Result<(), Problem> {
    let mark = shared.mark(id);
    let mut left = alive(&mark)?;
    while !left.is_empty() {
        if !kill(&left).is_empty() {
            let message = format!("processes of attempt {id} may not be killed");
            return Err(Problem::new(Class::Denied, message));
        }
        wait_for_any(&left)?;
        left = alive(&mark)?;
    }
    if let Some(groups) = &shared.groups {
        groups.group(id).remove()?;
    }
    if let Some(secrets) = shared.directories.secrets_of(id) {
        clear(&secrets);
    }
    shared.directories.discard(&shared.dir(id));
    let control = Control::of(&shared.options.work, id);
    if control.exists() {
        // A supervisor that was about to take it on no longer does.
        drop(control.supervisor());
        control.remove();
    }
    Ok(())
}

/// The living processes that carry a mark, `NAME=value`, or descend from one that does.
fn alive(mark: &str) -> io::Result<Vec<Identity>> {
    let all = processes()?;
    let roots: BTreeSet<i32> = all.iter().map(|stat| stat.identity.pid).filter(|pid| is_marked(*pid, mark)).collect();
    // A process in the session of one that carries the mark is the attempt's as well.
    let sessions: BTreeSet<i32> =
        all.iter().filter(|stat| roots.contains(&stat.identity.pid)).map(|stat| stat.session).collect();
    let related = all.iter().filter(|stat| sessions.contains(&stat.session)).map(|stat| stat.identity.pid);
    Ok(with_offspring(&all, &roots.iter().copied().chain(related).collect()))
}
