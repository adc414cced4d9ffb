//! `orlop flow artifacts`: results of a run, listed and written out.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::bench::{Bench, phases, step};

/// A run that leaves a file, a tree, and a tree as the archive that it asks for.
fn bench() -> Bench {
    let bench = Bench::new();
    let script = "mkdir -p /tmp/site/css; echo hi > /tmp/site/index.html; echo x > /tmp/site/css/a; \
                  printf '#!/bin/sh\\necho ran\\n' > /tmp/tool; chmod 700 /tmp/tool; chmod 600 /tmp/site/css/a";
    let mut build = step("build", script);
    let packed = json!({"format": "tar", "compression": "gzip"});
    build["outputs"] = json!({"artifacts": [
        {"name": "tool", "path": "/tmp/tool"},
        {"name": "site", "path": "/tmp/site"},
        {"name": "bundle", "path": "/tmp/site", "archive": packed},
    ]});
    let mut each = step("each", "echo $ITEM > /tmp/out");
    each["template"]["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "ITEM", "value": "${parameters.item}"}]);
    each["withItems"] = json!(["a", "b"]);
    each["outputs"] = json!({"artifacts": [{"name": "out", "path": "/tmp/out"}]});
    let gave = bench.run_steps("made", &json!([build, each]));
    assert_eq!(gave.code, 0, "{gave:?}");
    assert!(gave.out.contains("get the artifacts: orlop flow artifacts made --to DIR"), "{}", gave.out);
    bench
}

#[test]
fn private_files_reach_the_next_step_and_links_that_lead_out_fail_the_step_that_made_them() {
    let bench = Bench::new();
    let script = "mkdir -m 700 /tmp/keys; echo k > /tmp/keys/id; chmod 600 /tmp/keys/id; echo t > /tmp/keys/tool; \
                  chmod 755 /tmp/keys/tool";
    let mut make = step("make", script);
    make["outputs"] = json!({"artifacts": [{"name": "keys", "path": "/tmp/keys"}]});
    let mut take = step("take", "stat -c %a /in /in/id /in/tool");
    take["inputs"] = json!({"artifacts": [{"name": "keys", "from": "make/keys", "path": "/in"}]});
    let mut venv = step("venv", "mkdir -p /tmp/v/bin; ln -s /usr/bin/env /tmp/v/bin/python");
    venv["outputs"] = json!({"artifacts": [{"name": "venv", "path": "/tmp/v"}]});
    venv["continueOnFailure"] = json!(true);
    let file = bench.flow("modes", &json!({"steps": [make, take, venv]}));
    let gave = bench.run(&file, &["--progress", "plain"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "logs", "modes", "take"]).out, "take/1 700\ntake/1 600\ntake/1 755\n");
    let status = bench.status("modes").unwrap();
    assert_eq!(phases(&status), "make=Succeeded take=Succeeded venv=Failed/OutputInvalid");
    let message = status["steps"][2]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("link bin/python leads out of the folder, to /usr/bin/env; put a copy"), "{message}");
    assert_eq!(status["steps"][2]["attempt"], 1, "the same would come of it again");
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn results_of_a_run_are_listed_and_written_out() {
    let bench = bench();
    let verb = |words: &[&str]| bench.orlop(&[&["flow", "artifacts", "made"], words].concat());
    assert_eq!(verb(&["-o", "name"]).out, "build/tool\nbuild/site\nbuild/bundle\neach-i0/out\neach-i1/out\n");
    assert_eq!(verb(&["each", "-o", "name"]).out, "each-i0/out\neach-i1/out\n");
    let listed: Value = serde_json::from_str(&verb(&["build/tool", "-o", "json"]).out).unwrap();
    let tool = &listed["items"][0];
    assert_eq!((&tool["step"], &tool["artifact"], &tool["bytes"]), (&json!("build"), &json!("tool"), &json!(19)));
    assert_eq!(tool["sha256"].as_str().unwrap().len(), 64);
    let gave = verb(&["--to", "results"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert!(gave.out.contains("results/build/bundle.tar.gz"), "{}", gave.out);
    let results = bench.path("results");
    assert_eq!(text(&results.join("build/site/index.html")), "hi\n");
    assert_eq!(text(&results.join("each-i1/out")), "b\n");
    let ran = std::process::Command::new(results.join("build/tool")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "ran\n");
    assert_eq!((mode(&results.join("build/tool")), mode(&results.join("build/site/css/a"))), (0o700, 0o600));
    let packed = std::fs::read(results.join("build/bundle.tar.gz")).unwrap();
    assert_eq!(packed.get(..2), Some(&[0x1f, 0x8b][..]), "it is what the manifest asks for");
    let names: Vec<_> = std::fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn results_replace_nothing_unasked_and_stay_in_their_folder() {
    let bench = bench();
    let verb = |words: &[&str]| bench.orlop(&[&["flow", "artifacts", "made"], words].concat());
    let results = bench.path("results");
    std::fs::create_dir_all(results.join("build/site")).unwrap();
    std::fs::write(results.join("build/site/mine"), "mine").unwrap();
    let gave = verb(&["--to", "results"]);
    assert_eq!(gave.code, 5, "{gave:?}");
    assert!(gave.err.contains("results/build/site already exists; nothing was written, use --force"), "{}", gave.err);
    assert!(!results.join("build/tool").exists() && results.join("build/site/mine").exists());
    assert_eq!(verb(&["build/site", "--to", "results", "--force"]).code, 0);
    assert_eq!(text(&results.join("build/site/index.html")), "hi\n");
    assert!(!results.join("build/site/mine").exists());
    assert_eq!(verb(&["build/site", "--to", "results", "--force"]).code, 0, "a tree replaces a tree");
    // A folder that leads elsewhere is not written through.
    let outside = bench.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(bench.path("other")).unwrap();
    symlink(&outside, bench.path("other/build")).unwrap();
    let gave = verb(&["build/tool", "--to", "other", "--force"]);
    assert_eq!(gave.code, 5, "{gave:?}");
    assert!(gave.err.contains("other/build is not a directory"), "{}", gave.err);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    for (words, code) in [(["nope", "-o", "name"], 4), (["build/nope", "-o", "name"], 4), (["build", "--force", ""], 2)]
    {
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        assert_eq!(verb(&words).code, code, "{words:?}");
    }
    // What is gone from the store is named, with what helps.
    std::fs::remove_dir_all(bench.path("home/runs/default/made/cas/sha256")).unwrap();
    let gave = verb(&["build/tool", "--to", "third"]);
    assert_eq!(gave.code, 4, "{gave:?}");
    assert!(gave.err.contains("is not stored; run its step again"), "{}", gave.err);
}
