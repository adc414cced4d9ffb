//! Waiting for the end of a pod whose shim is not this process's child, or no longer. Owns what the absence of a shim
//! means; the waiting itself is the kernel's.

use std::io;
use std::os::fd::OwnedFd;

use orlop_core::error::{Class, Problem};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::failure::{During, Failure};
use super::identity::{self, Identity};
use super::orphans;
use super::record::{Claim, Directory, ExitRecord, LockRegion, ShimState};
use super::request;
use crate::runtime::clock::now;
use crate::runtime::pod::{PodExit, PodKey, PodResult};

/// Waits for the end of a pod.
pub(super) async fn end(key: &PodKey, directory: &Directory) -> Result<PodExit, Problem> {
    loop {
        if !directory.path().exists() {
            return Ok(ended(PodResult::Lost));
        }
        match directory.find()? {
            ShimState::Ended(record) => return Ok(record.exit),
            ShimState::Alive(shim) => until_dead(directory, shim).await?,
            ShimState::Dead(claim) => {
                let directory = directory.clone();
                return blocking(move || bury(&directory, &claim)).await;
            }
            ShimState::Nothing => {
                let (directory, key) = (directory.clone(), key.clone());
                blocking(move || close(&directory, key)).await?;
            }
        }
    }
}

fn ended(result: PodResult) -> PodExit {
    PodExit { result, containers: Vec::new(), started_at: None, ended_at: now() }
}

/// Ends what a dead shim left behind and records that the pod is lost.
fn bury(directory: &Directory, claim: &Claim) -> Result<PodExit, Failure> {
    orphans::end(claim)?;
    let result = match claim.shim {
        // Nothing ever ran, so a pod that was to end has ended.
        None if request::read(directory)?.stop.is_some() => PodResult::Cancelled,
        _ => PodResult::Lost,
    };
    let record = ExitRecord { exit: ended(result), lost_stdout: 0, lost_stderr: 0 };
    Ok(directory.bury(record)?.exit)
}

/// Closes a directory in which nothing was ever started, so that no shim on its way can start anything after it was
/// said that there is no trace of the pod.
fn close(directory: &Directory, key: PodKey) -> Result<(), Failure> {
    let locks = directory.locks()?;
    locks.take(LockRegion::Claiming)?;
    if directory.claim()?.is_none() && directory.exit()?.is_none() {
        let boot = identity::boot().during(|| "reading the boot of this machine".to_owned())?;
        let inode = Some(directory.inode()?);
        let claim = Claim { key: Some(key), shim: None, boot, token: String::new(), cgroup: None, at: now(), inode };
        directory.make_claim(&claim)?;
    }
    Ok(())
}

/// Waits until a shim is dead.
async fn until_dead(directory: &Directory, shim: Identity) -> Result<(), Problem> {
    match shim.open() {
        Ok(Some(fd)) => readable(fd).await.during(|| format!("waiting for shim {shim}"))?,
        // It is not to be seen from here though its lock is held: this may be another process id namespace, or the
        // kernel too old to wait for a process. The lock goes with it.
        Ok(None) => until_unlocked(directory).await?,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => until_unlocked(directory).await?,
        Err(error) => return Err(Failure { doing: format!("looking for shim {shim}"), source: error }.into()),
    }
    Ok(())
}

/// Waits for a descriptor that is readable once its process is dead. It is no pipe, but the receiver of one is what
/// waits for descriptors of any kind; nothing is read from it.
async fn readable(process: OwnedFd) -> io::Result<()> {
    pipe::Receiver::from_owned_fd_unchecked(process)?.readable().await
}

/// Waits for the lock of a shim, in its own thread: it cannot be given up, and must not keep a program from ending.
async fn until_unlocked(directory: &Directory) -> Result<(), Problem> {
    let locks = directory.locks()?;
    let (sender, receiver) = oneshot::channel();
    let wait = move || drop(sender.send(locks.take(LockRegion::Life)));
    let spawned = std::thread::Builder::new().name("orlop-pod-lock".to_owned()).spawn(wait);
    spawned.during(|| "starting a thread".to_owned())?;
    let taken = receiver.await.map_err(|_| Problem::new(Class::Transient, "waiting for a pod's lock was given up"))?;
    Ok(taken?)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| Problem::new(Class::Transient, "work on a pod's directory was given up").because(error))??)
}
