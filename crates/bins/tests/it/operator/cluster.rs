//! A real control plane, where one is: `kubectl`, namespaces, accounts with their rights. Owns the way to it, and what is said
//! where there is none.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(90);

/// A control plane with controllers.
pub(super) struct Cluster {
    kubectl: PathBuf,
    pub(super) kubeconfig: PathBuf,
}

/// A kind, as clients without types name it.
pub(super) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// A client by a kubeconfig.
pub(super) async fn client(kubeconfig: &Path) -> kube::Client {
    let file = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &kube::config::KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Waits for something to come true.
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Cluster {
    /// The control plane of the environment; none where there is none, or where nothing makes pods of Jobs.
    pub(super) fn find(test: &str) -> Option<Self> {
        let skip = |why: &str| {
            println!("skipped: {test}: {why}");
            None
        };
        let Some(kubeconfig) = std::env::var_os("ORLOP_TEST_KUBECONFIG") else {
            return skip("no Kubernetes (WITH_CONTROLLERS=1 scripts/with-kubernetes starts one)");
        };
        let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = assets.into_iter().chain(std::env::split_paths(&path));
        let Some(kubectl) = folders.map(|folder| folder.join("kubectl")).find(|file| file.is_file()) else {
            return skip("kubectl is not installed");
        };
        let cluster = Self { kubectl, kubeconfig: kubeconfig.into() };
        let began = Instant::now();
        // The account of a namespace is made by the controllers.
        while cluster.run(&["-n", "default", "get", "serviceaccount", "default"]).is_err() {
            if began.elapsed() > Duration::from_secs(20) {
                return skip("no controllers run (WITH_CONTROLLERS=1)");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Some(cluster)
    }

    /// Whether pods are placed; says so where they are not.
    pub(super) fn has_scheduler(&self, test: &str) -> bool {
        let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orlop-test-probe"},
            "spec": {"nodeSelector": {"orlop-test/nowhere": "true"}, "containers": [{"name": "c", "image": "i"}]}});
        self.apply("default", &pod);
        let began = Instant::now();
        let seen = loop {
            let conditions =
                self.get("default", "pod", "orlop-test-probe").unwrap_or_default()["status"]["conditions"].clone();
            if conditions.is_array() || began.elapsed() > Duration::from_secs(20) {
                break conditions.is_array();
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        self.kubectl(&["-n", "default", "delete", "pod", "orlop-test-probe", "--force", "--grace-period=0"]);
        if !seen {
            println!(
                "skipped: {test}: no scheduler runs (WITH_CONTROLLERS=1 starts one where kube-scheduler is there)"
            );
        }
        seen
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        command
    }

    /// What `kubectl` answers; what it says instead is the error.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let done = self.command(arguments).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&done.stderr).into_owned())
    }

    /// The same where it must go well.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> String {
        self.run(arguments).unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
    }

    /// Creates what an object describes.
    pub(super) fn create(&self, namespace: &str, object: &Value) {
        self.feed(&["-n", namespace, "create", "-f", "-"], object);
    }

    /// The same where it may be there from an earlier test.
    pub(super) fn apply(&self, namespace: &str, object: &Value) {
        self.feed(&["-n", namespace, "apply", "-f", "-"], object);
    }

    /// Creates it, and gives what was said beside; the error is why it was not.
    pub(super) fn try_create(&self, namespace: &str, object: &Value) -> Result<String, String> {
        self.fed(&["-n", namespace, "create", "-f", "-"], object)
    }

    /// Sends an object to where it is no kind of its own.
    pub(super) fn post(&self, path: &str, object: &Value) {
        self.feed(&["create", "--raw", path, "-f", "-"], object);
    }

    fn feed(&self, arguments: &[&str], object: &Value) {
        self.fed(arguments, object).unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"));
    }

    fn fed(&self, arguments: &[&str], object: &Value) -> Result<String, String> {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        let reported = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.success() { Ok(reported) } else { Err(reported) }
    }

    /// An object as it is.
    pub(super) fn get(&self, namespace: &str, kind: &str, name: &str) -> Option<Value> {
        serde_json::from_str(&self.run(&["-n", namespace, "get", kind, name, "-o", "json"]).ok()?).ok()
    }

    /// The phase of a flow.
    pub(super) fn phase(&self, namespace: &str, name: &str) -> String {
        let flow = self.get(namespace, "jobflow", name).unwrap_or_default();
        flow["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// A kubeconfig with the rights of a service account and no others.
    pub(super) fn account(&self, dir: &Path, namespace: &str, account: &str) -> PathBuf {
        let token = self.kubectl(&["-n", namespace, "create", "token", account]);
        let view = self.kubectl(&["config", "view", "--raw", "--flatten", "-o", "json"]);
        let mut config: Value = serde_json::from_str(&view).unwrap();
        config["users"][0]["user"] = serde_json::json!({"token": token.trim()});
        let file = dir.join(format!("{account}.kubeconfig"));
        std::fs::write(&file, config.to_string()).unwrap();
        file
    }
}
