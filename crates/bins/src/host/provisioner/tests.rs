//! Plans with advice: what is asked for in vain is taken back, and windows are shortened only as far as allowed.

use orlop_cloud::analyze::{FileKind, analyze};
use orlop_cloud::catalog::{Catalogue, Origin, embedded, image::Image, read_allocations, read_hosts};
use orlop_cloud::llm::{AdvisorSession, Mode, Record};
use orlop_cloud::provision::plan::{Plan, PlanError, PlannedOffering, Request, World};
use orlop_cloud::repository::{Scan, ScannedFile};
use orlop_core::testing::{Deed, ScriptedAdvisor};

use super::*;

fn now() -> jiff::Timestamp {
    "2026-01-05T14:02:00Z".parse().unwrap()
}

fn scan(text: &str) -> Scan {
    let kind = FileKind::of("requirements.txt").unwrap();
    Scan { files: vec![ScannedFile { path: "requirements.txt".into(), kind, text: text.into() }], ..Scan::default() }
}

async fn planned(
    text: &str,
    world: World<'_>,
    request: &Request,
    least_hours: Option<u32>,
    deeds: Vec<Deed>,
) -> Result<Plan, PlanError> {
    let advisor = ScriptedAdvisor::new(deeds);
    let mut session = AdvisorSession::new(Some(&advisor), Mode::Auto, Record::default(), ("e", "m"), now());
    let found = analyze_repository(scan(text), &mut session).await.unwrap();
    make_plan(&found, &PlanInput { world, request, least_hours, now: now() }, &mut session).await.unwrap()
}

fn advice(keys: &str) -> Deed {
    let all = r#"{"cpu_cores": null, "ram_gb": null, "disk_gb": null, "gpu_required": false, "gpu_count": null, "gpu_memory_gb": null,
        "cuda_required": false, "os_type": null, "os_version": null, "python_version": null, "special_requirements": [],
        "evidence": [], "reasoning": "r", "#;
    Deed::Answers(format!("{all}{keys}}}"))
}

#[tokio::test]
async fn what_is_advised_in_vain_leaves_the_plan_of_the_rules() {
    // Work with language models on AMD's cards, of which no site has one with more than 32 GB.
    const AMD: &str = "tensorflow-rocm\npeft\n";
    let catalogue = embedded();
    let world = World { catalogue: &catalogue, allocations: None, images: None };
    let tacc = Request { sites: vec!["tacc".into()], attempts: 1, ..Request::new(now()) };
    let advised = vec![advice("\"gpu_memory_gb\": 64"), Deed::Fails, Deed::Fails];
    let found = planned(AMD, world, &tacc, None, advised).await.unwrap();
    assert_eq!(found.offerings[0].node_type, "gpu_mi100");
    assert!(found.notes.iter().any(|note| note.contains("only the rules are used")), "{:?}", found.notes);
    let rules = planned(AMD, world, &tacc, None, vec![Deed::Denies]).await.unwrap();
    assert_eq!(found.offerings, rules.offerings);
    let impossible = Request { node_type: Some("gpu_h100".into()), ..tacc.clone() };
    let error = planned(AMD, world, &impossible, None, vec![advice("\"cpu_cores\": 8")]).await.unwrap_err();
    assert_eq!(error.code(), "nothing_fits");
}

#[tokio::test]
async fn duration_and_image_are_advised() {
    let catalogue = embedded();
    let images = ["CC-Ubuntu22.04", "CC-Ubuntu24.04"].map(|name| Image {
        id: name.into(),
        name: name.into(),
        ..Image::default()
    });
    let world = World { catalogue: &catalogue, allocations: None, images: Some(&images) };
    let request = Request { attempts: 1, ..Request::new(now()) };
    let deeds = vec![
        advice("\"ram_gb\": 12"),
        Deed::Answers("{\"duration_hours\": 7, \"reasoning\": \"\"}".into()),
        Deed::Answers("{\"candidates\": [1, 0], \"reasoning\": \"\"}".into()),
        Deed::Answers("{\"selected\": 0, \"reasoning\": \"\"}".into()),
    ];
    let found = planned("flask\n", world, &request, None, deeds.clone()).await.unwrap();
    assert_eq!((found.hours, found.offerings[0].image.name.as_str()), (7, "CC-Ubuntu24.04"));
    assert_eq!(found.requirements.ram_gb.target, Some(16));
    let own = Request { hours: Some(3), image: Some("CC-Ubuntu22.04".into()), ..request };
    let found = planned("flask\n", world, &own, None, deeds).await.unwrap();
    assert_eq!((found.hours, found.offerings[0].image.name.as_str()), (3, "CC-Ubuntu22.04"), "the user wins");
}

#[tokio::test]
async fn a_window_is_shortened_only_as_far_as_the_user_allows() {
    let host = r#"[{"id":"1","uid":"u1","node_type":"compute_x","architecture.smt_size":"48","main_memory.ram_size":"137438953472","storage_devices.0.size":"250000000000"}]"#;
    let catalogue = Catalogue::of_hosts(Origin::Live, "here", &read_hosts(host).unwrap());
    let taken = r#"{"allocations":[{"resource_id":"1","reservations":[{"start_date":"2026-01-06T00:07:00","end_date":"2026-02-06T00:00:00"}]}]}"#;
    let taken = read_allocations(taken).unwrap();
    let world = World { catalogue: &catalogue, allocations: Some(&taken), images: None };
    let request = Request { sites: vec!["here".into()], ..Request::new(now()) };
    let hours = async |least| {
        let found = planned("flask\n", world, &request, least, vec![Deed::Denies]).await;
        found.map(|plan| plan.hours).map_err(|error| error.code())
    };
    assert_eq!(hours(None).await, Err("no_capacity"));
    assert_eq!(hours(Some(4)).await, Ok(10), "until five minutes before the next lease");
    assert_eq!(hours(Some(10)).await, Ok(10));
    assert_eq!(hours(Some(11)).await, Err("no_capacity"));
}

#[tokio::test]
async fn without_advice_the_rules_are_all_there_is() {
    let mut nobody = AdvisorSession::nobody(now());
    let found = analyze_repository(scan("torch\n"), &mut nobody).await.unwrap();
    assert_eq!(found.analysis, found.rules);
    assert_eq!(found.rules, analyze(&scan("torch\n")));
}

#[tokio::test]
async fn who_waits_gets_what_is_taken_behind_what_is_free_beyond_the_attempts() {
    let host = |id: u32, threads: u32| {
        format!(
            r#"{{"id":"{id}","uid":"u{id}","node_type":"compute_{threads}","architecture.smt_size":"{threads}","main_memory.ram_size":"137438953472","storage_devices.0.size":"250000000000"}}"#
        )
    };
    let hosts = format!("[{},{},{}]", host(1, 24), host(2, 32), host(3, 48));
    let catalogue = Catalogue::of_hosts(Origin::Live, "here", &read_hosts(&hosts).unwrap());
    let taken = |ids: &[u32]| {
        let one = |id: &u32| {
            format!(
                r#"{{"resource_id":"{id}","reservations":[{{"start_date":"2026-01-05T00:00:00","end_date":"2026-01-06T00:00:00"}}]}}"#
            )
        };
        read_allocations(&format!("{{\"allocations\":[{}]}}", ids.iter().map(one).collect::<Vec<_>>().join(",")))
            .unwrap()
    };
    let offered = async |waits, ids: &[u32]| {
        let taken = taken(ids);
        let world = World { catalogue: &catalogue, allocations: Some(&taken), images: None };
        let request = Request { sites: vec!["here".into()], attempts: 1, waits, ..Request::new(now()) };
        let found = planned("flask\n", world, &request, None, vec![Deed::Denies]).await;
        let reported = |one: &PlannedOffering| format!("{} {}", one.node_type, one.availability);
        found.map(|plan| plan.offerings.iter().map(reported).collect::<Vec<_>>()).map_err(|error| error.code())
    };
    assert_eq!(offered(false, &[1, 2, 3]).await, Err("no_capacity"));
    let all = offered(true, &[1, 2, 3]).await.unwrap();
    assert!(all.len() == 3 && all.iter().all(|one| one.ends_with(" taken")), "{all:?}");
    let some = offered(true, &[2, 3]).await.unwrap();
    assert_eq!(some.first().map(String::as_str), Some("compute_24 free"));
    assert!(some.len() == 3 && some[1..].iter().all(|one| one.ends_with(" taken")), "{some:?}");
    assert_eq!(offered(false, &[2, 3]).await.unwrap(), ["compute_24 free"]);
    assert_eq!(offered(true, &[]).await.unwrap().len(), 1, "as many attempts as were asked for");
}
