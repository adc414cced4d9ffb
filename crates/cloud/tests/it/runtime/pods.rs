//! Pods as subjects of the suite: as processes in a private view or with rewritten paths, and as containers.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use orlop_cloud::runtime::logs::Stream;
use orlop_cloud::runtime::logs::read::read_all;
use orlop_cloud::runtime::pod::{EnvText, Mount, PodExit, PodHandle, PodPlan, PodResult, PodRuntime};
use orlop_cloud::runtime::process::Paths;
use orlop_cloud::runtime::worker::AttemptEnd;
use orlop_core::spec::job::SecretAs;
use orlop_core::task::{LogStream, TaskEnd};
use tempfile::TempDir;

use super::{Place, Subject, Work};
use crate::process::{self, in_time};

/// Pods and the runtime that has them.
pub(crate) struct Pods {
    place: Place,
    /// How processes see paths; none: as well as this machine allows.
    paths: Option<Paths>,
    runtime: Box<dyn PodRuntime>,
    started: Mutex<Vec<(PodPlan, PodHandle)>>,
    /// Where secrets are that pods mount, which no runtime writes.
    secrets: TempDir,
}

impl Pods {
    async fn new(place: Place, paths: Option<Paths>) -> Self {
        let runtime = open(&place, paths).await;
        Self { place, paths, runtime, started: Mutex::default(), secrets: tempfile::tempdir().unwrap() }
    }

    pub(super) async fn processes(_: &str) -> Option<Self> {
        Some(Self::new(Place::machine(), None).await)
    }

    pub(super) async fn with_rewritten_paths(_: &str) -> Option<Self> {
        Some(Self::new(Place::machine(), Some(Paths::Rewritten)).await)
    }

    #[cfg(feature = "docker")]
    pub(super) async fn containers(test: &str) -> Option<Self> {
        Some(Self::new(Place::engine(test).await?, None).await)
    }

    /// A pod of nothing yet, with a directory.
    fn numbered(&self, number: usize) -> PodPlan {
        match &self.place {
            Place::Machine(dir) => {
                let dir = dir.path().join(format!("pod-{number}"));
                let mut plan = process::plan(&dir, "");
                fs::create_dir_all(&plan.directory).unwrap();
                plan.key.pod = u32::try_from(number).unwrap();
                plan
            }
            #[cfg(feature = "docker")]
            Place::Engine(bench) => bench.plan(&format!("pod-{number}"), ""),
        }
    }

    /// A pod that is not started yet.
    pub(super) fn plan(&self, work: Work) -> PodPlan {
        let mut plan = self.numbered(self.started.lock().unwrap().len());
        (plan.main.command, plan.main.args) = (work.argv, Vec::new());
        (plan.active_deadline, plan.grace) = (work.timeout, work.grace);
        let source = shared(&plan);
        fs::create_dir_all(&source).unwrap();
        plan.main.mounts.push(Mount { source, target: Self::SHARED.to_owned(), read_only: false });
        for secret in work.secrets {
            if secret.given_as == SecretAs::Env {
                plan.main.env.push((secret.target, EnvText { value: secret.value, secret: true }));
                continue;
            }
            let file = self.secrets.path().join(secret.target);
            fs::write(&file, secret.value).unwrap();
            plan.secret_files.extend([file, self.secrets.path().join("optional-and-not-there")]);
            let (source, target) = (self.secrets.path().to_owned(), "/orlop-secrets".to_owned());
            plan.main.mounts.push(Mount { source, target, read_only: true });
        }
        plan
    }

    pub(super) async fn begin(&self, plan: PodPlan) -> PodPlan {
        let handle = in_time(self.runtime.start(&plan)).await.unwrap();
        assert_eq!(handle.name, plan.name);
        self.started.lock().unwrap().push((plan.clone(), handle));
        plan
    }

    /// The end of a pod, at two looks.
    pub(super) async fn exit(&self, pod: &PodPlan) -> PodExit {
        let wait = || in_time(self.runtime.wait(&pod.key, &pod.directory));
        let exit = wait().await.unwrap();
        assert_eq!(wait().await.unwrap(), exit);
        exit
    }

    pub(super) async fn freeze(&self, pod: &PodPlan, on: bool) {
        in_time(self.runtime.freeze(&pod.key, &pod.directory, on)).await.unwrap();
    }
}

async fn open(place: &Place, paths: Option<Paths>) -> Box<dyn PodRuntime> {
    match place {
        Place::Machine(_) => Box::new(process::runtime(paths)),
        #[cfg(feature = "docker")]
        Place::Engine(bench) => Box::new(bench.runtime().await),
    }
}

fn shared(plan: &PodPlan) -> PathBuf {
    plan.directory.with_extension("shared")
}

impl Subject for Pods {
    type Run = PodPlan;
    const SHARED: &'static str = "/orlop-shared";
    const SECRET_FILE: &'static str = "/orlop-secrets/key";
    const REPORT: &'static str = "/dev/termination-log";
    const LINES: bool = true;

    async fn start(&self, work: Work) -> PodPlan {
        self.begin(self.plan(work)).await
    }

    async fn end(&self, pod: &PodPlan, grace: Duration) {
        in_time(self.runtime.stop(&pod.key, &pod.directory, grace)).await.unwrap();
    }

    async fn wait(&self, pod: &PodPlan) -> AttemptEnd {
        let exit = self.exit(pod).await;
        let main = exit.containers.last();
        let signalled = main.is_some_and(|main| main.signal.is_some());
        let (outcome, reason) = match exit.result {
            PodResult::Succeeded => (TaskEnd::Succeeded, String::new()),
            PodResult::Failed { reason, message } if reason == "DeadlineExceeded" => {
                assert!(message.starts_with("the pod ran longer than its "), "{message}");
                (TaskEnd::TimedOut, message)
            }
            PodResult::Failed { reason, message } => {
                assert_eq!(reason, if signalled { "Signalled" } else { "NonZeroExit" });
                (TaskEnd::Failed, message)
            }
            PodResult::Cancelled => (TaskEnd::Cancelled, String::new()),
            PodResult::Gone | PodResult::Lost => (TaskEnd::Lost, String::new()),
        };
        let end = AttemptEnd { started_at: exit.started_at, ..AttemptEnd::without_run(outcome, reason, exit.ended_at) };
        let Some(main) = main else { return end };
        assert!(main.started_at <= main.ended_at && main.ended_at <= exit.ended_at, "{main:?}");
        assert!(main.signal.is_none_or(|signal| main.exit_code == 128 + signal), "{main:?}");
        let outputs = BTreeMap::from([("message".to_owned(), main.message.clone())]);
        AttemptEnd { exit_code: Some(main.exit_code), signal: main.signal, outputs, ..end }
    }

    fn output(&self, pod: &PodPlan, stream: LogStream) -> Vec<u8> {
        let path = if stream == LogStream::Stdout { &pod.stdout } else { &pod.stderr };
        let entries = read_all(path, Stream::Stdout, 0).map_or_else(|_| Vec::new(), |page| page.entries);
        entries
            .iter()
            .flat_map(|entry| [entry.text.as_str(), if entry.goes_on { "" } else { "\n" }].concat().into_bytes())
            .collect()
    }

    fn shared(&self, pod: &PodPlan) -> PathBuf {
        shared(pod)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    async fn restarted(self, meanwhile: impl AsyncFnOnce()) -> Self {
        drop(self.runtime);
        meanwhile().await;
        let runtime = open(&self.place, self.paths).await;
        let started = self.started.lock().unwrap().clone();
        for (plan, handle) in started {
            assert_eq!(in_time(runtime.start(&plan)).await.unwrap(), handle, "it is not started again");
        }
        Self { runtime, ..self }
    }

    fn absent(&self) -> PodPlan {
        self.numbered(99)
    }

    async fn finds(&self, pod: &PodPlan) -> bool {
        let exit = in_time(self.runtime.wait(&pod.key, &pod.directory)).await.unwrap();
        exit.started_at.is_some()
    }

    async fn ask_everything(&self, pod: &PodPlan) {
        for on in [true, false] {
            self.freeze(pod, on).await;
        }
        self.end(pod, Duration::ZERO).await;
        in_time(self.runtime.remove(&pod.key, &pod.directory)).await.unwrap();
    }
}
