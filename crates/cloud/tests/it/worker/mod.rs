//! What a worker runs, on this machine, beyond the suite of all that runs programs.

mod bench;
mod confined;
#[cfg(feature = "docker")]
pub(crate) mod docker;
mod groups;
mod process;
pub(crate) mod recorder;
pub(crate) mod supervised;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use orlop_cloud::runtime::worker::AttemptPlan;
use orlop_cloud::runtime::worker::process::{ProcessOptions, ProcessRuntime};
use orlop_core::id::{Epoch, JobId};
use orlop_core::task::{Run, TaskRef};

use self::recorder::Recorder;

/// Held by a test that must have this program to itself: its runtime takes all orphans for its own.
pub(crate) static PROGRAM: RwLock<()> = RwLock::new(());

/// An attempt that no other test of this program has.
pub(crate) fn fresh() -> TaskRef {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let job = JobId::from_u64(NEXT.fetch_add(1, Ordering::Relaxed));
    TaskRef { job, index: 0, member: 0, attempt: 1, epoch: Epoch(1) }
}

/// An attempt of a shell script.
fn script(text: &str) -> AttemptPlan {
    plan(Run { argv: ["/bin/sh", "-c", text].map(str::to_owned).to_vec(), ..Run::default() })
}

pub(crate) fn plan(spec: Run) -> AttemptPlan {
    AttemptPlan::new(fresh(), Arc::new(spec))
}

/// A process runtime in its own directory.
pub(crate) struct Machine {
    pub(crate) runtime: ProcessRuntime,
    pub(crate) reported: Arc<Recorder>,
    dir: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ProcessOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let reported = Arc::new(Recorder::default());
        // Processes are known by the mark of their worker, and other test programs run beside this one.
        let worker = format!("test-{}-{}", std::process::id(), fresh().job);
        let mut options = ProcessOptions::new(worker, dir.path().join("work"));
        change(&mut options);
        let runtime = ProcessRuntime::new(options, reported.clone()).unwrap();
        Self { runtime, reported, dir }
    }
}
