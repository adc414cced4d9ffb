//! Waiting for the end of a pod. Owns what the absence of a supervisor means; the waiting itself is the kernel's.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::libc;
use orlop_core::error::{Class, Problem};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::failure::{During, Failure};
use super::identity;
use super::orphans;
use super::record::{Claim, Directory, DirectoryState, ExitRecord, LockRegion};
use super::request;
use crate::clock::now;
use crate::runtime::pod::{PodExit, PodKey, PodResult};

/// Waits for the end of a pod.
pub(super) async fn end(key: &PodKey, directory: &Directory) -> Result<PodExit, Problem> {
    loop {
        if !directory.path().exists() {
            return Ok(ended(PodResult::Lost));
        }
        match directory.find()? {
            DirectoryState::Ended(record) => return Ok(record.exit),
            DirectoryState::Alive(_) => until_over(directory).await?,
            DirectoryState::Dead(claim) => {
                let directory = directory.clone();
                return blocking(move || end_without_supervisor(&directory, &claim)).await;
            }
            DirectoryState::Nothing => {
                let (directory, key) = (directory.clone(), key.clone());
                blocking(move || close(&directory, key)).await?;
            }
        }
    }
}

fn ended(result: PodResult) -> PodExit {
    PodExit { result, containers: Vec::new(), started_at: None, ended_at: now() }
}

/// Ends what a dead supervisor left behind and records that the pod is lost.
fn end_without_supervisor(directory: &Directory, claim: &Claim) -> Result<PodExit, Failure> {
    orphans::end(directory, claim)?;
    let result = match claim.supervisor {
        // Nothing ever ran, so a pod that was to end has ended.
        None if request::read(directory)?.stop.is_some() => PodResult::Cancelled,
        _ => PodResult::Lost,
    };
    let record = ExitRecord { exit: ended(result), lost_stdout: 0, lost_stderr: 0 };
    Ok(directory.write_lost_end(record)?.exit)
}

/// Closes a directory in which nothing was ever started, so that no supervisor on its way can start anything after it was
/// said that there is no trace of the pod.
fn close(directory: &Directory, key: PodKey) -> Result<(), Failure> {
    let locks = directory.locks()?;
    locks.take(LockRegion::Claiming)?;
    if directory.claim()?.is_none() && directory.exit()?.is_none() {
        let boot = identity::boot().during(|| "reading the boot of this machine".to_owned())?;
        let inode = Some(directory.inode()?);
        let claim =
            Claim { key: Some(key), supervisor: None, boot, token: String::new(), cgroup: None, at: now(), inode };
        directory.make_claim(&claim)?;
    }
    Ok(())
}

/// Waits until the supervisor of a pod has let go of it: its end is written, or it is dead.
async fn until_over(directory: &Directory) -> Result<(), Problem> {
    let path = directory.life();
    match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path) {
        Ok(life) => Ok(closed(life).await.during(|| format!("reading `{}`", path.display()))?),
        // It is gone with its supervisor's hold on it, or was removed by somebody else: the lock goes as well.
        Err(error) if error.kind() == io::ErrorKind::NotFound => until_unlocked(directory).await,
        Err(error) => Err(Failure { doing: format!("opening `{}`", path.display()), source: error }.into()),
    }
}

/// Waits until the other end of a pipe is closed; nothing is written to it.
async fn closed(mut life: File) -> io::Result<()> {
    // Of an end that was closed before it was opened here there is no event.
    if life.read(&mut [0]).is_ok_and(|len| len == 0) {
        return Ok(());
    }
    let life = pipe::Receiver::from_file_unchecked(life)?;
    loop {
        life.readable().await?;
        match life.try_read(&mut [0]) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for the lock of a supervisor, in its own thread: it cannot be given up, and must not keep a program from ending.
async fn until_unlocked(directory: &Directory) -> Result<(), Problem> {
    let locks = directory.locks()?;
    let (sender, receiver) = oneshot::channel();
    let wait = move || drop(sender.send(locks.take(LockRegion::Life)));
    let spawned = std::thread::Builder::new().name("orlop-pod-lock".to_owned()).spawn(wait);
    spawned.during(|| "starting a thread".to_owned())?;
    let taken = receiver.await.map_err(|_| Problem::new(Class::Transient, "waiting for a pod's lock was aborted"))?;
    Ok(taken?)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Failure> + Send + 'static) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| Problem::new(Class::Transient, "work on a pod's directory was aborted").because(error))??)
}
