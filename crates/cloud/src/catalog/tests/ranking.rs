//! Tiers, their boundaries, and the order.

use super::*;
use crate::analyze::Version;
use crate::catalog::rank::{Class, Prefer, Question, TypeChoice, default_type, rank, resolve_type};
use crate::catalog::window::{Allocation, Availability};

fn ranked(needs: &Needs, sites: &[&str]) -> Vec<String> {
    let sites: Vec<String> = sites.iter().map(|site| (*site).to_owned()).collect();
    let question = Question { needs, sites: &sites, asked: asked(), prefer: Prefer::Fit };
    let ranking = rank(&question, &embedded(), None).unwrap();
    let mut names: Vec<String> =
        ranking.offerings.iter().map(|o| format!("{}:{}", o.variant.node_type, o.tier)).collect();
    names.dedup();
    names
}

fn first(needs: &Needs, site: &str) -> String {
    ranked(needs, &[site]).remove(0)
}

#[test]
fn every_boundary_is_strict() {
    let class = |needs: &Needs| Class::of(needs);
    assert_eq!(
        [8, 16, 17, 24, 25].map(|gb| class(&card(gb))),
        [Class::Gpu, Class::Gpu, Class::GpuOver16, Class::GpuOver16, Class::GpuOver24]
    );
    let mut needs = plain();
    needs.ram_gib.wish = 256;
    assert_eq!(class(&needs), Class::Standard);
    needs.ram_gib.wish = 257;
    assert_eq!(class(&needs), Class::Memory);
    needs = plain();
    needs.cores.wish = 48;
    assert_eq!(class(&needs), Class::Standard);
    needs.cores.wish = 49;
    assert_eq!(class(&needs), Class::Cores);
}

#[test]
fn tiers_by_capability() {
    let large = ranked(&card(32), &["uc"]);
    assert_eq!((large.len(), large[3].as_str()), (4, "gpu_v100:2"));
    assert!(large[..3].iter().all(|name| name.ends_with(":1")), "{large:?}");
    assert_eq!(first(&card(24), "uc"), "gpu_rtx_6000:1");
    assert_eq!(first(&card(24), "tacc"), "compute_gigaio:1", "with an A30");
    assert_eq!(first(&card(16), "uc"), "gpu_rtx_6000:1", "the smallest that fits there");
    assert_eq!(first(&card(16), "tacc"), "gpu_p100_v100:1");
    assert_eq!(first(&card(8), "tacc"), "gpu_p100_v100:1", "no old card");
}

#[test]
fn tiers_without_a_card() {
    let with = |cores: u32, ram: u32| {
        let mut needs = plain();
        (needs.cores.wish, needs.ram_gib.wish) = (cores, ram);
        needs
    };
    assert_eq!(first(&with(4, 300), "tacc"), "storage_hierarchy:1");
    assert_eq!(ranked(&with(4, 300), &["uc"])[..2], ["compute_gigaio:1", "compute_nvdimm:1"]);
    assert_eq!(first(&with(64, 8), "tacc"), "compute_cascadelake:1");
    assert_eq!(first(&with(65, 8), "tacc"), "compute_cascadelake_r:1");
    assert_eq!(first(&with(97, 8), "tacc"), "compute_gigaio:1", "one without a card, by its name");
    assert_eq!(first(&with(4, 8), "uc"), "compute_skylake:1");
    assert_eq!(first(&with(4, 8), "nrp"), "compute_haswell:1");
    let standard = ranked(&with(4, 8), &["tacc"]);
    assert!(standard[0].starts_with("compute_haswell") && standard[1] == "compute_skylake:1", "{standard:?}");
    let at = |name: &str| standard.iter().position(|found| found.starts_with(name)).unwrap();
    assert!(at("compute_cascadelake_r") < at("gpu_mi100"), "accelerators come last");
}

#[test]
fn sites_keep_their_order_and_other_sites_are_suggested() {
    let both = ranked(&card(24), &["tacc", "uc"]);
    let at = |name: &str| both.iter().position(|found| found.starts_with(name)).unwrap();
    assert!(at("gpu_h100") < at("gpu_rtx_6000"));
    let sites = vec!["nu".to_owned()];
    let needs = card(80);
    let question = Question { needs: &needs, sites: &sites, asked: asked(), prefer: Prefer::Fit };
    let error = rank(&question, &embedded(), None).unwrap_err();
    insta::assert_snapshot!(error, @"none of the types that are looked at has a GPU of nvidia; fits at tacc (gpu_h100), uc (compute_gigaio), uc (gpu_a100_nvlink), uc (gpu_a100_pcie)");
}

#[test]
fn an_old_cuda_takes_a_card_it_knows_first_and_a_newer_one_with_a_note() {
    let mut needs = card(8);
    needs.gpu.as_mut().unwrap().cuda = Some(Version::new(10, 1));
    assert_eq!(first(&needs, "uc"), "gpu_rtx_6000:1");
    needs.gpu.as_mut().unwrap().memory_gb = 40;
    let sites = vec!["uc".to_owned()];
    let question = Question { needs: &needs, sites: &sites, asked: asked(), prefer: Prefer::Fit };
    let ranking = rank(&question, &embedded(), None).unwrap();
    insta::assert_snapshot!(ranking.notes.join("; "), @"CUDA 10.1 is older than the A100: binaries without newer code need recompiling");
}

fn host(id: &str, node_type: &str, threads: u32, su: f64) -> String {
    format!(
        "{{\"id\":\"{id}\",\"uid\":\"u{id}\",\"node_type\":\"{node_type}\",\"architecture.smt_size\":\"{threads}\",\"main_memory.ram_size\":\"137438953472\",\"storage_devices.0.size\":\"250000000000\",\"su_factor\":\"{su}\"}}"
    )
}

fn live() -> Catalogue {
    let hosts = [
        host("1", "big", 96, 1.0),
        host("2", "small", 48, 2.0),
        host("3", "small", 48, 3.0),
        host("4", "middle", 48, 2.5),
    ]
    .join(",");
    Catalogue::of_hosts(Origin::Live, "here", &read_hosts(&format!("{{\"hosts\":[{hosts}]}}")).unwrap())
}

fn order(prefer: Prefer, allocations: &[Allocation], within_hours: i64) -> Vec<String> {
    let sites = vec!["here".to_owned()];
    let needs = plain();
    let mut asked = asked();
    asked.within = SignedDuration::from_hours(within_hours);
    let ranking = rank(&Question { needs: &needs, sites: &sites, asked, prefer }, &live(), Some(allocations)).unwrap();
    ranking.offerings.iter().map(|offering| offering.variant.node_type.clone()).collect()
}

fn taken(id: &str, hours: i64) -> Allocation {
    let start = asked().start;
    Allocation {
        host: id.to_owned(),
        window: Some((start, start.checked_add(SignedDuration::from_hours(hours)).unwrap())),
    }
}

#[test]
fn the_order_is_free_tier_start_cost_surplus_name() {
    assert_eq!(order(Prefer::Fit, &[], 0), ["middle", "small", "big"], "tier, then the cost of the dearest");
    assert_eq!(order(Prefer::Cost, &[], 0), ["big", "middle", "small"]);
    assert_eq!(order(Prefer::Fit, &[taken("4", 5)], 0), ["small", "big", "middle"], "free ones first");
    assert_eq!(order(Prefer::Fit, &[taken("4", 5)], 10), ["small", "middle", "big"], "later within the allowed start");
    assert_eq!(order(Prefer::Start, &[taken("2", 5), taken("3", 6), taken("4", 4)], 10), ["big", "middle", "small"]);
    let blind = Allocation { host: "4".into(), window: None };
    assert_eq!(order(Prefer::Fit, &[blind], 0), ["small", "big", "middle"], "unknown after free");
}

#[test]
fn live_rates_are_known_and_the_dearest_host_counts() {
    let sites = vec!["here".to_owned()];
    let needs = plain();
    let ranking =
        rank(&Question { needs: &needs, sites: &sites, asked: asked(), prefer: Prefer::Fit }, &live(), Some(&[]))
            .unwrap();
    let reported: Vec<String> =
        ranking.offerings.iter().map(|o| format!("{} {}", o.variant.node_type, o.cost.text())).collect();
    assert_eq!(reported, ["middle 60 SU", "small 72 SU", "big 24 SU"]);
    assert!(ranking.offerings.iter().all(|o| matches!(o.availability, Availability::Free { .. })));
}

#[test]
fn aliases_stand_for_classes() {
    let catalogue = embedded();
    let of = |name: &str| resolve_type(name, "uc", &catalogue);
    assert_eq!(of("gpu_rtx_6000"), Some(TypeChoice::Exact));
    assert_eq!(of("gpu_a100"), Some(TypeChoice::Class(Class::GpuOver24)));
    assert_eq!(of("gpu_rtx_5000"), Some(TypeChoice::Class(Class::Gpu)));
    assert_eq!(of("compute_384gb"), Some(TypeChoice::Class(Class::Memory)));
    assert_eq!(of("compute_cascadelake_r640"), Some(TypeChoice::Other("compute_cascadelake_r")));
    assert_eq!(of("gpu_mi100"), None, "of another site");
    assert_eq!(of("nothing"), None);
}

#[test]
fn the_default_type() {
    let catalogue = embedded();
    let of = |site: &str| default_type(site, &catalogue).map(|variant| variant.node_type.as_str());
    assert_eq!(
        [of("uc"), of("tacc"), of("nu"), of("nrp")],
        [
            Some("compute_cascadelake_r"),
            Some("compute_cascadelake_r"),
            Some("compute_skylake"),
            Some("compute_haswell")
        ]
    );
    assert_eq!(of("ncar"), Some("compute_zen5_grado"));
    assert_eq!(of("nowhere"), None);
}

#[test]
fn filters_are_equalities_on_known_keys() {
    let catalogue = live();
    let of = |name: &str| catalogue.at("here").find(|variant| variant.node_type == name).unwrap().filters();
    assert_eq!(of("small"), (String::new(), r#"["=", "$node_type", "small"]"#.to_owned()));
    let two = [host("1", "t", 48, 1.0), host("2", "t", 96, 1.0)].join(",");
    let mixed = Catalogue::of_hosts(Origin::Live, "here", &read_hosts(&format!("[{two}]")).unwrap());
    assert_eq!(mixed.variants[1].filters(), (String::new(), r#"["=", "$uid", "u2"]"#.to_owned()));
    let stock = "[{\"id\":1,\"hypervisor_hostname\":\"h\\\"1\",\"vcpus\":8,\"memory_mb\":16384,\"local_gb\":100}]";
    let stock = Catalogue::of_hosts(Origin::Live, "here", &read_hosts(stock).unwrap());
    assert_eq!(stock.variants[0].filters(), (r#"["=", "$hypervisor_hostname", "h\"1"]"#.to_owned(), String::new()));
}

#[test]
fn the_ranking_is_total_and_the_same_every_time() {
    let once = ranked(&plain(), &["uc", "tacc", "nu", "ncar", "nrp"]);
    assert_eq!(once, ranked(&plain(), &["uc", "tacc", "nu", "ncar", "nrp"]));
    assert!(once.len() > 25);
}

#[test]
fn a_host_that_only_its_name_tells_from_others_is_asked_for_where_it_is_free() {
    // Two kinds of hosts share a type: u1 and u2 are alike, u3 is not.
    let hosts = [
        host("1", "mixed", 48, 1.0),
        host("2", "mixed", 48, 1.0),
        host("3", "mixed", 64, 1.0),
        host("4", "other", 96, 1.0),
    ];
    let catalogue = Catalogue::of_hosts(Origin::Live, "here", &read_hosts(&format!("[{}]", hosts.join(","))).unwrap());
    let taken = r#"{"allocations":[{"resource_id":"1","reservations":[{"start_date":"2026-01-05T10:00:00","end_date":"2026-01-09T10:00:00"}]}]}"#;
    let taken = crate::catalog::read_allocations(taken).unwrap();
    let sites = vec!["here".to_owned()];
    let needs = plain();
    let question = Question { needs: &needs, sites: &sites, asked: asked(), prefer: Prefer::Fit };
    let reported = |allocations: &[Allocation]| {
        let ranking = rank(&question, &catalogue, Some(allocations)).unwrap();
        let one = |offering: &crate::catalog::rank::Offering| {
            let is_free = matches!(offering.availability, Availability::Free { .. });
            format!("{} {is_free}", offering.variant.filters().1)
        };
        ranking.offerings.iter().map(one).collect::<Vec<_>>()
    };
    let (uid, of_type) = (|uid: &str| format!("[\"=\", \"$uid\", \"{uid}\"]"), r#"["=", "$node_type", "other"]"#);
    let wanted = [
        format!("{} true", uid("u2")),
        format!("{} true", uid("u3")),
        format!("{of_type} true"),
        format!("{} false", uid("u1")),
    ];
    assert_eq!(reported(&taken), wanted);
    let wanted = [
        format!("{} true", uid("u1")),
        format!("{} true", uid("u3")),
        format!("{of_type} true"),
        format!("{} true", uid("u2")),
    ];
    assert_eq!(reported(&[]), wanted, "one of each kind comes before the second of any");
}
