//! Limits of resources of a single process, as `ulimit` gives them. Owns their names and giving them to this process.

use std::collections::BTreeMap;
use std::io;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::unistd::geteuid;
use orlop_core::error::{Class, Problem};
use orlop_core::named::Named;
use serde::{Deserialize, Serialize};

use super::failure::{During, Failure};

/// What a process may use at most, as in `ulimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ResourceLimit {
    /// Bytes of address space.
    As,
    /// Bytes of a core dump.
    Core,
    /// Seconds of CPU time.
    Cpu,
    /// Bytes of data segment.
    Data,
    /// Bytes of a file that it writes.
    Fsize,
    /// Bytes of memory that it keeps from being paged out.
    Memlock,
    /// Open files.
    Nofile,
    /// Processes and threads of its user.
    Nproc,
    /// Bytes of stack.
    Stack,
}

impl Named for ResourceLimit {
    const KIND: &'static str = "resource limit";
    const ALL: &'static [Self] = &[
        Self::As,
        Self::Core,
        Self::Cpu,
        Self::Data,
        Self::Fsize,
        Self::Memlock,
        Self::Nofile,
        Self::Nproc,
        Self::Stack,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::As => "as",
            Self::Core => "core",
            Self::Cpu => "cpu",
            Self::Data => "data",
            Self::Fsize => "fsize",
            Self::Memlock => "memlock",
            Self::Nofile => "nofile",
            Self::Nproc => "nproc",
            Self::Stack => "stack",
        }
    }
}

impl ResourceLimit {
    const fn resource(self) -> Resource {
        match self {
            Self::As => Resource::RLIMIT_AS,
            Self::Core => Resource::RLIMIT_CORE,
            Self::Cpu => Resource::RLIMIT_CPU,
            Self::Data => Resource::RLIMIT_DATA,
            Self::Fsize => Resource::RLIMIT_FSIZE,
            Self::Memlock => Resource::RLIMIT_MEMLOCK,
            Self::Nofile => Resource::RLIMIT_NOFILE,
            Self::Nproc => Resource::RLIMIT_NPROC,
            Self::Stack => Resource::RLIMIT_STACK,
        }
    }
}

/// Resource limits of a process, each in the unit of its [`ResourceLimit`]; `u64::MAX` is unlimited.
pub type ResourceLimits = BTreeMap<ResourceLimit, u64>;

/// Gives this process these limits.
pub(crate) fn set(limits: &ResourceLimits) -> Result<(), Failure> {
    limits.iter().try_for_each(|(limit, value)| {
        let set = setrlimit(limit.resource(), *value, *value);
        set.during(|| format!("setting the limit `{}` to {value}", limit.as_str()))
    })
}

/// Finds out whether this program may give these limits. Root may give any.
///
/// # Errors
/// Invalid with the first that is above what this program has itself.
pub(crate) fn check(limits: &ResourceLimits) -> Result<(), Problem> {
    for (limit, value) in limits.iter().filter(|_| !geteuid().is_root()) {
        let (_, most) = getrlimit(limit.resource()).map_err(io::Error::from)?;
        if *value > most {
            let asked = if *value == RLIM_INFINITY { "unlimited".to_owned() } else { value.to_string() };
            let message = format!(
                "the limit `{}` is {asked}, and this program may give {most} at most; lower it, or run the worker as root",
                limit.as_str()
            );
            return Err(Problem::new(Class::Invalid, message));
        }
    }
    Ok(())
}
