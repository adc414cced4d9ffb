//! What all lanes of a process runtime share. Owns nothing but the names by which directories and processes of an attempt
//! are found; never decides anything.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use orlop_core::task::TaskRef;

use super::ProcessOptions;
use super::group::Groups;
use super::sweep::Orphans;
use crate::runtime::worker::directories::Directories;
use crate::runtime::worker::event::AttemptEvents;

/// See the module.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) events: Arc<dyn AttemptEvents>,
    pub(super) options: ProcessOptions,
    pub(super) orphans: Orphans,
    /// Where control groups are made, if they are.
    pub(super) groups: Option<Groups>,
    /// Attempts that run.
    pub(super) live: AtomicUsize,
    pub(super) directories: Directories,
    /// Where the directories of attempts are, as the kernel names it.
    pub(super) real_work: PathBuf,
}

impl Shared {
    /// Makes the directories, and this program the reaper of its descendants.
    pub(super) fn new(
        options: ProcessOptions,
        groups: Option<Groups>,
        events: Arc<dyn AttemptEvents>,
    ) -> io::Result<Arc<Self>> {
        let mut directories = Directories::new(options.work.clone(), options.secrets.clone(), options.keep_failed)?;
        if !options.users {
            directories = directories.using_again()?;
        }
        let (orphans, live, real_work) = (Orphans::new()?, AtomicUsize::new(0), options.work.canonicalize()?);
        Ok(Arc::new(Self { events, options, orphans, groups, live, directories, real_work }))
    }

    /// The directory of an attempt.
    pub(super) fn dir(&self, id: &TaskRef) -> PathBuf {
        self.directories.of(id)
    }

    /// The value by which its processes are recognised.
    pub(super) fn mark(&self, id: &TaskRef) -> String {
        format!("{}/{id}", self.options.mark)
    }
}
