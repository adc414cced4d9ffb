//! `catalog nodes`, `images` and `sites` by the real program: tables and documents, without credentials and on a cloud of this
//! machine. Nothing is ever made.

use serde_json::Value;

use super::bench::{Bench, Gave};

/// What changes from run to run.
fn bound(check: impl FnOnce()) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME");
    settings.bind(check);
}

fn run(bench: &Bench, args: &[&str]) -> Gave {
    Bench::gives(bench.command(&[&["catalog"], args].concat()))
}

fn nodes(gave: &Gave) -> Vec<Value> {
    gave.json()["data"]["nodes"].as_array().cloned().unwrap_or_default()
}

#[test]
fn without_credentials_hardware_is_of_the_table_and_says_so() {
    let bench = Bench::new();
    let gave = run(&bench, &["nodes", "--site", "nrp,uc"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    bound(|| insta::assert_snapshot!(gave.out));
    assert!(!gave.out.contains('\u{1b}'), "colours are for terminals");
    let document = run(&bench, &["nodes", "--site", "nrp", "--output", "json"]);
    bound(|| insta::assert_snapshot!(serde_json::to_string_pretty(&document.json()["data"]).expect("JSON")));
    let keys: Vec<String> = document.json().as_object().expect("an object").keys().cloned().collect();
    assert_eq!(keys, ["data", "exit_code", "metrics", "ok", "schema", "verb", "version", "warnings"]);
    assert_eq!(document.json()["verb"], "catalog nodes");
    let lines = run(&bench, &["nodes", "--site", "nrp", "--output", "jsonl"]);
    assert_eq!((lines.out.lines().count(), lines.json()["data"]["sites"][0]["source"].clone()), (1, "embedded".into()));
}

#[test]
fn a_file_takes_the_place_of_the_table_at_the_first_site() {
    let bench = Bench::new();
    bench.file("hosts.json", r#"{"hosts":[{"id":"1","uid":"u1","node_type":"own_type","architecture.smt_size":"8","main_memory.ram_size":"17179869184","storage_devices.0.size":"250000000000","su_factor":"0.5"}]}"#);
    let gave = run(&bench, &["nodes", "--site", "mine,nrp", "--catalog-file", "hosts.json", "--output", "json"]);
    let reported: Vec<(Value, Value, Value)> = nodes(&gave)
        .into_iter()
        .map(|node| (node["site"].clone(), node["node_type"].clone(), node["su_per_hour"].clone()))
        .collect();
    let wanted =
        [("mine".into(), "own_type".into(), 0.5.into()), ("nrp".into(), "compute_haswell".into(), Value::Null)];
    assert_eq!(reported, wanted, "{gave:?}");
    let sources: Vec<Value> =
        gave.json()["data"]["sites"].as_array().expect("sites").iter().map(|site| site["source"].clone()).collect();
    assert_eq!(sources, ["file", "embedded"]);
}

#[test]
fn images_and_sites_are_reported_without_credentials() {
    let bench = Bench::new();
    let images = run(&bench, &["images", "--site", "uc"]);
    assert_eq!(images.code, 0, "{images:?}");
    insta::assert_snapshot!(images.out);
    bench.file("clouds.yaml", "clouds:\n  mine: {auth: {auth_url: \"https://mine.test/v3\", username: u, password: planted-p, project_id: p}, region_name: here}\n");
    let sites = run(&bench, &["sites"]);
    assert_eq!(sites.code, 0, "{sites:?}");
    insta::assert_snapshot!(sites.out);
    let document = run(&bench, &["sites", "--output", "json"]);
    assert!(!document.out.contains("planted-p"), "{document:?}");
    let reported = |site: &Value| format!("{} {} {}", site["site"], site["kind"], site["credentials"]);
    let all: Vec<String> = document.json()["data"]["sites"].as_array().expect("sites").iter().map(reported).collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn what_cannot_be_shown_is_refused_with_its_exit_code() {
    let bench = Bench::new();
    for (args, code) in [
        (&["nodes", "--site", "mars"][..], 2),
        (&["nodes", "--site", "CHI@Edge"], 2),
        (&["images", "--site", "mars"], 2),
        (&["nodes", "--lease-duration", "169"], 2),
        (&["nodes", "--catalog-file", "missing.json"], 2),
        (&["nodes", "--max-su", "3"], 2),
        (&["everything"], 2),
        (&["--help"], 0),
    ] {
        assert_eq!(run(&bench, args).code, code, "{args:?}");
    }
}

/// A public description of hardware on this machine, which counts how often it is asked.
struct Description {
    url: String,
    asked: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Description {
    /// It answers with this status and body.
    fn new(status: u16, body: &'static str) -> Self {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = std::sync::Arc::<std::sync::atomic::AtomicUsize>::default();
        let count = std::sync::Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut head = [0; 4096];
                let read = stream.read(&mut head).unwrap_or(0);
                let text = String::from_utf8_lossy(head.get(..read).unwrap_or_default()).into_owned();
                assert!(text.starts_with("GET /sites/uc/clusters/chameleon/nodes HTTP/1.1"), "{text}");
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        Self { url, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(std::sync::atomic::Ordering::Relaxed)
    }
}

const NODES: &str = r#"{"items":[
    {"uid":"a","node_type":"compute_new","architecture":{"platform_type":"x86_64","smt_size":96},"main_memory":{"ram_size":206158430208},"gpu":null,"storage_devices":[{"size":480103981056}]},
    {"uid":"b","node_type":"gpu_new","architecture":{"smt_size":64},"main_memory":{"ram_size":206158430208},"gpu":[{"gpu_model":"H200"},{"gpu_model":"H200"}],"storage_devices":[{"size":480103981056}]}
]}"#;

fn described(bench: &Bench, url: &str, args: &[&str]) -> Value {
    let mut command = bench.command(&[args, &["--state-dir", "state", "--output", "json"]].concat());
    command.env("ORLOP_REFERENCE_API", url);
    let gave = Bench::gives(command);
    assert_eq!(gave.code, 0, "{gave:?}");
    gave.json()
}

#[test]
fn the_public_description_comes_before_the_table_and_is_kept() {
    let bench = Bench::new();
    bench.file("repo/requirements.txt", "flask\n");
    let description = Description::new(200, NODES);
    let types = |reported: &Value| {
        let all = reported["data"]["nodes"].as_array().cloned().unwrap_or_default();
        let all: Vec<String> =
            all.iter().map(|node| format!("{} {} {}", node["node_type"], node["hosts"], node["free"])).collect();
        format!("{}: {}", reported["data"]["sites"][0]["source"], all.join(", "))
    };
    let nodes = ["catalog", "nodes", "--site", "uc"];
    let public = "\"public\": \"compute_new\" 1 null, \"gpu_new\" 1 null";
    assert_eq!(types(&described(&bench, &description.url, &nodes)), public);
    assert_eq!(types(&described(&bench, &description.url, &nodes)), public);
    assert_eq!(description.asked(), 1, "it is kept for a day");
    assert_eq!(types(&described(&bench, &description.url, &[&nodes[..], &["--refresh"]].concat())), public);
    assert_eq!(description.asked(), 2);
    let planned = described(&bench, &description.url, &["plan", "--repo", "repo", "--allow-local", "--site", "uc"]);
    assert_eq!(
        (&planned["data"]["source"], &planned["data"]["offerings"][0]["node_type"]),
        (&"public".into(), &"compute_new".into())
    );
    assert!(planned["warnings"].to_string().contains("from the public table"), "{planned}");
    described(&bench, &description.url, &["catalog", "nodes", "--site", "kvm"]);
    assert_eq!(description.asked(), 2, "a site of virtual machines has none");
}

#[test]
fn without_a_description_the_table_takes_its_place_with_a_warning() {
    let bench = Bench::new();
    for (description, why) in [
        (Description::new(500, ""), "it answered 500"),
        (Description::new(200, "{\"items\":[]}"), "it lists no hosts"),
        (
            Description { url: "http://127.0.0.1:1".to_owned(), asked: std::sync::Arc::default() },
            "it cannot be reached",
        ),
    ] {
        let reported = described(&bench, &description.url, &["catalog", "nodes", "--site", "uc"]);
        assert_eq!(reported["data"]["sites"][0]["source"], "embedded");
        let warnings = reported["warnings"].to_string();
        assert!(warnings.contains(why) && warnings.contains("the built-in table takes its place"), "{warnings}");
    }
    let mut command = bench.command(&["catalog", "nodes"]);
    command.env("ORLOP_REFERENCE_API", "http://reference.test");
    let gave = Bench::gives(command);
    assert!(gave.code == 2 && gave.err.contains("https, or http on this machine"), "{gave:?}");
}

#[cfg(feature = "testing")]
mod live {
    use super::super::cloud::{Site, settings};
    use super::*;

    #[test]
    fn with_credentials_free_hosts_are_counted_in_the_window() {
        let site = Site::new();
        let before = site.run(&["catalog", "nodes", "--output", "json"]);
        assert_eq!((before.code, &before.json()["data"]["sites"][0]["source"]), (0, &"live".into()), "{before:?}");
        let free = |gave: &Gave| nodes(gave).iter().map(|node| node["free"].clone()).collect::<Vec<_>>();
        assert_eq!(free(&before), [2, 1]);
        assert_eq!(site.apply(&["--lease-duration", "5"]).code, 0);
        let gave = site.run(&["catalog", "nodes"]);
        settings().bind(|| insta::assert_snapshot!(gave.out));
        let after = site.run(&["catalog", "nodes", "--output", "json"]);
        assert_eq!(free(&after), [1, 1]);
        let later = site.run(&["catalog", "nodes", "--start-delay-minutes", "420", "--output", "json"]);
        assert_eq!(free(&later), [2, 1], "after the end of the lease");
        assert_eq!(site.run(&["destroy", "demo"]).code, 0);
        let created = site.cloud.faults().calls().len();
        site.run(&["catalog", "images"]);
        let calls = site.cloud.faults().calls();
        let made = calls.iter().skip(created).filter(|call| call.contains("POST") && !call.contains("/auth/tokens"));
        assert_eq!(made.count(), 0, "it creates nothing");
        site.assert_nothing("a catalogue makes nothing");
    }

    #[test]
    fn images_that_are_not_trusted_say_why() {
        let site = Site::new();
        {
            let mut world = site.cloud.world();
            let mut other = world.images.first().cloned().expect("an image");
            other["id"] = "image-9".into();
            other["name"] = "Somebodys".into();
            other["build-repo"] = Value::Null;
            other["os_distro"] = "debian".into();
            other["size"] = 1_234_000_000_u64.into();
            world.images.push(other);
        }
        let gave = site.run(&["catalog", "images"]);
        insta::assert_snapshot!(gave.out);
        let reported = site.run(&["catalog", "images", "--output", "json"]).json();
        let images = reported["data"]["images"].as_array().cloned().unwrap_or_default();
        assert_eq!((images.len(), &images[3]["trusted"], &images[3]["user"]), (4, &false.into(), &"debian".into()));
    }
    #[test]
    fn hosts_that_are_hidden_are_those_of_the_file() {
        let site = Site::new();
        site.cloud.faults().on("reservation GET /os-hosts", orlop_cloud::testing::openstack::Fault::Status(403), 1000);
        site.bench.file(
            "hosts.json",
            r#"{"hosts":[{"id":"1","uid":"u1","node_type":"own_type","vcpus":8,"memory_mb":16384,"local_gb":250}]}"#,
        );
        let gave = site.run(&["catalog", "nodes", "--catalog-file", "hosts.json", "--output", "json"]);
        let reported = nodes(&gave);
        assert_eq!((gave.json()["data"]["sites"][0]["source"].clone(), reported.len()), ("file".into(), 1), "{gave:?}");
        assert_eq!((&reported[0]["node_type"], &reported[0]["free"]), (&"own_type".into(), &Value::Null));
        let nothing = site.run(&["catalog", "nodes"]);
        assert!(
            nothing.out.contains("test: its hosts are hidden by the site; name them with --catalog-file"),
            "{nothing:?}"
        );
        assert!(!nothing.out.contains("table"), "no table has anything of this site: {nothing:?}");
    }
}
