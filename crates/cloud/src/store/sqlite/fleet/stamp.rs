//! The stamp of a store: a small file beside it with its id, its newest epoch and the number of its commits. With it a server
//! recognises a file that is empty, another store, an older copy, or that lost the end of its log; a file that is removed or
//! replaced while it is open is recognised by its device and inode.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use orlop_core::error::{Class, Problem};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use crate::store::sqlite::error::CallError;
use crate::store::sqlite::open::{beside, sync_folder};

/// The reason of an error about a store that is not the one that was here.
pub(super) const NOT_THE_SAME: &str = "NotTheSame";

/// Where the stamp of a store is. Its name begins with a dot, so that moving or copying `fleet.db*` leaves it where it is.
fn place(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(suffix);
    path.with_file_name(name)
}

/// What the stamp says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StampContent {
    store: String,
    epoch: u64,
    commits: u64,
}

impl StampContent {
    /// Always as long, so that it is written over in place.
    fn text(&self) -> String {
        format!("{} {:020} {:020}\n", self.store, self.epoch, self.commits)
    }

    fn read(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let (store, epoch, commits) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { store: store.to_owned(), epoch, commits })
    }
}

/// A file as it was opened: its device and inode.
type FileId = (u64, u64);

fn file_id(path: &Path) -> io::Result<FileId> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// See the module.
#[derive(Debug)]
pub(super) struct Stamp {
    file: File,
    known: StampContent,
    /// The database and its log, each with its device and inode.
    database: (PathBuf, FileId),
    log: (PathBuf, Option<FileId>),
    /// Commits that were missing when it was opened.
    pub(super) lost: u64,
}

fn number(connection: &Connection, key: &str) -> rusqlite::Result<Option<u64>> {
    let text: Option<String> =
        connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional()?;
    Ok(text.and_then(|text| text.parse().ok()))
}

fn epoch(connection: &Connection) -> rusqlite::Result<u64> {
    let epoch: Option<i64> = connection.query_row("SELECT epoch FROM leader", [], |row| row.get(0)).optional()?;
    Ok(epoch.map_or(0, i64::cast_unsigned))
}

/// What a database says of itself; it gets an id where it has none. Also whether it has none.
fn of_database(connection: &mut Connection) -> rusqlite::Result<(StampContent, bool)> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let store: Option<String> =
        transaction.query_row("SELECT value FROM meta WHERE key = 'store'", [], |row| row.get(0)).optional()?;
    let (store, fresh) = match store {
        Some(store) => (store, false),
        None => {
            let made: String = transaction.query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0))?;
            transaction.execute("INSERT INTO meta (key, value) VALUES ('store', ?1)", [&made])?;
            (made, true)
        }
    };
    let known = StampContent {
        store,
        epoch: epoch(&transaction)?,
        commits: number(&transaction, "commits")?.unwrap_or_default(),
    };
    transaction.commit()?;
    Ok((known, fresh))
}

/// Counts a transaction, within it.
pub(super) fn count(connection: &Connection, commits: u64) -> Result<(), CallError> {
    let mut statement = connection.prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES ('commits', ?1)")?;
    statement.execute([commits.to_string()])?;
    Ok(())
}

impl Stamp {
    /// Compares a database that was just opened with what is known of the one that was here. `accept`: whatever it is, it is taken; its
    /// epochs go on above those that were seen.
    ///
    /// # Errors
    /// Invalid with [`NOT_THE_SAME`] where it is not the same or an older one; those of the file system.
    pub(super) fn open(path: &Path, connection: &mut Connection, accept: bool) -> Result<Self, Problem> {
        let sqlite = |error: rusqlite::Error| CallError::from(error).into_problem("fleet store", path, "opening");
        let at = place(path, ".stamp");
        let system = |error: io::Error| {
            let class = Problem::from(io::Error::from(error.kind())).class;
            Problem::new(class, format!("{} cannot be used", at.display())).because(error)
        };
        let mut text = String::new();
        let before = match File::open(&at) {
            Ok(file) => {
                file.take(4096).read_to_string(&mut text).map_err(system)?;
                Some(StampContent::read(&text))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(system(error)),
        };
        let mut lost = 0;
        let (mut known, fresh) = of_database(connection).map_err(sqlite)?;
        let wrong = match &before {
            None => None,
            Some(None) => Some(format!("{} cannot be read", at.display())),
            Some(Some(before)) if fresh => {
                Some(format!("it is empty, and the one that was here had epoch {}", before.epoch))
            }
            Some(Some(before)) if before.store != known.store => {
                Some(format!("it is another store ({}) than the one that was here ({})", known.store, before.store))
            }
            Some(Some(before)) if before.epoch > known.epoch => {
                let (seen, now) = (before.epoch, known.epoch);
                Some(format!("it is older than the one that was here: its epoch is {now}, and {seen} was seen"))
            }
            Some(Some(before)) => {
                lost = before.commits.saturating_sub(known.commits);
                if lost > 0 {
                    let path = path.display();
                    tracing::error!(
                        %path, lost,
                        "the end of the store's log is missing: its last commits are lost, with jobs and results that were acknowledged"
                    );
                }
                None
            }
        };
        if let Some(wrong) = wrong {
            if !accept {
                if fresh {
                    // So that it is as empty the next time.
                    connection.execute("DELETE FROM meta WHERE key = 'store'", []).map_err(sqlite)?;
                }
                return Err(refused(path, &wrong));
            }
            let seen = before.flatten().map_or(0, |before| before.epoch);
            known.epoch = known.epoch.max(seen);
            let taken = i64::try_from(known.epoch).unwrap_or(i64::MAX);
            let sql = "INSERT INTO leader (id, holder, url, epoch) VALUES (1, '', '', ?1) ON CONFLICT (id) DO UPDATE SET epoch = ?1";
            connection.execute(sql, params![taken]).map_err(sqlite)?;
            let path = path.display();
            tracing::warn!(%path, "the store is taken as it is: {wrong}");
        }
        // Whole from the first moment on: a server that is killed here leaves the old one or the new one.
        let half = place(path, ".stamp.new");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&half).map_err(system)?;
        let database = (path.to_owned(), file_id(path).map_err(system)?);
        let log = beside(path, "-wal");
        let stamp = Self { file, known, database, log: (log.clone(), file_id(&log).ok()), lost };
        let whole = stamp.write().and_then(|()| stamp.file.sync_all()).and_then(|()| std::fs::rename(&half, &at));
        whole.map_err(system)?;
        sync_folder("fleet store", &at)?;
        Ok(stamp)
    }

    fn write(&self) -> io::Result<()> {
        self.file.write_all_at(self.known.text().as_bytes(), 0)
    }

    /// Before a transaction: the file is still where it was opened. Gives the number of the transaction.
    ///
    /// # Errors
    /// Denied where it was removed or replaced.
    pub(super) fn check(&mut self) -> Result<u64, Problem> {
        let (path, opened) = &self.database;
        let (log, opened_log) = &mut self.log;
        let found = file_id(log).ok();
        let same_log = opened_log.is_none() || *opened_log == found;
        *opened_log = opened_log.or(found);
        if file_id(path).is_ok_and(|found| found == *opened) && same_log {
            return Ok(self.known.commits + 1);
        }
        let text = format!(
            "fleet store {} was removed or replaced while the server has it open: nothing is written any more. Stop the server, \
             put the file and its log ({}) back as they were, or restore a backup, and start it again",
            path.display(),
            log.display()
        );
        Err(Problem::new(Class::Denied, text))
    }

    /// After a transaction.
    pub(super) fn committed(&mut self, number: u64, path: &Path) {
        self.known.commits = number;
        if let Err(error) = self.write() {
            let path = path.display();
            tracing::warn!(%path, %error, "the state file of the store cannot be written");
        }
    }

    /// An epoch was taken: nothing older is the same store.
    pub(super) fn acquired(&mut self, epoch: u64, path: &Path) {
        self.known.epoch = epoch;
        let written = self.write().and_then(|()| self.file.sync_all());
        if let Err(error) = written {
            let path = path.display();
            tracing::warn!(%path, %error, "the state file of the store cannot be written");
        }
    }
}

fn refused(path: &Path, wrong: &str) -> Problem {
    let text = format!(
        "fleet store {} is not the one that was here: {wrong}. Put the right file back, or restore a backup. To \
         continue with this one and discard what the other held, start once with --accept-store (`orlop scheduler`: \
         --store-accept=true)",
        path.display()
    );
    Problem::new(Class::Invalid, text).with_reason(NOT_THE_SAME)
}
