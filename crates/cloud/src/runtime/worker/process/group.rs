//! Control groups of attempts: limits that hold before a job's first instruction, and the list of all its processes. Owns
//! which groups are made, and where.

use std::io;
use std::path::PathBuf;

use orlop_core::error::{Class, PortError};

use super::{Enforce, ProcessOptions};
use crate::runtime::process::cgroup::{Bounds, Cgroup, probe};
use crate::runtime::worker::attempt::AttemptId;
use crate::runtime::worker::plan::WorkSpec;

/// Processes and threads of an attempt, at most.
const PIDS: u64 = 4096;

/// Where groups are made.
#[derive(Debug)]
pub(super) struct Groups {
    parent: PathBuf,
}

impl Groups {
    /// Finds out whether there are to be groups here.
    ///
    /// # Errors
    /// Invalid when they are required and there can be none.
    pub(super) fn find(options: &ProcessOptions) -> Result<Option<Self>, PortError> {
        if options.enforce == Enforce::Off {
            return Ok(None);
        }
        let limits = probe(options.cgroup.as_deref());
        let required = options.enforce == Enforce::Require;
        if required && !(limits.cpu && limits.memory && options.launcher.is_some()) {
            let message = "limits are required, and this program has no control group (version 2) in which it can limit \
                           CPU and memory; delegate one to it, or set `enforce` to auto";
            return Err(PortError::new(Class::Invalid, message));
        }
        // A group that limits nothing is made only where somebody asked for groups.
        let useful = limits.cpu || limits.memory || options.cgroup.is_some();
        let parent = limits.parent.filter(|_| useful);
        Ok(parent.filter(|_| options.launcher.is_some()).map(|parent| Self { parent }))
    }

    /// Makes the group of an attempt with its limits.
    pub(super) fn make(&self, id: &AttemptId, spec: &WorkSpec) -> io::Result<Cgroup> {
        let group = self.group(id);
        let bounds = Bounds {
            cpu_milli: Some(spec.cpu_m),
            weight_milli: Some(spec.cpu_m),
            memory_bytes: (spec.memory_bytes > 0).then_some(spec.memory_bytes),
            pids: Some(PIDS),
        };
        let made = group.create().and_then(|()| group.limit(&bounds));
        made.map_err(|failure| {
            // What was made of it is empty.
            drop(group.remove());
            io::Error::new(failure.source.kind(), failure.to_string())
        })?;
        Ok(group)
    }

    /// The group of an attempt, which need not exist.
    pub(super) fn group(&self, id: &AttemptId) -> Cgroup {
        Cgroup::at(self.place(id))
    }

    /// Where that is.
    pub(super) fn place(&self, id: &AttemptId) -> PathBuf {
        Cgroup::path(&self.parent, &id.to_string())
    }
}
