//! Deployments that this machine knows: one folder each, with journal, plan and what a program needs besides (provisioner
//! contract, chapter 1, State). Owns the folder's layout and finding deployments in it; only a journal's owner writes there.

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
use super::journal::{FileJournal, JournalError, Line, replay};
use super::keep::write_private;
use super::keypair::remove_made;
use super::mark::DeploymentId;
use super::notes::Notes;
use super::saga::{Saga, replayed};

/// Bytes of a journal or note that are read.
const MAX_FILE: u64 = 256 << 20;
/// Folders that are looked at.
const MAX_FOLDERS: usize = 100_000;
/// The name of the file beside the journal.
const NOTES: &str = "deployment.json";

/// A deployment that this machine knows.
#[derive(Debug, Clone)]
pub struct Known {
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

impl Known {
    /// Notes how another request for the same name differs from the one this deployment was begun with.
    #[must_use]
    pub fn differences(&self, request: &Value) -> Vec<String> {
        let (was, is) = (self.notes.request.as_object(), request.as_object());
        let Some((was, is)) = was.zip(is) else { return Vec::new() };
        let shown = |value: &Value| match value {
            Value::Null => "none".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let pairs = is.iter().filter_map(|(key, value)| Some((key, was.get(key)?, value)));
        let other = pairs.filter(|(_, was, is)| was != is);
        other.map(|(key, was, is)| format!("{key} {} (asked for now: {})", shown(was), shown(is))).collect()
    }

    /// Whether something of it may still be in the cloud.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !matches!(self.saga.state(), SagaState::Failed | SagaState::Destroyed)
    }
}

/// The deployments of a state directory.
#[derive(Debug, Clone)]
pub struct Shelf {
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

impl Shelf {
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
    pub fn read(&self, id: &DeploymentId) -> Result<Option<Known>, JournalError> {
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
        Ok(Some(Known {
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
    pub fn all(&self) -> Result<(Vec<Known>, Vec<String>), JournalError> {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        let entries = fs::read_dir(&self.folder).map_err(|error| storage(&self.folder, error))?;
        for entry in entries.take(MAX_FOLDERS) {
            let entry = entry.map_err(|error| storage(&self.folder, error))?;
            let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<DeploymentId>().ok()) else {
                continue;
            };
            match self.read(&id) {
                Ok(Some(known)) => {
                    damaged.extend(known.trouble.clone());
                    found.push(known);
                }
                Ok(None) => {}
                Err(error) => damaged.push(format!("deployment {id}: {error}")),
            }
        }
        found.sort_by_key(|known: &Known| (std::cmp::Reverse(known.began), known.id.clone()));
        damaged.sort();
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
        let mut told = Vec::new();
        let entries = fs::read_dir(&self.folder).map_err(|error| storage(&self.folder, error))?;
        for entry in entries.take(MAX_FOLDERS) {
            let entry = entry.map_err(|error| storage(&self.folder, error))?;
            let id = entry.file_name().to_str().and_then(|name| name.parse::<DeploymentId>().ok());
            if let Some(id) = id.filter(|id| matches!(self.read(id), Ok(None))) {
                told.extend(self.sweep(&id));
            }
        }
        Ok(told)
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

    /// A deployment by its server's name or its id: the newest of which something may be left, else the newest. Blocks.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn find(&self, name: &str) -> Result<Option<Known>, JournalError> {
        if let Ok(id) = name.parse::<DeploymentId>()
            && let Some(known) = self.read(&id)?
        {
            return Ok(Some(known));
        }
        let of_name = |known: &Known| known.saga.order().server_name == name;
        let mut all: Vec<Known> = self.all()?.0.into_iter().filter(of_name).collect();
        let alive = all.iter().position(Known::is_alive).unwrap_or(0);
        Ok((alive < all.len()).then(|| all.swap_remove(alive)))
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
        let file = options.open(&path).map_err(|error| storage(&path, error))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
            nix::errno::Errno::EWOULDBLOCK => JournalError::Locked { id: name.to_owned() },
            error => storage(&path, error),
        })?;
        Ok(NameLock { _held: lock })
    }
}

/// The name of a server, taken until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct NameLock {
    _held: Flock<File>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provision::journal::{Entry, FileJournal, Journal as _};
    use crate::provision::order::Order;

    fn id(name: &str) -> DeploymentId {
        DeploymentId::new(name, "project", "nonce")
    }

    async fn begun(shelf: &Shelf, nonce: &str, name: &str, at: i64, state: SagaState) -> DeploymentId {
        let id = id(nonce);
        shelf.note(&id, &Notes { site: "uc".into(), ..Notes::default() }, None).unwrap();
        let journal = FileJournal::open(&shelf.place(&id), id.as_str()).unwrap();
        let order = Order { server_name: name.to_owned(), ..Order::to_remove(id.clone(), "project") };
        let time = Time::from_millis(at);
        journal.append(time, 1, &Entry::Open { version: "0".into(), nonce: nonce.into() }).await.unwrap();
        journal.append(time, 1, &Entry::Plan(Box::new(order))).await.unwrap();
        journal.append(time, 1, &Entry::Observed { state, destroy: false, failure: None }).await.unwrap();
        id
    }

    #[tokio::test]
    async fn s1_a_deployment_is_found_by_name_the_living_first_and_by_id() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path());
        let alive = begun(&shelf, "a", "demo", 1000, SagaState::Ready).await;
        let gone = begun(&shelf, "b", "demo", 2000, SagaState::Destroyed).await;
        begun(&shelf, "c", "other", 3000, SagaState::Ready).await;
        assert_eq!(shelf.find("demo").unwrap().unwrap().id, alive);
        assert_eq!(shelf.find(gone.as_str()).unwrap().unwrap().id, gone);
        assert!(shelf.find("nothing").unwrap().is_none() && shelf.read(&id("z")).unwrap().is_none());
        let (all, damaged) = shelf.all().unwrap();
        let names: Vec<&str> = all.iter().map(|known| known.saga.order().server_name.as_str()).collect();
        assert_eq!((names, damaged.len()), (vec!["other", "demo", "demo"], 0));
        assert_eq!(all.first().unwrap().notes.site, "uc");
    }

    #[tokio::test]
    async fn s1_a_damaged_deployment_is_told_and_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path());
        let good = begun(&shelf, "a", "demo", 1000, SagaState::Ready).await;
        let bad = begun(&shelf, "b", "other", 2000, SagaState::Ready).await;
        let path = shelf.place(&bad).join("journal.jsonl");
        let text = fs::read_to_string(&path).unwrap().replacen("nonce", "ponce", 1);
        fs::write(&path, text).unwrap();
        let (all, damaged) = shelf.all().unwrap();
        assert_eq!((all.len(), all.first().unwrap().id.clone()), (1, good));
        assert!(damaged.first().unwrap().contains("damaged at line 1"), "{damaged:?}");
    }

    /// Else removing what nobody owns would remove a server that only its journal has lost.
    #[tokio::test]
    async fn s7_what_a_damaged_journal_may_own_is_nobodys_orphan() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path());
        let alive = begun(&shelf, "a", "demo", 1000, SagaState::Ready).await;
        let gone = begun(&shelf, "b", "other", 2000, SagaState::Destroyed).await;
        let bad = begun(&shelf, "c", "third", 3000, SagaState::Ready).await;
        let path = shelf.place(&bad).join("journal.jsonl");
        fs::write(&path, fs::read_to_string(&path).unwrap().replacen("nonce", "ponce", 1)).unwrap();
        let unknown = id("z");
        let orphan = |deployment: &DeploymentId| Orphan {
            deployment: deployment.clone(),
            kind: crate::provision::journal::Kind::Server,
            id: "server".into(),
            name: "n".into(),
        };
        let marked = [&alive, &gone, &bad, &unknown, &bad].map(orphan).to_vec();
        let left: Vec<DeploymentId> = shelf.not_owned(marked).unwrap().into_iter().map(|one| one.deployment).collect();
        assert_eq!(left, [gone, unknown]);
    }

    #[test]
    fn s7_a_name_belongs_to_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path());
        let first = shelf.take_name("demo").unwrap();
        assert!(matches!(shelf.take_name("demo"), Err(JournalError::Locked { .. })));
        let other = shelf.take_name("other").unwrap();
        drop(first);
        let again = shelf.take_name("demo").unwrap();
        drop((other, again));
    }

    #[tokio::test]
    async fn s7_notes_that_are_damaged_or_gone_hide_no_deployment_and_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path());
        for (nonce, damage) in [("a", Some("{\"site\": ")), ("b", None)] {
            let id = begun(&shelf, nonce, nonce, 1000, SagaState::Ready).await;
            let path = shelf.place(&id).join(NOTES);
            match damage {
                Some(text) => fs::write(&path, text).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let known = shelf.find(nonce).unwrap().unwrap();
            assert!(known.id == id && known.is_alive(), "it is there, so no other one of its name begins");
            let trouble = known.trouble.unwrap();
            assert!(trouble.contains(NOTES) && trouble.ends_with(&format!("destroy {nonce}")), "{trouble}");
            assert!(shelf.all().unwrap().1.contains(&trouble), "a list tells it too");
        }
    }

    #[tokio::test]
    async fn s7_a_key_whose_deployment_never_began_is_removed_and_nothing_else() {
        use crate::provision::keypair::KeyPair;
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(folder.path().join("state"));
        let keys = folder.path();
        let noted = |nonce: &str| {
            let (id, pair, path) = (id(nonce), KeyPair::make(nonce).unwrap(), keys.join(nonce));
            let key_file = Some(path.display().to_string());
            let notes = Notes { key_file, key_digest: Some(pair.digest()), ..Notes::default() };
            shelf.note(&id, &notes, None).unwrap();
            pair.save(&path).unwrap();
            (id, path)
        };
        let (killed, key) = noted("killed");
        let (living, living_key) = noted("living");
        let held = FileJournal::open(&shelf.place(&living), living.as_str()).unwrap();
        let (other, foreign) = noted("other");
        fs::write(&foreign, "somebody's").unwrap();
        let (ready, ready_key) = noted("ready");
        begun(&shelf, "ready", "demo", 1000, SagaState::Ready).await;
        let told = shelf.sweep_unbegun().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&key.display().to_string()), "{told:?}");
        assert!(!key.exists() && !shelf.place(&killed).exists());
        assert!(living_key.exists() && shelf.place(&living).exists(), "another process is about to begin it");
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "somebody's");
        assert!(!shelf.place(&other).exists() && ready_key.exists() && shelf.place(&ready).exists());
        drop(held);
        assert_eq!(shelf.sweep_unbegun().unwrap().len(), 1, "it never began it");
    }
}
