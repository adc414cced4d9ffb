//! The program that the command of a pod runs under: signals, exit codes, children that are left behind, and what the command
//! may not see.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orlop_core::helper::{Fetch, FetchOrder, Keep, KeepTarget, RunOrder, Source, VERSION};
use orlop_core::spec::artifact::HttpSource;
use serde_json::{Value, json};

/// The helper over a command in a folder; its report goes to `message` there.
fn helper(folder: &Path, script: &str) -> Command {
    helper_at(Path::new(env!("CARGO_BIN_EXE_orlop-helper")), folder, script)
}

fn helper_at(program: &Path, folder: &Path, script: &str) -> Command {
    helper_over(program, folder, &["sh", "-c", script])
}

fn helper_over(program: &Path, folder: &Path, argv: &[&str]) -> Command {
    let order = json!({"v": 1, "scratch": folder.join("scratch"), "maxBytes": 1 << 20, "message": folder.join("message"),
        "files": [{"name": "value", "path": folder.join("value")}]});
    let mut command = Command::new(program);
    command.args(["run", "--"]).args(argv).current_dir(folder);
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
fn the_exit_code_of_the_command_is_kept() {
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
fn the_command_sees_neither_order_nor_token_and_its_own_message_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(code(dir.path(), "env > seen; printf 'own words' > message"), 0);
    let seen = std::fs::read_to_string(dir.path().join("seen")).unwrap();
    assert!(!seen.contains("ORLOP_PORTER") && !seen.contains("planted"), "{seen}");
    assert_eq!(report(dir.path()), json!({"v": 1, "message": "own words"}));
}

#[test]
fn the_command_cannot_read_what_the_helper_was_given_as_the_same_user() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    if !nix::unistd::Uid::effective().is_root() {
        println!("skipped: reading variables of the helper: root could be another user");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // Others cannot enter the home of root, where the target folder may be.
    let program = dir.path().join("orlop-helper");
    std::fs::copy(env!("CARGO_BIN_EXE_orlop-helper"), &program).unwrap();
    let mut helper = helper_at(&program, dir.path(), "cat /proc/$PPID/environ > seen; cat /proc/$$/environ > own");
    let nobody = 65534;
    let status = helper.uid(nobody).gid(nobody).stderr(Stdio::null()).status();
    assert!(status.is_ok(), "{status:?}");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(!read("own").is_empty(), "its own ones can be read");
    assert_eq!(read("seen"), "");
}

#[test]
fn what_the_helper_sets_for_itself_does_not_reach_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let look = ["grep", "-E", "^(Sig|Umask|CoreDumping)", "/proc/self/status"];
    let bare = Command::new(look[0]).args(&look[1..]).output().unwrap().stdout;
    let helped = helper_over(Path::new(env!("CARGO_BIN_EXE_orlop-helper")), dir.path(), &look).output().unwrap();
    let [bare, helped] = [bare, helped.stdout].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(bare.contains("SigBlk:\t0000000000000000\nSigIgn:"), "{bare}");
    // Signals that wait are counted together for all processes of this user.
    let lines =
        |text: &str| text.lines().filter(|line| !line.starts_with("SigQ")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&helped), lines(&bare));
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
fn signals_reach_the_command() {
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

/// The helper over a command whose file `out` is kept as `kept`.
fn keeper(folder: &Path, script: &str) -> Command {
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let to = KeepTarget::File { path: at("kept") };
    let artifacts = vec![Keep { name: "made".into(), path: at("out"), archive: None, to }];
    let (scratch, message) = (at("scratch"), at("message"));
    let order = RunOrder { v: VERSION, scratch, message, max_bytes: 1 << 20, artifacts, ..RunOrder::default() };
    let mut command = helper(folder, script);
    command.env("ORLOP_PORTER", serde_json::to_string(&order).unwrap());
    command
}

#[test]
fn only_the_order_to_end_keeps_artifacts_from_being_stored_and_that_is_said() {
    for (signal, name, kept) in [(Signal::SIGHUP, "HUP", true), (Signal::SIGTERM, "TERM", false)] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("trap 'echo x > out; exit 0' {name}; echo up > ready; while :; do sleep 0.05; done");
        let mut child = Guard(keeper(dir.path(), &script).spawn().unwrap());
        until("the command", || dir.path().join("ready").exists());
        kill(Pid::from_raw(i32::try_from(child.0.id()).unwrap()), signal).unwrap();
        assert_eq!(child.0.wait().unwrap().code(), Some(0), "{name}");
        let report = report(dir.path());
        assert_eq!((dir.path().join("kept").exists(), report["artifacts"].is_array()), (kept, kept), "{report}");
        assert_eq!(report["trouble"]["reason"].as_str(), (!kept).then_some("OutputMissing"), "{report}");
    }
}

#[test]
fn what_is_handed_in_goes_through_no_proxy_of_the_command() {
    use std::io::{Read as _, Write as _};
    let dir = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let order = json!({"v": 1, "scratch": dir.path().join("scratch"), "maxBytes": 1 << 20, "message": dir.path().join("message"),
        "overflow": format!("http://{address}/report"), "files": [{"name": "value", "path": dir.path().join("value")}]});
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        (head, String::from_utf8(body).unwrap())
    });
    let mut command = helper(dir.path(), "head -c 5000 /dev/zero | tr '\\0' x > value");
    command.env("ORLOP_PORTER", order.to_string());
    for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(proxy, "http://127.0.0.1:1");
    }
    assert!(command.status().unwrap().success());
    assert!(report(dir.path())["elsewhere"].is_object(), "{}", report(dir.path()));
    let (head, body) = served.join().unwrap();
    assert!(head.starts_with("put /report ") && head.contains("authorization: bearer planted"), "{head}");
    assert!(body.contains(&"x".repeat(5000)));
}

#[test]
fn a_helper_that_fetches_ends_when_it_is_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    // It takes connections and answers none.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/input", silent.local_addr().unwrap());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let from = Source::Http(HttpSource { url, ..HttpSource::default() });
    let fetch = vec![Fetch { name: "given".into(), target: at("in"), unpack: false, into: false, from }];
    let (scratch, message) = (at("scratch"), at("message"));
    let order =
        FetchOrder { v: VERSION, scratch, message, max_bytes: 1 << 20, install: None, fetch, ..FetchOrder::default() };
    let mut command = Command::new(env!("CARGO_BIN_EXE_orlop-helper"));
    command.arg("fetch").env("ORLOP_PORTER", serde_json::to_string(&order).unwrap());
    for proxy in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    let mut child = Guard(command.spawn().unwrap());
    let (_asked, _) = silent.accept().unwrap();
    kill(Pid::from_raw(i32::try_from(child.0.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(143));
}

#[test]
fn without_an_order_it_says_what_it_is_for() {
    for arguments in [&["fetch"][..], &["run", "--", "true"], &["run", "true"], &[]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orlop-helper"));
        let done = command.args(arguments).env_remove("ORLOP_PORTER").output().unwrap();
        let reported = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(70), "{reported}");
        assert!(reported.contains("usage: ") || reported.contains("ORLOP_PORTER is not set"), "{reported}");
    }
}
