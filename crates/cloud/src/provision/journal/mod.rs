//! The journal of a deployment: what is written, its lines, and how they are read again. Owns
//! the form: one JSON object a line with a checksum; a torn last line is cut off, a damaged earlier one is refused.

#[cfg(feature = "openstack")]
mod file;
mod memory;
#[cfg(test)]
mod tests;

use orlop_core::machine::saga::SagaState;
use orlop_core::time::Time;
use serde::{Deserialize, Serialize};

use super::order::DeploymentOrder;
use super::saga::Failure;
use crate::exit::Exit;

#[cfg(feature = "openstack")]
pub use file::FileJournal;
pub use memory::MemoryJournal;

/// A kind of object in the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A floating IP.
    Address,
    /// A server.
    Server,
    /// A port of a server that is gone.
    Port,
    /// A security group.
    Group,
    /// A lease.
    Lease,
    /// A keypair.
    Key,
}

impl Kind {
    /// All kinds, in the order in which they are removed.
    pub const ALL: [Self; 6] = [Self::Address, Self::Server, Self::Port, Self::Group, Self::Lease, Self::Key];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Address => "floating IP",
            Self::Server => "server",
            Self::Port => "port",
            Self::Group => "security group",
            Self::Lease => "lease",
            Self::Key => "keypair",
        }
    }
}

/// What is written down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
pub enum Entry {
    /// A deployment begins; the random part of its id.
    Open {
        /// Of the program.
        version: String,
        /// What makes the id random.
        nonce: String,
    },
    /// What will be carried out.
    Plan(Box<DeploymentOrder>),
    /// Something is going to be made: written and durable before it is asked for.
    Intent {
        /// What.
        object: Kind,
        /// Under which mark.
        mark: u32,
        /// Which of the choices.
        choice: usize,
        /// Which of its images.
        #[serde(default)]
        image: usize,
    },
    /// It was made, or found.
    Done {
        /// What.
        object: Kind,
        /// Its id.
        id: String,
        /// What else is needed of it: the reservation of a lease, the address of a floating IP, that of a
        /// server inside its network.
        detail: String,
        /// Until when it lasts.
        until: Option<Time>,
    },
    /// It was not made.
    Failed {
        /// What.
        object: Kind,
        /// Under which mark.
        mark: u32,
        /// Why.
        why: String,
    },
    /// The deployment is in another state.
    Observed {
        /// Which.
        state: SagaState,
        /// Whether somebody asked for its end.
        destroy: bool,
        /// Why it fails, if it does.
        failure: Option<Failure>,
    },
    /// People should know.
    Warned {
        /// What.
        text: String,
    },
    /// Something is going to be deleted.
    UndoIntent {
        /// What.
        object: Kind,
        /// Its id.
        id: String,
    },
    /// It is gone.
    UndoDone {
        /// What.
        object: Kind,
        /// Its id.
        id: String,
    },
    /// Nobody knows whether it was made: it is looked for until it cannot come any more.
    Sweep {
        /// What.
        object: Kind,
        /// Under which mark.
        mark: u32,
    },
    /// Nothing follows for now.
    Close {
        /// In which state.
        state: SagaState,
    },
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its number, from 1.
    pub seq: u64,
    /// When it was written.
    pub ts: Time,
    /// The attempt.
    pub attempt: u32,
    /// What is written.
    #[serde(flatten)]
    pub entry: Entry,
}

/// Bytes of a line.
const MAX_LINE: usize = 1 << 20;
/// Lines of a journal.
const MAX_LINES: usize = 100_000;

/// A journal that cannot be believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal is damaged at line {line}: {what}; find what the deployment made with `list --remote`")]
pub struct Damaged {
    /// Which line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: &'static str,
}

/// A line as text, without its end.
///
/// # Errors
/// It cannot be written as JSON, which no entry is known to do.
pub fn encode(line: &Line) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(line)?;
    let sum = checksum(&text);
    let front = text.strip_suffix('}').unwrap_or(&text);
    Ok(format!("{front},\"crc\":\"{sum}\"}}"))
}

fn checksum(text: &str) -> String {
    format!("{:08x}", crc32fast::hash(text.as_bytes()))
}

fn decode(text: &str) -> Option<Line> {
    let (front, rest) = text.rsplit_once(",\"crc\":\"")?;
    let sum = rest.strip_suffix("\"}")?;
    let whole = format!("{front}}}");
    // As text: as a number, capitals and a sign would pass for what was written.
    (checksum(&whole) == sum).then(|| serde_json::from_str(&whole).ok()).flatten()
}

/// The lines of a journal, and how many bytes of it they are: what follows was torn while it was written.
///
/// # Errors
/// A line before the last is damaged, or they are not numbered one after the other.
pub fn replay(bytes: &[u8]) -> Result<(Vec<Line>, usize), Damaged> {
    let (mut lines, mut whole) = (Vec::new(), 0);
    let ends: Vec<usize> = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    if ends.len() > MAX_LINES {
        return Err(Damaged { line: MAX_LINES, what: "it has too many lines" });
    }
    for (index, end) in ends.iter().enumerate() {
        let number = index + 1;
        let Some(line) = read(bytes.get(whole..end - 1).unwrap_or_default()) else {
            // Only the last one can have been torn.
            if number == ends.len() && *end == bytes.len() {
                break;
            }
            return Err(Damaged { line: number, what: "its checksum does not match" });
        };
        if line.seq != number as u64 {
            return Err(Damaged { line: number, what: "its number is not the next one" });
        }
        lines.push(line);
        whole = *end;
    }
    Ok((lines, whole))
}

/// Of a damaged journal the lines that can be believed, each by itself: enough to know what may have to be removed, and not to go
/// on with.
#[must_use]
pub fn believable(bytes: &[u8]) -> Vec<Line> {
    bytes.split(|byte| *byte == b'\n').take(MAX_LINES).filter_map(read).collect()
}

fn read(raw: &[u8]) -> Option<Line> {
    std::str::from_utf8(raw).ok().filter(|text| text.len() <= MAX_LINE).and_then(decode)
}

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process has it.
    #[error("deployment {id} is locked by another process; wait for it, or stop it")]
    Locked {
        /// Which deployment.
        id: String,
    },
    /// Its lines cannot be believed.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The same of a deployment that was asked for by its name.
    #[error("deployment {id} of server {name}: {damage}, or remove it with `destroy --id {id}`")]
    Unreadable {
        /// Which deployment.
        id: String,
        /// The name of its server.
        name: String,
        /// What is wrong with it.
        damage: Damaged,
    },
    /// It cannot be written, and something was made before.
    #[error(
        "cannot record, nothing further was requested: {what}; there {left}: free some space, then remove it with `orlop \
         provisioner destroy --id {id}`, or continue with `orlop provisioner resume {id}`"
    )]
    Unrecorded {
        /// What went wrong.
        what: String,
        /// Which deployment.
        id: String,
        /// What there is.
        left: String,
    },
    /// It cannot be read or written.
    #[error("cannot record, nothing was requested: {what}")]
    Storage {
        /// What went wrong.
        what: String,
    },
}

impl JournalError {
    /// The exit code of a program.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Locked { .. } => Exit::Conflict,
            Self::Unrecorded { .. } => Exit::Leftovers,
            Self::Damaged(_) | Self::Unreadable { .. } | Self::Storage { .. } => Exit::Failed,
        }
    }
}

/// Where a deployment is written down. One process at a time has it.
#[async_trait::async_trait]
pub trait Journal: Send + Sync {
    /// Everything written so far.
    ///
    /// # Errors
    /// It cannot be read, or not be believed.
    async fn lines(&self) -> Result<Vec<Line>, JournalError>;

    /// Adds an entry, which is durable when this returns.
    ///
    /// # Errors
    /// It cannot be written; then it counts as not written.
    async fn append(&self, now: Time, attempt: u32, entry: &Entry) -> Result<(), JournalError>;
}
