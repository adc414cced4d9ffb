//! Deployments that this machine knows: one folder each, with journal, plan and what a program needs besides.
//! Owns the folder's layout and finding deployments in it; only a journal's owner writes there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};
use orlop_core::machine::saga::SagaState;
use orlop_core::time::Time;
use serde_json::Value;

use super::drive::Orphan;
use super::journal::{Damaged, FileJournal, JournalError, Line, believable, replay};
use super::keep::write_private;
use super::keypair::remove_made;
use super::mark::DeploymentId;
use super::notes::Notes;
use super::order::DeploymentOrder;
use super::saga::{Saga, replayed};
use crate::durable::sync_directory;

/// Bytes of a journal or note that are read.
const MAX_FILE: u64 = 256 << 20;
/// Folders that are looked at.
const MAX_FOLDERS: usize = 100_000;
/// The name of the file beside the journal.
const NOTES: &str = "deployment.json";

/// A deployment that this machine knows.
#[derive(Debug, Clone)]
pub struct StoredDeployment {
    /// Its id.
    pub id: DeploymentId,
    /// Its folder.
    pub folder: PathBuf,
    /// As its journal tells.
    pub saga: Saga,
    /// The last line of its journal.
    pub last_seq: u64,
    /// When its journal begins.
    pub began: Time,
    /// What a program knows besides.
    pub notes: Notes,
    /// What is wrong with that, and what to do.
    pub trouble: Option<String>,
}

impl StoredDeployment {
    /// Notes how another request for the same name differs from the one this deployment was begun with.
    #[must_use]
    pub fn differences(&self, request: &Value) -> Vec<String> {
        let (was, is) = (self.notes.request.as_object(), request.as_object());
        let Some((was, is)) = was.zip(is) else { return Vec::new() };
        let text = |value: &Value| match value {
            Value::Null => "none".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let pairs = is.iter().filter_map(|(key, value)| Some((key, was.get(key)?, value)));
        let other = pairs.filter(|(_, was, is)| was != is);
        other.map(|(key, was, is)| format!("{key} {} (asked for now: {})", text(was), text(is))).collect()
    }

    /// Whether something of it may still be in the cloud.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !matches!(self.saga.state(), SagaState::Failed | SagaState::Destroyed)
    }
}

/// A deployment whose journal is damaged, as far as it can be told, taken for this process.
#[derive(Debug)]
pub struct Salvage {
    /// As the lines tell that can be believed, or, where these hold no plan, as one of which only the id is known.
    pub known: StoredDeployment,
    /// These lines; none if they hold no plan.
    pub lines: Vec<Line>,
    /// What is wrong.
    pub damage: Damaged,
    /// Whether its site and project are known.
    pub is_placed: bool,
    _held: Flock<File>,
}

/// A deployment that cannot be read, and why.
type Unread = (DeploymentId, JournalError);

/// The deployments of a state directory.
#[derive(Debug, Clone)]
pub struct DeploymentStore {
    folder: PathBuf,
}

fn storage(path: &Path, error: impl std::fmt::Display) -> JournalError {
    JournalError::Storage { what: format!("{}: {error}", path.display()) }
}

fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::options().read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn noted(path: &Path) -> io::Result<Notes> {
    Ok(serde_json::from_slice(&bytes_of(path)?)?)
}

/// Opens a file and takes it for this process.
fn held(options: &fs::OpenOptions, path: &Path, what: &str) -> Result<Flock<File>, JournalError> {
    let file = options.open(path).map_err(|error| storage(path, error))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        nix::errno::Errno::EWOULDBLOCK => JournalError::Locked { id: what.to_owned() },
        error => storage(path, error),
    })
}

impl DeploymentStore {
    /// The deployments below a folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder of a deployment.
    #[must_use]
    pub fn place(&self, id: &DeploymentId) -> PathBuf {
        self.folder.join(id.as_str())
    }

    /// A deployment by its id, without taking its journal from whoever writes it; nothing if no plan of it was ever written.
    /// Blocks.
    ///
    /// # Errors
    /// The journal is damaged or cannot be read.
    pub fn read(&self, id: &DeploymentId) -> Result<Option<StoredDeployment>, JournalError> {
        let folder = self.place(id);
        let path = folder.join("journal.jsonl");
        let bytes = match bytes_of(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(storage(&path, error)),
        };
        let (lines, _) = replay(&bytes)?;
        let Some(saga) = replayed(&lines) else { return Ok(None) };
        let path = folder.join(NOTES);
        let (notes, trouble) = match noted(&path) {
            Ok(notes) => (notes, None),
            Err(error) => {
                // The journal knows what was made, and where.
                let site = saga.choice().map(|choice| choice.site.clone()).unwrap_or_default();
                let trouble = format!(
                    "{}: {error}; site `{site}` is that of the journal, state file and private key are not known: restore the \
                     file, or remove the deployment with destroy {}",
                    path.display(),
                    saga.order().server_name
                );
                (Notes { site, ..Notes::default() }, Some(trouble))
            }
        };
        let began = lines.first().map_or(Time::EPOCH, |line: &Line| line.ts);
        Ok(Some(StoredDeployment {
            id: id.clone(),
            folder,
            saga,
            last_seq: lines.last().map_or(0, |line| line.seq),
            began,
            notes,
            trouble,
        }))
    }

    /// All deployments, the newest first, and what is wrong with those that cannot be read. Blocks.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn all(&self) -> Result<(Vec<StoredDeployment>, Vec<String>), JournalError> {
        let (found, damaged) = self.scan()?;
        let damaged = damaged.iter().map(|(id, error)| format!("deployment {id}: {error}"));
        let mut problems: Vec<String> = found.iter().filter_map(|known| known.trouble.clone()).chain(damaged).collect();
        problems.sort();
        Ok((found, problems))
    }

    /// All deployments, the newest first, and those that cannot be read.
    fn scan(&self) -> Result<(Vec<StoredDeployment>, Vec<Unread>), JournalError> {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        let entries = fs::read_dir(&self.folder).map_err(|error| storage(&self.folder, error))?;
        for entry in entries.take(MAX_FOLDERS) {
            let entry = entry.map_err(|error| storage(&self.folder, error))?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<DeploymentId>().ok()) else {
                continue;
            };
            match self.read(&id) {
                Ok(Some(known)) => found.push(known),
                Ok(None) => {}
                Err(error) => damaged.push((id, error)),
            }
        }
        found.sort_by_key(|known: &StoredDeployment| (std::cmp::Reverse(known.began), known.id.clone()));
        damaged.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok((found, damaged))
    }

    /// Of objects in the cloud those that no deployment here owns. One whose journal cannot be read owns what bears its mark:
    /// what became of it is not known. The objects must have been listed before. Blocks.
    ///
    /// # Errors
    /// The folder of this machine's deployments cannot be read.
    pub fn not_owned(&self, marked: Vec<Orphan>) -> Result<Vec<Orphan>, JournalError> {
        let mut owned: BTreeMap<DeploymentId, bool> = BTreeMap::new();
        for one in &marked {
            if !owned.contains_key(&one.deployment) {
                let is_owned = match self.read(&one.deployment) {
                    Ok(known) => known.is_some_and(|known| known.is_alive()),
                    Err(JournalError::Damaged(_)) => true,
                    Err(error) => return Err(error),
                };
                owned.insert(one.deployment.clone(), is_owned);
            }
        }
        Ok(marked.into_iter().filter(|one| owned.get(&one.deployment) != Some(&true)).collect())
    }

    /// Removes what runs left that were killed before a plan of theirs was written: nothing was asked of a cloud, but the private
    /// half of a key may be there. Gives what was removed, or could not be. Blocks.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn sweep_unbegun(&self) -> Result<Vec<String>, JournalError> {
        let mut removed = Vec::new();
        let entries = fs::read_dir(&self.folder).map_err(|error| storage(&self.folder, error))?;
        for entry in entries.take(MAX_FOLDERS) {
            let entry = entry.map_err(|error| storage(&self.folder, error))?;
            let id = entry.file_name().to_str().and_then(|name| name.parse::<DeploymentId>().ok());
            if let Some(id) = id.filter(|id| matches!(self.read(id), Ok(None))) {
                removed.extend(self.sweep(&id));
            }
        }
        Ok(removed)
    }

    fn sweep(&self, id: &DeploymentId) -> Option<String> {
        let folder = self.place(id);
        let notes: Notes = serde_json::from_slice(&bytes_of(&folder.join(NOTES)).ok()?).ok()?;
        // Whoever holds it is about to write its plan.
        let _held = FileJournal::open(&folder, id.as_str()).ok()?;
        if !matches!(self.read(id), Ok(None)) {
            return None;
        }
        let key = notes.key_file.as_deref().zip(notes.key_digest.as_deref());
        let removed = key.map_or(Ok(false), |(path, digest)| remove_made(Path::new(path), digest));
        let key = notes.key_file.unwrap_or_default();
        match removed.and_then(|had_key| fs::remove_dir_all(&folder).map(|()| had_key)) {
            Ok(true) => Some(format!("a run that was killed before it began left the key {key}; it is removed")),
            Ok(false) => None,
            Err(error) => Some(format!("a run that was killed left {} and {key}: {error}", folder.display())),
        }
    }

    /// What can still be told of a deployment whose journal is damaged, which is taken for this process; nothing if there is no such
    /// deployment, or its journal can be read. Blocks.
    ///
    /// # Errors
    /// Another process has its journal, or it cannot be opened.
    pub fn salvage(&self, id: &DeploymentId) -> Result<Option<Salvage>, JournalError> {
        let folder = self.place(id);
        let path = folder.join("journal.jsonl");
        let mut options = File::options();
        options.read(true).custom_flags(OFlag::O_NOFOLLOW.bits());
        if !matches!(self.read(id), Err(JournalError::Damaged(_))) {
            return Ok(None);
        }
        let held = held(&options, &path, id.as_str())?;
        // Whoever had it may have been done with it.
        let Err(JournalError::Damaged(damage)) = self.read(id) else { return Ok(None) };
        let lines = believable(&bytes_of(&path).map_err(|error| storage(&path, error))?);
        let notes = noted(&folder.join(NOTES));
        let is_noted = notes.is_ok();
        let notes = notes.unwrap_or_default();
        let (saga, lines) = match replayed(&lines) {
            Some(saga) => (saga, lines),
            None => (Saga::new(DeploymentOrder::to_remove(id.clone(), &notes.project_id), Vec::new()), Vec::new()),
        };
        let is_placed = is_noted && !saga.order().project_id.is_empty();
        let began = lines.first().map_or(Time::EPOCH, |line: &Line| line.ts);
        let last_seq = lines.last().map_or(0, |line| line.seq);
        let known = StoredDeployment { id: id.clone(), folder, saga, last_seq, began, notes, trouble: None };
        Ok(Some(Salvage { known, lines, damage, is_placed, _held: held }))
    }

    /// Sets a damaged deployment aside of which nothing is left, so that its name is free again. Its folder stays, for whoever wants
    /// to know what happened, under the name that is given. Blocks.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn set_aside(&self, salvage: Salvage) -> Result<PathBuf, JournalError> {
        let folder = &salvage.known.folder;
        let aside = (0_u32..).map(|number| match number {
            0 => folder.with_extension("damaged"),
            _ => folder.with_extension(format!("damaged-{number}")),
        });
        let aside = aside.into_iter().find(|path| !path.exists()).unwrap_or_else(|| folder.with_extension("damaged"));
        fs::rename(folder, &aside).map_err(|error| storage(folder, error))?;
        sync_directory(&self.folder).map_err(|error| storage(&self.folder, error))?;
        Ok(aside)
    }

    /// A deployment by its server's name or its id: the newest of which something may be left, else the newest. Blocks.
    ///
    /// # Errors
    /// The folder cannot be read; or of what has this name one cannot be read, so that nobody knows what is left of it.
    pub fn find(&self, name: &str) -> Result<Option<StoredDeployment>, JournalError> {
        if let Ok(id) = name.parse::<DeploymentId>()
            && let Some(known) = self.read(&id).map_err(|error| self.named(&id, error))?
        {
            return Ok(Some(known));
        }
        let (mut all, damaged) = self.scan()?;
        all.retain(|known| known.saga.order().server_name == name);
        if let Some(alive) = all.iter().position(StoredDeployment::is_alive) {
            return Ok(Some(all.swap_remove(alive)));
        }
        match damaged.into_iter().find(|(id, _)| self.noted_name(id).as_deref() == Some(name)) {
            Some((id, error)) => Err(self.named(&id, error)),
            None => Ok(all.into_iter().next()),
        }
    }

    /// The name of a server as it was noted beside the journal.
    fn noted_name(&self, id: &DeploymentId) -> Option<String> {
        noted(&self.place(id).join(NOTES)).ok().map(|notes| notes.server_name).filter(|name| !name.is_empty())
    }

    /// An error with what has to be known to go on.
    fn named(&self, id: &DeploymentId, error: JournalError) -> JournalError {
        match error {
            JournalError::Damaged(damage) => {
                let name = self.noted_name(id).unwrap_or_else(|| "unknown name".to_owned());
                JournalError::Unreadable { id: id.to_string(), name, damage }
            }
            other => other,
        }
    }

    /// Keeps what a program has to know of a deployment, and at its beginning the plan. Blocks.
    ///
    /// # Errors
    /// What the file system says.
    pub fn note(&self, id: &DeploymentId, notes: &Notes, plan: Option<&Value>) -> Result<(), JournalError> {
        let folder = self.place(id);
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| storage(&folder, error))?;
        let write = |name: &str, bytes: serde_json::Result<Vec<u8>>| {
            let path = folder.join(name);
            let bytes = bytes.map_err(|error| storage(&path, error))?;
            write_private(&path, &bytes).map_err(|error| storage(&path, error))
        };
        if let Some(plan) = plan {
            write("plan.json", serde_json::to_vec_pretty(plan))?;
        }
        write(NOTES, serde_json::to_vec_pretty(notes))
    }

    /// Takes the name of a server for this process, so that no other begins a deployment of that name. Blocks.
    ///
    /// # Errors
    /// Another process has it, or the disk refuses.
    pub fn take_name(&self, name: &str) -> Result<NameLock, JournalError> {
        let folder = self.folder.join("names");
        let path = folder.join(format!("{name}.lock"));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(|error| storage(&folder, error))?;
        let mut options = File::options();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        Ok(NameLock { _held: held(&options, &path, name)? })
    }
}

/// The name of a server, taken until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct NameLock {
    _held: Flock<File>,
}

#[cfg(test)]
mod tests;
