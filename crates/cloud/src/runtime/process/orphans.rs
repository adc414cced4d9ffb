//! What a dead supervisor left behind. Owns recognising the processes of a pod without the supervisor that knew them, and ending
//! them; never ends a process that carries no mark of the pod.
//!
//! A process is the pod's when it is in the pod's control group, in the session of its last container, has the pod's token in its
//! environment, sees mounts of the pod's directory, or descends from one that does. The main process of a container
//! needs no search: it dies with its supervisor.

use std::collections::BTreeSet;
use std::io;

use nix::sys::signal::Signal;

use super::MARKER;
use super::cgroup::Cgroup;
use super::failure::{During, Failure};
use super::identity::{Identity, Stat, processes};
use super::record::{Claim, Directory};
use super::tree::{holds, is_marked, wait_for_any, with_offspring};

/// Ends all processes of a pod whose supervisor is dead; returns when none is left.
pub(crate) fn end(directory: &Directory, claim: &Claim) -> Result<(), Failure> {
    loop {
        let left = kill(directory, claim)?;
        if left.is_empty() {
            break;
        }
        wait_for_any(&left).during(|| "waiting for processes of a dead pod".to_owned())?;
    }
    claim.cgroup.clone().map_or(Ok(()), |group| Cgroup::at(group).remove())
}

/// Kills all processes of a pod that are there now, without its supervisor; gives them.
pub(crate) fn kill(directory: &Directory, claim: &Claim) -> Result<Vec<Identity>, Failure> {
    let Some(supervisor) = claim.supervisor else { return Ok(Vec::new()) };
    let boot = super::identity::boot().during(|| "reading the boot of this machine".to_owned())?;
    if boot != claim.boot {
        return Ok(Vec::new());
    }
    let group = claim.cgroup.clone().map(Cgroup::at);
    group.iter().for_each(Cgroup::kill);
    let session = directory.locks()?.noted();
    let left = find(claim, supervisor, session, group.as_ref());
    let left = left.during(|| "looking for processes of a pod".to_owned())?;
    // All at once, so that none is started again by another one.
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        for one in &left {
            one.signal(signal).during(|| format!("ending process {one} of a pod"))?;
        }
    }
    Ok(left)
}

fn find(
    claim: &Claim,
    supervisor: Identity,
    session: Option<Identity>,
    group: Option<&Cgroup>,
) -> io::Result<Vec<Identity>> {
    let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    let all: Vec<Stat> = processes()?.into_iter().filter(|stat| !stat.is_dead() && stat.identity.pid != own).collect();
    let in_group: BTreeSet<i32> = group.map(Cgroup::processes).unwrap_or_default().into_iter().collect();
    let entry = format!("{MARKER}={}", claim.token);
    // A number that another process has by now says nothing.
    let session =
        session.filter(|leader| !all.iter().any(|stat| stat.identity.pid == leader.pid && stat.identity != *leader));
    let marked = |stat: &Stat| {
        let pid = stat.identity.pid;
        stat.identity.start >= supervisor.start
            && (in_group.contains(&pid)
                || session.is_some_and(|leader| stat.session == leader.pid)
                || is_marked(pid, &entry)
                || holds(&format!("/proc/{pid}/mountinfo"), claim.token.as_bytes()))
    };
    let roots: BTreeSet<i32> = all.iter().filter(|stat| marked(stat)).map(|stat| stat.identity.pid).collect();
    Ok(with_offspring(&all, &roots))
}
