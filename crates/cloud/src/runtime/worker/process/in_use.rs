//! What attempts use while they run: CPU time and memory of all their processes, those of attempts with a supervisor of
//! their own too. Owns finding whose a process is; one look at the machine serves all attempts.
//!
//! A process is counted where it carries the mark of an attempt, shares a session with one that does, or descends from
//! one. Where an attempt has a control group, that is asked instead.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;

use orlop_core::task::TaskRef;

use super::{Shared, usage};
use crate::runtime::process::identity::{Stat, processes};
use crate::runtime::worker::InUse;

/// What these attempts use; those of which nothing runs are left out.
///
/// # Errors
/// When `/proc` cannot be read.
pub(super) fn look(shared: &Shared, ids: &[TaskRef]) -> io::Result<Vec<(TaskRef, InUse)>> {
    let mut found = BTreeMap::new();
    let mut loose: HashMap<Vec<u8>, TaskRef> = HashMap::new();
    for id in ids {
        let group = shared.groups.as_ref().map(|groups| groups.group(id));
        match group.and_then(|group| group.in_use()) {
            Some((cpu_ms, memory_bytes)) => drop(found.insert(*id, InUse { cpu_ms, memory_bytes })),
            None => drop(loose.insert(shared.mark(id).into_bytes(), *id)),
        }
    }
    if !loose.is_empty() {
        for (pid, id) in of_attempts(&loose)? {
            let part = usage::in_use(pid);
            let sum: &mut InUse = found.entry(id).or_default();
            sum.cpu_ms = sum.cpu_ms.saturating_add(part.cpu_ms);
            sum.memory_bytes = sum.memory_bytes.saturating_add(part.memory_bytes);
        }
    }
    Ok(found.into_iter().collect())
}

/// The living processes of attempts, by their marks.
///
/// # Errors
/// When `/proc` cannot be read.
pub(super) fn of_attempts(marks: &HashMap<Vec<u8>, TaskRef>) -> io::Result<BTreeMap<i32, TaskRef>> {
    let all: Vec<Stat> = processes()?.into_iter().filter(|stat| !stat.is_dead()).collect();
    Ok(owners(&all, |pid| marked(pid, marks)))
}

/// The attempt whose mark a process was started with.
fn marked(pid: i32, marks: &HashMap<Vec<u8>, TaskRef>) -> Option<TaskRef> {
    let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environ.split(|byte| *byte == 0).find_map(|variable| marks.get(variable).copied())
}

/// Whose each process is. One that carries no mark itself is its session's, else its parent's.
fn owners(all: &[Stat], marked: impl Fn(i32) -> Option<TaskRef>) -> BTreeMap<i32, TaskRef> {
    let mut whose: BTreeMap<i32, TaskRef> = BTreeMap::new();
    let mut sessions: BTreeMap<i32, TaskRef> = BTreeMap::new();
    for stat in all {
        if let Some(id) = marked(stat.identity.pid) {
            whose.insert(stat.identity.pid, id);
            sessions.insert(stat.session, id);
        }
    }
    if whose.is_empty() {
        return whose;
    }
    for stat in all {
        if let Some(id) = sessions.get(&stat.session) {
            whose.entry(stat.identity.pid).or_insert(*id);
        }
    }
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(stat.identity.pid);
    }
    let mut next: Vec<(i32, TaskRef)> = whose.iter().map(|(pid, id)| (*pid, *id)).collect();
    while let Some((parent, id)) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if !whose.contains_key(child) {
                whose.insert(*child, id);
                next.push((*child, id));
            }
        }
    }
    whose
}

#[cfg(test)]
mod tests {
    use orlop_core::id::{Epoch, JobId};

    use super::*;
    use crate::runtime::process::identity::Identity;

    fn id(job: u64) -> TaskRef {
        TaskRef { job: JobId::from_u64(job), index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
    }

    fn process(pid: i32, parent: i32, session: i32) -> Stat {
        Stat { identity: Identity { pid, start: 1 }, state: 'S', parent, session }
    }

    #[test]
    fn a_process_is_counted_for_the_attempt_it_belongs_to_and_for_no_other() {
        let all = [
            process(1, 0, 1),
            process(10, 1, 10),
            // Without a mark: of the session, and a child that has left it.
            process(11, 10, 10),
            process(12, 11, 12),
            process(20, 1, 20),
            // Started with its own mark below another attempt's process.
            process(21, 12, 21),
            process(22, 21, 22),
            process(30, 1, 30),
        ];
        let marks = BTreeMap::from([(10, id(1)), (20, id(2)), (21, id(2))]);
        let whose = owners(&all, |pid| marks.get(&pid).copied());
        let expected = [(10, 1), (11, 1), (12, 1), (20, 2), (21, 2), (22, 2)];
        assert_eq!(whose, expected.into_iter().map(|(pid, job)| (pid, id(job))).collect());
        assert!(owners(&all, |_| None).is_empty());
    }
}
