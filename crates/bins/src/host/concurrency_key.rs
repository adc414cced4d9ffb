//! The concurrency limiter among the runs of one home, with a file for the claim of each run. One that waits is believed as
//! long as its run answers, one that holds the key until the journal of its run says that it has ended, whether a host drives
//! it or not. Who begins is decided by [`ConcurrencyLimiter`]; waiting is for the end of a connection.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use orlop_cloud::durable::{self, Durable};
use orlop_cloud::store::sqlite::{Access, SqliteJournal};
use orlop_core::error::{Class, Problem};
use orlop_core::name::sha256_hex;
use orlop_core::ports::journal::FlowJournal as _;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::policy::ConcurrencyPolicy;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::Time;
use orlop_dag::engine::view;
use orlop_dag::gate::{Answer, Claim, ConcurrencyLimiter, key_of};
use serde::{Deserialize, Serialize};

use super::control::{Client, socket_of};
use super::flow::{Admission, AdmissionDecision, Clock as _, FlowCommand, SystemClock, leave, plan_of, replay};
use super::home::{Home, RunDir};

/// A claim as its file holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredClaim {
    uid: String,
    name: String,
    policy: ConcurrencyPolicy,
    created_at: Time,
    run_dir: PathBuf,
    holds: bool,
}

/// The claim of another run.
#[derive(Clone, Debug)]
struct Other {
    claim: StoredClaim,
    /// Whether a host drives it now.
    lives: bool,
}

/// The claim of a run to its key. It outlives its host: a run holds its key until it has ended.
#[derive(Debug)]
pub struct KeyClaim {
    directory: PathBuf,
    namespace: String,
    key: String,
    own: StoredClaim,
}

impl KeyClaim {
    /// The claim of a flow; none when it has no key.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn of(home: &Home, flow: &JobFlow, run_dir: &Path, created_at: Time) -> io::Result<Option<Self>> {
        let Some(key) = key_of(flow, &[]) else { return Ok(None) };
        let namespace = flow.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let place = sha256_hex(format!("{namespace}/{key}").as_bytes(), 32);
        let directory = home.path().join("gates").join(place);
        fs::create_dir_all(&directory)?;
        let policy = flow.spec.execution_policy.as_ref().and_then(|policy| policy.concurrency_policy);
        let own = StoredClaim {
            uid: flow.metadata.uid.clone().unwrap_or_default(),
            name: flow.metadata.name.clone(),
            policy: policy.unwrap_or_default(),
            created_at,
            run_dir: fs::canonicalize(run_dir)?,
            holds: false,
        };
        Ok(Some(Self { directory, namespace, key: key.to_owned(), own }))
    }

    /// Who says when this run may begin.
    #[must_use]
    pub fn admission(&self) -> Box<dyn Admission> {
        let (directory, own) = (self.directory.clone(), self.own.clone());
        let (namespace, key) = (self.namespace.clone(), self.key.clone());
        let folder = ClaimFolder { directory, namespace, key, own };
        Box::new(WaitForKey {
            folder,
            before: Vec::new(),
            reported: None,
            without_host: false,
            replaced: BTreeSet::new(),
        })
    }

    /// Notes that the run, which an earlier host has admitted, still holds its key. Where its claim was lost and others
    /// hold the key now, gives their names and notes nothing.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn hold(&self) -> io::Result<Vec<String>> {
        let (namespace, key) = (self.namespace.clone(), self.key.clone());
        let folder = ClaimFolder { directory: self.directory.clone(), namespace, key, own: self.own.clone() };
        tokio::task::spawn_blocking(move || folder.hold()).await?
    }

    /// Gives the claim up: the run has ended.
    pub fn give_up(self) {
        // One that stays is not believed: the journal of its run says that it has ended.
        drop(fs::remove_file(self.directory.join(format!("{}.json", self.own.uid))));
    }
}

/// Writes a claim down, unless it stands there as it is: one that waits asks again and again.
fn write(directory: &Path, claim: &StoredClaim) -> io::Result<()> {
    let (path, bytes) = (directory.join(format!("{}.json", claim.uid)), serde_json::to_vec(claim)?);
    if fs::read(&path).is_ok_and(|written| written == bytes) {
        return Ok(());
    }
    durable::replace(&path, &bytes, Durable::Yes)
}

#[derive(Clone)]
struct ClaimFolder {
    directory: PathBuf,
    namespace: String,
    key: String,
    own: StoredClaim,
}

impl ClaimFolder {
    fn claim(&self, written: &StoredClaim) -> Claim {
        let (namespace, key) = (self.namespace.clone(), self.key.clone());
        let StoredClaim { uid, policy, created_at, .. } = written.clone();
        Claim { uid, namespace, key, policy, created_at }
    }

    /// One process at a time looks at the claims and changes them.
    fn lock(&self) -> io::Result<File> {
        let lock = File::create(self.directory.join("lock"))?;
        lock.lock().map(|()| lock)
    }

    /// Takes the key again; gives the names of others that hold it.
    fn hold(&self) -> io::Result<Vec<String>> {
        let _lock = self.lock()?;
        let own = fs::read(self.directory.join(format!("{}.json", self.own.uid)));
        let held = own.is_ok_and(|own| serde_json::from_slice::<StoredClaim>(&own).is_ok_and(|own| own.holds));
        if !held && self.own.policy != ConcurrencyPolicy::Allow {
            let holders = self.others()?.into_iter().filter(|other| other.claim.holds);
            let names: Vec<String> = holders.map(|other| other.claim.name).collect();
            if !names.is_empty() {
                return Ok(names);
            }
        }
        write(&self.directory, &StoredClaim { holds: true, ..self.own.clone() })?;
        Ok(Vec::new())
    }

    /// Asks the gate, made of all claims that stand.
    fn ask(&self) -> io::Result<(Answer, Vec<Other>)> {
        let _lock = self.lock()?;
        let others = self.others()?;
        let answer = self.answer(&others);
        write(&self.directory, &StoredClaim { holds: answer == Answer::Begin, ..self.own.clone() })?;
        Ok((answer, others))
    }

    /// What the gate says to this run. Where nobody holds the key, one that comes first has yet to ask again.
    fn answer(&self, others: &[Other]) -> Answer {
        let mut gate = ConcurrencyLimiter::default();
        let claims = others.iter().map(|other| &other.claim);
        let (holders, waiting): (Vec<&StoredClaim>, Vec<&StoredClaim>) = claims.partition(|claim| claim.holds);
        for holder in &holders {
            gate.hold(&self.claim(holder));
        }
        let turn =
            |claim: &StoredClaim| (claim.policy != ConcurrencyPolicy::Replace, claim.created_at, claim.uid.clone());
        let first = waiting.into_iter().filter(|other| turn(other) < turn(&self.own)).min_by_key(|other| turn(other));
        match first {
            Some(first) if holders.is_empty() && self.own.policy != ConcurrencyPolicy::Allow => {
                Answer::Wait { behind: vec![first.uid.clone()] }
            }
            _ => gate.ask(self.claim(&self.own)),
        }
    }

    /// Claims of other runs that stand; the others are removed. Called where blocking is no trouble.
    fn others(&self) -> io::Result<Vec<Other>> {
        let runtime = tokio::runtime::Handle::current();
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            if path.extension().is_none_or(|end| end != "json") {
                continue;
            }
            // A claim is given up without asking anybody, also at this moment.
            let bytes = match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                bytes => bytes?,
            };
            let Ok(claim) = serde_json::from_slice::<StoredClaim>(&bytes) else { continue };
            if claim.uid == self.own.uid {
                continue;
            }
            let lives = lives(&claim.run_dir);
            let stands = if claim.holds { runtime.block_on(holds(&claim, lives)) } else { lives };
            if stands {
                found.push(Other { claim, lives });
            } else {
                drop(fs::remove_file(&path));
            }
        }
        found.sort_by(|Other { claim: a, .. }, Other { claim: b, .. }| {
            (a.created_at, &a.uid).cmp(&(b.created_at, &b.uid))
        });
        Ok(found)
    }
}

/// Whether a run whose claim says so holds its key: unless its journal is gone, or says that it has ended or, where no host
/// is about to write that, that it never began. One that cannot be read is believed.
async fn holds(claim: &StoredClaim, lives: bool) -> bool {
    if !RunDir::new(&claim.run_dir).exists() {
        return false;
    }
    match state(claim).await {
        Ok(None) => false,
        Ok(Some(status)) => !status.phase.is_terminal() && (lives || status.start_time.is_some()),
        Err(error) => {
            tracing::warn!(run = claim.name, error, "the holder of a concurrency key cannot be read; it keeps the key");
            true
        }
    }
}

/// The status of a run as its journal has it; none where the journal is of another run.
async fn state(claim: &StoredClaim) -> Result<Option<FlowStatus>, String> {
    let failed = |error: Problem| error.chain();
    let journal = SqliteJournal::open(RunDir::new(&claim.run_dir).journal(), Access::Viewer).await.map_err(failed)?;
    if !journal.list().await.map_err(failed)?.iter().any(|flow| flow.uid == claim.uid) {
        return Ok(None);
    }
    let mut stored = journal.load(&claim.uid).await.map_err(failed)?;
    journal.close().await;
    let plan = plan_of(&mut stored).map_err(|error| error.to_string())?;
    let state = replay(&plan, &stored).map_err(|error| error.to_string())?;
    Ok(Some(view(&plan, &state, 0..0).status))
}

fn lives(run_dir: &Path) -> bool {
    socket_of(run_dir).is_ok_and(|address| UnixStream::connect(address.path()).is_ok())
}

/// A run that waits for its key.
struct WaitForKey {
    folder: ClaimFolder,
    /// Runs whose end it waits for.
    before: Vec<PathBuf>,
    /// What was said last: the same is not said again.
    reported: Option<String>,
    /// Whether one of them has no host.
    without_host: bool,
    /// Uids of runs that were asked to end.
    replaced: BTreeSet<String>,
}

/// How often a run without a host is looked at: nobody can tell of its end.
const LOOK: Duration = Duration::from_secs(1);

#[async_trait]
impl Admission for WaitForKey {
    async fn next(&mut self) -> Result<AdmissionDecision, Problem> {
        loop {
            for run_dir in std::mem::take(&mut self.before) {
                end_of(&run_dir).await?;
            }
            if std::mem::take(&mut self.without_host) {
                tokio::time::sleep(LOOK).await;
            }
            let folder = self.folder.clone();
            let asked = tokio::task::spawn_blocking(move || folder.ask()).await;
            let asked = asked.map_err(|error| {
                Problem::new(Class::Fatal, "asking the concurrency limiter was interrupted").because(error)
            })?;
            let (answer, others) = asked?;
            let (uids, ends) = match answer {
                Answer::Begin => return Ok(AdmissionDecision::Begin),
                Answer::Wait { behind } => (behind, false),
                Answer::Replace { holders } => (holders, true),
            };
            let before: Vec<Other> = others.into_iter().filter(|other| uids.contains(&other.claim.uid)).collect();
            for holder in before.iter().filter(|_| ends) {
                if self.replaced.insert(holder.claim.uid.clone()) {
                    replace(&holder.claim).await?;
                }
            }
            let message = self.message(&before);
            self.without_host = before.iter().any(|other| !other.lives);
            self.before = before.into_iter().map(|other| other.claim.run_dir).collect();
            if self.reported.as_ref() != Some(&message) {
                self.reported = Some(message.clone());
                return Ok(AdmissionDecision::Wait { message });
            }
        }
    }
}

impl WaitForKey {
    fn message(&self, before: &[Other]) -> String {
        let names = |others: &mut dyn Iterator<Item = &Other>| {
            others.map(|other| other.claim.name.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (all, left) = (names(&mut before.iter()), names(&mut before.iter().filter(|other| !other.lives)));
        let hint = match left.as_str() {
            "" => String::new(),
            left => format!("; no process drives {left} now: resume it with --resume, or delete it"),
        };
        format!("waits for {all}, which holds concurrency key {}{hint}", self.folder.key)
    }
}

/// Has a run end for another's sake. One without a host has nothing to wait for unless attempts are left: then its next
/// host, or its deletion, ends them.
async fn replace(holder: &StoredClaim) -> Result<(), Problem> {
    let run = RunDir::new(&holder.run_dir);
    // Somebody deletes it: that is an end, too.
    let door = match run.door().await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        door => door?,
    };
    if let Some(mut client) = connect(run.path()).await? {
        drop(door);
        // One that has ended meanwhile refuses, which is as good.
        drop(client.order(FlowCommand::Replace).await);
        return Ok(());
    }
    let Some(_lock) = run.lock()? else { return Ok(()) };
    let journal = SqliteJournal::open(run.journal(), Access::Host).await?;
    match leave(&journal, &holder.uid, &FlowCommand::Replace, SystemClock.now()).await {
        Ok(()) => {}
        Err(ended) if ended.class == Class::Conflict => {
            tracing::debug!(run = holder.name, %ended, "a run is not replaced");
        }
        Err(error) => tracing::warn!(run = holder.name, %error, "a run without a host cannot be stopped"),
    }
    journal.close().await;
    Ok(())
}

/// Waits until the host of a run has gone.
async fn end_of(run_dir: &Path) -> Result<(), Problem> {
    if let Some(client) = connect(run_dir).await? {
        match client.watch().await {
            Ok(mut watch) => while let Ok(Some(_)) = watch.next().await {},
            Err(error) if ends(&error) => {}
            Err(error) => return Err(error.into()),
        }
        // Its socket is closed a moment later: what it says last comes before.
        while let Some(client) = connect(run_dir).await? {
            client.closed().await;
        }
    }
    Ok(())
}

/// Connects to the host of a run; none when there is none, or it is just going.
async fn connect(run_dir: &Path) -> io::Result<Option<Client>> {
    match Client::connect(run_dir).await {
        Err(error) if ends(&error) => Ok(None),
        client => client,
    }
}

/// Whether an error of a connection says that the other end has gone.
fn ends(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected)
}
