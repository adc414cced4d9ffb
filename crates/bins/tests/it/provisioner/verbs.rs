//! `analyze` and `plan` without a model: results in three forms, every flag, exit codes, settings.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::bench::Bench;

fn torch() -> Bench {
    let bench = Bench::new();
    bench.file("repo/requirements.txt", "torch==2.1.0\nnumpy\n");
    bench.file("repo/README.md", "# x\n\nRequires at least 32 GB of RAM and a GPU with 16 GB of memory.\n");
    bench
}

#[test]
fn analyze_shows_each_value_with_its_evidence() {
    let bench = torch();
    let gave = bench.run("analyze", &[]);
    assert_eq!(gave.code, 0, "{gave:?}");
    insta::assert_snapshot!(gave.out);
    assert_eq!(gave.err.lines().filter(|line| line.contains(": done in")).count(), 2, "{gave:?}");
    assert_eq!(bench.run("analyze", &["-q"]).err, "");
    let shown = bench.run("analyze", &["-v", "-q"]);
    assert_eq!(shown.code, 2, "one or the other");
}

#[test]
fn what_variants_would_ask_for_and_what_comes_closest_is_shown() {
    let bench = torch();
    bench.file("repo/Dockerfile", "FROM python:3.11\n");
    bench.file("repo/Dockerfile-arm64", "FROM arm64v8/ubuntu:22.04\n");
    let gave = bench.run("analyze", &["-q"]);
    assert!(gave.out.contains("alternatives:\n  Dockerfile-arm64: arm64\n"), "{gave:?}");
    let refused = bench.run("plan", &["-q", "--vram", "100"]);
    assert!(refused.code == 11 && refused.err.contains("take it with --accept-closest"), "{refused:?}");
    let taken = bench.run("plan", &["--vram", "100", "--accept-closest"]);
    assert!(taken.code == 0 && taken.err.contains("instead of 100 GB, by --accept-closest"), "{taken:?}");
}

#[test]
fn json_is_one_document_and_the_same_every_time() {
    let bench = torch();
    let (first, second) =
        (bench.run("analyze", &["--output", "json"]).json(), bench.run("analyze", &["--output", "json"]).json());
    assert_eq!(first["data"].to_string(), second["data"].to_string());
    let keys: Vec<&str> = first.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["data", "exit_code", "metrics", "ok", "schema", "verb", "version", "warnings"]);
    assert_eq!(
        (&first["schema"], &first["verb"], &first["ok"]),
        (&"orlop.provisioner/1".into(), &"analyze".into(), &true.into())
    );
    assert_eq!(first["data"]["ram_gb"]["hard"], 32);
    assert_eq!(first["data"]["gpu_memory_gb"]["evidence"][0]["file"], "README.md");
    assert_eq!(first["data"]["gpu_memory_gb"]["evidence"][0]["line"], 3);
    assert_eq!(first["data"]["repository"]["files_read"], 2);
    assert_eq!(first["metrics"]["llm_calls"], 0);
}

#[test]
fn jsonl_is_events_and_the_document_last() {
    let gave = torch().run("plan", &["--output", "jsonl"]);
    let lines: Vec<Value> = gave.out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let states: Vec<String> =
        lines.iter().filter_map(|line| Some(format!("{}:{}", line.get("step")?, line["state"].as_str()?))).collect();
    assert_eq!(states, ["0:running", "0:done", "1:running", "1:done", "2:running", "2:done"]);
    let last = lines.last().expect("a line");
    assert_eq!(
        (&last["schema"], &last["data"]["offerings"][0]["node_type"]),
        (&"orlop.provisioner/1".into(), &"gpu_rtx_6000".into())
    );
    for event in &lines[..6] {
        let keys: Vec<&str> = event.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(keys, ["attempt", "fields", "message", "state", "step", "ts"]);
    }
}

#[test]
fn plan_needs_no_credentials_and_saves_itself() {
    let bench = torch();
    let gave = bench
        .run("plan", &["--out", "plan.json", "--max-attempts", "2", "--lease-duration", "10", "--os", "ubuntu:24.04"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME");
    settings.bind(|| insta::assert_snapshot!(gave.out));
    assert!(gave.err.contains("warning: availability and rates are unknown"), "{gave:?}");
    let saved: Value =
        serde_json::from_str(&std::fs::read_to_string(bench.path("plan.json")).expect("a plan")).expect("JSON");
    assert_eq!((&saved["hours"], &saved["offerings"][1]["image"]["name"]), (&10.into(), &"CC-Ubuntu24.04-CUDA".into()));
    let mode = std::fs::metadata(bench.path("plan.json")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn flags_win_over_rules_also_downwards() {
    let bench = torch();
    let best = |args: &[&str]| {
        let gave = bench.run("plan", &[&["--output", "json", "-q"], args].concat());
        let data = &gave.json()["data"];
        let offering = &data["offerings"][0];
        let count = data["offerings"].as_array().map_or(0, Vec::len);
        format!(
            "{} {} {} {count}",
            gave.code,
            offering["node_type"].as_str().unwrap_or("-"),
            offering["site"].as_str().unwrap_or("-")
        )
    };
    assert_eq!(best(&["--no-gpu"]), "0 compute_skylake uc 4");
    assert_eq!(best(&["--vram", "80", "--gpu", "4"]), "0 gpu_a100_pcie uc 2");
    assert_eq!(best(&["--site", "tacc", "--gpu-vendor", "amd", "--vram", "8"]), "0 gpu_mi100 tacc 1");
    assert_eq!(best(&["--node-type", "gpu_v100"]), "0 gpu_v100 uc 1");
    assert_eq!(best(&["--fallback", "none"]), "0 gpu_rtx_6000 uc 1");
    assert_eq!(best(&["--no-gpu", "--arch", "aarch64", "--site", "ncar", "--ram", "100"]), "0 arm_thunder ncar 1");
    assert_eq!(best(&["--site", "nu,uc"]), "0 gpu_rtx_6000 uc 4", "several sites are a fallback");
    assert_eq!(best(&["--site", "nu,uc", "--fallback", "types"]), "11 - - 0");
    assert_eq!(
        best(&["--prefer", "cost", "--min-duration", "2", "--start-within", "2h", "--start-delay-minutes", "0"]),
        "0 gpu_rtx_6000 uc 4"
    );
}

#[test]
fn a_catalogue_file_takes_the_place_of_the_table() {
    let bench = Bench::new();
    bench.file("repo/requirements.txt", "flask\n");
    bench.file("hosts.json", r#"{"hosts":[{"id":"1","uid":"u1","node_type":"own_type","architecture.smt_size":"8","main_memory.ram_size":"17179869184","storage_devices.0.size":"250000000000"}]}"#);
    let gave = bench.run("plan", &["--site", "mine", "--catalog-file", "hosts.json", "--output", "json"]);
    assert_eq!(gave.json()["data"]["offerings"][0]["node_type"], "own_type", "{gave:?}");
    assert_eq!(gave.json()["data"]["source"], "file");
    // It is for the first site; others have what the table says.
    let gave = bench.run("plan", &["--site", "mine,nrp", "--catalog-file", "hosts.json", "--output", "json"]);
    let offerings = gave.json()["data"]["offerings"].as_array().cloned().unwrap_or_default();
    let offered: Vec<String> = offerings.iter().map(|one| format!("{} {}", one["site"], one["node_type"])).collect();
    assert_eq!(offered, [r#""mine" "own_type""#, r#""nrp" "compute_haswell""#], "{gave:?}");
    bench.file("bad.json", "{}");
    let gave = bench.run("plan", &["--catalog-file", "bad.json"]);
    assert!(gave.code == 2 && gave.err.contains("bad.json"), "{gave:?}");
}

#[test]
fn exit_codes_are_those_of_the_table() {
    let bench = torch();
    let code = |args: &[&str]| Bench::gives(bench.command(args)).code;
    for (args, wanted) in [
        (&["plan"][..], 2),
        (&["analyze", "--repo", "repo"], 3),
        (&["analyze", "--repo", "file:///etc"], 3),
        (&["analyze", "--repo", "ext::sh -c id"], 3),
        (&["analyze", "--repo", "--upload-pack=id"], 3),
        (&["analyze", "--repo", "http://github.com/a/b"], 3),
        (&["analyze", "--repo", "https://user:secret@github.com/a/b"], 3),
        (&["analyze", "--repo", "git@github.com:a/b"], 3),
        (&["analyze", "--repo", "https://127.0.0.1:1/a/b"], 6),
        (&["analyze", "--repo", "https://localhost:1/a/b"], 6),
        (&["analyze", "--repo", "nowhere", "--allow-local"], 4),
        (&["analyze", "--repo", "repo", "--allow-local", "--subdir", "../.."], 3),
        (&["analyze", "--repo", "repo", "--allow-local", "--env-file", "missing"], 2),
        (&["analyze", "--repo", "repo", "--allow-local", "--git-token-env", "UNSET"], 2),
        (&["analyze", "--repo", "repo", "--allow-local", "--llm", "record"], 2),
        (&["plan", "--repo", "repo", "--allow-local", "--lease-duration", "169"], 2),
        (&["plan", "--repo", "repo", "--allow-local", "--site", "mars"], 2),
        (&["plan", "--repo", "repo", "--allow-local", "--site", "CHI@Edge"], 2),
        (&["plan", "--repo", "repo", "--allow-local", "--vram", "100"], 11),
        (&["plan", "--repo", "repo", "--allow-local", "--max-su", "1"], 11),
        (&["plan", "--repo", "repo", "--allow-local", "--lease-duration", "100", "--max-lifetime", "2d"], 6),
        (&["plan", "--repo", "repo", "--allow-local", "--out", "no/such/folder/plan.json"], 2),
        (&["plan", "--help"], 0),
    ] {
        assert_eq!(code(args), wanted, "{args:?}");
    }
    let gave =
        Bench::gives(bench.command(&["analyze", "--repo", "https://user:secret@github.com/a/b", "--output", "json"]));
    let document = gave.json();
    assert_eq!((&document["ok"], &document["exit_code"], &document["data"]), (&false.into(), &3.into(), &Value::Null));
    insta::assert_snapshot!(document["error"], @r#"{"class":"invalid","code":"refused","hint":null,"message":"the address of the repository holds a user or password; use --git-token-env","request_id":null,"service":null,"status":null}"#);
    assert!(!gave.out.contains("secret") && !gave.err.contains("secret"));
}

#[test]
fn settings_come_from_the_explicit_file_then_the_environment_then_dot_env() {
    let bench = torch();
    let site = |with: &[&str], environment: Option<&str>| {
        let mut command = bench
            .command(&[&["plan", "--repo", "repo", "--allow-local", "--no-gpu", "--output", "json"], with].concat());
        if let Some(site) = environment {
            command.env("DEFAULT_SITE", site);
        }
        let document = Bench::gives(command).json();
        let warnings = document["warnings"].to_string();
        (document["data"]["offerings"][0]["site"].as_str().unwrap_or("-").to_owned(), warnings)
    };
    assert_eq!(site(&[], None).0, "uc");
    bench.file(".env", "# site\nexport DEFAULT_SITE='nu' # here\r\nthis is PLANTED-SECRET-LINE\n");
    let (name, warnings) = site(&[], None);
    assert_eq!(name, "nu");
    assert!(warnings.contains(".env:3: not an assignment") && !warnings.contains("PLANTED"), "{warnings}");
    assert_eq!(site(&[], Some("tacc")).0, "tacc");
    bench.file("own.env", "DEFAULT_SITE=ncar\n");
    assert_eq!(site(&["--env-file", "own.env"], Some("tacc")).0, "ncar");
    assert_eq!(site(&["--env-file", "own.env", "--site", "uc"], Some("tacc")).0, "uc");
}

#[test]
fn nothing_is_left_behind_and_state_is_private() {
    let bench = torch();
    assert_eq!(bench.run("analyze", &["--state-dir", "state"]).code, 0);
    let left: Vec<_> =
        std::fs::read_dir(bench.path("state")).expect("state").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(std::fs::metadata(bench.path("state")).expect("state").permissions().mode() & 0o777, 0o700);
}
