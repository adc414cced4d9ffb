//! The secrets, control group and directory of an attempt that another runtime runs.

use std::io;
use std::path::PathBuf;

use orlop_core::task::{Run, TaskEnd, TaskRef, Usage};

use super::{ProcessRuntime, Shared};
use crate::runtime::worker::directories::clear;
use crate::runtime::worker::environ::MARK;
use crate::runtime::worker::plan::Secret;

/// The secrets, control group and directory of an attempt that another runtime runs.
#[derive(Debug)]
pub struct AttemptResources<'a> {
    shared: &'a Shared,
    id: TaskRef,
}

impl ProcessRuntime {
    /// Gives access to the secrets, control group and directory of an attempt that another runtime runs.
    #[must_use]
    pub fn resources_of(&self, id: TaskRef) -> AttemptResources<'_> {
        AttemptResources { shared: &self.shared, id }
    }
}

impl AttemptResources<'_> {
    /// Writes those secrets that are files; gives their directory, where there are any.
    ///
    /// # Errors
    /// When this machine has no place in memory for them, or that is full.
    pub fn write_secrets(&self, secrets: &[Secret]) -> io::Result<Option<PathBuf>> {
        self.shared.directories.write_secrets(&self.id, secrets)
    }

    /// Where its secrets are that are files, where this machine has a place for them.
    #[must_use]
    pub fn secrets(&self) -> Option<PathBuf> {
        self.shared.directories.secrets_of(&self.id)
    }

    /// The variable by which its processes are recognised: name and value.
    #[must_use]
    pub fn mark(&self) -> (String, String) {
        (MARK.to_owned(), self.shared.mark_value(&self.id))
    }

    /// Its control group with its limits, made where it is not there; none where this runtime makes none.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_group(&self, run: &Run) -> io::Result<Option<PathBuf>> {
        let Some(groups) = &self.shared.groups else { return Ok(None) };
        groups.make(&self.id, run)?;
        Ok(Some(groups.place(&self.id)))
    }

    /// CPU time in milliseconds and peak memory in bytes of its control group; 0 where they are not counted.
    #[must_use]
    pub fn used(&self) -> Usage {
        let groups = self.shared.groups.as_ref();
        groups.map(|groups| super::life::group_usage(&groups.group(&self.id))).unwrap_or_default()
    }

    /// Clears away its secrets, its control group, which is empty, and its directory unless that is to stay.
    pub fn retire(&self, outcome: TaskEnd) {
        self.secrets().iter().for_each(|secrets| clear(secrets));
        // One that cannot be removed holds no process.
        drop(self.shared.groups.as_ref().map(|groups| groups.group(&self.id).remove()));
        self.shared.directories.retire(&self.shared.dir(&self.id), outcome);
    }
}
