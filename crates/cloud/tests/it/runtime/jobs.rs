//! Attempts of a worker as subjects of the suite: as processes and as containers, each with and without a supervisor. Owns
//! also what this port alone reports of every attempt: events in order, totals of output, and a reason in the log.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard};
use std::time::Duration;

use orlop_cloud::runtime::worker::noop::NoopRuntime;
use orlop_cloud::runtime::worker::process::{ProcessOptions, ProcessRuntime};
use orlop_cloud::runtime::worker::{AttemptEnd, AttemptPlan, Cause, JobRuntime, RemainsState};
use orlop_core::task::{LogStream, Run, TaskEnd, TaskRef};

use super::{Place, Subject, Work};
use crate::process::until;
#[cfg(feature = "docker")]
use crate::worker::docker;
use crate::worker::recorder::Recorder;
use crate::worker::supervised::with_supervisor;
use crate::worker::{PROGRAM, fresh};

/// What runs attempts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Alone,
    Supervised,
}

/// Attempts and the runtime that has them.
pub(crate) struct Jobs {
    place: Place,
    kind: Kind,
    pub(super) runtime: Box<dyn JobRuntime>,
    /// What all instances report: it takes one start and one end of each attempt.
    pub(super) reported: Arc<Recorder>,
    started: Mutex<Vec<TaskRef>>,
    /// Whether this instance took over what an earlier one had started.
    took_over: bool,
    /// Other tests may run beside this one.
    _beside: RwLockReadGuard<'static, ()>,
}

/// The directory of attempts.
fn work(place: &Place) -> PathBuf {
    place.path().join("work")
}

fn open(place: &Place, kind: Kind, events: Arc<Recorder>) -> Box<dyn JobRuntime> {
    match place {
        _ if kind == Kind::Nothing => Box::new(NoopRuntime::new(events)),
        Place::Machine(dir) => {
            // Processes are known by the name of their worker, and other tests run beside this one.
            let name = dir.path().file_name().unwrap().to_string_lossy();
            let mut options = ProcessOptions::new(name, work(place));
            if kind == Kind::Supervised {
                with_supervisor(&mut options);
            }
            Box::new(ProcessRuntime::new(options, events).unwrap())
        }
        #[cfg(feature = "docker")]
        Place::Engine(bench) => {
            let change = if kind == Kind::Supervised { docker::supervised } else { docker::plain };
            Box::new(docker::open(bench, change, events))
        }
    }
}

impl Jobs {
    fn new(place: Place, kind: Kind) -> Self {
        let reported = Arc::new(Recorder::default());
        let runtime = open(&place, kind, Arc::clone(&reported));
        let _beside = PROGRAM.read().unwrap_or_else(PoisonError::into_inner);
        Self { place, kind, runtime, reported, started: Mutex::default(), took_over: false, _beside }
    }

    pub(super) async fn nothing(_: &str) -> Option<Self> {
        Some(Self::new(Place::machine(), Kind::Nothing))
    }

    pub(super) async fn processes(_: &str) -> Option<Self> {
        Some(Self::new(Place::machine(), Kind::Alone))
    }

    pub(super) async fn supervised_processes(_: &str) -> Option<Self> {
        Some(Self::new(Place::machine(), Kind::Supervised))
    }

    #[cfg(feature = "docker")]
    pub(super) async fn containers(test: &str) -> Option<Self> {
        Some(Self::new(Place::engine(test).await?, Kind::Alone))
    }

    #[cfg(feature = "docker")]
    pub(super) async fn supervised_containers(test: &str) -> Option<Self> {
        Some(Self::new(Place::engine(test).await?, Kind::Supervised))
    }

    /// An attempt that is not started yet.
    pub(super) fn plan(&self, work: Work) -> AttemptPlan {
        let base = match &self.place {
            Place::Machine(_) => Run { survive: self.is_supervised(), ..Run::default() },
            #[cfg(feature = "docker")]
            Place::Engine(bench) => docker::spec(bench, ""),
        };
        // Its directory stays, so that it can be seen what the program did.
        let plan = AttemptPlan::new(fresh(), Arc::new(Run { argv: work.argv, keep: true, ..base }));
        AttemptPlan { timeout: work.timeout, grace: work.grace, secrets: work.secrets, ..plan }
    }

    pub(super) fn begin(&self, plan: AttemptPlan) {
        self.started.lock().unwrap().push(plan.id);
        self.runtime.start(plan);
    }

    pub(super) fn is_supervised(&self) -> bool {
        self.kind == Kind::Supervised
    }

    fn is_on_machine(&self) -> bool {
        matches!(self.place, Place::Machine(_))
    }

    /// What an end says beyond what all ports say.
    fn check_end(&self, id: TaskRef, end: &AttemptEnd) {
        let reports = self.reported.so_far(id);
        let length = |stream| reports.bytes(stream).len() as u64;
        let system = String::from_utf8(reports.bytes(LogStream::System)).unwrap();
        if end.outcome == TaskEnd::Lost {
            assert!(["agent_restart", "lease_expired"].contains(&end.reason.as_str()), "{end:?}");
        } else if end.outcome == TaskEnd::StartFailed {
            assert!(reports.started.is_none() && end.started_at.is_none(), "{end:?}");
        } else if self.catches_up() || !self.took_over {
            assert_eq!(end.started_at, reports.started.as_ref().map(|started| started.at), "{end:?}");
            assert_eq!(length(LogStream::Stdout) + length(LogStream::Stderr), end.log.bytes, "{end:?}");
            assert!(reports.chunks.iter().map(|chunk| chunk.seq).eq(1..=end.log.last_seq), "{:?}", reports.chunks);
        }
        if let Some(command) = end.reason.strip_prefix("command: ") {
            assert!(system.contains(command), "{command} {system}");
        }
    }
}

impl Subject for Jobs {
    type Run = TaskRef;
    const SHARED: &'static str = ".";
    const SECRET_FILE: &'static str = "$ORLOP_SECRETS_DIR/key";
    const REPORT: &'static str = "$ORLOP_OUTPUT";
    const LINES: bool = false;

    fn names_signals(&self) -> bool {
        self.is_on_machine()
    }

    fn survives(&self) -> bool {
        self.kind != Kind::Alone || !self.is_on_machine()
    }

    fn catches_up(&self) -> bool {
        self.kind != Kind::Alone || self.is_on_machine()
    }

    async fn start(&self, work: Work) -> TaskRef {
        let plan = self.plan(work);
        let id = plan.id;
        self.begin(plan);
        id
    }

    async fn end(&self, id: &TaskRef, grace: Duration) {
        self.runtime.end(*id, Cause::Cancel, grace);
    }

    async fn wait(&self, id: &TaskRef) -> AttemptEnd {
        let (_, end) = self.reported.ended(*id);
        self.reported.flushed();
        self.check_end(*id, &end);
        let control = work(&self.place).join(".control").join(id.to_string());
        until(|| !control.exists()).await;
        #[cfg(feature = "docker")]
        if let Place::Engine(bench) = &self.place {
            assert!(!docker::exists(bench, *id).await, "its container is removed");
        }
        end
    }

    fn output(&self, id: &TaskRef, stream: LogStream) -> Vec<u8> {
        self.reported.so_far(*id).bytes(stream)
    }

    fn shared(&self, id: &TaskRef) -> PathBuf {
        work(&self.place).join(id.to_string())
    }

    fn place(&self) -> &Place {
        &self.place
    }

    async fn restarted(self, meanwhile: impl AsyncFnOnce()) -> Self {
        let (survives, catches_up) = (self.survives(), self.catches_up());
        drop(self.runtime);
        meanwhile().await;
        let runtime = open(&self.place, self.kind, Arc::clone(&self.reported));
        let found = runtime.list().await.unwrap();
        let started = self.started.lock().unwrap().clone();
        assert_eq!(found.iter().map(|remains| remains.id).collect::<Vec<_>>(), started, "{found:?}");
        for remains in found {
            let reports = self.reported.so_far(remains.id);
            let is_kept = matches!(remains.state, RemainsState::Alive { .. } | RemainsState::Ended);
            assert_eq!(is_kept, survives, "{remains:?}");
            if let RemainsState::Alive { started } = &remains.state {
                let known = reports.started.as_ref().unwrap();
                assert_eq!(started.handle, known.handle);
                assert!(started.at == known.at || !catches_up, "{started:?} {known:?}");
            }
            runtime.adopt(remains.id, reports.chunks.last().map_or(0, |chunk| chunk.seq)).await.unwrap();
            if !catches_up {
                // It says so when it begins to read.
                self.reported.until(remains.id, |reports| !reports.bytes(LogStream::System).is_empty());
            }
        }
        Self { runtime, took_over: true, ..self }
    }

    fn absent(&self) -> TaskRef {
        fresh()
    }

    async fn finds(&self, id: &TaskRef) -> bool {
        let is_listed = self.runtime.list().await.unwrap().iter().any(|remains| remains.id == *id);
        let adopted = self.runtime.adopt(*id, 0).await;
        assert_eq!(adopted.is_ok(), is_listed, "{adopted:?}");
        is_listed
    }

    async fn ask_everything(&self, id: &TaskRef) {
        self.end(id, Duration::ZERO).await;
        self.runtime.resume(*id);
        assert_eq!(self.runtime.in_use(&[*id]).await.unwrap(), []);
        self.runtime.remove(*id).await.unwrap();
        assert!(!self.finds(id).await, "it is removed");
        self.runtime.check().await.unwrap();
    }
}
