//! A server and workers as real programs, with a client. Each is ended when it is dropped.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orlop::host::client_token::FILE;
use orlop::wire::grpc::{Connector, JobClient};
use orlop::wire::job::Submission;
use orlop_core::id::JobId;
use orlop_core::spec::job::JobSpec;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// A program that is ended with what measures it.
pub(crate) struct Program(Child);

impl Program {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A fleet of its own.
pub(crate) struct Fixture {
    // The order of the fields is the order in which they end.
    workers: Vec<Program>,
    server: Program,
    address: String,
    rest: String,
    dir: tempfile::TempDir,
}

fn quiet(command: &mut Command, log: &Path) -> Program {
    let log = std::fs::File::create(log).expect("a file for its log");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(log));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ORLOP_")) {
        command.env_remove(name);
    }
    Program(command.spawn().expect("the program starts"))
}

impl Fixture {
    /// A server that leads, without workers.
    pub(crate) async fn server(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (server, [rest, address]) = Self::serve(dir.path(), "127.0.0.1:0", options).await;
        // It listens before it leads.
        until("the server leads", async || is_ready(&rest).await.then_some(())).await;
        Self { workers: Vec::new(), server, address, rest, dir }
    }

    /// The server, and its addresses of REST and of gRPC.
    async fn serve(dir: &Path, listen: &str, options: &[&str]) -> (Program, [String; 2]) {
        let file = dir.join("address");
        drop(std::fs::remove_file(&file));
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop"));
        command
            .args([
                "scheduler",
                "--server-listen",
                "127.0.0.1:0",
                "--server-grpc-listen",
                listen,
                "--log-level",
                "warn",
                "--server-address-file",
            ])
            .arg(&file);
        command.arg("--store-path").arg(dir.join("fleet.db")).arg("--store-logs").arg(dir.join("logs"));
        command.arg("--tls-directory").arg(dir.join("tls")).current_dir(dir);
        command.args(options);
        let server = quiet(&mut command, &dir.join("server.log"));
        let addresses = until("the server listens", async || std::fs::read_to_string(&file).ok()).await;
        let mut lines = addresses.lines();
        let rest = lines.next().expect("that of REST").to_owned();
        let address = lines.next().expect("that of gRPC").trim_start_matches("http://").to_owned();
        (server, [rest, address])
    }

    /// Adds a worker of so many slots.
    pub(crate) fn worker(&mut self, slots: u32) -> u32 {
        let number = self.workers.len();
        let name = format!("w{number}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop"));
        command.args(["worker", "--server", &format!("http://{}", self.address), "--id", &name]);
        command.arg("--state").arg(self.dir.path().join(&name));
        command.args(["--cpu-m", &(slots * 1000).to_string(), "--max-jobs", &slots.to_string()]);
        command.args(["--memory-bytes", &(u64::from(slots) << 30).to_string()]);
        // A disk that is nearly full is no slower.
        command.args(["--min-free-percent", "0"]);
        let worker = quiet(&mut command, &self.dir.path().join(format!("{name}.log")));
        let pid = worker.pid();
        self.workers.push(worker);
        pid
    }

    /// A server with workers that take jobs.
    pub(crate) async fn with_workers(workers: u32, slots: u32) -> Self {
        let mut fixture = Self::server(&[]).await;
        for _ in 0..workers {
            fixture.worker(slots);
        }
        let client = fixture.client().await;
        // One job for every slot has run: everybody is there, and warm.
        let one = job(serde_json::json!({"runtime": "noop", "resources": {"cpu_m": 1000, "memory_bytes": 0}}));
        for _ in 0..workers {
            let taken = client.submit(Submission { jobs: vec![array(&one, slots)], key: None }).await;
            ended(&client, taken.expect("it is taken").jobs()[0]).await;
        }
        fixture
    }

    /// Kills the server, as a crash does, and starts it again where it was.
    pub(crate) async fn restart(&mut self, options: &[&str], away: Duration) {
        let at = self.address.clone();
        drop(self.server.0.kill());
        drop(self.server.0.wait());
        tokio::time::sleep(away).await;
        (self.server, [self.rest, self.address]) = Self::serve(self.dir.path(), &at, options).await;
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.server.pid()
    }

    pub(crate) fn worker_pids(&self) -> Vec<u32> {
        self.workers.iter().map(Program::pid).collect()
    }

    /// The URL of its REST interface.
    pub(crate) fn rest(&self) -> &str {
        &self.rest
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A connected client.
    pub(crate) async fn client(&self) -> JobClient {
        let endpoint = format!("http://{}", self.address).parse().expect("an address");
        let connector = Connector::plain(endpoint).expect("no TLS");
        let channel = until("a connection", async || connector.connect().await.ok()).await;
        let token = std::fs::read_to_string(self.dir.path().join(FILE)).expect("the client token");
        JobClient::new(channel, Some(token.trim())).expect("a client")
    }
}

/// Waits for what must come.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Whether a server answers that it may be asked.
async fn is_ready(rest: &str) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(rest.trim_start_matches("http://")).await?;
        stream.write_all(b"GET /api/v1/health/ready HTTP/1.0\r\nhost: localhost\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    };
    let answer: std::io::Result<String> = ask.await;
    answer.is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
}

/// A job from its JSON.
pub(crate) fn job(json: Value) -> JobSpec {
    JobSpec::from_json(&json).expect("a job")
}

/// The job as an array.
pub(crate) fn array(job: &JobSpec, count: u32) -> JobSpec {
    let mut json = serde_json::to_value(job).expect("it can be written");
    json["array"] = serde_json::json!({ "count": count });
    self::job(json)
}

/// Waits for the end of a job, without asking twice for what is the same.
pub(crate) async fn ended(client: &JobClient, id: JobId) {
    let began = Instant::now();
    loop {
        let view = client.job(id, None, Duration::from_secs(20)).await.expect("the job is known");
        let state = view.known_state().expect("a state");
        if state.is_terminal() {
            assert_eq!(state, orlop_core::machine::job::JobState::Completed, "{view:?}");
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{view:?}");
    }
}
