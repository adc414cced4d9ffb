//! Commands that cannot start, on the real programs: a worker on which a program is missing fails no element while another
//! has it, and nobody's typo takes a worker away from others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use orlop_core::time::Time;
use serde_json::Value;

use super::bench::Gave;
use super::programs::{Programs, Running, Scheduler, json, until};

const SMALL: [&str; 5] = ["submit", "--cpu", "100m", "--memory", "1Mi"];

/// Writes a program for jobs, and gives its path.
fn program(programs: &Programs, name: &str, text: &str, mode: u32) -> String {
    let folder = programs.path("tools");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(name);
    fs::write(&path, text).expect("it is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
    path.display().to_string()
}

/// A worker that sees an empty folder where others see programs; none where the system allows no mounts.
fn without(programs: &Programs, id: &str, server: &Scheduler, folder: &Path) -> Option<Running> {
    let namespaces = ["--user", "--map-root-user", "--mount"];
    if !Command::new("unshare").args(namespaces).arg("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: this system allows no mounts");
        return None;
    }
    let worker = programs.worker_command(id, id, &[&server.grpc], &[]);
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs none \"$1\" && shift && exec \"$@\"";
    command.args(namespaces).args(["sh", "-c", script, "sh"]).arg(folder).arg(worker.get_program());
    command.args(worker.get_args()).current_dir(programs.path("")).stdin(Stdio::null());
    for (name, value) in worker.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Some(programs.spawn(id, command))
}

fn worker(server: &Scheduler, id: &str) -> Option<Value> {
    json(&server.rest, &format!("/workers/{id}"))
}

fn available(server: &Scheduler, id: &str) {
    until(&format!("worker {id}"), || worker(server, id).filter(|worker| worker["state"] == "Available"));
}

fn submitted(programs: &Programs, server: &Scheduler, more: &[&str]) -> Gave {
    programs.orlop(&server.rest, &[&SMALL, more].concat())
}

/// How many attempts of a job were made.
fn attempts(server: &Scheduler, id: &str) -> usize {
    let list = until("its attempts", || json(&server.rest, &format!("/jobs/{id}/attempts")));
    list["items"].as_array().expect("attempts").len()
}

#[test]
fn a_worker_without_the_program_fails_no_element_while_another_has_it() {
    let programs = Programs::new();
    let tool = program(&programs, "tool", "#!/bin/sh\nsleep 0.05\n", 0o755);
    let server = programs.leader("s1", &[]);
    let Some(_bad) = without(&programs, "bad", &server, &programs.path("tools")) else { return };
    available(&server, "bad");
    let _good = programs.worker("good", &[&server.grpc], &[]);
    available(&server, "good");
    let done = submitted(&programs, &server, &["--array", "0-199", "--wait", "--", &tool]);
    assert_eq!(done.code, 0, "{done:?}");
    let id = done.out.trim();
    assert!(attempts(&server, id) >= 100, "a page of them");
    let failed = json(&server.rest, &format!("/jobs/{id}/elements?state=Failed")).expect("an answer");
    assert_eq!(failed["items"].as_array().map(Vec::len), Some(0), "{failed}");
    let bad = worker(&server, "bad").expect("it is known");
    assert_eq!(bad["state"], "Unhealthy", "more than ten of its elements ran elsewhere: {bad}");
    available(&server, "good");
}

#[test]
fn typos_of_one_user_take_no_worker_away_from_another() {
    let programs = Programs::new();
    let server = programs.leader("s1", &["--tenants-create=true"]);
    let mut workers = Vec::new();
    for id in ["w1", "w2"] {
        workers.push(programs.worker(id, &[&server.grpc], &[]));
        available(&server, id);
        let typos: Vec<String> = (0..12).map(|number| format!("nosuch{number}")).collect();
        let ids: Vec<String> = typos
            .iter()
            .map(|typo| programs.good(&server.rest, &[&SMALL, &["--", typo][..]].concat()).trim().to_owned())
            .collect();
        let other = submitted(&programs, &server, &["--tenant", "other", "--wait", "-o", "json", "--", "true"]);
        assert_eq!(other.code, 0, "{other:?}");
        let job: Value = serde_json::from_str(&other.out).expect("a job");
        let at = |field: &str| job[field].as_str().and_then(|text| text.parse::<Time>().ok()).expect("a time");
        let waited = at("started_at").millis() - at("submitted_at").millis();
        assert!(waited <= 1000, "it waited for {waited} ms");
        for typo in &ids {
            let ended = until("the end of a typo", || {
                json(&server.rest, &format!("/jobs/{typo}")).filter(|job| job["finished_at"].is_string())
            });
            assert_eq!((&ended["state"], &ended["exit_code"]), (&"Failed".into(), &127.into()), "{ended}");
            assert_eq!(attempts(&server, typo), workers.len(), "once on each worker");
        }
        for id in ["w1", "w2"].iter().take(workers.len()) {
            assert_ne!(worker(&server, id).expect("it is known")["state"], "Unhealthy");
            available(&server, id);
        }
    }
}

/// Its name is repeated in the log of its attempt.
#[test]
fn a_command_of_a_hundred_thousand_bytes_fails_and_keeps_no_worker_from_the_server() {
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let _worker = programs.worker("w1", &[&server.grpc], &[]);
    available(&server, "w1");
    let long = "x".repeat(100_000);
    let gave = submitted(&programs, &server, &["--wait", "--", &long]);
    assert!(gave.code == 1 && gave.err.len() < 2000 && gave.err.contains("was not found"), "{}", gave.err);
    let next = submitted(&programs, &server, &["--wait", "--", "true"]);
    assert_eq!(next.code, 0, "{next:?}");
}

#[test]
fn what_is_wrong_with_a_command_is_said_with_the_code_of_a_shell() {
    let programs = Programs::new();
    let closed = program(&programs, "closed", "#!/bin/sh\n", 0o644);
    let perl = program(&programs, "perl", "#!/no/such/perl -w\n", 0o755);
    let plain = program(&programs, "plain", "echo \"plain $1\"\nexit 3\n", 0o755);
    let server = programs.leader("s1", &[]);
    let _worker = programs.worker("w1", &[&server.grpc], &[]);
    available(&server, "w1");
    let interpreter = "needs the interpreter `/no/such/perl`, which was not found";
    let cases = [
        ("nosuch1", 127, "`nosuch1` was not found"),
        ("/no/such/tool", 127, "`/no/such/tool` was not found"),
        (&closed, 126, "cannot be run: Permission denied"),
        (&perl, 126, interpreter),
    ];
    for (command, code, why) in cases {
        let waited = submitted(&programs, &server, &["--wait", "--", command]);
        assert_eq!(waited.code, 1, "{waited:?}");
        assert!(waited.err.contains(" Failed (command: `") && waited.err.contains(why), "{waited:?}");
        let own = submitted(&programs, &server, &["--exit-code", "--", command]);
        assert_eq!(own.code, code, "{own:?}");
        let id = own.out.trim();
        let page = programs.good(&server.rest, &["job", "get", id]);
        let line = |name: &str| page.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).map(str::to_owned);
        assert_eq!(line("exit code "), Some(code.to_string()), "{page}");
        assert!(
            line("reason ").is_some_and(|reason| reason.starts_with("command: ") && reason.contains(why)),
            "{page}"
        );
        assert_eq!(attempts(&server, id), 1, "there is no other worker");
    }
    let ran = submitted(&programs, &server, &["--follow", "--exit-code", "--", &plain, "text"]);
    assert!(ran.code == 3 && ran.out.contains("plain text"), "{ran:?}");
    assert_ne!(worker(&server, "w1").expect("it is known")["state"], "Unhealthy");
    available(&server, "w1");
}

#[test]
fn what_no_worker_could_hold_is_said_at_submit_with_all_that_is_missing() {
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let _worker = programs.worker("w1", &[&server.grpc], &["--no-containers"]);
    available(&server, "w1");
    let cases: [(&[&str], &str); 4] = [
        (&["--gpus", "nvidia:1"], "gpu nvidia: needs 1, free 0 of 0"),
        (&["--require", "zone=a"], "label: needs zone = a, it is not set"),
        (&["--image", "busybox"], "runtime: needs `docker`, it has process"),
        (&["--gang", "4000"], "gang: needs 4000 members at once"),
    ];
    for (asked, missing) in cases {
        let taken = submitted(&programs, &server, &[asked, &["--", "true"]].concat());
        let warned = taken.err.contains("warning: ") && taken.err.contains("no worker could ever run it");
        assert!(taken.code == 0 && warned, "{asked:?}: {taken:?}");
        let why = programs.good(&server.rest, &["job", "get", "--explain", taken.out.trim()]);
        assert!(why.contains(missing), "{asked:?}: {why}");
    }
}
