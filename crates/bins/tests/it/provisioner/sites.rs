//! Deployments that go on at another site: what was made at the one before is gone and written down, and attempts, time and calls
//! are those of the whole run.

use std::process::Command;
use std::time::Duration;

use orlop_cloud::testing::openstack::Fault;
use serde_json::Value;

use super::bench::{Bench, Gave};
use super::cloud::{PASSWORD, Site};
use crate::ongoing::Ongoing;

/// Two clouds, and a home whose `clouds.yaml` has both.
struct Two {
    one: Site,
    two: Site,
}

impl Two {
    fn new() -> Self {
        let (one, two) = (Site::new(), Site::new());
        let entry = |name: &str, site: &Site| {
            let auth = format!(
                "{{auth_url: \"{}\", username: tester, password: {PASSWORD}, project_id: project}}",
                site.url()
            );
            format!("  {name}: {{auth: {auth}, region_name: test}}\n")
        };
        one.bench.file("clouds.yaml", &format!("clouds:\n{}{}", entry("one", &one), entry("two", &two)));
        Self { one, two }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.one.bench.command(args);
        command.env("ORLOP_LEASE_POLL_S", "1").env("ORLOP_SERVER_POLL_S", "1");
        command
    }

    fn run(&self, args: &[&str]) -> Gave {
        Bench::gives(self.command(args))
    }

    /// The arguments of a deployment at either site.
    fn demo<'a>(more: &[&'a str]) -> Vec<&'a str> {
        Site::demo(&[&["--site", "one,two", "--output", "json"], more].concat())
    }

    fn spawn(&self, more: &[&str]) -> Ongoing {
        Site::begun(self.one.with_own_time(self.command(&Self::demo(more))))
    }

    /// Every server of the first site fails from now on.
    fn break_one(&self) {
        self.one.cloud.world().build.fails = Some(("No valid host was found".to_owned(), 100));
    }

    /// Site, state and attempt of the deployments of this machine, the newest first.
    fn known(&self) -> Vec<[Value; 2]> {
        let list = self.run(&["list", "--output", "json"]).json();
        let rows = list["data"]["deployments"].as_array().cloned().unwrap_or_default();
        rows.into_iter().map(|row| [row["site"].clone(), row["status"].clone()]).collect()
    }

    fn calls(&self) -> [usize; 2] {
        [&self.one, &self.two].map(|site| site.cloud.faults().calls().len())
    }
}

#[test]
fn what_fails_at_one_site_is_removed_there_and_goes_on_at_the_next() {
    let both = Two::new();
    both.break_one();
    let gave = both.run(&Two::demo(&[]));
    let reported = gave.json();
    let data = &reported["data"];
    assert_eq!((gave.code, &data["site"], &data["status"]), (0, &"two".into(), &"Ready".into()), "{gave:?}");
    both.one.assert_nothing("rolled back");
    assert_eq!(both.two.counts(), [1, 1, 1, 1]);
    assert_eq!(data["attempt"], 3, "two types of hosts were tried before: {gave:?}");
    assert!(reported["warnings"].to_string().contains("site two is tried next"), "{gave:?}");
    assert_eq!(reported["metrics"]["api_calls"], both.calls().iter().sum::<usize>(), "those of both sites");
    assert_eq!(both.known(), [["two", "Ready"], ["one", "Failed"]].map(|row| row.map(Value::from)));
    assert_eq!(both.run(&["status", "demo", "--output", "json"]).json()["data"]["site"], "two");
    assert_eq!(both.run(&["destroy", "demo"]).code, 0);
    both.two.assert_nothing("destroyed");
    // The password stands where the user put it.
    std::fs::remove_file(both.one.bench.path("clouds.yaml")).expect("a file");
    both.one.assert_no_secret(&[&gave], &[PASSWORD, "token-"]);
}

#[test]
fn no_quota_at_one_site_leads_to_the_next_before_anything_is_made() {
    let both = Two::new();
    both.one.cloud.world().quota = (50, 0);
    let gave = both.run(&Two::demo(&[]));
    assert_eq!((gave.code, &gave.json()["data"]["site"]), (0, &"two".into()), "{gave:?}");
    assert_eq!(gave.json()["data"]["attempt"], 1, "nothing was tried before");
    let made =
        both.one.cloud.faults().calls().iter().filter(|call| call.contains("POST") && !call.contains("tokens")).count();
    assert_eq!(made, 0);
}

#[test]
fn a_type_that_only_the_next_site_has_leads_there() {
    let both = Two::new();
    for host in &mut both.two.cloud.world().hosts {
        host.document["node_type"] = "only_two".into();
    }
    let flags = ["--node-type", "only_two", "--fallback", "sites"];
    let plan = ["plan", "--repo", "repo", "--allow-local", "--site", "one,two", "--output", "json"];
    let planned = both.run(&[&plan[..], &flags].concat());
    assert_eq!((planned.code, &planned.json()["data"]["offerings"][0]["site"]), (0, &"two".into()), "{planned:?}");
    let gave = both.run(&Two::demo(&flags));
    let reported = gave.json();
    assert_eq!((gave.code, &reported["data"]["site"]), (0, &"two".into()), "{gave:?}");
    for reported in [&planned.json(), &reported] {
        let warnings = reported["warnings"].to_string();
        assert!(
            warnings.contains("`only_two` is unknown") && warnings.contains("site two is tried next"),
            "{reported}"
        );
    }
    let alone = both.run(&Two::demo(&["--new", "--node-type", "nothing"]));
    assert_eq!((alone.code, &alone.json()["error"]["code"]), (2, &"unknown_type".into()), "{alone:?}");
}

#[test]
fn a_site_that_is_away_is_named_and_passed_over() {
    let both = Two::new();
    both.one.cloud.faults().on("identity POST", Fault::Status(503), 100_000);
    let plan = |sites: &'static str| ["plan", "--repo", "repo", "--allow-local", "--site", sites, "--output", "json"];
    let nodes = ["catalog", "nodes", "--site", "one,two", "--output", "json"];
    let images = ["catalog", "images", "--site", "one,two", "--output", "json"];
    // Each of them asks for half a minute.
    let begun = [&Two::demo(&[])[..], &plan("one,two"), &nodes, &images, &plan("one")].map(|args| {
        let child = Site::begun(both.command(args));
        (args.join(" "), child)
    });
    let [apply, plan, nodes, images, alone] = begun.map(|(what, child)| {
        let gave = Site::waited(child);
        let (code, reported) = (gave.code, gave.json());
        let is_named = reported["warnings"].to_string().contains("site one is passed over: ");
        assert_eq!(
            (code, is_named),
            if what.ends_with("--site one --output json") { (7, false) } else { (0, true) },
            "{what}: {gave:?}"
        );
        reported
    });
    assert_eq!((&apply["data"]["site"], &apply["data"]["attempt"]), (&"two".into(), &1.into()), "{apply}");
    assert_eq!(both.two.counts(), [1, 1, 1, 1]);
    assert_eq!(plan["data"]["offerings"][0]["site"], "two");
    assert_eq!(nodes["data"]["sites"][0]["site"], "two");
    assert_eq!(images["data"]["sites"][0]["site"], "two");
    assert_eq!(alone["error"]["code"], "unavailable", "{alone}");
}

#[test]
fn a_site_that_refuses_the_credential_is_named_where_there_are_several() {
    let both = Two::new();
    let path = both.one.bench.path("clouds.yaml");
    let text = std::fs::read_to_string(&path).expect("the clouds");
    std::fs::write(&path, text.replacen(PASSWORD, "planted-wrong-password", 1)).expect("the clouds");
    let reported = |args: &[&str]| {
        let gave = both.run(args);
        assert_eq!(gave.code, 6, "{args:?}: {gave:?}");
        gave.json()["error"]["message"].as_str().expect("words").to_owned()
    };
    let plan = |sites: &'static str| ["plan", "--repo", "repo", "--allow-local", "--site", sites, "--output", "json"];
    let nodes = ["catalog", "nodes", "--site", "one,two", "--output", "json"];
    let images = ["catalog", "images", "--site", "one,two", "--output", "json"];
    for args in [&Two::demo(&[])[..], &plan("one,two"), &nodes, &images] {
        assert!(reported(args).starts_with("site one: identity POST /auth/tokens: "), "{args:?}: {}", reported(args));
    }
    assert!(reported(&plan("one")).starts_with("identity POST /auth/tokens: "));
    both.one.assert_nothing("refused");
}

#[test]
fn attempts_are_those_of_all_sites_and_the_last_failure_decides() {
    let both = Two::new();
    both.break_one();
    let spent = both.run(&Two::demo(&["--max-attempts", "2"]));
    assert_eq!((spent.code, &spent.json()["data"]["site"]), (1, &"one".into()), "{spent:?}");
    assert_eq!((both.calls()[1], both.known().len()), (0, 1), "no attempt is left for the other site");
    both.one.assert_nothing("rolled back");
    let alone = both.run(&Two::demo(&["--fallback", "types"]));
    assert_eq!((alone.code, both.calls()[1]), (1, 0), "sites are not to be changed: {alone:?}");
    both.two.cloud.world().quota = (50, 0);
    let last = both.run(&Two::demo(&[]));
    assert_eq!((last.code, &last.json()["error"]["code"]), (11, &"quota".into()), "{last:?}");
    both.one.assert_nothing("rolled back");
    both.two.assert_nothing("never begun");
}

#[test]
fn keeping_what_failed_is_for_the_last_site() {
    let both = Two::new();
    both.break_one();
    both.two.cloud.world().build.fails = Some(("No valid host was found".to_owned(), 100));
    let gave = both.run(&Two::demo(&["--keep-on-failure"]));
    assert_eq!(
        (gave.code, &gave.json()["data"]["status"], &gave.json()["data"]["site"]),
        (1, &"Kept".into(), &"two".into()),
        "{gave:?}"
    );
    both.one.assert_nothing("another site was left to try");
    assert_eq!(both.two.counts(), [1, 1, 0, 1]);
    assert_eq!(both.run(&["destroy", "demo"]).code, 0);
    both.two.assert_nothing("destroyed");
}

#[test]
fn killed_at_one_site_it_is_taken_up_there_and_goes_on_at_the_next() {
    let both = Two::new();
    both.one.cloud.world().build.takes = Duration::from_secs(6);
    let mut child = both.spawn(&[]);
    both.one.until("ServerWait");
    child.kill().expect("it runs");
    Site::waited(child);
    both.one.cloud.world().build.takes = Duration::from_millis(50);
    both.break_one();
    both.one.cloud.world().lose_servers();
    // A server that is not shown within a minute is gone.
    both.one.later(Duration::from_secs(61));
    let gave = Bench::gives(both.one.with_own_time(both.command(&Two::demo(&[]))));
    assert_eq!((gave.code, &gave.json()["data"]["site"]), (0, &"two".into()), "{gave:?}");
    both.one.assert_nothing("rolled back");
    assert_eq!(both.two.counts(), [1, 1, 1, 1]);
    assert_eq!(both.known(), [["two", "Ready"], ["one", "Failed"]].map(|row| row.map(Value::from)));
}

#[test]
fn what_cannot_be_removed_at_one_site_ends_the_run_there() {
    let both = Two::new();
    both.break_one();
    both.one.cloud.faults().on("reservation DELETE", Fault::Status(403), 100_000);
    let child = both.spawn(&["--max-attempts", "2"]);
    both.one.until("NextOffering");
    both.one.later(Duration::from_secs(1000));
    let began = std::time::Instant::now();
    while both.one.info()["status"] != "Leftover" {
        assert!(began.elapsed() < Duration::from_secs(90), "{}", both.one.info());
        if both.one.info()["status"] == "RollingBack" {
            both.one.later(Duration::from_secs(3000));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let gave = Site::waited(child);
    assert_eq!((gave.code, &gave.json()["data"]["site"]), (12, &"one".into()), "{gave:?}");
    assert_eq!(both.calls()[1], 0, "nobody leaves a lease behind to make another");
    both.one.cloud.faults().clear();
    assert_eq!(both.run(&["destroy", "demo"]).code, 0);
    both.one.assert_nothing("destroyed");
}

/// Calls of a kind at a site.
fn count(site: &Site, front: &str) -> usize {
    site.cloud.faults().calls().iter().filter(|call| call.starts_with(front)).count()
}

#[test]
fn a_free_host_is_waited_for_at_all_sites_and_taken_where_it_is() {
    let both = Two::new();
    let far = orlop_core::time::Time::from_millis(4_000_000_000_000);
    both.one.cloud.world().take_all(far);
    both.two.cloud.world().take_all(far);
    let child = both.spawn(&["--wait-for-capacity", "1h", "--lease-name", "mine"]);
    both.one.until("CapacityWait");
    assert_eq!(both.one.info()["site"], "two", "the last one waits for all");
    let posts = || [&both.one, &both.two].map(|site| count(site, "reservation POST"));
    assert_eq!(posts(), [0, 0]);
    both.one.cloud.world().taken.remove("2");
    both.one.later(Duration::from_secs(61));
    let gave = Site::waited(child);
    let reported = gave.json();
    assert_eq!(
        (gave.code, &reported["data"]["site"], &reported["data"]["status"]),
        (0, &"one".into(), &"Ready".into()),
        "{gave:?}"
    );
    assert_eq!((posts(), &reported["data"]["attempt"]), ([1, 0], &1.into()), "no lease on speculation");
    both.two.assert_nothing("nothing was made there but a key, which is gone");
    assert_eq!(both.one.counts(), [1, 1, 1, 1]);
    assert_eq!(reported["metrics"]["api_calls"], both.calls().iter().sum::<usize>(), "those of both sites");
    assert_eq!(both.run(&["destroy", "demo"]).code, 0);
    // In vain: exit 11, and nothing is left anywhere.
    both.one.later(Duration::ZERO);
    both.one.cloud.world().take_all(far);
    let child = both.spawn(&["--wait-for-capacity", "1h"]);
    both.one.until("CapacityWait");
    both.one.later(Duration::from_secs(3700));
    let gave = Site::waited(child);
    assert_eq!((gave.code, &gave.json()["error"]["code"]), (11, &"capacity".into()), "{gave:?}");
    assert_eq!(posts(), [1, 0]);
    both.one.assert_nothing("waited in vain");
    both.two.assert_nothing("waited in vain");
}

#[test]
fn resume_goes_on_at_the_next_site_with_what_was_asked_for() {
    let both = Two::new();
    both.one.cloud.world().build.takes = Duration::from_secs(6);
    let mut child = both.spawn(&["--lease-duration", "7"]);
    both.one.until("ServerWait");
    child.kill().expect("it runs");
    Site::waited(child);
    both.one.cloud.world().build.takes = Duration::from_millis(50);
    both.break_one();
    both.one.cloud.world().lose_servers();
    // From another folder: what was named by apply is looked for where apply was given.
    both.one.bench.file("elsewhere/file", "");
    both.one.later(Duration::from_secs(61));
    let mut command = both.one.with_own_time(both.command(&["resume", "demo", "--output", "json"]));
    command.env("OS_CLIENT_CONFIG_FILE", both.one.bench.path("clouds.yaml"));
    let gave = Bench::gives({
        command.current_dir(both.one.bench.path("elsewhere"));
        command
    });
    let reported = gave.json();
    assert_eq!(
        (gave.code, &reported["data"]["site"], &reported["data"]["status"]),
        (0, &"two".into(), &"Ready".into()),
        "{gave:?}"
    );
    assert_eq!(reported["data"]["su_estimate"], "7 SU", "as it was asked for: {gave:?}");
    both.one.assert_nothing("rolled back");
    assert_eq!(both.two.counts(), [1, 1, 1, 1]);
    assert_eq!(both.known(), [["two", "Ready"], ["one", "Failed"]].map(|row| row.map(Value::from)));
}

#[test]
fn killed_between_two_sites_it_goes_on_at_the_next_and_not_at_the_first_again() {
    for verb in ["apply", "resume"] {
        let both = Two::new();
        both.break_one();
        // Nobody answers at the second site: the run hangs between the two.
        both.two.cloud.faults().on("identity POST", Fault::Kill, 1);
        let mut child = both.spawn(&[]);
        let began = std::time::Instant::now();
        while both.calls()[1] == 0 {
            assert!(began.elapsed() < Duration::from_secs(60), "it never came to the second site");
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().expect("it runs");
        Site::waited(child);
        assert_eq!(both.known(), [["one", "Failed"]].map(|row| row.map(Value::from)));
        let before = count(&both.one, "reservation");
        let gave =
            if verb == "apply" { both.run(&Two::demo(&[])) } else { both.run(&["resume", "demo", "--output", "json"]) };
        assert_eq!((gave.code, &gave.json()["data"]["site"]), (0, &"two".into()), "{verb}: {gave:?}");
        assert_eq!(gave.json()["data"]["attempt"], 3, "{verb}: attempts are those of the whole run: {gave:?}");
        assert_eq!(count(&both.one, "reservation"), before, "{verb}: the first site is not tried again");
        assert_eq!(both.two.counts(), [1, 1, 1, 1]);
        let again = both.run(&["resume", "demo", "--output", "json"]);
        assert_eq!((again.code, &again.json()["data"]["status"]), (0, &"Ready".into()), "{verb}: {again:?}");
        assert_eq!(both.run(&["destroy", "demo"]).code, 0);
        both.two.assert_nothing("destroyed");
        both.one.cloud.world().build.fails = None;
        let anew = both.run(&Two::demo(&[]));
        assert_eq!(anew.json()["data"]["site"], "one", "{verb}: what is over is forgotten: {anew:?}");
    }
}
