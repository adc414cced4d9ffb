//! The concurrency gate (rule R18) among the live runs of one home. Owns the claims: a file for each, believed as long as
//! the control socket of its run answers. Who begins is decided by [`Gate`]; waiting is for the end of a connection, so
//! nothing is polled.

use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use orlop_core::error::{Class, PortError};
use orlop_core::name::sha256_hex;
use orlop_core::spec::flow::JobFlow;
use orlop_core::spec::policy::ConcurrencyPolicy;
use orlop_core::time::Time;
use orlop_dag::gate::{Answer, Claim, Gate, key_of};
use serde::{Deserialize, Serialize};

use super::control::{Client, socket_of};
use super::flow::{Admission, Order, Verdict};
use super::home::Home;

/// A claim as its file holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Written {
    uid: String,
    name: String,
    policy: ConcurrencyPolicy,
    created_at: Time,
    run_dir: PathBuf,
    holds: bool,
}

/// The claim of a run to its key; given up when it is dropped.
#[derive(Debug)]
pub struct KeyClaim {
    directory: PathBuf,
    namespace: String,
    key: String,
    own: Written,
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
        let own = Written {
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
        Box::new(Waiting { place: Place { directory, namespace, key, own }, before: Vec::new() })
    }

    /// Notes that the run holds its key: it was admitted by an earlier host.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn hold(&self) -> io::Result<()> {
        write(&self.directory, &Written { holds: true, ..self.own.clone() })
    }
}

impl Drop for KeyClaim {
    fn drop(&mut self) {
        // A claim that stays is not believed: its run does not answer.
        drop(fs::remove_file(self.directory.join(format!("{}.json", self.own.uid))));
    }
}

fn write(directory: &Path, claim: &Written) -> io::Result<()> {
    let (new, place) = (directory.join(format!("{}.new", claim.uid)), directory.join(format!("{}.json", claim.uid)));
    fs::write(&new, serde_json::to_vec(claim)?)?;
    fs::rename(new, place)
}

#[derive(Clone)]
struct Place {
    directory: PathBuf,
    namespace: String,
    key: String,
    own: Written,
}

impl Place {
    fn claim(&self, written: &Written) -> Claim {
        let (namespace, key) = (self.namespace.clone(), self.key.clone());
        let Written { uid, policy, created_at, .. } = written.clone();
        Claim { uid, namespace, key, policy, created_at }
    }

    /// Asks the gate, made of all claims whose runs live. One process at a time does so.
    fn ask(&self) -> io::Result<(Answer, Vec<Written>)> {
        let lock = File::create(self.directory.join("lock"))?;
        lock.lock()?;
        let others = self.others()?;
        let answer = self.answer(&others);
        write(&self.directory, &Written { holds: answer == Answer::Begin, ..self.own.clone() })?;
        Ok((answer, others))
    }

    /// What the gate says to this run. Where nobody holds the key, one that comes first has yet to ask again.
    fn answer(&self, others: &[Written]) -> Answer {
        let mut gate = Gate::default();
        let (holders, waiting): (Vec<&Written>, Vec<&Written>) = others.iter().partition(|other| other.holds);
        for holder in &holders {
            gate.hold(&self.claim(holder));
        }
        let turn = |claim: &Written| (claim.policy != ConcurrencyPolicy::Replace, claim.created_at, claim.uid.clone());
        let first = waiting.into_iter().filter(|other| turn(other) < turn(&self.own)).min_by_key(|other| turn(other));
        match first {
            Some(first) if holders.is_empty() && self.own.policy != ConcurrencyPolicy::Allow => {
                Answer::Wait { behind: vec![first.uid.clone()] }
            }
            _ => gate.ask(self.claim(&self.own)),
        }
    }

    /// Claims of other runs that live; those of dead ones are removed.
    fn others(&self) -> io::Result<Vec<Written>> {
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
            let Ok(claim) = serde_json::from_slice::<Written>(&bytes) else { continue };
            if claim.uid == self.own.uid {
                continue;
            }
            if lives(&claim.run_dir) {
                found.push(claim);
            } else {
                drop(fs::remove_file(&path));
            }
        }
        found.sort_by(|a, b| (a.created_at, &a.uid).cmp(&(b.created_at, &b.uid)));
        Ok(found)
    }
}

fn lives(run_dir: &Path) -> bool {
    socket_of(run_dir).is_ok_and(|address| UnixStream::connect(address.path()).is_ok())
}

/// A run that waits for its key.
struct Waiting {
    place: Place,
    /// Runs whose end it waits for.
    before: Vec<PathBuf>,
}

#[async_trait]
impl Admission for Waiting {
    async fn next(&mut self) -> Result<Verdict, PortError> {
        for run_dir in std::mem::take(&mut self.before) {
            end_of(&run_dir).await?;
        }
        let place = self.place.clone();
        let asked = tokio::task::spawn_blocking(move || place.ask()).await;
        let asked = asked.map_err(|error| PortError::new(Class::Fatal, "asking the gate broke off").because(error))?;
        let (answer, others) = asked?;
        let (uids, ends) = match answer {
            Answer::Begin => return Ok(Verdict::Begin),
            Answer::Wait { behind } => (behind, false),
            Answer::Replace { holders } => (holders, true),
        };
        let before: Vec<Written> = others.into_iter().filter(|other| uids.contains(&other.uid)).collect();
        if ends {
            for holder in &before {
                if let Some(mut client) = Client::connect(&holder.run_dir).await? {
                    // One that has ended meanwhile refuses, which is as good.
                    drop(client.order(Order::Replace).await);
                }
            }
        }
        let names: Vec<&str> = before.iter().map(|claim| claim.name.as_str()).collect();
        let message = format!("waits for {}, which holds concurrency key {}", names.join(", "), self.place.key);
        self.before = before.into_iter().map(|claim| claim.run_dir).collect();
        Ok(Verdict::Wait { message })
    }
}

/// Waits until the host of a run has gone.
async fn end_of(run_dir: &Path) -> Result<(), PortError> {
    if let Some(client) = Client::connect(run_dir).await? {
        let mut watch = client.watch().await?;
        while let Ok(Some(_)) = watch.next().await {}
        // Its socket is closed a moment later: what it says last comes before.
        while let Some(client) = Client::connect(run_dir).await? {
            client.closed().await;
        }
    }
    Ok(())
}
