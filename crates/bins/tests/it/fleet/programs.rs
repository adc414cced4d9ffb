//! The programs `orlop-scheduler`, `orlop-worker` and `orlop` beside one another, as processes of their own. Owns starting
//! them in a directory of the test's, finding their addresses, and ending what is left.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::bench::{Gave, PATIENCE};

/// Waits for something to come true.
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What an HTTP server answers to a plain request, without its head.
pub(super) fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text.split_once("\r\n\r\n")?.1.to_owned())
}

/// A process that ends with this value.
pub(super) struct Running(Child);

impl Running {
    pub(super) fn of(child: Child) -> Self {
        Self(child)
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
pub(super) struct Scheduler {
    pub(super) process: Running,
    /// Address of its REST interface.
    pub(super) rest: String,
    /// Address of its gRPC services.
    pub(super) grpc: String,
}

/// Programs with their files in one directory.
pub(super) struct Programs {
    dir: tempfile::TempDir,
}

impl Programs {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ORLOP_")) {
            command.env_remove(name);
        }
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// The log of a program that was started under a name.
    pub(super) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    fn spawn(&self, name: &str, mut command: Command) -> Running {
        let log = std::fs::File::options().create(true).append(true).open(self.path(&format!("{name}.log")));
        let child = command.stdout(Stdio::null()).stderr(log.expect("a log")).spawn();
        Running(child.expect("the program starts"))
    }

    /// The command of a scheduler that waits for its flags.
    pub(super) fn scheduler_command(&self) -> Command {
        self.command(assert_cmd::cargo::cargo_bin!("orlop-scheduler"))
    }

    /// Starts a scheduler without waiting for anything.
    pub(super) fn spawn_scheduler(&self, name: &str, args: &[&str]) -> Running {
        let file = self.path(&format!("{name}.address"));
        if file.exists() {
            std::fs::remove_file(&file).expect("an old address goes");
        }
        let mut command = self.scheduler_command();
        command.args(["--server-listen", "127.0.0.1:0", "--server-grpc-listen", "127.0.0.1:0"]).args(args);
        command.arg("--server-address-file").arg(&file).arg("--server-name").arg(name);
        command.arg("--store-logs").arg(self.path(&format!("{name}-logs")));
        command.arg("--store-artifacts").arg(self.path(&format!("{name}-artifacts")));
        self.spawn(name, command)
    }

    /// Starts a scheduler and waits until it answers.
    pub(super) fn scheduler(&self, name: &str, args: &[&str]) -> Scheduler {
        let process = self.spawn_scheduler(name, args);
        let file = self.path(&format!("{name}.address"));
        let text = until(&format!("the address of {name}"), || std::fs::read_to_string(&file).ok());
        let mut lines = text.lines().map(str::to_owned);
        let mut line = || lines.next().expect("two addresses");
        Scheduler { process, rest: line(), grpc: line() }
    }

    /// Starts a worker of servers.
    pub(super) fn worker(&self, name: &str, servers: &[&str], args: &[&str]) -> Running {
        let mut command = self.command(Path::new(env!("CARGO_BIN_EXE_orlop-worker")));
        for server in servers {
            command.args(["--server", server]);
        }
        command.args(["--id", name, "--state"]).arg(self.path(&format!("{name}-state"))).args(args);
        self.spawn(name, command)
    }

    /// Runs a verb.
    pub(super) fn orlop(&self, server: &str, args: &[&str]) -> Gave {
        self.orlop_with(server, &[], args)
    }

    /// The same with further variables.
    pub(super) fn orlop_with(&self, server: &str, variables: &[(&str, &str)], args: &[&str]) -> Gave {
        let mut command = self.command(assert_cmd::cargo::cargo_bin!("orlop"));
        command.args(args).env("ORLOP_SERVER", server).envs(variables.iter().copied());
        Gave::of(command.output().expect("the program runs"))
    }

    /// Runs a verb that must succeed, and gives what it printed.
    pub(super) fn good(&self, server: &str, args: &[&str]) -> String {
        let gave = self.orlop(server, args);
        assert_eq!(gave.code, 0, "{args:?}: {gave:?}");
        gave.out
    }
}
