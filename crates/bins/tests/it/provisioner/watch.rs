//! What ends a deployment by itself, and what makes it ready only with its worker: the real program beside a real fleet.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::bench::{Bench, Gave};
use super::cloud::Site;
use super::deploy::answers_at_22;
use super::join::{FLEET, Token, started};
use crate::fleet::programs::{Programs, json, until};

/// The arguments of a deployment whose worker is looked at.
fn joining<'a>(file: &'a str, rest: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let front = ["apply", "--repo", "repo", "--allow-local", "--server-name", "demo", "--key-path", "key.pub"];
    let quick = ["--start-delay-minutes", "0", "--output", "json", "--verify", "join", "--fleet", rest];
    [&front[..], &quick, &FLEET, &["--join-token-file", file], more].concat()
}

#[test]
fn a_worker_makes_it_ready_and_once_it_is_idle_it_leaves_and_all_of_it_goes() {
    let (mut site, token, programs) = (Site::new(), Token::new(), Programs::new());
    site.fleet_token = Some(programs.client_token());
    if answers_at_22(&site).is_none() {
        return;
    }
    let scheduler = programs.scheduler("s1", &[]);
    let child = site.spawn(&joining(&token.file(), &scheduler.rest, &["--idle-stop", "3s"]));
    site.until("Verifying");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(site.info()["status"], "Verifying", "nobody has joined");
    let words = started(&site);
    let labels: Vec<&str> = words.iter().skip_while(|word| *word != "--label").map(String::as_str).collect();
    // One that is somebody else's is not meant.
    let _other = programs.worker("w0", &[&scheduler.grpc], &["--label", "deployment=aaaaaaaaaa"]);
    let mut worker = programs.worker("w1", &[&scheduler.grpc], &labels);
    let ready = Site::waited(child);
    assert_eq!((ready.code, &ready.json()["data"]["status"]), (0, &"Ready".into()), "{ready:?}");
    assert_eq!(site.info()["idle_stop_s"], 3);
    // Without a fleet to ask nobody can tell whether it is idle.
    let mut command = site.command(&["status", "demo", "--output", "json"]);
    command.env("ORLOP_SERVER", "http://127.0.0.1:1");
    assert_eq!(Bench::gives(command).code, 0, "one look needs no fleet");
    let watched = site.run(&["status", "demo", "--watch"]);
    assert_eq!(watched.code, 0, "{watched:?}");
    assert!(watched.out.contains("it was idle; demo is removed"), "{watched:?}");
    site.assert_nothing("idle");
    assert_eq!(site.info()["status"], "Destroyed");
    until("the worker to end", || worker.has_ended().then_some(()));
    let left = json(&scheduler.rest, "/workers").expect("workers");
    let state =
        |id: &str| left["items"].as_array()?.iter().find(|one| one["id"] == id)?["state"].as_str().map(str::to_owned);
    assert_eq!((state("w1").as_deref(), state("w0").as_deref()), (Some("Terminated"), Some("Available")), "{left}");
    site.assert_no_secret(&[&ready, &watched], &[&token.secret]);
}

#[test]
fn a_worker_that_does_not_join_is_reported_and_everything_kept() {
    let (mut site, token, programs) = (Site::new(), Token::new(), Programs::new());
    site.fleet_token = Some(programs.client_token());
    if answers_at_22(&site).is_none() {
        return;
    }
    let scheduler = programs.scheduler("s1", &[]);
    let file = token.file();
    let refused = |more: &[&str]| {
        let front = ["apply", "--repo", "repo", "--allow-local", "--server-name", "demo", "--key-path", "key.pub"];
        site.run(&[&front[..], &["--verify", "join", "--output", "json"], more].concat())
    };
    let alone = refused(&[]);
    assert!(alone.code == 2 && alone.out.contains("needs --join URL"), "no fleet is joined: {alone:?}");
    let nobody = refused(&[&FLEET[..], &["--join-token-file", &file]].concat());
    assert!(nobody.code == 2 && nobody.out.contains("ORLOP_SERVER"), "{nobody:?}");
    site.assert_nothing("refused");
    let command = site.command(&joining(&file, &scheduler.rest, &[]));
    let mut child = Site::begun(site.with_own_time(command));
    site.until("Verifying");
    // When it began to wait for the worker does not show: time passes until it has waited long enough.
    for hours in 1..30 {
        if child.has_ended() {
            break;
        }
        site.later(Duration::from_secs(hours * 3600));
        std::thread::sleep(Duration::from_secs(2));
    }
    let gave = Site::waited(child);
    assert_eq!((gave.code, &gave.json()["error"]["code"]), (13, &"not_joined".into()), "{gave:?}");
    assert_eq!(site.info()["status"], "Unreachable");
    assert_eq!(site.counts(), [1, 1, 1, 1]);
    let words = started(&site);
    let labels: Vec<&str> = words.iter().skip_while(|word| *word != "--label").map(String::as_str).collect();
    let _worker = programs.worker("w1", &[&scheduler.grpc], &labels);
    let resumed = site.run(&["resume", "demo", "--output", "json"]);
    assert_eq!((resumed.code, &resumed.json()["data"]["status"]), (0, &"Ready".into()), "{resumed:?}");
}

#[test]
fn without_a_worker_the_login_tells_whether_it_is_idle() {
    let site = Site::new();
    let says = |answer: &str| {
        site.bench.file("bin/ssh", &format!("#!/bin/sh\n{answer}\n"));
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(site.bench.path("bin/ssh"), mode).expect("a program");
    };
    let watch = || {
        let mut command = site.command(&["status", "demo", "--watch"]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", site.bench.path("bin").display()));
        Site::begun(command)
    };
    assert_eq!(site.apply(&["--idle-stop", "0"]).code, 2);
    let made = site.apply(&["--idle-stop", "2s"]);
    assert_eq!(made.code, 0, "{made:?}");
    says("echo load 099; echo users 1; echo cards 0");
    let mut busy = watch();
    std::thread::sleep(Duration::from_secs(4));
    assert!(busy.try_wait().expect("it is asked").is_none(), "it works");
    busy.kill().expect("it is ended");
    busy.wait().expect("it ends");
    assert_eq!(site.counts(), [1, 1, 1, 1]);
    says("echo load 001; echo users 0; echo cards 0");
    let gave = Site::waited(watch());
    assert!(gave.code == 0 && gave.out.contains("it was idle"), "{gave:?}");
    site.assert_nothing("idle");
}

#[test]
fn a_lifetime_holds_for_the_lease_its_extensions_and_saved_plans() {
    let site = Site::new();
    let code = |gave: &Gave| gave.code;
    assert_eq!(code(&site.apply(&["--max-lifetime", "59m"])), 2, "no lease is as short as that");
    let plan = ["plan", "--repo", "repo", "--allow-local", "--out", "plan.json", "--start-delay-minutes", "0"];
    let planned = site.run(&[&plan[..], &["--lease-duration", "10", "--max-lifetime", "12h"]].concat());
    assert_eq!(planned.code, 0, "{planned:?}");
    let apply = ["apply", "--plan", "plan.json", "--server-name", "demo", "--key-path", "key.pub", "--verify", "none"];
    assert_eq!(code(&site.run(&[&apply[..], &["--max-lifetime", "9h"]].concat())), 6, "the plan is longer");
    site.assert_nothing("refused");
    let made = site.run(&[&apply[..], &["--max-lifetime", "20h"]].concat());
    assert_eq!((made.code, &site.info()["max_lifetime_h"]), (0, &12.into()), "the plan's holds too: {made:?}");
    let more = site.run(&["extend", "demo", "--hours", "3", "--output", "json"]);
    assert!(more.code == 6 && more.out.contains("--max-lifetime of 12 h"), "{more:?}");
    assert_eq!(site.run(&["extend", "demo", "--hours", "2"]).code, 0);
    assert_eq!(site.run(&["extend", "demo", "--hours", "1"]).code, 6, "also later, by another process");
}
