//! Plans that were made before: the real program on a cloud of this machine.

use std::time::Duration;

use orlop_core::time::Time;

use super::cloud::Site;

const APPLY: [&str; 12] = [
    "apply",
    "--plan",
    "plan.json",
    "--server-name",
    "demo",
    "--key-path",
    "key.pub",
    "--verify",
    "none",
    "--yes",
    "--output",
    "json",
];

#[test]
fn what_a_saved_plan_offers_is_waited_for_once_it_is_taken() {
    let site = Site::new();
    let planned =
        site.run(&["plan", "--repo", "repo", "--allow-local", "--out", "plan.json", "--start-delay-minutes", "0"]);
    assert_eq!(planned.code, 0, "{planned:?}");
    site.cloud.world().take_all(Time::from_millis(4_000_000_000_000));
    let stale = site.run(&APPLY);
    assert_eq!((stale.code, &stale.json()["error"]["code"]), (5, &"stale_plan".into()), "{stale:?}");
    let command = site.command(&[&APPLY[..], &["--wait-for-capacity", "1h"]].concat());
    let child = Site::begun(site.with_own_time(command));
    site.until("CapacityWait");
    let leases = || site.cloud.faults().calls().iter().filter(|call| call.contains("POST /leases")).count();
    assert_eq!(leases(), 0, "nothing is asked for on speculation");
    site.cloud.world().taken.clear();
    site.later(Duration::from_secs(61));
    let gave = Site::waited(child);
    assert_eq!((gave.code, &gave.json()["data"]["status"]), (0, &"Ready".into()), "{gave:?}");
    assert_eq!((leases(), site.counts()), (1, [1, 1, 1, 1]));
}

#[test]
fn a_budget_is_one_for_everything_that_a_saved_plan_would_try() {
    let site = Site::new();
    for host in site.cloud.world().hosts.iter_mut().filter(|host| host.node_type == "gpu_rtx_6000") {
        host.document["su_factor"] = "4.0".into();
    }
    let plan = ["plan", "--repo", "repo", "--allow-local", "--out", "plan.json", "--start-delay-minutes", "0"];
    let planned = site.run(&[&plan[..], &["--lease-duration", "10", "--output", "json"]].concat());
    let costs: Vec<u64> = planned.json()["data"]["offerings"]
        .as_array()
        .expect("offerings")
        .iter()
        .filter_map(|one| one["su_milli"].as_u64())
        .collect();
    assert_eq!(costs, [10_000, 40_000], "{planned:?}");
    let nothing = site.run(&[&APPLY[..], &["--max-su", "9"]].concat());
    assert_eq!((nothing.code, &nothing.json()["error"]["code"]), (11, &"budget".into()), "{nothing:?}");
    site.cloud.world().refuse_leases.push((400, "Not enough hosts available".to_owned()));
    let gave = site.run(&[&APPLY[..], &["--max-su", "20"]].concat());
    assert_eq!(gave.code, 11, "the other one is beyond it: {gave:?}");
    let asked = site.cloud.faults().calls().iter().filter(|call| call.contains("POST /leases")).count();
    assert_eq!(asked, 1, "{gave:?}");
    site.assert_nothing("refused");
}

#[test]
fn a_plan_that_was_made_without_credentials_is_carried_out() {
    let site = Site::new();
    site.bench
        .file("hosts.json", &serde_json::json!({"hosts": [site.cloud.world().hosts[0].document.clone()]}).to_string());
    let mut command = site.bench.command(&["plan", "--repo", "repo", "--allow-local", "--out", "plan.json"]);
    command.args(["--site", "test", "--catalog-file", "hosts.json", "--start-delay-minutes", "0"]);
    let planned = super::bench::Bench::gives(command);
    assert_eq!(planned.code, 0, "{planned:?}");
    let gave = site.run(&APPLY);
    assert_eq!((gave.code, &gave.json()["data"]["status"]), (0, &"Ready".into()), "{gave:?}");
}
