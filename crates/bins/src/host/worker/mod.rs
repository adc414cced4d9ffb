//! The worker agent: takes attempts from a scheduler server, runs them on this machine, and reports their results.
//! Owns the agent as a whole; its parts are:
//!
//! | part | owns |
//! |---|---|
//! | `core`, `gpus`, `extras`, `work`, `clock` | what every event leads to; pure but for the spool |
//! | `shared` | the one lock around it, and carrying out |
//! | `frames` | what goes out, what comes in |
//! | `session`, `link`, `backoff` | registering, streams, heartbeats, connecting again |
//! | `monitor`, `gauges`, `gpu_use` | what the machine, its attempts and its GPUs use |
//! | `machine`, `nvidia`, `nvlink`, `tool`, `runtimes` | what the machine offers, what runs attempts on it |
//! | `steps` | steps of flows, as their pods |
//! | `artifacts` | files that attempts need and leave |
//! | `recovery`, `state` | what stays when an agent ends |
//! | `roles` | what its program is started again as |

mod artifacts;
mod backoff;
mod clock;
mod core;
mod extras;
mod frames;
mod gauges;
mod gpu_use;
mod gpus;
pub mod link;
pub mod machine;
mod monitor;
mod nvidia;
mod nvlink;
mod options;
#[cfg(feature = "cli")]
pub mod program;
mod recovery;
pub mod remote;
pub mod roles;
mod runtimes;
mod session;
mod shared;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod tool;
mod work;

use std::sync::Arc;

use orlop_cloud::outbox::{OutboxLog, OutboxOptions};
use orlop_cloud::runtime::worker::AttemptEvents;
use orlop_core::error::Problem;
use orlop_core::id::WorkerId;
use orlop_core::spec::job::Runtime;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

use self::artifacts::Files;
pub use self::gpus::Gpu;
use self::link::Link;
pub use self::options::{AgentOptions, Containers};
use self::runtimes::Answers;
use self::session::{Session, Wish};
use self::shared::Shared;
use self::state::{State, unusable};
use self::steps::remove_unused_claims;

/// An agent that works. Dropping it leaves its attempts as they are, for the next agent with the same state directory.
#[derive(Debug)]
pub struct Agent {
    worker: WorkerId,
    wish: watch::Sender<Wish>,
    task: JoinHandle<()>,
}

impl Agent {
    /// Starts an agent: takes up what an earlier one left, then connects.
    ///
    /// # Errors
    /// Its state directory is that of another agent or cannot be used, or attempts cannot be run here. That the server cannot be
    /// reached is none.
    pub async fn start(mut options: AgentOptions, link: Arc<dyn Link>) -> Result<Self, Problem> {
        // Attempts and their supervisors start in directories of their own: they must find it all the same.
        let absolute = std::path::absolute(&options.state);
        options.state = absolute.map_err(|error| unusable(&options.state, error))?;
        let state = State::open(&options.state, options.worker.as_ref())?;
        let mut spooled = OutboxOptions::new(options.state.join("spool"));
        (spooled.logs, spooled.fsync) = (options.spool_logs, options.spool_fsync);
        let (spool, recovered) = OutboxLog::open(spooled).map_err(|error| {
            let message = format!("the spool cannot be opened: {error}");
            Problem { message, ..Problem::from(error) }
        })?;
        let gpus = machine::gpus(&options.offer);
        let mut kinds = vec![Runtime::Noop];
        kinds.extend(options.processes.then_some(Runtime::Process));
        kinds.extend(options.containers.as_ref().map(|_| Runtime::Docker));
        let mut core = core::Core::new(spool, gpus.clone(), &options.offer.extras, kinds);
        if !options.users.is_empty() {
            state.admit_users().map_err(|error| unusable(&options.state, error))?;
            core.run_as(options.users.clone());
        }
        core.trace_by(options.tracer.clone());
        let shared = Shared::new(core);
        let events: Arc<dyn AttemptEvents> = Arc::clone(&shared) as _;
        let made = runtimes::make(&options, &state, &gpus, &events)?;
        let answers = Arc::new(Answers::default());
        answers.ask(&made).await;
        shared.set_runtimes(made);
        let files = Files::open(&options.state, Arc::clone(&link));
        let files = files.map_err(|error| unusable(&options.state, error))?;
        let files = shared.set_files(files, tokio::runtime::Handle::current());
        recovery::recover(&shared, recovered).await?;
        {
            let core = shared.lock();
            files.clear_others(|id| core.holds(id));
        }
        let worker = state.worker.clone();
        let (wish, wished) = watch::channel(Wish::Work);
        let claims = remove_unused_claims(options.state.join("flows"), options.claims);
        let session = Session::new(options, state, gpus, answers, shared, link, wished);
        let task = tokio::spawn(async move {
            tokio::select! {
                () = session.run() => {}
                () = claims => {}
            }
        });
        Ok(Self { worker, wish, task })
    }

    /// The worker's id.
    #[must_use]
    pub const fn worker(&self) -> &WorkerId {
        &self.worker
    }

    /// What ends it, for anyone who waits for its end elsewhere.
    #[must_use]
    pub fn control(&self) -> Control {
        Control { wish: self.wish.clone() }
    }

    /// Takes no more work, and ends when its attempts have ended, or their time is over.
    pub fn drain(&self) {
        self.control().drain();
    }

    /// Cancels what runs, and ends.
    pub fn cancel(&self) {
        self.control().cancel();
    }

    /// Stops at once, as if it had crashed: nothing is reported, and its attempts are left as they are.
    pub async fn abort(self) {
        self.task.abort();
        // That it was cut off is what was asked for.
        drop(self.task.await);
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It did not end by itself: what it ran may run on without it.
    pub async fn ended(self) -> Result<(), JoinError> {
        self.task.await
    }
}

/// Ends an agent.
#[derive(Clone, Debug)]
pub struct Control {
    wish: watch::Sender<Wish>,
}

impl Control {
    /// Takes no more work, and ends when its attempts have ended, or their time is over.
    pub fn drain(&self) {
        self.ask(Wish::Drain);
    }

    /// Cancels what runs, and ends.
    pub fn cancel(&self) {
        self.ask(Wish::Cancel);
    }

    fn ask(&self, more: Wish) {
        self.wish.send_if_modified(|wish| {
            let grows = more > *wish;
            *wish = more.max(*wish);
            grows
        });
    }
}
