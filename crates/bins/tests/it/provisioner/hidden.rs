//! Sites that hide their hosts from users, as reservation services do by default.

use orlop_cloud::testing::openstack::Fault;

use super::bench::Gave;
use super::cloud::Site;

/// A cloud of its own that shows flavors, and no host.
fn site() -> Site {
    hiding(403)
}

/// One that answers with this status when it is asked for hosts.
fn hiding(status: u16) -> Site {
    let site = Site::new();
    site.cloud.world().add_machines();
    site.cloud.faults().on("reservation GET /os-hosts", Fault::Status(status), 1000);
    site
}

fn plan(site: &Site, more: &[&str]) -> Gave {
    site.run(&[&["plan", "--repo", "repo", "--allow-local", "--output", "json"], more].concat())
}

#[test]
fn hosts_that_a_site_hides_are_reported_as_such_and_flavors_count_for_virtual_machines_only() {
    let site = site();
    let reported = |more: &[&str]| {
        let gave = plan(&site, more);
        let document = gave.json();
        assert!(!gave.out.contains("ncar") && !gave.out.contains("chi@"), "nothing of Chameleon: {gave:?}");
        (
            gave.code,
            document["error"]["code"].clone(),
            document["error"]["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let hidden = "the hosts of test are hidden by the site: name them with --catalog-file";
    let large = ["--ram", "900"];
    assert_eq!(
        reported(&large),
        (11, "hosts_hidden".into(), format!("no virtual machine fits, and {hidden}")),
        "a machine of the default kind"
    );
    let host = format!("{hidden}, or take a virtual machine with --kind vm");
    assert_eq!(reported(&["--kind", "baremetal"]), (11, "hosts_hidden".into(), host.clone()));
    assert_eq!(
        reported(&["--kind", "baremetal", "--node-type", "compute_x"]),
        (11, "hosts_hidden".into(), host.clone())
    );
    let (code, word, words) = reported(&["--kind", "vm", "--ram", "900"]);
    assert_eq!((code, word), (11, "nothing_fits".into()), "{words}");
    assert!(words.contains("no type has 900 GiB of memory (largest"), "{words}");
    // Where no flavor is known either, there is nothing to compare.
    site.cloud.world().flavors.retain(|flavor| flavor["name"] == "baremetal");
    assert_eq!(reported(&[]).2, host);
}

#[test]
fn a_virtual_machine_that_fits_is_planned_where_hosts_are_hidden_and_said_to_be_all_that_was_seen() {
    let site = site();
    let gave = plan(&site, &[]);
    let document = gave.json();
    assert_eq!((gave.code, &document["data"]["source"]), (0, &"hidden".into()), "{gave:?}");
    assert_eq!(document["data"]["offerings"][0]["node_type"], "m1.medium");
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("the hosts of test are hidden by the site: only virtual machines"), "{warnings}");
    assert!(!plan(&site, &["--kind", "vm"]).json()["warnings"].to_string().contains("hidden"), "it was asked for");
    let hosts =
        r#"{"hosts":[{"id":"1","uid":"u1","node_type":"own_type","vcpus":8,"memory_mb":16384,"local_gb":250}]}"#;
    site.bench.file("hosts.json", hosts);
    let gave = plan(&site, &["--catalog-file", "hosts.json"]);
    assert_eq!((gave.code, &gave.json()["data"]["offerings"][0]["node_type"]), (0, &"own_type".into()), "{gave:?}");
}

#[test]
fn a_cloud_without_reservations_has_no_hosts_to_lease_and_no_table_of_another_cloud() {
    let site = Site::new();
    site.cloud.world().add_machines();
    site.cloud.world().reserves = false;
    let gave = plan(&site, &["--kind", "baremetal"]);
    let document = gave.json();
    let message = document["error"]["message"].as_str().unwrap_or_default();
    assert!(gave.code == 11 && message.contains("nothing can ever fit at test"), "{gave:?}");
    let nodes = site.run(&["catalog", "nodes", "--output", "json"]);
    assert_eq!(nodes.json()["data"]["sites"][0]["source"], "live", "{nodes:?}");
}

#[test]
fn hosts_are_hidden_by_whatever_status_and_no_other_is_reported() {
    for status in [403, 404, 405] {
        let document = plan(&hiding(status), &["--kind", "baremetal"]).json();
        let message = document["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("the hosts of test are hidden by the site: name them"), "{status}: {document}");
        assert!(!message.contains("40"), "{status}: {message}");
    }
}
