//! `destroy` of the program: what a deployment owns goes, what nobody knows goes by its marks, and what may be owned stays.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use orlop_cloud::testing::openstack::Fault;

use super::cloud::{QUICK, Site};
use crate::ongoing::until;

#[test]
fn what_nobody_knows_is_listed_and_removed() {
    let site = Site::new();
    let made = site.apply(&["--create-key", "--output", "json"]);
    assert_eq!(made.code, 2, "a pair is made or a file is named");
    let args =
        ["apply", "--repo", "repo", "--allow-local", "--server-name", "demo", "--create-key", "--output", "json"];
    let made = site.run(&[&args[..], &QUICK].concat()).json();
    let id = made["data"]["deployment_id"].as_str().expect("an id").to_owned();
    let pem = site.bench.path(&format!("orlop-k-{id}.pem"));
    assert!(pem.exists() && made["data"]["key_created"] == true, "{made}");
    let known = site.run(&["list", "--remote", "--output", "json"]).json();
    assert_eq!(known["data"]["objects"].as_array().map(Vec::len), Some(4), "its key too: {known}");
    assert_eq!(known["data"]["objects"][0]["known"], true);
    assert_eq!(site.run(&["destroy", "--orphans", "--yes"]).out, "there is nothing to remove\n", "it is known");
    site.cloud.world().add_address("somebody's", &[]);
    let lost = ["--state-dir", "other", "--output", "json"];
    let refused = site.run(&[&["destroy", "--orphans"][..], &lost].concat());
    assert_eq!(refused.code, 14, "no model is available: {refused:?}");
    assert_eq!(site.run(&[&["destroy", "--orphans", "--dry-run"][..], &lost].concat()).code, 0);
    assert_eq!(site.counts(), [1, 1, 2, 1]);
    let removed = site.run(&[&["destroy", "--orphans", "--yes"][..], &lost].concat());
    assert_eq!((removed.code, removed.json()["data"]["removed"].as_array().map(Vec::len)), (0, Some(4)), "{removed:?}");
    assert_eq!(site.counts(), [0, 0, 1, 0], "also its key, and nothing of others");
    let again = site.run(&["destroy", "--id", &id, "--state-dir", "other"]);
    assert_eq!((again.code, again.out.as_str()), (0, "there is nothing to remove\n"), "{again:?}");
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    assert!(!pem.exists(), "the private half goes with the key");
}

#[test]
fn a_keypair_that_is_left_alone_is_listed_and_removed() {
    let site = Site::new();
    for name in ["orlop-k-aaaaaaaaaa", "orlop-k-bbbbbbbbbb", "orlop-k-somebody", "mine"] {
        site.cloud.world().add_keypair(name, "ssh-ed25519 AAAA");
    }
    let kinds = |reported: &serde_json::Value, key: &str| {
        let all = reported["data"][key].as_array().expect("a list").clone();
        all.iter()
            .map(|one| format!("{} {}", one["kind"].as_str().unwrap_or("-"), one["id"].as_str().unwrap_or("-")))
            .collect::<Vec<_>>()
    };
    let both = ["keypair orlop-k-aaaaaaaaaa", "keypair orlop-k-bbbbbbbbbb"];
    let list = site.run(&["list", "--remote", "--output", "json"]).json();
    assert_eq!(kinds(&list, "objects"), both);
    let dry = site.run(&["destroy", "--orphans", "--dry-run", "--output", "json"]).json();
    assert_eq!(kinds(&dry, "would_remove"), both);
    let one = ["destroy", "--id", "aaaaaaaaaa", "--output", "json"];
    assert_eq!(kinds(&site.run(&[&one[..], &["--dry-run"]].concat()).json(), "would_remove"), both[..1]);
    assert_eq!(kinds(&site.run(&one).json(), "removed"), both[..1], "what is removed is told");
    let rest = site.run(&["destroy", "--orphans", "--yes", "--output", "json"]).json();
    assert_eq!(kinds(&rest, "removed"), both[1..]);
    assert_eq!(site.remains().keypairs, ["mine", "orlop-k-somebody"]);
}

/// What became of it is not known, so that nothing of it is removed unless its id is given.
#[test]
fn a_deployment_whose_journal_is_damaged_keeps_its_name_and_goes_by_its_id() {
    let site = Site::new();
    let made = site.apply(&["--output", "json"]).json();
    let id = made["data"]["deployment_id"].as_str().expect("an id").to_owned();
    let journal = made["data"]["journal"]["path"].as_str().expect("a path").to_owned();
    let text = std::fs::read_to_string(&journal).expect("a journal");
    std::fs::write(&journal, text.replacen("nonce", "ponce", 1)).expect("it is written");
    let before = site.counts();
    for verb in ["destroy", "status", "resume"] {
        let refused = site.run(&[verb, "demo"]);
        assert!(refused.code == 1 && refused.err.contains("damaged at line"), "{refused:?}");
        assert!(refused.err.contains(&format!("destroy --id {id}")), "what to do is told: {refused:?}");
    }
    let second = site.apply(&[]);
    assert!(second.code == 1 && second.err.contains("damaged at line"), "no second one of its name: {second:?}");
    let new = site.apply(&["--new", "--output", "json"]);
    assert_eq!((new.code, &new.json()["data"]["server_name"]), (0, &"demo-2".into()), "{new:?}");
    assert_eq!(site.run(&["destroy", "demo-2"]).code, 0);
    assert_eq!(site.run(&["destroy", "--orphans", "--yes"]).out, "there is nothing to remove\n");
    assert_eq!(site.counts(), before);
    let removed = site.run(&["destroy", "--id", &id]);
    assert!(removed.code == 0 && removed.err.contains("and everything with its mark is removed"), "{removed:?}");
    assert_eq!(site.counts(), [0, 0, 0, 0]);
    let again = site.apply(&[]);
    assert_eq!(again.code, 0, "its name is free again: {again:?}");
}

/// Neither a lease of a name that the user gave nor a key of such a name bears a mark: the other lines tell them.
#[test]
fn what_bears_no_mark_is_reported_by_the_lines_that_are_not_damaged() {
    let site = Site::new();
    let front = ["apply", "--repo", "repo", "--allow-local", "--server-name", "demo", "--lease-name", "mine"];
    let key = ["--create-key", "--key-name", "my-key", "--output", "json"];
    let made = site.run(&[&front[..], &key, &QUICK].concat()).json();
    let id = made["data"]["deployment_id"].as_str().expect("an id").to_owned();
    let journal = made["data"]["journal"]["path"].as_str().expect("a path").to_owned();
    let pem = site.info()["key_file"].as_str().map(std::path::PathBuf::from);
    assert_eq!(site.counts(), [1, 1, 1, 1]);
    let text = std::fs::read_to_string(&journal).expect("a journal");
    std::fs::write(&journal, text.replacen("\"Ready\"", "\"Keady\"", 1)).expect("it is written");
    let other = Site::new();
    let mut elsewhere = site.command(&["destroy", "--id", &id]);
    elsewhere.env("OS_AUTH_URL", other.url());
    let elsewhere = super::bench::Bench::gives(elsewhere);
    assert!(elsewhere.code == 2 && elsewhere.err.contains("these credentials are for"), "{elsewhere:?}");
    assert_eq!(site.run(&["status", "demo"]).code, 1, "nothing was set aside");
    let shown = site.run(&["destroy", "--id", &id, "--dry-run", "--output", "json"]).json();
    assert_eq!(shown["data"]["would_remove"].as_array().map(Vec::len), Some(4), "{shown}");
    let removed = site.run(&["destroy", "--id", &id]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert_eq!(site.counts(), [0, 0, 0, 0], "{removed:?}");
    assert!(removed.err.contains(&format!("{id}.damaged")), "{removed:?}");
    assert!(pem.is_none_or(|pem| !pem.exists()), "the private half goes with the key");
    assert_eq!(site.run(&["status", "demo"]).code, 4, "it is not known any more");
}

#[test]
fn what_cannot_be_removed_is_named_and_goes_when_it_can() {
    let site = Site::new();
    assert_eq!(site.apply(&[]).code, 0);
    let lease = site.info()["lease_id"].clone();
    site.cloud.faults().on("reservation DELETE", Fault::Status(500), 100_000);
    let mut child = site.spawn(&["destroy", "demo", "--output", "json"]);
    site.until("RollingBack");
    // Nobody wants to wait for a quarter of an hour. Two signals at once may arrive as one, so that a third may be needed.
    let id = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("an id"));
    for pause in [1, 5, 5, 5, 5, 5] {
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).expect("it runs");
        let sent = std::time::Instant::now();
        let is_late = || sent.elapsed() > Duration::from_secs(pause);
        child.until("the end, or time for another signal", || site.info()["status"] == "Kept" || is_late());
        if site.info()["status"] == "Kept" || child.has_ended() {
            break;
        }
    }
    let stopped = Site::waited(child);
    assert_eq!((stopped.code, &stopped.json()["data"]["lease_id"]), (143, &lease), "{stopped:?}");
    site.cloud.faults().clear();
    let destroyed = site.run(&["destroy", "demo"]);
    assert_eq!(destroyed.code, 0, "{destroyed:?}");
    site.assert_nothing("destroyed at last");
}

#[test]
fn what_is_left_when_the_time_for_removing_is_spent_is_listed() {
    let site = Site::new();
    // What failed first does not matter any more once something is left behind.
    site.cloud.world().build.fails = Some(("No valid host was found".to_owned(), 10));
    site.cloud.faults().on("reservation DELETE", Fault::Status(403), 100_000);
    let args = Site::demo(&["--fallback", "none", "--output", "json"]);
    let child = Site::begun(site.with_own_time(site.command(&args)));
    site.until("NextOffering");
    site.later(Duration::from_secs(1000));
    site.until("RollingBack");
    // The key goes last: from then on the lease is all that is left to do.
    until("the key to be gone", || site.remains().keypairs.is_empty().then_some(()));
    site.later(Duration::from_secs(2000));
    let gave = Site::waited(child);
    let reported = gave.json();
    let lease = site.remains().leases.join("");
    let lease = lease.split_whitespace().next().expect("a lease");
    assert_eq!((gave.code, &reported["exit_code"], &reported["ok"]), (12, &12.into(), &false.into()), "{gave:?}");
    assert_eq!(
        (&reported["error"]["code"], &reported["data"]["status"]),
        (&"leftover".into(), &"Leftover".into()),
        "{gave:?}"
    );
    let message = reported["error"]["message"].as_str().expect("words");
    let front = format!("LEFT BEHIND: lease {lease} (test, until ");
    let rest = message.strip_prefix(&front).unwrap_or_else(|| panic!("the lease first: {message}"));
    assert!(rest.ends_with(" SU/h)") && !rest.contains(';'), "{message}");
    let left = reported["data"]["leftovers"].as_array().expect("a list").clone();
    assert_eq!((left.len(), &site.info()["leftovers"]), (1, &left.into()), "in the state file too");
    assert_eq!(site.counts(), [1, 0, 0, 0], "the rest is gone");
    site.cloud.faults().clear();
    let destroyed = site.run(&["destroy", "demo"]);
    assert_eq!((destroyed.code, &site.info()["leftovers"]), (0, &serde_json::json!([])), "{destroyed:?}");
    site.assert_nothing("destroyed at last");
}

#[test]
fn a_key_that_is_kept_stays_with_its_private_half() {
    let site = Site::new();
    let args =
        ["apply", "--repo", "repo", "--allow-local", "--server-name", "demo", "--create-key", "--key-name", "mine"];
    assert_eq!(site.run(&[&args[..], &QUICK].concat()).code, 0);
    let pem = site.bench.path("mine.pem");
    assert_eq!(std::fs::metadata(&pem).expect("a key").permissions().mode() & 0o777, 0o600);
    assert_eq!(site.run(&["destroy", "demo", "--keep-key"]).code, 0);
    assert_eq!((site.counts(), pem.exists()), ([0, 0, 0, 1], true));
    assert_eq!(site.run(&["destroy", "demo"]).code, 0, "again");
    assert_eq!((site.counts(), pem.exists()), ([0, 0, 0, 1], true));
    let other = site.run(&[&Site::demo(&["--key-name", "mine", "--output", "json"])[..]].concat());
    assert_eq!((other.code, &other.json()["error"]["code"]), (5, &"key_conflict".into()), "{other:?}");
    site.bench.file("private.pub", "-----BEGIN OPENSSH PRIVATE KEY-----\n");
    assert_eq!(site.apply(&["--key-path", "private.pub"]).code, 2, "given twice");
}
