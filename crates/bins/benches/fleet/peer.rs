//! HyperQueue beside us, by its own program: a server, workers, a submit that waits.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::PATIENCE;

/// What the program says of its version.
pub(crate) fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output().expect("HyperQueue runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A server with its workers; ended when dropped.
pub(crate) struct Peer {
    program: PathBuf,
    dir: tempfile::TempDir,
    children: Vec<Child>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

impl Peer {
    /// A server and so many workers of so many CPUs.
    pub(crate) fn new(program: &Path, workers: u32, cpus: u32) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut peer = Self { program: program.to_owned(), dir, children: Vec::new() };
        let server = peer.command(&["server", "start"]).spawn().expect("HyperQueue's server starts");
        peer.children.push(server);
        let began = Instant::now();
        while !peer.command(&["server", "info"]).status().is_ok_and(|status| status.success()) {
            assert!(began.elapsed() < PATIENCE, "HyperQueue's server answers");
            std::thread::sleep(Duration::from_millis(20));
        }
        for _ in 0..workers {
            let cpus = cpus.to_string();
            let worker = peer.command(&["worker", "start", "--cpus", &cpus]).spawn().expect("its worker starts");
            peer.children.push(worker);
        }
        if workers == 0 {
            return peer;
        }
        let wait = peer.command(&["worker", "wait", &workers.to_string()]).status();
        assert!(wait.is_ok_and(|status| status.success()), "HyperQueue's workers come");
        peer.run(workers * cpus, &["true"]);
        peer
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--server-dir").arg(self.dir.path().join("server")).args(args).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs an array of so many tasks to its end. Gives seconds.
    pub(crate) fn run(&self, count: u32, task: &[&str]) -> f64 {
        let range = format!("1-{count}");
        let mut command =
            self.command(&["submit", "--array", &range, "--stdout", "none", "--stderr", "none", "--wait"]);
        command.arg("--").args(task);
        let began = Instant::now();
        assert!(command.status().expect("HyperQueue's client runs").success(), "HyperQueue's tasks succeed");
        began.elapsed().as_secs_f64()
    }

    /// Runs arrays of so many tasks that differ in what they ask for, one array for each class. Gives seconds.
    pub(crate) fn run_shapes(&self, classes: u32, each: u32) -> f64 {
        let range = format!("1-{each}");
        let began = Instant::now();
        for class in 0..classes {
            // How long a task may take at least is part of what it asks for.
            let request = format!("{}s", class + 1);
            let args = [
                "submit",
                "--array",
                &range,
                "--stdout",
                "none",
                "--stderr",
                "none",
                "--time-request",
                &request,
                "true",
            ];
            assert!(self.command(&args).status().expect("HyperQueue's client runs").success(), "it takes the tasks");
        }
        let waited = self.command(&["job", "wait", "all"]).status();
        assert!(waited.expect("HyperQueue's client runs").success(), "HyperQueue's tasks succeed");
        began.elapsed().as_secs_f64()
    }

    /// Submits an array and does not wait for it. Gives seconds.
    pub(crate) fn submit(&self, count: u32) -> f64 {
        let range = format!("1-{count}");
        let began = Instant::now();
        let status =
            self.command(&["submit", "--array", &range, "--stdout", "none", "--stderr", "none", "true"]).status();
        assert!(status.expect("HyperQueue's client runs").success(), "HyperQueue takes the tasks");
        began.elapsed().as_secs_f64()
    }

    /// The process of its server.
    pub(crate) fn server_pid(&self) -> u32 {
        self.children.first().map_or(0, Child::id)
    }
}
