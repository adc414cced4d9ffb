//! Control groups of attempts: limits that hold before a job's first instruction, and the list of all its processes. Owns
//! which groups are made, and where.

use std::io;
use std::path::PathBuf;

use orlop_core::error::{Class, Problem};
use orlop_core::task::{Run, TaskRef};

use super::{Enforce, ProcessOptions};
use crate::runtime::process::cgroup::{Bounds, Cgroup, Limits, probe};

/// Processes and threads of an attempt, at most.
const PIDS: u64 = 4096;

/// Refuses what is required and cannot be, and says what else is not limited.
fn judge(options: &ProcessOptions, limits: &Limits) -> Result<(), Problem> {
    let mut missing = limits.missing();
    if options.launcher.is_none() {
        missing = Limits::default().missing();
    }
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(", ");
    if options.enforce == Enforce::Require {
        let message = format!(
            "limits are required, and this program has no control group (version 2) in which it can limit {missing}; \
             delegate one to it with the controllers cpu, memory and pids, or set `enforce` to auto"
        );
        return Err(Problem::new(Class::Invalid, message));
    }
    // A supervisor is one of many, and its agent has said it.
    if !options.inside {
        tracing::warn!(
            missing,
            "limits of attempts are not enforced: this program has no control group (version 2) with these controllers; \
             delegate one to it"
        );
    }
    Ok(())
}

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
    pub(super) fn find(options: &ProcessOptions) -> Result<Option<Self>, Problem> {
        if options.enforce == Enforce::Off {
            return Ok(None);
        }
        let limits = probe(options.cgroup.as_deref());
        judge(options, &limits)?;
        // A group that limits nothing is made only where somebody asked for groups.
        let useful = limits.cpu || limits.memory || limits.pids || options.cgroup.is_some();
        let parent = limits.parent.filter(|_| useful);
        Ok(parent.filter(|_| options.launcher.is_some()).map(|parent| Self { parent }))
    }

    /// Makes the group of an attempt with its limits; that it already exists is fine.
    pub(super) fn make(&self, id: &TaskRef, spec: &Run) -> io::Result<Cgroup> {
        let group = self.group(id);
        let bounds = Bounds {
            cpu_milli: Some(spec.cpu_m),
            weight_milli: Some(spec.cpu_m),
            memory_bytes: (spec.memory_bytes > 0).then_some(spec.memory_bytes),
            pids: Some(PIDS),
        };
        let created = match group.create() {
            Err(failure) if failure.source.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            created => created,
        };
        let made = created.and_then(|()| group.limit(&bounds));
        made.map_err(|failure| {
            // What was made of it is empty.
            drop(group.remove());
            io::Error::new(failure.source.kind(), failure.to_string())
        })?;
        Ok(group)
    }

    /// The group of an attempt, which need not exist.
    pub(super) fn group(&self, id: &TaskRef) -> Cgroup {
        Cgroup::at(self.place(id))
    }

    /// Where that is.
    pub(super) fn place(&self, id: &TaskRef) -> PathBuf {
        Cgroup::path(&self.parent, &id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::process::RoleProgram;

    #[test]
    fn required_limits_are_those_of_processes_too() {
        let mut options = ProcessOptions::new("w", "/nowhere");
        options.launcher = Some(RoleProgram { path: "/bin/true".into(), args: Vec::new() });
        options.enforce = Enforce::Require;
        let all = Limits { parent: None, cpu: true, memory: true, pids: true };
        assert!(judge(&options, &all).is_ok());
        for (limits, what) in [
            (Limits { cpu: false, ..all.clone() }, "limit CPU;"),
            (Limits { memory: false, ..all.clone() }, "limit memory;"),
            (Limits { pids: false, ..all.clone() }, "limit processes;"),
        ] {
            let error = judge(&options, &limits).unwrap_err();
            assert!(error.class == Class::Invalid && error.message.contains(what), "{error}");
            options.enforce = Enforce::Auto;
            assert!(judge(&options, &limits).is_ok(), "as far as it goes");
            options.enforce = Enforce::Require;
        }
        options.launcher = None;
        let error = judge(&options, &all).unwrap_err();
        assert!(error.message.contains("CPU, memory, processes"), "nobody joins a group: {error}");
    }
}
