//! What a supervisor is asked to do while it runs: end the pod, stop or continue its clock. Owns the file the requests stand
//! in, so that none is lost when parent or supervisor dies in between; a signal only tells the supervisor to look.
//!
//! The file has a fixed size and is written in place: on a full disk a pod can still be stopped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::failure::{During, Failure};
use super::record::Directory;

/// The signal that tells a supervisor to look.
pub(crate) const LOOK: Signal = Signal::SIGUSR1;
/// Size of the file in bytes.
const SIZE: usize = 256;

/// What is asked of a supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// End the pod; the time between asking and killing, in milliseconds.
    pub(crate) stop: Option<u64>,
    /// Stop its clock.
    pub(crate) frozen: bool,
}

impl Request {
    /// The same request, and to end the pod; of two times between asking and killing the shorter one counts.
    pub(crate) fn stopped(self, grace: Duration) -> Self {
        let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        Self { stop: Some(self.stop.map_or(grace, |before| before.min(grace))), ..self }
    }
}

/// Makes the file, so that later writes need no room.
pub(crate) fn prepare(directory: &Directory) -> Result<(), Failure> {
    update(directory, |request| request).map(drop)
}

/// What is asked now. Waits for nobody: who writes may be stopped.
///
/// # Errors
/// InvalidData while it is being written; else as of the disk.
pub(crate) fn read(directory: &Directory) -> Result<Request, Failure> {
    let path = directory.join("request");
    let read = || match File::open(&path) {
        Ok(file) => decode(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Request::default()),
        Err(error) => Err(error),
    };
    read().during(|| format!("reading `{}`", path.display()))
}

/// Changes what is asked. Gives what was asked before, and what is now.
pub(crate) fn update(
    directory: &Directory,
    change: impl FnOnce(Request) -> Request,
) -> Result<(Request, Request), Failure> {
    let path = directory.join("request");
    let update = || {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        let file = lock(file)?;
        let before = decode(&file)?;
        let request = change(before);
        let mut bytes = serde_json::to_vec(&request)?;
        bytes.resize(SIZE, b' ');
        file.write_all_at(&bytes, 0)?;
        Ok((before, request))
    };
    let updated: io::Result<(Request, Request)> = update();
    updated.during(|| format!("writing `{}`", path.display()))
}

fn decode(mut file: &File) -> io::Result<Request> {
    let mut bytes = Vec::with_capacity(SIZE);
    io::Read::read_to_end(&mut file, &mut bytes)?;
    if bytes.is_empty() {
        return Ok(Request::default());
    }
    serde_json::from_slice(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn lock(file: File) -> io::Result<Flock<File>> {
    let mut file = file;
    loop {
        match Flock::lock(file, FlockArg::LockExclusive) {
            Ok(locked) => return Ok(locked),
            Err((back, Errno::EINTR)) => file = back,
            Err((_, error)) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_add_up_in_a_file_of_one_size() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::new(dir.path());
        assert_eq!(read(&directory).unwrap(), Request::default());
        update(&directory, |request| Request { frozen: true, ..request }).unwrap();
        update(&directory, |request| request.stopped(Duration::from_secs(30))).unwrap();
        update(&directory, |request| request.stopped(Duration::from_secs(1))).unwrap();
        update(&directory, |request| request.stopped(Duration::MAX)).unwrap();
        assert_eq!(read(&directory).unwrap(), Request { stop: Some(1000), frozen: true });
        assert_eq!(std::fs::metadata(dir.path().join("request")).unwrap().len(), SIZE as u64);
    }
}
