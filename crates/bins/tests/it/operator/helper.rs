//! The program that the command of a pod runs under: signals, exit codes, children that are left behind, and what the command
//! may not see.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// The helper over a command in a folder; its report goes to `message` there.
fn helper(folder: &Path, script: &str) -> Command {
    let order = json!({"v": 1, "scratch": folder.join("scratch"), "maxBytes": 1 << 20, "message": folder.join("message"),
        "files": [{"name": "value", "path": folder.join("value")}]});
    let mut command = Command::new(env!("CARGO_BIN_EXE_orlop-helper"));
    command.args(["run", "--", "sh", "-c", script]).current_dir(folder);
    command.env("ORLOP_PORTER", order.to_string()).env("ORLOP_PORTER_TOKEN", "planted").stdin(Stdio::null());
    command
}

fn code(folder: &Path, script: &str) -> i32 {
    helper(folder, script).status().unwrap().code().unwrap()
}

fn report(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("message")).unwrap()).unwrap()
}

#[test]
fn r32_the_exit_code_of_the_command_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(code(dir.path(), "echo 1 > value; exit 0"), 0);
    assert_eq!(report(dir.path())["parameters"], json!({"value": "1"}));
    assert_eq!(code(dir.path(), "exit 7"), 7);
    assert_eq!(report(dir.path())["parameters"], json!({"value": "1"}), "values of a failure are taken too");
    assert_eq!(code(dir.path(), "kill -KILL $$"), 137);
    let mut missing = helper(dir.path(), "");
    let missing = missing.arg("x").env("PATH", dir.path()).output().unwrap();
    assert_eq!(missing.status.code(), Some(127), "{}", String::from_utf8_lossy(&missing.stderr));
}

#[test]
fn r32_the_command_sees_neither_order_nor_token_and_its_own_message_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(code(dir.path(), "env > seen; printf 'own words' > message"), 0);
    let seen = std::fs::read_to_string(dir.path().join("seen")).unwrap();
    assert!(!seen.contains("ORLOP_PORTER") && !seen.contains("planted"), "{seen}");
    assert_eq!(report(dir.path()), json!({"v": 1, "message": "own words"}));
}

/// A child that is killed where a test fails.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn until(what: &str, mut look: impl FnMut() -> bool) {
    let began = Instant::now();
    while !look() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn r32_signals_reach_the_command() {
    for (signal, name) in [(Signal::SIGTERM, "TERM"), (Signal::SIGINT, "INT"), (Signal::SIGUSR1, "USR1")] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("trap 'echo {name} > got; exit 5' {name}; echo up > ready; while :; do sleep 0.05; done");
        let mut child = Guard(helper(dir.path(), &script).spawn().unwrap());
        until("the command", || dir.path().join("ready").exists());
        kill(Pid::from_raw(i32::try_from(child.0.id()).unwrap()), signal).unwrap();
        assert_eq!(child.0.wait().unwrap().code(), Some(5), "{name}");
        assert_eq!(std::fs::read_to_string(dir.path().join("got")).unwrap().trim(), name);
        assert_eq!(report(dir.path())["v"], 1);
    }
}

#[test]
fn without_an_order_it_says_what_it_is_for() {
    for arguments in [&["fetch"][..], &["run", "--", "true"], &["run", "true"], &[]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop-helper"));
        let done = command.args(arguments).env_remove("ORLOP_PORTER").output().unwrap();
        let told = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(70), "{told}");
        assert!(told.contains("usage: ") || told.contains("ORLOP_PORTER is not set"), "{told}");
    }
}
