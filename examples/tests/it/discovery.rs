//! Service discovery as the operator contract has it, on one machine: two executors hold a connection each to a performer, as
//! processes, through its stable name, while the performer is upgraded. The name is a listener that forwards each new connection
//! to the pod that the Service selects at that moment; pods are processes of the example performer. Executors read the file that
//! the operator has rendered for them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orlop_core::time::Time;
use orlop_k8s::api::Client;
use orlop_k8s::executor::Executors;
use orlop_k8s::hourglass::controller::Reconciler;
use orlop_k8s::hourglass::{Config, Controller, RunOptions};
use orlop_k8s::performer::Performers;
use orlop_k8s::shell::Clock;
use orlop_k8s::testing::{Admission, ApiServer, Verb};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

const GROUP: &str = "hourglass.eigenlayer.io";
const EXECUTORS: [&str; 2] = ["one", "two"];

struct ServerClock(ApiServer);

impl Clock for ServerClock {
    fn now(&self) -> Time {
        Time::from_millis(self.0.clock().now())
    }
}

/// A process and the line it began with.
struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts an example, and waits for a line that begins so.
    fn start(program: &str, arguments: &[String], begins: &str) -> (Self, String) {
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&lines);
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(line)));
        let process = Self { child, lines };
        let line = until(begins, || process.lines().into_iter().find(|line| line.starts_with(begins)));
        (process, line)
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn terminate(&self) {
        // It may have ended.
        let _ = kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Pods as processes, by the number of their incarnation.
#[derive(Clone, Default)]
struct Pods(Arc<Mutex<BTreeMap<String, (Process, String)>>>);

fn incarnation(pod: &Value) -> String {
    pod["metadata"]["labels"]["hourglass.eigenlayer.io/incarnation"].as_str().unwrap_or_default().to_owned()
}

impl Pods {
    /// A pod is admitted once its process listens: so a kubelet's probe finds it.
    fn admit(&self, asked: &Admission<'_>, pod: &Value) {
        if asked.kind == "Pod" && asked.verb == Verb::Create && !incarnation(pod).is_empty() {
            let address = ["127.0.0.1:0".to_owned()];
            let (process, line) = Process::start(env!("CARGO_BIN_EXE_performer"), &address, "serves on ");
            let address = line.trim_start_matches("serves on ").to_owned();
            self.0.lock().unwrap().insert(incarnation(pod), (process, address));
        }
    }

    fn address(&self, number: &str) -> Option<String> {
        self.0.lock().unwrap().get(number).map(|(_, address)| address.clone())
    }

    fn end_all_but(&self, there: &[String]) {
        let pods = self.0.lock().unwrap();
        pods.iter().filter(|(number, _)| !there.contains(number)).for_each(|(_, (process, _))| process.terminate());
    }

    /// Tells the processes of pods that are gone to go.
    async fn follow(self, server: ApiServer) {
        loop {
            let there: Vec<String> = server.look_all("pods").iter().map(incarnation).collect();
            self.end_all_but(&there);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The stable name: forwards each connection to the pod that the Service selects now, and notes which that was.
async fn forward(server: ApiServer, pods: Pods, listener: TcpListener, taken: Arc<Mutex<Vec<String>>>) {
    while let Ok((mut inward, _)) = listener.accept().await {
        let service = server.look("services", "default", "performer-avs").unwrap_or_default();
        let number = service["spec"]["selector"]["hourglass.eigenlayer.io/incarnation"].as_str().unwrap_or_default();
        let Some(address) = pods.address(number) else { continue };
        taken.lock().unwrap().push(number.to_owned());
        tokio::spawn(async move {
            let mut outward = TcpStream::connect(address).await?;
            copy_bidirectional(&mut inward, &mut outward).await
        });
    }
}

/// Lets a controller work.
fn control<R: Reconciler + 'static>(server: &ApiServer) {
    let client = server.client_named("operator");
    let clock = Arc::new(ServerClock(server.clone()));
    let resync = Duration::from_secs(300);
    let controller: Controller<Client, R> =
        Controller::new(Client::new(client.clone()), clock, Arc::new(Config::default()), resync);
    let options = RunOptions::default();
    tokio::spawn(async move { controller.run(client, &options, std::future::pending()).await });
}

/// A cluster with a performer and two executors in it, and the controllers of both that work.
fn cluster(pods: &Pods) -> ApiServer {
    let server = ApiServer::new();
    for (_, definition) in orlop_k8s::crd::all() {
        server.install(&definition).unwrap();
    }
    let ready =
        json!({"allocatable": {"cpu": "8", "memory": "8Gi"}, "conditions": [{"type": "Ready", "status": "True"}]});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "status": ready});
    server.create("", "nodes", "", &node).unwrap();
    let admitted = pods.clone();
    server.admission(Arc::new(move |asked, object| {
        admitted.admit(asked, object);
        Ok(())
    }));
    server.clock().follow_tokio();
    let works = server.jobs();
    tokio::spawn(async move { works.run().await });
    control::<Performers>(&server);
    control::<Executors>(&server);
    for name in EXECUTORS {
        let chain = json!({"name": "ethereum", "rpc": "https://c.example", "chainId": 1,
            "taskMailboxAddress": "0x1234567890abcdef1234567890abcdef12345678"});
        let spec = json!({"image": "executor:1", "config": {"aggregatorEndpoint": "aggregator.example:9000",
            "operatorKeysSecretRef": {"name": "keys"}, "chains": [chain]}});
        let object = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "HourglassExecutor",
            "metadata": {"name": name}, "spec": spec});
        server.create(GROUP, "hourglassexecutors", "default", &object).unwrap();
    }
    let spec = json!({"avsAddress": "0x1234567890abcdef1234567890abcdef12345678", "image": "performer:1",
        "upgrade": {"minReadySeconds": 1, "drainSeconds": 2}});
    let kind = json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Performer"});
    let mut performer = kind;
    (performer["metadata"], performer["spec"]) = (json!({"name": "avs"}), spec);
    server.create(GROUP, "performers", "default", &performer).unwrap();
    server
}

fn status(server: &ApiServer) -> Value {
    server.look(&format!("performers.{GROUP}"), "default", "avs").unwrap_or_default()["status"].clone()
}

/// Somebody wants another image.
async fn upgrade(server: &ApiServer) {
    use orlop_k8s::api::{Api as _, Kind, Request};

    let patch = json!({"spec": {"image": "performer:2"}});
    let request = Request::patch(Kind::Performer, "default", "avs", patch);
    Client::new(server.client_named("user")).send(&request).await.unwrap();
}

/// What the pods of an executor find at `/etc/hourglass`, in a folder.
fn mounted(server: &ApiServer, dir: &Path, name: &str) -> PathBuf {
    let pod = until("a pod of the executor", || {
        let is = |pod: &Value| pod["metadata"]["labels"]["hourglass.eigenlayer.io/name"] == name;
        server.look_all("pods").into_iter().find(is)
    });
    let volume = pod["spec"]["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "config").unwrap();
    let config = volume["configMap"]["name"].as_str().unwrap();
    let data = server.look("configmaps", "default", config).unwrap()["data"].clone();
    let dir = dir.join(name);
    std::fs::create_dir(&dir).unwrap();
    for item in volume["configMap"]["items"].as_array().unwrap() {
        let text = data[item["key"].as_str().unwrap()].as_str().unwrap();
        std::fs::write(dir.join(item["path"].as_str().unwrap()), text).unwrap();
    }
    dir
}

/// An executor with the file that the operator has rendered, and the arguments that its pods have.
fn executor(server: &ApiServer, dir: &Path, name: &str, performer: &str) -> Process {
    let folder = mounted(server, dir, name);
    let deployment = server.look("deployments.apps", "default", name).unwrap();
    let rendered = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let here = |word: &Value| word.as_str().unwrap().replace("/etc/hourglass", &folder.to_string_lossy());
    let mut arguments: Vec<String> = rendered.iter().map(here).collect();
    arguments.extend([format!("--performer={performer}"), "--health-addr=127.0.0.1:0".to_owned()]);
    Process::start(env!("CARGO_BIN_EXE_executor"), &arguments, "watches chain ethereum (1)").0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_executors_keep_their_connections_while_the_performer_is_upgraded() {
    let (pods, taken, dir) = (Pods::default(), Arc::<Mutex<Vec<String>>>::default(), tempfile::tempdir().unwrap());
    let server = cluster(&pods);
    tokio::spawn(pods.clone().follow(server.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = listener.local_addr().unwrap().to_string();
    tokio::spawn(forward(server.clone(), pods, listener, Arc::clone(&taken)));
    let comes = |phase: &'static str, number: u64| {
        let server = server.clone();
        tokio::task::spawn_blocking(move || {
            until(phase, || {
                let status = status(&server);
                (status["phase"] == phase && status["active"]["incarnation"] == number).then_some(())
            });
        })
    };
    comes("Running", 1).await.unwrap();
    let there = server.clone();
    let executors = tokio::task::spawn_blocking(move || {
        let executors = EXECUTORS.map(|executor_name| executor(&there, dir.path(), executor_name, &name));
        let answers = |process: &Process| process.lines().iter().any(|line| line.ends_with("the performer answers"));
        until("answers", || executors.iter().all(answers).then_some(()));
        executors
    });
    let executors = executors.await.unwrap();
    assert_eq!(*taken.lock().unwrap(), ["1", "1"], "one connection each");
    upgrade(&server).await;
    comes("Running", 2).await.unwrap();
    assert_eq!(*taken.lock().unwrap(), ["1", "1"], "what is established stays while the old pod is drained");
    let seen = Arc::clone(&taken);
    let moved = tokio::task::spawn_blocking(move || {
        until("the executors at the new pod", || (seen.lock().unwrap().len() == 4).then_some(()));
        // Some calls more, over the new connections.
        std::thread::sleep(Duration::from_secs(1));
    });
    moved.await.unwrap();
    assert_eq!(*taken.lock().unwrap(), ["1", "1", "2", "2"], "each came back once, through the same name");
    for process in &executors {
        let failed: Vec<String> = process.lines().into_iter().filter(|line| line.contains("failed")).collect();
        assert_eq!(failed, [] as [String; 0], "no call is lost");
    }
}
