//! The process runtime with real processes. Owns what its tests share: pods of one shell command and where they run.

mod ends;
mod paths;
mod state;
mod substrate;
mod survival;
mod trouble;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use orlop_cloud::runtime::logs::Stream;
use orlop_cloud::runtime::logs::read::read_all;
use orlop_cloud::runtime::pod::{
    ContainerPlan, EnvText, HostNamespaces, PodExit, PodKey, PodPlan, PodResult, PodRuntime,
};
use orlop_cloud::runtime::process::{Paths, ProcessOptions, ProcessRuntime, RoleProgram};
use orlop_core::attempt::AttemptKey;
use tempfile::TempDir;

/// Nothing in these tests takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The example program, which has a supervisor. A whole `cargo test` builds it, one with a filter does not: then it may be
/// older than what is tested, and is built here.
pub(crate) fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let own = std::env::current_exe().unwrap();
        let profile = own.parent().and_then(Path::parent).unwrap();
        let path = profile.join("examples/pod");
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let built = std::fs::metadata(&path).and_then(|found| found.modified());
        if !built.is_ok_and(|built| newest(&package.join("src")) <= built) {
            let mut build = Command::new(env!("CARGO"));
            let features = if cfg!(feature = "docker") { "process,docker,worker" } else { "process,worker" };
            build.args(["build", "--quiet", "--example", "pod", "--features", features, "--target-dir"]);
            build.arg(profile.parent().unwrap()).args(profile.ends_with("release").then_some("--release"));
            assert!(build.current_dir(package).status().unwrap().success());
        }
        path
    };
    PROGRAM.get_or_init(find).clone()
}

fn newest(dir: &Path) -> SystemTime {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let times =
        entries.map(|path| if path.is_dir() { newest(&path) } else { path.metadata().unwrap().modified().unwrap() });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A pod and its runtime.
pub(crate) struct PodFixture {
    pub(crate) dir: TempDir,
    pub(crate) runtime: ProcessRuntime,
    pub(crate) plan: PodPlan,
}

impl PodFixture {
    /// A pod of one shell command, with the best view this machine allows.
    pub(crate) fn new(script: &str) -> Self {
        Self::with(script, None)
    }

    /// A pod of one shell command.
    pub(crate) fn with(script: &str, paths: Option<Paths>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let plan = plan(dir.path(), script);
        std::fs::create_dir(&plan.directory).unwrap();
        Self { runtime: runtime(paths), plan, dir }
    }

    pub(crate) fn env(mut self, name: &str, value: &str, secret: bool) -> Self {
        self.plan.main.env.push((name.to_owned(), EnvText { value: value.to_owned(), secret }));
        self
    }

    pub(crate) async fn start(&self) -> String {
        in_time(self.runtime.start(&self.plan)).await.unwrap().id
    }

    pub(crate) async fn wait(&self) -> PodExit {
        in_time(self.runtime.wait(&self.plan.key, &self.plan.directory)).await.unwrap()
    }

    pub(crate) async fn stop(&self, grace: Duration) {
        in_time(self.runtime.stop(&self.plan.key, &self.plan.directory, grace)).await.unwrap();
    }

    pub(crate) async fn run(&self) -> PodExit {
        self.start().await;
        self.wait().await
    }

    pub(crate) async fn fetch(&self, inside: &str) -> Result<PathBuf, orlop_core::error::Problem> {
        in_time(self.runtime.fetch(&self.plan.key, &self.plan, inside, self.dir.path())).await
    }

    /// Lines of standard output so far.
    pub(crate) fn out(&self) -> Vec<String> {
        lines(&self.plan.stdout)
    }

    /// Waits until standard output has a line.
    pub(crate) async fn line(&self, wanted: &str) {
        until(|| self.out().iter().any(|line| line == wanted)).await;
    }

    /// Process id of the supervisor.
    pub(crate) fn supervisor(&self) -> i32 {
        i32::try_from(self.claim()["supervisor"]["pid"].as_i64().unwrap()).unwrap()
    }

    pub(crate) fn claim(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.plan.directory.join("claim")).unwrap()).unwrap()
    }
}

pub(crate) fn runtime(paths: Option<Paths>) -> ProcessRuntime {
    runtime_with(|options| options.paths = paths)
}

pub(crate) fn runtime_with(choose: impl FnOnce(&mut ProcessOptions)) -> ProcessRuntime {
    let mut options = ProcessOptions::default();
    options.restart_delays = vec![Duration::from_millis(20)];
    choose(&mut options);
    ProcessRuntime::with_options(RoleProgram { path: program(), args: vec!["__supervisor".into()] }, options)
}

pub(crate) fn plan(dir: &Path, script: &str) -> PodPlan {
    let attempt = AttemptKey { flow: "f".into(), step: "s".into(), item: None, attempt: 1 };
    PodPlan {
        key: PodKey { attempt, pod: 0 },
        name: "pod".to_owned(),
        labels: std::collections::BTreeMap::new(),
        init: Vec::new(),
        main: container("main", script),
        restart_on_failure: false,
        restart_limit: 0,
        grace: Duration::from_secs(30),
        active_deadline: None,
        further_groups: Vec::new(),
        secret_files: Vec::new(),
        host_namespaces: HostNamespaces::default(),
        hostname: None,
        host_aliases: Vec::new(),
        pull_secrets: Vec::new(),
        stdout: dir.join("1.out"),
        stderr: dir.join("1.err"),
        delivered: Vec::new(),
        outputs: Vec::new(),
        directory: dir.join("pod"),
    }
}

pub(crate) fn container(name: &str, script: &str) -> ContainerPlan {
    ContainerPlan {
        name: name.to_owned(),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        termination_message_path: "/dev/termination-log".to_owned(),
        ..ContainerPlan::default()
    }
}

pub(crate) fn lines(path: &Path) -> Vec<String> {
    let page = read_all(path, Stream::Stdout, 0).unwrap();
    page.entries.into_iter().map(|entry| entry.text).collect()
}

pub(crate) fn reason(exit: &PodExit) -> &str {
    match &exit.result {
        PodResult::Failed { reason, .. } => reason,
        PodResult::Succeeded => "Succeeded",
        PodResult::Cancelled => "Cancelled",
        PodResult::Gone => "Gone",
        PodResult::Lost => "Lost",
    }
}

pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this takes too long")
}

/// Waits until something outside of this process is so.
pub(crate) async fn until(mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(wait).await;
}

/// Whether a process is there and not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|state| state != 'Z')
}

/// State of a process as the kernel shows it.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Processes whose command line holds a text that no other has.
pub(crate) fn with_text(text: &str) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(text.len()).any(|window| window == text.as_bytes()) && is_alive(*pid)
    })
    .collect()
}
