//! What a run says while it waits, and that nobody waits for what is watched for behind a machine that is ready.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orlop_cloud::testing::openstack::Fault;

use super::cloud::Site;

#[test]
fn a_lease_starts_as_early_as_the_site_allows_and_a_later_start_is_reported() {
    let site = Site::new();
    let args = ["apply", "--repo", "repo", "--allow-local", "--server-name", "demo", "--key-path", "key.pub"];
    let args = [&args[..], &["--verify", "none"]].concat();
    let gave = site.run(&args);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert!(!gave.err.contains("the lease starts at"), "nobody asked for a later one: {gave:?}");
    let site = Site::new();
    let child = site.spawn(&[&args[..], &["--start-delay-minutes", "5"]].concat());
    site.until("LeaseWait");
    kill(Pid::from_raw(i32::try_from(child.id()).expect("an id")), Signal::SIGINT).expect("it runs");
    let gave = Site::waited(child);
    assert_eq!(gave.code, 130, "{gave:?}");
    let line = gave.err.lines().find(|line| line.contains("the lease starts at"));
    let is_told = |line: &str| line.starts_with("[5] Lease: the lease starts at ") && line.contains(" UTC, 0:0");
    assert!(line.is_some_and(is_told), "{gave:?}");
}

#[test]
fn a_server_is_reported_before_what_a_request_without_an_answer_may_have_made_is_watched_for() {
    let site = Site::new();
    site.cloud.faults().on("reservation POST /leases", Fault::Status(503), 1);
    let child = Site::begun(site.with_own_time(site.command(&Site::demo(&[]))));
    // Its state file tells it while the run goes on.
    site.until("Ready");
    assert_eq!(site.counts(), [1, 1, 1, 1]);
    site.later(Duration::from_secs(151));
    std::thread::sleep(Duration::from_millis(100));
    site.later(Duration::from_secs(300));
    let gave = Site::waited(child);
    assert_eq!(gave.code, 0, "{gave:?}");
    let reported = gave.err.find("Complete! SSH: cc@").expect("a line of it");
    let watched = gave.err.find("watching for objects of a request without an answer").expect("a line of it");
    assert!(reported < watched, "{gave:?}");
    assert!(gave.out.contains("Complete! SSH: cc@"), "it is the result too: {gave:?}");
}

#[test]
fn who_deleted_a_lease_before_its_end_is_not_taken_for_its_end() {
    let site = Site::new();
    assert_eq!(site.apply(&[]).code, 0);
    site.cloud.world().lose_leases();
    let status = site.run(&["status", "demo"]);
    let words = "the lease no longer exists before its end at ";
    assert!(status.code == 0 && status.err.contains(words), "{status:?}");
    assert!(!status.err.contains("lease ended"), "{status:?}");
}
