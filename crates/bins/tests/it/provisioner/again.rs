//! `apply` where a deployment of the name was there before: what is no more, or was being removed, is swept, and another one is made.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use orlop_cloud::testing::openstack::Fault;
use serde_json::Value;

use super::bench::{Bench, Gave};
use super::cloud::Site;

/// What happens to a deployment, in words and to its cloud.
type Happening = (&'static str, fn(&Site));

/// Runs it so many times more than a minute later: until then what is not shown may be shown late.
fn later(site: &Site, times: u32, args: &[&str]) -> Gave {
    site.later(times * Duration::from_secs(90));
    Bench::gives(site.with_own_time(site.command(args)))
}

/// Asserts that there is one server, of another deployment than before.
fn assert_another(site: &Site, gave: &Gave, before: &Value, what: &str) {
    let reported = gave.json();
    assert_eq!((gave.code, &reported["data"]["status"]), (0, &"Ready".into()), "{what}: {gave:?}");
    assert_ne!(reported["data"]["deployment_id"], before["deployment_id"], "{what}");
    assert!(reported["warnings"].to_string().contains("creating another deployment"), "{what}: {gave:?}");
    assert_eq!(site.counts(), [1, 1, 1, 1], "{what}");
}

#[test]
fn what_is_no_more_is_swept_and_another_one_is_made() {
    let site = Site::new();
    assert_eq!(site.apply(&[]).code, 0);
    let happenings: [Happening; 3] = [
        ("its lease was deleted", |site| site.cloud.world().lose_leases()),
        ("its lease ended", |site| site.cloud.world().end_leases()),
        ("its server was deleted", |site| site.cloud.world().lose_servers()),
    ];
    for ((what, happens), times) in happenings.into_iter().zip(1..) {
        let before = site.info();
        happens(&site);
        let again = later(&site, times, &Site::demo(&["--output", "json"]));
        assert_another(&site, &again, &before, what);
    }
    // `resume` goes on with what is there, and makes no other one.
    site.cloud.world().lose_leases();
    let resumed = later(&site, 4, &["resume", "demo", "--output", "json"]);
    assert_eq!((resumed.code, &resumed.json()["error"]["code"]), (1, &"expired".into()), "{resumed:?}");
    assert_eq!(site.run(&["status", "demo"]).code, 0);
    let mut dear = site.command(&Site::demo(&["--output", "json"]));
    dear.env("ORLOP_AUTO_APPROVE_SU", "1");
    let dear = Bench::gives(dear);
    assert_eq!((dear.code, &dear.json()["error"]["code"]), (14, &"confirmation".into()), "{dear:?}");
    site.assert_nothing("swept, and nobody agreed to another one");
}

#[test]
fn a_removal_that_was_interrupted_is_finished_and_another_one_is_made() {
    let site = Site::new();
    assert_eq!(site.apply(&[]).code, 0);
    let before = site.info();
    site.cloud.faults().on("reservation DELETE", Fault::Status(500), 100_000);
    let mut child = site.spawn(&["destroy", "demo"]);
    site.until("RollingBack");
    child.kill().expect("it runs");
    Site::waited(child);
    site.cloud.faults().clear();
    assert_another(&site, &site.apply(&["--output", "json"]), &before, "destroyed");
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    // A run that was interrupted, and killed while it removed what it had made.
    site.cloud.world().build.takes = Duration::from_secs(600);
    let mut child = site.spawn(&Site::demo(&[]));
    site.until("ServerWait");
    let before = site.info();
    site.cloud.faults().on("reservation DELETE", Fault::Status(500), 100_000);
    kill(Pid::from_raw(i32::try_from(child.id()).expect("an id")), Signal::SIGINT).expect("it runs");
    site.until("RollingBack");
    child.kill().expect("it runs");
    Site::waited(child);
    site.cloud.faults().clear();
    site.cloud.world().build.takes = Duration::from_millis(50);
    assert_another(&site, &site.apply(&["--output", "json"]), &before, "rolled back");
}
