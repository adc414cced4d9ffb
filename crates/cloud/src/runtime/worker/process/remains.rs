//! What an earlier agent left behind: directories of attempts, and processes that nobody keeps. Owns finding them by
//! name and mark, and ending those without a supervisor; never touches what does not carry this worker's mark.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use orlop_core::error::{Class, PortError};

use super::shared::{Shared, clear};
use super::sweep::{kill, marked, with_offspring};
use crate::runtime::logs::now;
use crate::runtime::process::identity::{Identity, processes};
use crate::runtime::process::tree::wait_for_any;
use crate::runtime::worker::attempt::AttemptId;
use crate::runtime::worker::event::{AttemptEnd, Outcome};
use crate::runtime::worker::{Remains, RemainsState};

/// All attempts that left something.
pub(super) fn list(shared: &Shared) -> Result<Vec<Remains>, PortError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(&shared.options.work)? {
        let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<AttemptId>().ok()) else { continue };
        let state = if alive(&shared.mark(&id))?.is_empty() { RemainsState::Gone } else { RemainsState::Orphaned };
        found.push(Remains { id, state });
    }
    found.sort_by_key(|remains| remains.id);
    Ok(found)
}

/// Ends what is left of an attempt that nobody keeps, and tells that it is lost.
pub(super) fn end(shared: &Shared, id: &AttemptId) -> Result<(), PortError> {
    let mark = shared.mark(id);
    let left = alive(&mark)?;
    if left.is_empty() && !shared.dir(id).exists() {
        return Err(PortError::new(Class::NotFound, format!("attempt {id} left no trace on this machine")));
    }
    let mut left = left;
    while !left.is_empty() {
        if kill(&left) {
            let message = format!("processes of attempt {id} may not be killed");
            return Err(PortError::new(Class::Denied, message));
        }
        wait_for_any(&left)?;
        left = alive(&mark)?;
    }
    remove(shared, id);
    shared.events.ended(*id, AttemptEnd::without_run(Outcome::Lost, "agent_restart", now()));
    shared.events.flush();
    Ok(())
}

/// Removes the directories of an attempt.
pub(super) fn remove(shared: &Shared, id: &AttemptId) {
    if let Some(root) = &shared.options.secrets {
        clear(&root.join(id.to_string()));
    }
    shared.discard(&shared.dir(id));
}

/// The living processes that carry a mark or descend from one that does.
fn alive(mark: &str) -> io::Result<Vec<Identity>> {
    let all = processes()?;
    let roots: BTreeSet<i32> = all.iter().map(|stat| stat.identity.pid).filter(|pid| marked(*pid, mark)).collect();
    // Whoever shares the session of one that carries the mark is the attempt's as well.
    let sessions: BTreeSet<i32> =
        all.iter().filter(|stat| roots.contains(&stat.identity.pid)).map(|stat| stat.session).collect();
    let related = all.iter().filter(|stat| sessions.contains(&stat.session)).map(|stat| stat.identity.pid);
    Ok(with_offspring(&all, &roots.iter().copied().chain(related).collect()))
}
