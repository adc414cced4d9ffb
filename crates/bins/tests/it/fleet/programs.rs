//! The programs `orlop-scheduler`, `orlop-worker` and `orlop` beside one another, as processes of their own. Owns starting
//! them in a directory of the test's, finding their addresses, and ending what is left.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::bench::{Gave, bearer, bearer_beside, knows};
pub(crate) use crate::ongoing::until;

/// What an HTTP server answers to a plain request, without its head.
pub(super) fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n{}\r\n", bearer(address)).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text.split_once("\r\n\r\n")?.1.to_owned())
}

/// Asks the REST interface as any client would, and gives status and body; none if no whole answer came.
pub(super) fn ask(server: &str, method: &str, path: &str, headers: &str, body: &str) -> Option<(u16, String)> {
    let host = server.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let length = body.len();
    let bearer = bearer_beside(host, headers);
    let head = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{bearer}{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// The same where the answer is JSON and good.
pub(crate) fn json(server: &str, path: &str) -> Option<Value> {
    let (status, body) = ask(server, "GET", path, "", "")?;
    serde_json::from_str(&body).ok().filter(|_| status == 200)
}

/// A process that ends with this value.
pub(crate) struct Running(Child);

impl Running {
    pub(super) fn of(child: Child) -> Self {
        Self(child)
    }

    /// Ends it without a word.
    pub(super) fn kill(&mut self) {
        self.0.kill().expect("the signal is sent");
        self.0.wait().expect("it is a child");
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it is a child").is_some()
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).expect("a process id")), signal).expect("the signal is sent");
    }

    /// Waits for its end, and gives its exit code.
    pub(super) fn end(mut self) -> Option<i32> {
        until("the end of a program", || self.0.try_wait().expect("it is a child")).code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A scheduler that runs.
pub(crate) struct Scheduler {
    pub(crate) process: Running,
    /// Address of its REST interface.
    pub(crate) rest: String,
    /// Address of its gRPC services.
    pub(crate) grpc: String,
}

impl Scheduler {
    /// Whether it leads now, as it says itself.
    pub(super) fn leads(&self) -> bool {
        json(&self.rest, "/stats").is_some_and(|stats| stats["status"] == "leading")
    }

    fn leading(self) -> Self {
        until("a server that leads", || self.leads().then_some(()));
        self
    }
}

/// Programs with their files in one directory.
pub(crate) struct Programs {
    dir: tempfile::TempDir,
}

/// Whether a process has files open below a directory.
fn has_files_below(process: &Path, dir: &Path) -> bool {
    let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file.starts_with(dir))
}

/// Ends what runs below a directory: jobs and their supervisors go on without the programs that started them.
pub(super) fn end_all_below(dir: &Path) {
    let text = dir.display().to_string();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let within = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words);
        // A supervisor is known by its files alone; what it keeps ends with it.
        let keeps = words.contains("__supervisor") && has_files_below(&entry.path(), dir);
        if (within || keeps || words.contains(&text)) && pid != std::process::id().cast_signed() {
            // One that has ended meanwhile is what is wanted.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

impl Drop for Programs {
    /// What the programs said is what explains a failure. Nothing of them goes on.
    fn drop(&mut self) {
        end_all_below(self.dir.path());
        let entries = std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(|_| std::thread::panicking()) {
            if path.extension().is_some_and(|extension| extension == "log") {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                println!("{}:\n{}", path.display(), lines[lines.len().saturating_sub(40)..].join("\n"));
            }
        }
    }
}

impl Programs {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, mut command: Command) -> Command {
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// The runtime directory of the servers, so that only who is given the token's file has it.
    fn runtime(&self) -> PathBuf {
        let path = self.path("run");
        drop(std::fs::DirBuilder::new().mode(0o700).create(&path));
        path
    }

    /// The file of the client token of all servers of this directory: they are reached through lines of tests too.
    pub(crate) fn client_token(&self) -> PathBuf {
        self.path("client.token")
    }

    /// The command of a verb that asks a server.
    fn asking(&self, server: &str, variables: &[(&str, &str)], args: &[&str]) -> Command {
        let mut command = self.command(crate::role::program());
        if self.client_token().exists() && !variables.iter().any(|(name, _)| *name == "ORLOP_TOKEN") {
            command.env("ORLOP_TOKEN_FILE", self.client_token());
        }
        command.args(args).env("ORLOP_SERVER", server).envs(variables.iter().copied());
        command
    }

    /// The log of a program that was started under a name.
    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    pub(super) fn spawn(&self, name: &str, mut command: Command) -> Running {
        let log = std::fs::File::options().create(true).append(true).open(self.path(&format!("{name}.log")));
        let child = command.stdout(Stdio::null()).stderr(log.expect("a log")).spawn();
        Running(child.expect("the program starts"))
    }

    /// The command of a scheduler that waits for its flags.
    pub(super) fn scheduler_command(&self) -> Command {
        self.command(crate::role::command("scheduler"))
    }

    /// Starts a scheduler without waiting for anything.
    pub(super) fn spawn_scheduler(&self, name: &str, args: &[&str]) -> Running {
        self.spawn_scheduler_with(name, &[], args)
    }

    fn spawn_scheduler_with(&self, name: &str, variables: &[(&str, &str)], args: &[&str]) -> Running {
        let file = self.path(&format!("{name}.address"));
        if file.exists() {
            std::fs::remove_file(&file).expect("an old address goes");
        }
        let mut command = self.scheduler_command();
        command.envs(variables.iter().copied());
        command.args(["--server-listen", "127.0.0.1:0", "--server-grpc-listen", "127.0.0.1:0"]).args(args);
        command.env("XDG_RUNTIME_DIR", self.runtime());
        command.arg("--auth-client-token-file").arg(self.client_token());
        command.arg("--server-address-file").arg(&file).arg("--server-name").arg(name);
        // With a database they are there.
        if !args.iter().any(|arg| arg.starts_with("--store-url")) {
            command.arg("--store-logs").arg(self.path(&format!("{name}-logs")));
            command.arg("--store-artifacts").arg(self.path(&format!("{name}-artifacts")));
        }
        // Many tests at once would set much aside.
        command.arg("--store-reserve=0").env("ORLOP_TESTING_CLOCK", self.path("clock"));
        self.spawn(name, command)
    }

    /// Starts a scheduler and waits until it answers.
    pub(crate) fn scheduler(&self, name: &str, args: &[&str]) -> Scheduler {
        self.scheduler_with(name, &[], args)
    }

    /// The same with further variables.
    pub(super) fn scheduler_with(&self, name: &str, variables: &[(&str, &str)], args: &[&str]) -> Scheduler {
        let process = self.spawn_scheduler_with(name, variables, args);
        let file = self.path(&format!("{name}.address"));
        let text = until(&format!("the address of {name}"), || std::fs::read_to_string(&file).ok());
        let mut lines = text.lines().map(str::to_owned);
        let mut line = || lines.next().expect("two addresses");
        let scheduler = Scheduler { process, rest: line(), grpc: line() };
        knows(&scheduler.rest, &self.client_token());
        scheduler
    }

    /// Starts a scheduler, and waits until it leads.
    pub(crate) fn leader(&self, name: &str, args: &[&str]) -> Scheduler {
        self.scheduler(name, args).leading()
    }

    /// Starts a scheduler where one was that has ended, and waits until it leads.
    pub(super) fn scheduler_again(&self, name: &str, before: &Scheduler, args: &[&str]) -> Scheduler {
        self.scheduler_back(name, before, args).leading()
    }

    /// The same where another may lead meanwhile.
    pub(super) fn scheduler_back(&self, name: &str, before: &Scheduler, args: &[&str]) -> Scheduler {
        let at = |url: &str, flag: &str| format!("--server-{flag}={}", url.trim_start_matches("http://"));
        let (rest, grpc) = (at(&before.rest, "listen"), at(&before.grpc, "grpc-listen"));
        self.scheduler(name, &[&[rest.as_str(), grpc.as_str()], args].concat())
    }

    /// Starts a worker of servers.
    pub(crate) fn worker(&self, name: &str, servers: &[&str], args: &[&str]) -> Running {
        self.worker_with(name, name, servers, args)
    }

    /// Starts a worker with an id, whose log, state and clock have another name.
    pub(super) fn worker_with(&self, name: &str, id: &str, servers: &[&str], args: &[&str]) -> Running {
        self.spawn(name, self.worker_command(name, id, servers, args))
    }

    /// The command of such a worker.
    pub(super) fn worker_command(&self, name: &str, id: &str, servers: &[&str], args: &[&str]) -> Command {
        let mut command = self.command(crate::role::command("worker"));
        for server in servers {
            command.args(["--server", server]);
        }
        if self.client_token().exists() {
            command.env("ORLOP_WORKER_TOKEN_FILE", self.client_token());
        }
        command.args(["--id", id, "--state"]).arg(self.path(&format!("{name}-state"))).args(args);
        command.env("ORLOP_TESTING_CLOCK", self.path(&format!("{name}-clock")));
        super::on_any_disk(&mut command);
        command
    }

    /// Runs a verb.
    pub(super) fn orlop(&self, server: &str, args: &[&str]) -> Gave {
        self.orlop_with(server, &[], args)
    }

    /// Runs a verb as another user of this machine does, who does not find the servers' runtime directory.
    pub(super) fn stranger(&self, server: &str, args: &[&str]) -> Gave {
        let mut command = self.command(crate::role::program());
        command.args(args).env("ORLOP_SERVER", server);
        Gave::of(command.output().expect("the program runs"))
    }

    /// The same with further variables.
    pub(super) fn orlop_with(&self, server: &str, variables: &[(&str, &str)], args: &[&str]) -> Gave {
        let mut command = self.asking(server, variables, args);
        Gave::of(command.output().expect("the program runs"))
    }

    /// Starts a verb that goes on; all that it prints is in its log.
    pub(super) fn follow(&self, name: &str, server: &str, variables: &[(&str, &str)], args: &[&str]) -> Running {
        let mut command = self.asking(server, variables, args);
        let log = std::fs::File::create(self.path(&format!("{name}.log"))).expect("a log");
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        Running(command.spawn().expect("the program starts"))
    }

    /// Runs a verb that must succeed, and gives what it printed.
    pub(super) fn good(&self, server: &str, args: &[&str]) -> String {
        let gave = self.orlop(server, args);
        assert_eq!(gave.code, 0, "{args:?}: {gave:?}");
        gave.out
    }
}
