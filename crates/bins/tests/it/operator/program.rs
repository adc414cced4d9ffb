//! The program `orlop-operator` as a process of its own. Owns starting it with a log, finding where it serves, and ending it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::cluster::until;

/// An operator that runs.
pub(super) struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it, with probes and metrics on a free port of this machine.
    pub(super) fn start(dir: &Path, name: &str, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::begin(dir, name, kubeconfig, arguments, false)
    }

    /// The same where it takes itself for a container of a pod.
    pub(super) fn start_in_pod(dir: &Path, name: &str, kubeconfig: &Path, arguments: &[&str]) -> Self {
        Self::begin(dir, name, kubeconfig, arguments, true)
    }

    fn begin(dir: &Path, name: &str, kubeconfig: &Path, arguments: &[&str], in_pod: bool) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = std::fs::File::create(&log).unwrap();
        let mut command = crate::role::command("operator");
        for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("ORLOP_")) {
            command.env_remove(variable);
        }
        command.env("POD_NAME", name).arg("--kubeconfig").arg(kubeconfig).args(arguments);
        command.args(["--metrics-addr=127.0.0.1:0", "--health-addr=off"]);
        if in_pod {
            command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1");
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Self { child, log }
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Where it serves.
    pub(super) fn address(&self) -> String {
        until("the address of the operator", || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains("orlop-operator starts"))?;
            let line: Value = serde_json::from_str(line).ok()?;
            Some(line["serves"].as_str()?.trim_matches(['[', ']']).to_owned())
        })
    }

    /// Where its webhook listens.
    pub(super) fn webhook(&self) -> String {
        until("the address of the webhook", || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains("orlop-operator starts"))?;
            let line: Value = serde_json::from_str(line).ok()?;
            Some(line["webhook"].as_str()?.to_owned())
        })
    }

    /// What it answers to a plain request: status and body.
    pub(super) fn get(&self, path: &str) -> (u16, String) {
        let address = self.address();
        until("an answer of the operator", || {
            let mut stream = TcpStream::connect(&address).ok()?;
            stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
            let mut text = String::new();
            stream.read_to_string(&mut text).ok()?;
            let (head, body) = text.split_once("\r\n\r\n")?;
            Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
        })
    }

    /// Waits until it is ready, and gives who leads.
    pub(super) fn leader(&self) -> String {
        until("readiness", || {
            let (code, text) = self.get("/readyz?verbose");
            let leader = text.lines().find_map(|line| line.strip_prefix("leader: "))?.to_owned();
            (code == 200 && leader != "no leader yet").then_some(leader)
        })
    }

    /// Waits until it leads: for a moment it knows the leader, itself, and does not act as one yet.
    pub(super) fn comes_to_lead(&self) {
        until("the operator to lead", || self.leads().then_some(()));
    }

    pub(super) fn leads(&self) -> bool {
        self.leader().starts_with("this process")
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Waits for its end, and gives its exit code.
    pub(super) fn end(&mut self) -> Option<i32> {
        until("the end of the operator", || self.child.try_wait().unwrap()).code()
    }

    /// Ends it without a word.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            println!("--- {}\n{}", self.log.display(), self.log());
        }
    }
}
