//! What the tests of containers stand on: an engine, an image of busybox that is imported and never pulled, and pods with
//! their own directory. Everything is gone when the last test that uses it ends, panics included.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters as query;
use futures::StreamExt as _;
use orlop_cloud::runtime::docker::{DockerOptions, DockerRuntime};
use orlop_cloud::runtime::logs::parse;
use orlop_cloud::runtime::pod::{
    ContainerPlan, EnvText, HostNamespaces, PodExit, PodKey, PodPlan, PodResult, PodRuntime as _,
};
use orlop_core::attempt::AttemptKey;

static SKIPPED: AtomicUsize = AtomicUsize::new(0);
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static IMAGE: tokio::sync::Mutex<Weak<Image>> = tokio::sync::Mutex::const_new(Weak::new());

/// Says loudly that a test did not test anything.
pub(crate) fn skip(test: &str, why: &str) {
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    // Not `eprintln!`, which nobody sees of a test that passes; and on its own line, so that scripts find it.
    let line = format!("\nskipped: {test}: {why} ({count} skipped in this binary so far)\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Runs a test with a bench, if there is an engine.
pub(crate) async fn with<F: Future<Output = ()>>(test: &str, run: impl FnOnce(Arc<Bench>) -> F) {
    if let Some(bench) = Bench::for_test(test).await {
        tokio::time::timeout(Duration::from_secs(270), run(bench)).await.expect("the test takes too long");
    }
}

/// An image that exists as long as somebody holds it.
struct Image {
    name: String,
}

impl Drop for Image {
    fn drop(&mut self) {
        let name = self.name.clone();
        blocking(move |docker| async move {
            let options = query::RemoveImageOptions { force: true, ..Default::default() };
            if let Err(error) = docker.remove_image(&name, Some(options), None).await {
                eprintln!("deleting image {name} failed: {error}");
            }
        });
    }
}

/// Runs something on its own thread: drops cannot wait on the runtime they happen in.
fn blocking<F: Future<Output = ()>>(run: impl FnOnce(Docker) -> F + Send + 'static) {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { run(client().unwrap()).await });
    });
    thread.join().unwrap();
}

/// Address of the engine, where one is given.
pub(crate) fn address() -> Option<String> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    variable("ORLOP_DOCKER_HOST").or_else(|| variable("DOCKER_HOST"))
}

fn client() -> Result<Docker, String> {
    let address = address().unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
    let version = bollard::API_DEFAULT_VERSION;
    let client = match address.strip_prefix("unix://") {
        Some(path) => Docker::connect_with_unix(path, 60, version),
        None => Docker::connect_with_http(&address, 60, version),
    };
    client.map_err(|error| error.to_string())
}

fn busybox() -> Result<PathBuf, String> {
    let places = ["/bin/busybox", "/usr/bin/busybox", "/usr/local/bin/busybox"];
    let found = places.iter().map(PathBuf::from).find(|path| path.exists());
    found.ok_or_else(|| "no busybox on this machine (Debian: busybox-static)".to_owned())
}

/// A root file system of busybox and its applets.
fn root(busybox: &Path) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let header = |kind, mode, size| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header
    };
    for (name, mode) in [("bin", 0o755), ("etc", 0o755), ("dev", 0o755), ("tmp", 0o1777), ("data", 0o777)] {
        tar.append_data(&mut header(tar::EntryType::Directory, mode, 0), name, std::io::empty()).unwrap();
    }
    let binary = std::fs::read(busybox).unwrap();
    let mut file = header(tar::EntryType::Regular, 0o755, binary.len() as u64);
    tar.append_data(&mut file, "bin/busybox", binary.as_slice()).unwrap();
    let applets = std::process::Command::new(busybox).arg("--list").output().unwrap();
    for applet in String::from_utf8(applets.stdout).unwrap().lines().filter(|applet| *applet != "busybox") {
        tar.append_link(&mut header(tar::EntryType::Symlink, 0o777, 0), format!("bin/{applet}"), "busybox").unwrap();
    }
    let passwd = b"root:x:0:0::/:/bin/sh\nada:x:1234:1234::/:/bin/sh\n";
    let mut file = header(tar::EntryType::Regular, 0o644, passwd.len() as u64);
    tar.append_data(&mut file, "etc/passwd", passwd.as_slice()).unwrap();
    tar.into_inner().unwrap()
}

async fn image(docker: &Docker) -> Result<Arc<Image>, String> {
    let mut shared = IMAGE.lock().await;
    if let Some(image) = shared.upgrade() {
        return Ok(image);
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("localhost/orlop-test:{}-{number}", std::process::id());
    let options = query::CreateImageOptions {
        from_src: Some("-".to_owned()),
        repo: Some(name.clone()),
        changes: vec!["VOLUME /data".to_owned(), "CMD [\"echo\", \"default\"]".to_owned()],
        ..Default::default()
    };
    let body = bollard::body_full(root(&busybox()?).into());
    let mut steps = docker.create_image(Some(options), Some(body), None).boxed();
    while let Some(step) = steps.next().await {
        step.map_err(|error| format!("importing an image failed: {error}"))?;
    }
    let image = Arc::new(Image { name });
    *shared = Arc::downgrade(&image);
    Ok(image)
}

/// An engine with an image, and a directory.
pub(crate) struct Bench {
    pub(crate) docker: Docker,
    pub(crate) directory: tempfile::TempDir,
    /// Number that no other test of any process has.
    pub(crate) flow: String,
    image: Arc<Image>,
}

impl Bench {
    /// A bench, if there is an engine; else it is said that the test is skipped.
    pub(crate) async fn for_test(test: &str) -> Option<Arc<Self>> {
        Self::new().await.inspect_err(|why| skip(test, why)).ok()
    }

    async fn new() -> Result<Arc<Self>, String> {
        let docker = client()?;
        docker.ping().await.map_err(|error| format!("no engine: {error}"))?;
        let image = image(&docker).await?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let flow = format!("test-{}-{number}", std::process::id());
        Ok(Arc::new(Self { docker, directory: tempfile::tempdir().unwrap(), flow, image }))
    }

    /// A runtime, as a process that begins has it.
    pub(crate) async fn runtime(&self) -> DockerRuntime {
        DockerRuntime::connect(options(address())).await.unwrap()
    }

    pub(crate) fn image(&self) -> String {
        self.image.name.clone()
    }

    /// A pod that runs a script, with a directory and log files of its own.
    pub(crate) fn plan(&self, name: &str, script: &str) -> PodPlan {
        let directory = self.directory.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let attempt = AttemptKey { flow: self.flow.as_str().into(), step: name.into(), item: None, attempt: 1 };
        PodPlan {
            key: PodKey { attempt, pod: 0 },
            name: format!("{}-{name}", self.flow),
            labels: BTreeMap::from([("workflow.kube-zen.io/managed-by".to_owned(), "zen-flow".to_owned())]),
            init: Vec::new(),
            main: self.container("main", script),
            restart_on_failure: false,
            restart_limit: 0,
            grace: Duration::from_secs(2),
            active_deadline: None,
            further_groups: Vec::new(),
            secret_files: Vec::new(),
            host_namespaces: HostNamespaces::default(),
            hostname: None,
            host_aliases: Vec::new(),
            pull_secrets: Vec::new(),
            stdout: directory.join("stdout.log"),
            stderr: directory.join("stderr.log"),
            delivered: Vec::new(),
            outputs: Vec::new(),
            directory,
        }
    }

    pub(crate) fn container(&self, name: &str, script: &str) -> ContainerPlan {
        ContainerPlan {
            name: name.to_owned(),
            image: Some(self.image()),
            command: vec!["/bin/sh".to_owned(), "-c".to_owned()],
            args: vec![script.to_owned()],
            termination_message_path: "/dev/termination-log".to_owned(),
            ..Default::default()
        }
    }

    /// Runs a pod to its end.
    pub(crate) async fn run(&self, plan: &PodPlan) -> PodExit {
        let runtime = self.runtime().await;
        runtime.start(plan).await.unwrap();
        runtime.wait(&plan.key, &plan.directory).await.unwrap()
    }

    /// Containers of this test that exist, by name.
    pub(crate) async fn containers(&self) -> Vec<String> {
        containers(&self.docker, &self.flow).await
    }

    /// What the engine tells of a container.
    pub(crate) async fn inspect(&self, name: &str) -> bollard::models::ContainerInspectResponse {
        self.docker.inspect_container(name, None).await.unwrap()
    }

    /// Waits until a log file holds a text.
    pub(crate) async fn until_logged(&self, path: &Path, text: &str) {
        while !std::fs::read_to_string(path).unwrap_or_default().contains(text) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) fn options(address: Option<String>) -> DockerOptions {
    let mut options = DockerOptions::default();
    options.address = address;
    options
}

async fn containers(docker: &Docker, flow: &str) -> Vec<String> {
    let filters = [("label".to_owned(), vec![format!("workflow.kube-zen.io/flow-uid={flow}")])].into();
    let options = query::ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
    let found = docker.list_containers(Some(options)).await.unwrap();
    let mut names: Vec<String> = found.into_iter().filter_map(|found| found.names?.into_iter().next()).collect();
    names.sort();
    names.iter().map(|name| name.trim_start_matches('/').to_owned()).collect()
}

impl Drop for Bench {
    fn drop(&mut self) {
        let flow = self.flow.clone();
        blocking(move |docker| async move {
            for name in containers(&docker, &flow).await {
                let options = query::RemoveContainerOptions { v: true, force: true, ..Default::default() };
                if let Err(error) = docker.remove_container(&name, Some(options)).await {
                    eprintln!("deleting container {name} failed: {error}");
                }
            }
        });
    }
}

/// The texts of a log file, without their times.
pub(crate) fn texts(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|line| {
            assert!(line.ends_with(b"\n"), "a line without end: {line:?}");
            let (_, text) = parse(line).unwrap_or_else(|| panic!("not a log line: {line:?}"));
            String::from_utf8_lossy(text).into_owned()
        })
        .collect()
}

/// The reason a pod failed for.
pub(crate) fn reason(exit: &PodExit) -> &str {
    match &exit.result {
        PodResult::Failed { reason, .. } => reason,
        other => panic!("not failed: {other:?} {exit:?}"),
    }
}

pub(crate) fn plain(value: &str) -> EnvText {
    EnvText { value: value.to_owned(), secret: false }
}

pub(crate) fn secret(value: &str) -> EnvText {
    EnvText { value: value.to_owned(), secret: true }
}
