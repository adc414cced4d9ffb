//! The program `orlop-provisioner` against real services, whose folder `ORLOP_TEST_OPENSTACK` names; `scripts/with-openstack`
//! provides them. Says `skipped: …` where there are none.

use orlop_cloud::testing::openstack::{Census, RealServices};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::bench::{Bench, Gave};

/// A public key whose private half nobody has.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPqzLuUFJzOmYPLp2UjD8NJqhNPJ3k4Q8XSvBv0wSgx7 me\n";

fn find() -> Option<RealServices> {
    let found = RealServices::find().expect("the folder of the services");
    if found.is_none() {
        println!("skipped: no OpenStack in ORLOP_TEST_OPENSTACK; scripts/with-openstack provides one");
    }
    found
}

/// A home with a repository and a public key.
fn home() -> Bench {
    let bench = Bench::new();
    bench.file("repo/requirements.txt", "torch==2.3.0+cu121\n");
    bench.file("key.pub", KEY);
    bench
}

/// Runs the program as somebody.
fn run(bench: &Bench, services: &RealServices, who: &str, args: &[&str]) -> Gave {
    let mut command = bench.command(args);
    command.env("OPENRC_PATH", services.openrc(who)).env("ORLOP_LEASE_POLL_S", "1").env("ORLOP_SERVER_POLL_S", "1");
    Bench::gives(command)
}

/// Gives a server back also when a test fails: others need its host.
struct GiveBack<'a>(&'a Bench, &'a RealServices, &'a str);

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        let gave = run(self.0, self.1, self.2, &["destroy", "demo"]);
        println!("given back: {}", gave.code);
    }
}

fn info(bench: &Bench) -> Value {
    let text = std::fs::read_to_string(bench.path("demo_info.json")).expect("the state file");
    serde_json::from_str(&text).expect("the state file is JSON")
}

#[test]
fn a_server_is_planned_leased_extended_and_given_back_with_nothing_left() {
    let Some(services) = find() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let census = runtime.block_on(Census::take(&services)).expect("a census");
    let secret = std::fs::read_to_string(services.openrc("appcred")).expect("assignments");
    let secret = secret.lines().find_map(|line| line.split_once("SECRET=")).expect("a secret").1.to_owned();
    for who in ["tester", "appcred"] {
        let bench = home();
        let run = |args: &[&str]| {
            let gave = run(&bench, &services, who, args);
            assert_eq!(gave.code, 0, "as {who}, {args:?}: {gave:?}");
            assert!(!gave.out.contains(&secret) && !gave.err.contains(&secret), "as {who}, {args:?}: {gave:?}");
            gave
        };
        let _given_back = GiveBack(&bench, &services, who);
        let needs = run(&["analyze", "--repo", "repo", "--allow-local", "--output", "json"]).json();
        assert_eq!(needs["data"]["gpu_vendor"]["hard"], "nvidia", "{needs}");
        let key = format!("orlop-test-{who}-{}", std::process::id());
        let plan = ["plan", "--repo", "repo", "--allow-local", "--out", "plan.json", "--lease-duration", "2"];
        let planned = run(&[&plan[..], &["--start-delay-minutes", "0"]].concat());
        assert!(planned.out.contains("gpu_rtx_6000"), "as {who}: {planned:?}");
        let applied = run(&[
            "apply",
            "--plan",
            "plan.json",
            "--server-name",
            "demo",
            "--key-name",
            &key,
            "--key-path",
            "key.pub",
            "--yes",
            "--verify",
            "none",
        ]);
        let address = info(&bench)["floating_ip"].as_str().expect("an address").to_owned();
        assert!(address.starts_with("192.5.87."), "{address}");
        assert!(applied.out.contains(&format!("Complete! SSH: cc@{address}\n")), "{applied:?}");
        assert_eq!(applied.out.lines().last(), Some(format!("ssh cc@{address}").as_str()), "{applied:?}");
        let ready = info(&bench);
        assert_eq!((&ready["status"], &ready["degraded"]), (&"Ready".into(), &false.into()), "{ready}");
        let again = run(&["apply", "--plan", "plan.json", "--server-name", "demo", "--key-name", &key, "--yes"]);
        assert!(again.out.contains(&address), "already there: {again:?}");
        assert_eq!(info(&bench)["server_id"], ready["server_id"]);
        run(&["status", "demo"]);
        run(&["extend", "demo", "--hours", "1"]);
        assert!(info(&bench)["lease_end"].as_str() > ready["lease_end"].as_str(), "{ready}");
        run(&["destroy", "demo"]);
        let left = runtime.block_on(census.more()).expect("a census");
        assert!(left.is_empty(), "as {who}, an administrator sees {left:?}");
        assert!(!runtime.block_on(census.has_key(&key)).expect("a census"), "as {who}: the key");
        run(&["destroy", "demo"]);
    }
}

#[test]
fn a_restricted_credential_is_told_what_to_do_before_anything_is_made() {
    let Some(services) = find() else { return };
    let runtime = Runtime::new().expect("a runtime");
    let census = runtime.block_on(Census::take(&services)).expect("a census");
    let bench = home();
    let args = ["apply", "--repo", "repo", "--allow-local", "--key-path", "key.pub", "--yes", "--verify", "none"];
    let gave = run(&bench, &services, "appcred-restricted", &args);
    assert_eq!(gave.code, 6, "{gave:?}");
    assert!(gave.err.contains("create an unrestricted application credential"), "{gave:?}");
    assert!(runtime.block_on(census.more()).expect("a census").is_empty());
}
