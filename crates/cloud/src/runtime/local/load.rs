//! What is written down of an attempt when it is taken up.

use std::fs;
use std::io;

use orlop_core::attempt::AttemptEnd;
use orlop_core::error::Problem;
use orlop_core::spec::meta::ObjectReference;

use super::layout::{AttemptDir, Layout, file_name};
use super::records::{AttemptRecord, Control, PodIntent, read, write};
use crate::runtime::pod::PodExit;
use crate::runtime::volume::prepare::undeletable;

/// What is known of an attempt.
#[derive(Debug, Default)]
pub(super) struct AttemptTrace {
    /// What it is; none: there is no trace of it.
    pub(super) record: Option<AttemptRecord>,
    /// The object that the host got as its runner.
    pub(super) accepted: Option<ObjectReference>,
    /// What the host has ordered.
    pub(super) control: Control,
    /// Its pods by number.
    pub(super) pods: Vec<PodIntent>,
    /// Whether one of them was seen to run.
    pub(super) has_run: bool,
    /// Its end.
    pub(super) end: Option<AttemptEnd>,
}

/// Reads all records of an attempt.
///
/// # Errors
/// Fatal when one is damaged; Denied or Transient as the file system says.
pub(super) fn load(dir: &AttemptDir) -> Result<AttemptTrace, Problem> {
    let Some(record) = read::<AttemptRecord>(&dir.attempt())? else { return Ok(AttemptTrace::default()) };
    let mut known = AttemptTrace {
        record: Some(record),
        accepted: read(&dir.accepted())?,
        control: read(&dir.control())?.unwrap_or_default(),
        end: read(&dir.end())?,
        ..AttemptTrace::default()
    };
    for entry in fs::read_dir(&dir.path)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("pod-")?.parse::<u32>().ok());
        let Some(pod) = number.map(|number| dir.pod(number)) else { continue };
        // A pod without intent was never asked for.
        let Some(mut intent) = read::<PodIntent>(&pod.intent())? else { continue };
        intent.record.exit = read::<PodExit>(&pod.exit())?;
        known.has_run |= pod.started().exists();
        known.pods.push(intent);
    }
    known.pods.sort_by_key(|intent| intent.record.number);
    Ok(known)
}

/// Writes down that an attempt exists. What an earlier try left is kept; its start is now.
///
/// # Errors
/// Capacity, Denied or Transient as the file system says.
pub(super) fn create(layout: &Layout, dir: &AttemptDir, record: AttemptRecord) -> Result<AttemptRecord, Problem> {
    fs::create_dir_all(&dir.path)?;
    let (stdout, _) = layout.logs(&record.spec.key);
    stdout.parent().map_or(Ok(()), fs::create_dir_all)?;
    write(&dir.attempt(), &record)?;
    Ok(record)
}

/// Takes an attempt's directory away at once and deletes it then. None is fine.
///
/// # Errors
/// Denied or Transient as the file system says, as long as the attempt is still there; what cannot be deleted after that
/// is tried again when the run directory is opened.
pub(super) fn discard(layout: &Layout, dir: &AttemptDir) -> Result<(), Problem> {
    if let Some(memory) = dir.memory() {
        removed(fs::remove_dir_all(memory)).map_err(|error| undeletable(memory, error))?;
    }
    let name = dir.path.strip_prefix(layout.attempts()).unwrap_or(&dir.path).to_string_lossy().replace('/', "+");
    let grave = layout.trash().join(file_name(&name));
    fs::create_dir_all(layout.trash())?;
    removed(fs::remove_dir_all(&grave)).map_err(|error| undeletable(&grave, error))?;
    match fs::rename(&dir.path, &grave) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    if let Err(error) = removed(fs::remove_dir_all(&grave)) {
        tracing::warn!(error = undeletable(&grave, error).chain(), "something is left of an attempt");
    }
    Ok(())
}

/// The result of a removal, for which it is fine that there was nothing.
pub(super) fn removed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
