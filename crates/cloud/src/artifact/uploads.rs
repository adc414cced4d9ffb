//! The fleet's artifacts on a server's disk: uploads that grow piece by piece until they are whole, and what is whole by its
//! SHA-256. Owns these files, offsets and digests; whose an artifact is and how long it is kept is the server's. All calls
//! block: asynchronous code makes them on a thread that may.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use orlop_core::error::{Class, Code, Problem};
use sha2::{Digest as _, Sha256};
use tempfile::{NamedTempFile, TempPath};

use super::error::{reading, writing};
use super::meter::Meter;
use super::store::Files;
use super::{Limits, unpack};

/// The fleet's artifacts below a folder. Clones share it.
#[derive(Clone, Debug)]
pub struct UploadStore {
    files: Arc<Files>,
    uploads: PathBuf,
}

/// There is no such upload.
#[must_use]
pub fn unknown_upload() -> Problem {
    Problem::coded(Code::NotFound, "upload not found; start a new one")
}

/// A piece that does not begin where its upload ends, at the field `offset`.
#[must_use]
pub fn wrong_offset(stored: u64) -> Problem {
    Problem::coded(Code::Conflict, format!("{stored} bytes are stored; continue at this offset"))
        .at_field("offset", stored.to_string())
}

/// Content that is not what was announced.
pub(crate) fn wrong_checksum(found: &str, announced: &str) -> Problem {
    Problem::coded(Code::Checksum, format!("its SHA-256 is {found}, not {announced}; send it again"))
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(|half| char::from_digit(half.into(), 16)).collect()
}

/// The SHA-256 of a file's content, and its length.
///
/// # Errors
/// What the file system says.
pub fn digest(file: &mut File) -> io::Result<(String, u64)> {
    file.seek(SeekFrom::Start(0))?;
    digest_of(file)
}

/// The SHA-256 of what a reader gives to its end, and its length.
///
/// # Errors
/// What the reader says.
pub fn digest_of(file: &mut impl Read) -> io::Result<(String, u64)> {
    let (mut hash, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 256 << 10]);
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => return Ok((hex(&hash.finalize()), bytes)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(buffer.get(..read).unwrap_or_default());
        bytes += read as u64;
    }
}

/// Names in a folder; none when it is not there.
fn names(folder: &Path) -> Result<Vec<String>, Problem> {
    let failed = |error| reading(folder, error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
    names.filter_map(Result::transpose).collect::<io::Result<_>>().map_err(failed)
}

/// What a delivered file may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileMode {
    /// It is read.
    ReadOnly,
    /// It is read, and run.
    Executable,
}

/// The least recently used goes first; a time that cannot be written spoils that order only.
fn used(stored: &File) {
    drop(stored.set_modified(SystemTime::now()));
}

/// Whether a text is a SHA-256 as this store names them.
pub(crate) fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl UploadStore {
    /// Opens the artifacts in a folder, which is made when it is not there.
    ///
    /// # Errors
    /// Denied without rights to it; Capacity when the disk is full.
    pub fn open(folder: &Path) -> Result<Self, Problem> {
        let uploads = folder.join("uploads");
        fs::create_dir_all(&uploads).map_err(|error| writing(&uploads, error))?;
        Ok(Self { files: Arc::new(Files::open(folder)?), uploads })
    }

    /// Where an upload grows; none when the text is no name of one.
    fn place(&self, upload: &str) -> Result<PathBuf, Problem> {
        let good = !upload.is_empty() && upload.len() <= 64 && upload.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if good { Ok(self.uploads.join(upload)) } else { Err(unknown_upload()) }
    }

    /// Begins an upload under a name of letters and digits that is not used yet.
    ///
    /// # Errors
    /// The disk.
    pub fn begin(&self, upload: &str) -> Result<(), Problem> {
        let place = self.place(upload)?;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&place);
        made.map(drop).map_err(|error| writing(&place, error))
    }

    /// How many bytes of an upload are stored.
    ///
    /// # Errors
    /// NotFound; the disk.
    pub fn received(&self, upload: &str) -> Result<u64, Problem> {
        let place = self.place(upload)?;
        match fs::symlink_metadata(&place) {
            Ok(found) => Ok(found.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unknown_upload()),
            Err(error) => Err(reading(&place, error)),
        }
    }

    /// Adds a piece to an upload, which ends at its offset. Gives how many bytes are stored then.
    ///
    /// # Errors
    /// Conflict when it does not begin where the stored bytes end; NotFound; the disk.
    pub fn append(&self, upload: &str, offset: u64, bytes: &[u8]) -> Result<u64, Problem> {
        let stored = self.received(upload)?;
        if stored != offset {
            return Err(wrong_offset(stored));
        }
        let place = self.place(upload)?;
        let failed = |error| writing(&place, error);
        let mut file = OpenOptions::new().append(true).open(&place).map_err(failed)?;
        if let Err(error) = file.write_all(bytes) {
            // Half a piece is none.
            drop(file.set_len(stored));
            return Err(failed(error));
        }
        Ok(stored + bytes.len() as u64)
    }

    /// Reads a whole upload and compares its digest.
    ///
    /// # Errors
    /// Checksum, after which the upload is gone; NotFound; the disk.
    pub fn check(&self, upload: &str, sha256: &str) -> Result<(), Problem> {
        self.received(upload)?;
        let place = self.place(upload)?;
        let failed = |error| reading(&place, error);
        let mut file = File::open(&place).map_err(failed)?;
        let (found, _) = digest(&mut file).map_err(failed)?;
        if found == sha256 {
            // What is on disk already need not be waited for when it is kept.
            return file.sync_all().map_err(|error| writing(&place, error));
        }
        self.discard(upload)?;
        Err(wrong_checksum(&found, sha256))
    }

    /// Ends an upload that was checked and did not grow since: from then on its content is there by its digest. Gives its length.
    ///
    /// # Errors
    /// NotFound; the disk.
    pub fn finish(&self, upload: &str, sha256: &str) -> Result<u64, Problem> {
        let bytes = self.received(upload)?;
        let place = self.place(upload)?;
        let failed = |error| reading(&place, error);
        let (file, half) = (File::open(&place).map_err(failed)?, TempPath::try_from_path(&place).map_err(failed)?);
        self.files.keep(NamedTempFile::from_parts(file, half), sha256)?;
        Ok(bytes)
    }

    /// Gives an upload up. One that is not there is fine.
    ///
    /// # Errors
    /// The disk.
    pub fn discard(&self, upload: &str) -> Result<(), Problem> {
        let place = self.place(upload)?;
        match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(writing(&place, error)),
            _ => Ok(()),
        }
    }

    /// The content of an artifact with its length; none when it is not here.
    ///
    /// # Errors
    /// The disk.
    pub fn read(&self, sha256: &str) -> Result<Option<(File, u64)>, Problem> {
        if !is_digest(sha256) {
            return Ok(None);
        }
        let place = self.files.place(sha256);
        let opened = File::open(&place).and_then(|file| file.metadata().map(|found| (file, found.len())));
        match opened {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(reading(&place, error)),
        }
    }

    /// Takes a file in that is whole, such as one that was fetched, if its content has this digest.
    ///
    /// # Errors
    /// Invalid when it has not; the disk.
    pub fn adopt(&self, file: NamedTempFile, sha256: &str) -> Result<(), Problem> {
        let place = file.path().to_owned();
        let (found, _) = digest(&mut file.reopen().map_err(|error| reading(&place, error))?)
            .map_err(|error| reading(&place, error))?;
        if found != sha256 {
            return Err(Problem::new(Class::Invalid, format!("what was fetched is {found}, not {sha256}")));
        }
        self.files.keep(file, sha256)
    }

    /// A file to fetch something into, which goes away by itself unless it is adopted.
    ///
    /// # Errors
    /// The disk.
    pub fn unfinished(&self) -> Result<NamedTempFile, Problem> {
        self.files.unfinished()
    }

    /// Copies content to a place where nothing is, never to be written, if it is here and is what its digest says; what is
    /// damaged is removed. False when it is not here.
    ///
    /// # Errors
    /// The disk.
    pub fn deliver(&self, sha256: &str, target: &Path, mode: FileMode) -> Result<bool, Problem> {
        let Some((mut stored, _)) = self.read(sha256)? else { return Ok(false) };
        match fs::remove_file(target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(writing(target, error)),
            _ => {}
        }
        let failed = |error| writing(target, error);
        let mut copy = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(target);
        let copy = copy.as_mut().map_err(|error| writing(target, io::Error::from(error.kind())))?;
        io::copy(&mut stored, copy).map_err(failed)?;
        if digest(copy).map_err(failed)?.0 != sha256 {
            fs::remove_file(target).map_err(failed)?;
            return self.damaged(sha256);
        }
        let mode = match mode {
            FileMode::ReadOnly => 0o444,
            FileMode::Executable => 0o555,
        };
        copy.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
        used(&stored);
        Ok(true)
    }

    /// Puts the content of a folder that was packed as tar into a folder, beside what is there, if it is here and is what its
    /// digest says; what is damaged is removed. False when it is not here.
    ///
    /// # Errors
    /// Invalid when it is no such archive, one of its links leads out of it, or something else is at a place that it needs;
    /// the disk.
    pub fn unpack(&self, sha256: &str, folder: &Path) -> Result<bool, Problem> {
        let Some((mut stored, _)) = self.read(sha256)? else { return Ok(false) };
        if digest(&mut stored).map_err(|error| reading(&self.files.place(sha256), error))?.0 != sha256 {
            return self.damaged(sha256);
        }
        used(&stored);
        unpack::into_folder(stored, folder, &mut Meter::of_one_call(Limits::default()))?;
        Ok(true)
    }

    /// Removes content that is not what its digest says, as if it had not been here.
    fn damaged(&self, sha256: &str) -> Result<bool, Problem> {
        tracing::warn!(sha256, "a stored artifact is damaged; it is removed");
        self.remove(sha256)?;
        Ok(false)
    }

    /// Removes what was used least recently until the rest has at most so many bytes.
    ///
    /// # Errors
    /// The disk.
    pub fn shrink(&self, limit: u64) -> Result<(), Problem> {
        let mut all = self.files.all().map_err(|error| reading(&self.uploads, error))?;
        let mut total: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
        all.sort_by_key(|(.., used)| *used);
        for (path, bytes, _) in all {
            if total <= limit {
                break;
            }
            fs::remove_file(&path).map_err(|error| writing(&path, error))?;
            total -= bytes;
        }
        Ok(())
    }

    /// Names of the uploads whose files are here.
    ///
    /// # Errors
    /// The disk.
    pub fn uploads(&self) -> Result<Vec<String>, Problem> {
        names(&self.uploads)
    }

    /// Digests of the artifacts that are here and begin with a byte.
    ///
    /// # Errors
    /// The disk.
    pub fn shard(&self, first: u8) -> Result<Vec<String>, Problem> {
        let first = format!("{first:02x}");
        let digests = names(&self.files.shard(&first))?.into_iter().map(|rest| format!("{first}{rest}"));
        Ok(digests.filter(|digest| is_digest(digest)).collect())
    }

    /// Removes an artifact. One that is not there is fine; who reads it reads on.
    ///
    /// # Errors
    /// The disk.
    pub fn remove(&self, sha256: &str) -> Result<(), Problem> {
        if !is_digest(sha256) {
            return Ok(());
        }
        let place = self.files.place(sha256);
        match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(writing(&place, error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::suite::HELLO;

    fn store() -> (tempfile::TempDir, UploadStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = UploadStore::open(folder.path()).unwrap();
        (folder, store)
    }

    #[test]
    fn artifacts_in_a_folder_pass_the_suite() {
        let folder = tempfile::tempdir().unwrap();
        crate::artifact::suite::check(&mut || Box::new(UploadStore::open(folder.path()).unwrap()));
        let store = UploadStore::open(folder.path()).unwrap();
        assert_eq!(store.adopt(store.unfinished().unwrap(), HELLO).unwrap_err().class, Class::Invalid);
    }

    #[test]
    fn a_cache_delivers_what_is_whole_and_forgets_what_was_not_used() {
        let (folder, store) = store();
        let put = |text: &str| {
            let mut file = store.unfinished().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let sha256 = digest(&mut file.reopen().unwrap()).unwrap().0;
            store.adopt(file, &sha256).unwrap();
            sha256
        };
        let (old, new) = (put("hello"), put("other"));
        let target = folder.path().join("here");
        assert!(
            store.deliver(&old, &target, FileMode::ReadOnly).unwrap()
                && store.deliver(&old, &target, FileMode::ReadOnly).unwrap(),
            "again is fine"
        );
        assert_eq!(fs::read_to_string(&target).unwrap(), "hello");
        assert!(fs::metadata(&target).unwrap().permissions().readonly());
        store.shrink(5).unwrap();
        assert!(
            store.read(&new).unwrap().is_none() && store.read(&old).unwrap().is_some(),
            "the current one stays in use"
        );
        let place = store.files.place(&old);
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&place, "damaged").unwrap();
        assert!(!store.deliver(&old, &target, FileMode::ReadOnly).unwrap() && store.read(&old).unwrap().is_none());
    }

    #[test]
    fn names_and_digests_lead_nowhere_else() {
        let (_folder, store) = store();
        for name in ["", "..", "a/b", "../x", &"x".repeat(65)] {
            assert!(store.begin(name) == Err(unknown_upload()), "{name:?}");
        }
        assert!(store.read("../../etc/passwd").unwrap().is_none());
        store.remove("../x").unwrap();
    }
}
