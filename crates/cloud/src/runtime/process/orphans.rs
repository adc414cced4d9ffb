//! What a dead shim left behind. Owns recognising the processes of a pod without the shim that knew them, and ending
//! them; never ends a process that carries no mark of the pod.
//!
//! A process is the pod's when it is in the pod's control group, in the session of the shim, has the pod's token in its
//! environment, sees mounts of the pod's directory, or descends from one that does. The main process of a container
//! needs no search: it dies with its shim.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use nix::sys::signal::Signal;

use super::MARKER;
use super::cgroup::Cgroup;
use super::failure::{During, Failure};
use super::identity::{Identity, Stat, processes};
use super::record::Claim;
use super::tree::{below, wait_for_any};

/// Ends all processes of a pod whose shim is dead; returns when none is left.
pub(crate) fn end(claim: &Claim) -> Result<(), Failure> {
    let Some(shim) = claim.shim else { return Ok(()) };
    let boot = super::identity::boot().during(|| "reading the boot of this machine".to_owned())?;
    if boot != claim.boot {
        return Ok(());
    }
    let group = claim.cgroup.clone().map(Cgroup::at);
    loop {
        if let Some(group) = &group {
            group.kill();
        }
        let left = find(claim, shim, group.as_ref()).during(|| "looking for processes of a dead pod".to_owned())?;
        if left.is_empty() {
            break;
        }
        // All at once, so that none is started again by another one.
        for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
            for one in &left {
                one.signal(signal).during(|| format!("ending process {one} of a dead pod"))?;
            }
        }
        wait_for_any(&left).during(|| "waiting for processes of a dead pod".to_owned())?;
    }
    group.map_or(Ok(()), |group| group.remove())
}

fn find(claim: &Claim, shim: Identity, group: Option<&Cgroup>) -> io::Result<Vec<Identity>> {
    let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    let all: Vec<Stat> = processes()?.into_iter().filter(|stat| !stat.is_dead() && stat.identity.pid != own).collect();
    let in_group: BTreeSet<i32> = group.map(Cgroup::processes).unwrap_or_default().into_iter().collect();
    let entry = format!("{MARKER}={}", claim.token);
    let marked = |stat: &Stat| {
        let pid = stat.identity.pid;
        stat.identity.start >= shim.start
            && (in_group.contains(&pid)
                || (stat.session == shim.pid && stat.identity != shim)
                || holds(&format!("/proc/{pid}/environ"), entry.as_bytes())
                || holds(&format!("/proc/{pid}/mountinfo"), claim.token.as_bytes()))
    };
    let roots: BTreeSet<i32> = all.iter().filter(|stat| marked(stat)).map(|stat| stat.identity.pid).collect();
    let offspring: BTreeSet<i32> = below(&all, &roots).iter().map(|stat| stat.identity.pid).collect();
    let wanted = |stat: &&Stat| roots.contains(&stat.identity.pid) || offspring.contains(&stat.identity.pid);
    Ok(all.iter().filter(wanted).map(|stat| stat.identity).collect())
}

/// Whether a file of `/proc` holds some bytes; one that cannot be read is of a process that is gone or somebody else's.
fn holds(path: &str, wanted: &[u8]) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.windows(wanted.len()).any(|window| window == wanted))
}
