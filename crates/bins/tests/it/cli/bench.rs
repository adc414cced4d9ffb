//! A home of its own for every test, and the program in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ongoing::{Ongoing, until};

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Bench {
    dir: tempfile::TempDir,
}

/// What a command gave.
#[derive(Debug)]
pub(super) struct Gave {
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Gave {
    pub(super) fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// A step that runs a shell script.
pub(super) fn step(name: &str, script: &str) -> Value {
    let container = json!({"name": "main", "image": "busybox", "command": ["sh", "-c", script]});
    json!({
        "name": name,
        "template": {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": {"containers": [container]}}}},
    })
}

/// A step that waits for others.
pub(super) fn after(mut step: Value, dependencies: &[&str]) -> Value {
    step["dependencies"] = json!(dependencies);
    step
}

/// What the script of a step waits for: a file, away from `/tmp`, which every step has for itself.
pub(super) struct ReleaseFile(tempfile::TempDir);

impl ReleaseFile {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir_in("/var/tmp").expect("a temporary directory"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("go")
    }

    /// A script that waits for it, and goes on with another one.
    pub(super) fn then(&self, script: &str) -> String {
        // It ends with the test too, whatever became of that.
        let (file, folder) = (self.file(), self.0.path().display());
        format!("until [ -e {} ] || [ ! -d {folder} ]; do sleep 0.05; done; {script}", file.display())
    }

    /// Waits until the script that waits for it stands still: the phase says that this was ordered, not that it is done.
    pub(super) fn until_script_is_stopped(&self) {
        let file = self.file().display().to_string();
        until("the script's stop", || {
            let processes = std::fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
            processes.into_iter().find(|process| {
                let read = |name: &str| std::fs::read(process.join(name)).unwrap_or_default();
                let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
                let stat = String::from_utf8_lossy(&read("stat")).into_owned();
                command.starts_with("sh\0") && command.contains(&file) && stat.contains(") T ")
            })
        });
    }

    pub(super) fn open(&self) {
        std::fs::write(self.file(), "").expect("a file is written");
    }
}

impl Bench {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Settings of snapshots: what differs from run to run is shown by one word.
    pub(super) fn settings(&self) -> insta::Settings {
        let mut settings = insta::Settings::clone_current();
        // Links on the way to temporary directories are followed by the program.
        let dir = std::fs::canonicalize(self.dir.path()).expect("the directory is there");
        for dir in [dir.as_path(), self.dir.path()] {
            settings.add_filter(&dir.display().to_string().replace('.', r"\."), "DIR");
        }
        settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME");
        settings.add_filter(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "UID");
        settings.add_filter(r"-[0-9a-f]{8}\b", "-UID8");
        settings.add_filter(r"\b(\d+m)?\d+(\.\d+)?m?s\b", "DURATION");
        settings
    }

    /// Writes a flow of these steps, and gives its file.
    pub(super) fn flow(&self, name: &str, spec: &Value) -> PathBuf {
        let object = json!({
            "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"name": name}, "spec": spec,
        });
        self.file(&format!("{name}.json"), &object.to_string())
    }

    pub(super) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file is written");
        path
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = crate::role::program();
        command.args(args).env("ORLOP_HOME", self.path("home")).env("USER", "ann");
        // Tests about profiles have their own.
        command.env("XDG_CONFIG_HOME", self.path("config")).env_remove("ORLOP_PROFILE");
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    pub(super) fn orlop(&self, args: &[&str]) -> Gave {
        Gave::of(self.command(args).output().expect("the program runs"))
    }

    /// The same where no container engine answers.
    pub(super) fn without_engine(&self, args: &[&str]) -> Gave {
        let socket = format!("unix://{}", self.path("no.sock").display());
        Gave::of(self.command(args).env("ORLOP_DOCKER_HOST", socket).output().expect("the program runs"))
    }

    /// Runs a flow as processes, to its end.
    pub(super) fn run(&self, file: &Path, args: &[&str]) -> Gave {
        let file = file.display().to_string();
        self.orlop(&[&["run", file.as_str(), "--target", "process"], args].concat())
    }

    /// Begins to run a flow as processes.
    pub(super) fn begin(&self, file: &Path, args: &[&str]) -> Ongoing {
        let file = file.display().to_string();
        let all = [&["run", file.as_str(), "--target", "process"], args].concat();
        Ongoing::begin(&mut self.command(&all))
    }

    /// Runs a flow of these steps as processes, to its end.
    pub(super) fn run_steps(&self, name: &str, steps: &Value) -> Gave {
        self.run(&self.flow(name, &json!({"steps": steps})), &[])
    }

    /// Begins to run a flow of these steps as processes, and waits until one of them runs.
    pub(super) fn running(&self, name: &str, steps: &Value) -> Ongoing {
        let child = self.begin(&self.flow(name, &json!({"steps": steps})), &[]);
        self.until(name, |status| status["progress"]["runningSteps"] == 1);
        child
    }

    /// Begins to run the program.
    pub(super) fn start(&self, args: &[&str]) -> Ongoing {
        Ongoing::begin(&mut self.command(args))
    }

    /// Waits until a program catches a signal.
    pub(super) fn catches(&self, child: &Child, signal: nix::sys::signal::Signal) {
        let since = Instant::now();
        loop {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim().to_owned();
            if u64::from_str_radix(&caught, 16).unwrap_or(0) >> (signal as i32 - 1) & 1 == 1 {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{signal} is never caught");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The status of a run as JSON, once it is there.
    pub(super) fn status(&self, name: &str) -> Option<Value> {
        let gave = self.orlop(&["flow", "get", name, "-o", "json"]);
        let object: Value = serde_json::from_str(&gave.out).ok()?;
        Some(object["status"].clone())
    }

    /// Waits until the status of a run is as asked.
    pub(super) fn until(&self, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let status = self.status(name);
            if let Some(status) = status.as_ref().filter(|status| holds(status)) {
                return status.clone();
            }
            assert!(since.elapsed() < PATIENCE, "{name} never got there: {status:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The user under whom the tests run, as the machine knows it.
pub(super) fn user() -> String {
    let uid = nix::unistd::getuid();
    nix::unistd::User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

/// Waits for the end of a program.
pub(super) fn end(child: Ongoing) -> Gave {
    Gave::of(child.output())
}

/// Sends a signal to a program.
pub(super) fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    nix::sys::signal::kill(pid, signal).expect("the signal is sent");
}

/// Phases of steps, `name=phase/reason`.
pub(super) fn phases(status: &Value) -> String {
    let steps = status["steps"].as_array().cloned().unwrap_or_default();
    let line = |step: &Value| {
        let text = |member: &str| step[member].as_str().unwrap_or_default().to_owned();
        let reason = text("reason");
        let reason = if reason.is_empty() { reason } else { format!("/{reason}") };
        format!("{}={}{reason}", text("name"), text("phase"))
    };
    steps.iter().map(line).collect::<Vec<_>>().join(" ")
}
