//! Records of an attempt on disk. Owns their fields and the promise that each is whole or absent.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use orlop_core::attempt::AttemptSpec;
use orlop_core::error::{Class, Problem};
use orlop_core::exact;
use orlop_core::time::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::durable::{Durable, replace};
use crate::runtime::job::clock::PauseClock;
use crate::runtime::job::rules::PodRecord;

/// What an attempt is: enough to follow it to its end without the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttemptRecord {
    pub(super) spec: AttemptSpec,
    pub(super) started_at: Time,
    /// `backoffLimit` of Jobs that give none, as it was when it started.
    pub(super) backoff_default: u32,
}

/// What the host has ordered since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Control {
    /// The order to end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cancel: Option<CancelOrder>,
    /// When it stood still.
    #[serde(default)]
    pub(super) pauses: PauseClock,
}

/// An order to end an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CancelOrder {
    /// When it was given first.
    pub(super) at: Time,
    /// Milliseconds between asking and killing; absent: the template's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) grace_millis: Option<u64>,
}

impl CancelOrder {
    /// An order given now, or again: the first time counts, and the last grace.
    pub(super) fn new(earlier: Option<Self>, now: Time, grace: Option<Duration>) -> Self {
        let grace_millis = grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        Self { at: earlier.map_or(now, |earlier| earlier.at), grace_millis }
    }
}

/// What is written down of a pod before it starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodIntent {
    #[serde(flatten)]
    pub(super) record: PodRecord,
    /// GPUs it was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) gpus: Vec<u32>,
    /// Restarts in place left when it was created.
    #[serde(default)]
    pub(super) restart_limit: u32,
}

/// Writes a record so that it is whole or absent, whatever becomes of this process. After a loss of power it may be absent too: what
/// ran has ended then, the runtime has its own durable records of what it ran and how that ended, and the host's journal holds the ends
/// that were reported.
///
/// # Errors
/// Capacity, Denied or Transient as the file system says.
pub(super) fn write<T: Serialize>(path: &Path, record: &T) -> Result<(), Problem> {
    let failed = |error: io::Error| {
        let class = Problem::from(io::Error::from(error.kind())).class;
        // A directory that is gone comes back when the disk does; it is never a reason to give a record up.
        let class = if class == Class::NotFound { Class::Transient } else { class };
        Problem::new(class, format!("{error}, while writing {}", path.display())).because(error)
    };
    let bytes = serde_json::to_vec(record).map_err(|error| {
        Problem::new(Class::Fatal, format!("{} cannot be written as JSON", path.display())).because(error)
    })?;
    replace(path, &bytes, Durable::No).map_err(failed)
}

/// Reads a record; none where there is none.
///
/// # Errors
/// Fatal when it cannot be understood; Denied or Transient as the file system says.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Problem> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => {
            let class = Problem::from(io::Error::from(error.kind())).class;
            return Err(Problem::new(class, format!("{error}, while reading {}", path.display())).because(error));
        }
    };
    // The machine lost its power before the content was on the disk.
    if bytes.is_empty() {
        return Ok(None);
    }
    exact::from_slice(&bytes).map(Some).map_err(|error| {
        let message = format!("{} is damaged; move its directory away to run the attempt anew", path.display());
        Problem::new(Class::Fatal, message).because(error)
    })
}
