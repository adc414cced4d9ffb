//! Virtual machines by the real program on a cloud of this machine: with a lease, without one, in the place of a host.

use serde_json::Value;

use super::cloud::{PASSWORD, Site};

fn site() -> Site {
    let site = Site::new();
    site.cloud.world().add_machines();
    site
}

fn calls(site: &Site, what: &str) -> usize {
    site.cloud.faults().calls().iter().filter(|call| call.contains(what)).count()
}

#[test]
fn a_virtual_machine_is_leased_cannot_be_extended_and_leaves_nothing() {
    let site = site();
    let gave = site.apply(&["--kind", "vm", "--output", "json", "--allow-ssh-from", "192.0.2.0/24"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let data = &gave.json()["data"];
    assert_eq!(
        (&data["node_type"], &data["flavor_id"], &data["status"]),
        (&"m1.medium".into(), &"3".into(), &"Ready".into())
    );
    assert_eq!((site.counts(), site.remains().groups.len()), ([1, 1, 1, 1], 1));
    let extended = site.run(&["extend", "demo", "--hours", "12", "--output", "json"]);
    assert_eq!(extended.code, 6, "{extended:?}");
    assert_eq!(extended.json()["error"]["message"], "leases of virtual machines cannot be changed");
    assert_eq!(calls(&site, "PUT /leases"), 0, "nobody asked");
    let status = site.run(&["status", "demo", "--output", "json"]);
    assert_eq!((status.code, &status.json()["data"]["live"]["server"]["status"]), (0, &"ACTIVE".into()), "{status:?}");
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    site.assert_nothing("destroyed");
    site.assert_no_secret(&[&gave, &extended, &status], &[PASSWORD, "token-"]);
}

#[test]
fn without_reservation_there_is_no_lease_and_no_lifetime_to_cap() {
    let site = site();
    let flags = ["--kind", "vm", "--reservation", "none", "--flavor", "m1.xlarge"];
    let capped = site.apply(&[&flags[..], &["--max-lifetime", "2d"]].concat());
    assert!(capped.code == 2 && capped.err.contains("--max-lifetime cannot be held"), "{capped:?}");
    let gave = site.apply(&[&flags[..], &["--output", "jsonl"]].concat());
    assert_eq!(gave.code, 0, "{gave:?}");
    let lines: Vec<Value> = gave.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().all(|line| line["step"] != 5), "the step of the lease is skipped: {}", gave.out);
    let last = lines.last().expect("a line");
    assert_eq!((&last["data"]["lease_id"], &last["data"]["flavor_id"]), (&Value::Null, &"5".into()), "{last}");
    assert!(last["warnings"].to_string().contains("until it is destroyed"), "{last}");
    assert_eq!(site.counts(), [0, 1, 1, 1]);
    assert_eq!(site.run(&["extend", "demo", "--hours", "1"]).code, 5, "there is no lease");
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    site.assert_nothing("destroyed");
    assert_eq!(calls(&site, "POST /leases"), 0);
}

#[test]
fn a_cloud_that_reserves_nothing_gives_virtual_machines_without_a_lease() {
    let site = site();
    site.cloud.world().reserves = false;
    let leased = site.apply(&["--output", "json"]);
    assert_eq!((leased.code, &leased.json()["error"]["code"]), (2, &"no_reservations".into()), "{leased:?}");
    assert!(leased.json()["error"]["hint"].to_string().contains("--reservation none"), "{leased:?}");
    let flags = ["--reservation", "none", "--output", "json"];
    let gave = site.apply(&flags);
    assert_eq!((gave.code, &gave.json()["data"]["flavor_id"]), (0, &"3".into()), "{gave:?}");
    let listed = site.run(&["list", "--remote", "--output", "json"]);
    assert_eq!((listed.code, site.counts()), (0, [0, 1, 1, 1]), "{listed:?}");
    assert_eq!(site.run(&["status", "demo"]).code, 0);
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    site.assert_nothing("destroyed");
    // What fails there is rolled back there.
    site.cloud.world().build.fails = Some(("No valid host was found".to_owned(), 100));
    let failed = site.apply(&flags);
    assert_eq!((failed.code, &failed.json()["data"]["status"]), (11, &"Failed".into()), "{failed:?}");
    site.assert_nothing("rolled back");
}

#[test]
fn a_machine_takes_the_place_of_hosts_that_are_not_there() {
    let site = site();
    site.cloud.world().hosts.truncate(2);
    let cards = ["--gpu", "1", "--vram", "80", "--gpu-vendor", "nvidia"];
    assert_eq!(site.apply(&cards).code, 11, "no host has such a card");
    let gave = site.apply(&[&cards[..], &["--fallback", "types,vm", "--output", "json"]].concat());
    assert_eq!((gave.code, &gave.json()["data"]["node_type"]), (0, &"g1.h100".into()), "{gave:?}");
    assert_eq!(site.run(&["destroy", "demo"]).code, 0);
    let two = site.apply(&["--gpu", "2", "--vram", "80", "--fallback", "types,vm"]);
    assert_eq!(two.code, 11, "a need for cards is never weakened: {two:?}");
    site.assert_nothing("destroyed");
}

#[test]
fn flags_of_machines_are_refused_for_hosts_and_seen_in_plan_and_catalogue() {
    let site = site();
    let code = |flags: &[&str]| {
        let gave = site.apply(&[flags, &["--output", "json"]].concat());
        format!("{} {}", gave.code, gave.json()["error"]["code"].as_str().unwrap_or("-"))
    };
    assert_eq!(code(&["--security-group", "default"]), "2 group_of_host");
    assert_eq!(code(&["--allow-ssh-from", "192.0.2.0/24"]), "2 group_of_host");
    assert_eq!(code(&["--reservation", "none"]), "2 usage");
    assert_eq!(code(&["--kind", "vm", "--flavor", "nothing"]), "2 unknown_type");
    site.assert_nothing("refused");
    let plan = ["plan", "--repo", "repo", "--allow-local", "--kind", "vm", "--lease-duration", "10"];
    let reported = site.run(&plan);
    assert!(reported.out.contains("1. m1.medium at test, a virtual machine: 4 threads, 8 GiB"), "{reported:?}");
    let offering = &site.run(&[&plan[..], &["--output", "json"]].concat()).json()["data"]["offerings"][0];
    assert_eq!(offering["flavor"], serde_json::json!({"id": "3", "vgpu": false, "reserved": true}));
    assert_eq!(offering["su_milli"], 834, "4 of 48 threads for 10 h");
    let catalogue = site.run(&["catalog", "nodes"]);
    insta::assert_snapshot!(catalogue.out.lines().filter(|line| line.contains("1.")).collect::<Vec<_>>().join("\n"));
}
