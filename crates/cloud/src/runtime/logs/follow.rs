//! Waiting for more of a log. Owns one watch of the kernel on the directory of its files; never polls.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::net::unix::pipe;

use super::Stream;
use super::read::{Page, read};

/// Watches the files of a directory for writes (inotify).
#[derive(Debug)]
pub struct Changes {
    _watch: Inotify,
    /// The descriptor of the watch again. Events are read from it as bytes from a pipe; what they say does not matter.
    events: pipe::Receiver,
}

impl Changes {
    /// Begins to watch, also for files that are made later.
    ///
    /// # Errors
    /// Those of the file system, and too many watches of this user.
    pub fn watch(directory: &Path) -> io::Result<Self> {
        let watch = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let what = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_MODIFY;
        watch.add_watch(directory, what)?;
        let events = pipe::Receiver::from_owned_fd_unchecked(watch.as_fd().try_clone_to_owned()?)?;
        Ok(Self { _watch: watch, events })
    }

    /// Returns when something was written since this returned last. Dropping the future loses nothing.
    ///
    /// # Errors
    /// Those of the kernel.
    pub async fn next(&self) -> io::Result<()> {
        loop {
            self.events.readable().await?;
            match self.events.try_read(&mut [0; 4096]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A reader of a log file that is still being written, or not there yet.
///
/// The end of the log is known to nobody but the one who knows that the pod has ended: then [`read`] what is left from
/// [`Follower::offset`] on and stop.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    stream: Stream,
    offset: u64,
    changes: Changes,
}

impl Follower {
    /// Follows a log from byte `from` on. The directory of the file exists.
    ///
    /// # Errors
    /// Those of the file system, and too many watches of this user.
    pub fn new(path: &Path, stream: Stream, from: u64) -> io::Result<Self> {
        let changes = Changes::watch(path.parent().unwrap_or_else(|| Path::new("/")))?;
        Ok(Self { path: path.to_owned(), stream, offset: from, changes })
    }

    /// Where the next page begins.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next entries, as soon as there are any. Dropping the future loses nothing.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn next(&mut self) -> io::Result<Page> {
        loop {
            let page = read(&self.path, self.stream, self.offset)?;
            if page.next != self.offset {
                self.offset = page.next;
                return Ok(page);
            }
            self.changes.next().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn a_log_is_followed_from_before_it_exists() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.out");
        let mut follower = Follower::new(&path, Stream::Stdout, 0).unwrap();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut file = super::super::capture::open(&path).unwrap();
                for n in 0..100 {
                    writeln!(file, "1970-01-01T00:00:01.000Z {n}").unwrap();
                }
            }
        });
        let mut seen = Vec::new();
        while seen.len() < 100 {
            seen.extend(follower.next().await.unwrap().entries.into_iter().map(|entry| entry.text));
        }
        writer.join().unwrap();
        assert_eq!(seen, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
    }
}
