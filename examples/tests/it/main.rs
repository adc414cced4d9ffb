//! The example programs run, and the example manifests are accepted, as they stand.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests fail by panic")]

mod discovery;
mod durable;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::{env, fs};

use orlop_dag::manifest::{Limits, Options, read};
use orlop_dag::plan::Plan;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What a program prints; it must succeed.
fn output(program: &str, arguments: &[&Path]) -> String {
    let done = Command::new(program).args(arguments).output().expect("the program starts");
    assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("output is text")
}

fn flows() -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(here("flows")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_manifest_is_accepted_everywhere_and_can_be_planned() {
    assert!(flows().len() >= 7);
    for file in flows() {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let mut options =
            Options::new(if name == "pipeline.yaml" { Limits::elsewhere() } else { Limits::kubernetes() });
        options.limits.image_optional = name == "pipeline.yaml";
        let reading = read(name, text, &options).unwrap_or_else(|report| panic!("{report}"));
        assert!(reading.warnings.violations.is_empty(), "{}", reading.warnings);
        for manifest in reading.manifests {
            Plan::build(Arc::new(manifest.flow.spec)).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        }
    }
}

#[test]
fn every_manifest_shown_in_the_readme_is_accepted() {
    let text = fs::read_to_string(here("../README.md")).unwrap();
    let blocks: Vec<&str> = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let reading = read("README.md", block, &Options::new(Limits::kubernetes())).unwrap_or_else(|e| panic!("{e}"));
        assert!(reading.warnings.violations.is_empty(), "{}", reading.warnings);
    }
}

#[test]
fn the_engine_runs_a_diamond_in_six_seconds_of_its_own_time() {
    let said = output(env!("CARGO_BIN_EXE_engine_in_50_lines"), &[]);
    assert_eq!(
        said,
        "1970-01-01T00:00:00Z  split starts\n1970-01-01T00:00:02Z  left starts\n1970-01-01T00:00:02Z  right starts\n\
         1970-01-01T00:00:04Z  join starts\nSucceeded\n"
    );
}

#[test]
fn a_flow_runs_on_a_substrate_of_functions() {
    let said = output(env!("CARGO_BIN_EXE_custom_substrate"), &[]);
    assert_eq!(said, "load gets the year 2026\nfetch Succeeded\nclean Succeeded\nload Succeeded\nSucceeded 3/3\n");
}

#[test]
fn plans_show_waves_the_longest_path_and_what_comes_last() {
    let said = output(env!("CARGO_BIN_EXE_plan_only"), &[&here("flows/tour.yaml")]);
    assert_eq!(
        said,
        "9 steps, 9 edges\nwave 1: prepare, lint, flaky\nwave 2: sum\nwave 3: total\nwave 4: report, alarm\nwave 5: publish\n\
         at the end: clean-up\nlongest path: prepare -> sum -> total -> report -> publish\n"
    );
}

#[test]
fn recorded_workflows_become_flows() {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let record = r#"{"name": "Tiny_01", "tasks": [
        {"category": "fetch", "parents": [], "runtime_s": 2.0, "avg_cpu_percent": 90.0, "memory_bytes": 1024},
        {"category": "sumUp", "parents": [0], "runtime_s": 0.5, "avg_cpu_percent": 10.0}]}"#;
    fs::write(folder.path().join("tiny.json"), record).unwrap();
    let said = output(env!("CARGO_BIN_EXE_wfcommons"), &[folder.path(), out.path()]);
    assert!(said.ends_with("tiny-01.yaml: 2 steps\n"), "{said}");
    let text = fs::read_to_string(out.path().join("tiny-01.yaml")).unwrap();
    let reading = read("tiny-01.yaml", text, &Options::new(Limits::elsewhere())).unwrap();
    let spec = &reading.manifests[0].flow.spec;
    assert_eq!(spec.steps[1].name, "sumup-1");
    assert_eq!(spec.steps[1].dependencies, ["fetch-0"]);
    let rules = fs::read_to_string(out.path().join("tiny-01.mk")).unwrap();
    assert_eq!(
        rules,
        ".PHONY: all fetch-0 sumup-1\nall: fetch-0 sumup-1\nfetch-0: \n\t@sleep 0.002\nsumup-1: fetch-0\n\t@sleep 0.001\n"
    );
}

#[test]
fn packing_is_reported_against_bounds_and_optima() {
    let arguments = ["--sets", "falkenauer-t", "--every", "40", "--moves", "1000", "--output", "json"].map(Path::new);
    let said: serde_json::Value =
        serde_json::from_str(&output(env!("CARGO_BIN_EXE_packing_report"), &arguments)).unwrap();
    let row = &said["rows"][0];
    assert_eq!(
        (&row["set"], &row["instances"], &row["sum_of_optima"]),
        (&"falkenauer-t".into(), &1.into(), &20.into())
    );
    let bins = |rule: usize| row["rules"][rule]["bins"].as_u64().unwrap();
    assert!(bins(2) <= bins(0) && bins(2) >= row["bound"].as_u64().unwrap(), "{row}");
}

#[test]
fn packing_answers_how_many_which_and_how_much_fits() {
    assert_eq!(
        output(env!("CARGO_BIN_EXE_packing_only"), &[]),
        "83 jobs need 7 machines; no fewer can do: at least 7 (continuous)\n2 × small at 40\n2 × large at 140\n2 × gpu at 300\n\
         that costs 960, and nothing less than 811 can do\n\
         44 of 83 jobs fit the capacity that is left (at most 44); 35 % of it is stranded then\n"
    );
}

#[test]
fn a_fleet_of_three_runs_twenty_jobs_within_quotas_and_gpus() {
    let said = output(env!("CARGO_BIN_EXE_placement"), &[]);
    assert_eq!(said, output(env!("CARGO_BIN_EXE_placement"), &[]), "simulated time has no chance in it");
    let of = |number: u64| -> Vec<&str> {
        let word = format!(" job {number:>2} ");
        said.lines().filter(|line| line.contains(&word)).collect()
    };
    for number in 1..=20 {
        let [start, end] = of(number)[..] else { panic!("job {number}: {said}") };
        assert!(start.contains("starts on ") && end.ends_with("ends"), "{start} {end}");
        assert!(number % 5 != 0 || start.ends_with("gpu-1"), "{start}");
    }
    assert!(said.lines().last().is_some_and(|line| line.starts_with("all is done after ")), "{said}");
}

#[test]
fn policies_are_reported_by_refusals_utilisation_and_stranded_share() {
    let arguments = ["--workers", "20", "--jobs", "1500", "--seeds", "1", "--loads", "1.1"].map(Path::new);
    let said = output(env!("CARGO_BIN_EXE_online_report"), &arguments);
    assert_eq!(said, output(env!("CARGO_BIN_EXE_online_report"), &arguments), "equal arguments print equal tables");
    let tables: Vec<&str> = said.split("\n\n").skip(1).collect();
    let titles: Vec<&str> = tables.iter().filter_map(|table| table.lines().next()).collect();
    assert_eq!(titles, ["five shapes, offered 110", "uniform, offered 110", "anti-correlated, offered 110"]);
    for table in tables {
        let rows: Vec<(&str, Vec<f64>)> = table
            .lines()
            .skip(2)
            .filter_map(|row| row.split_once(' '))
            .map(|(policy, row)| (policy, row.split_whitespace().map(|cell| cell.parse().unwrap()).collect()))
            .collect();
        assert_eq!(rows.len(), 6, "{table}");
        for (policy, row) in &rows {
            let [refused, weighted, utilisation, stranded] = row[..] else { panic!("{policy}: {row:?}") };
            assert!((0.5..60.0).contains(&refused) && (0.5..60.0).contains(&weighted), "{policy}: {row:?}");
            // What is not refused is in use: 110 less what was refused, but for chance.
            assert!((utilisation - 110.0 * (1.0 - weighted / 100.0)).abs() < 10.0, "{policy}: {row:?}");
            assert!((0.0..50.0).contains(&stranded), "{policy}: {row:?}");
        }
        let refused = |name: &str| rows.iter().find(|(policy, _)| *policy == name).map(|(_, row)| row[1]).unwrap();
        assert!(refused("best-fit") <= refused("spread"), "{table}");
    }
}

#[test]
fn what_a_policy_does_with_a_trace_is_drawn_as_text_and_as_svg() {
    let folder = tempfile::tempdir().unwrap();
    let (svg, trace) = (folder.path().join("curves.svg"), folder.path().join("trace.csv"));
    // A machine of 8000m runs either of the two for two minutes; the third fits nowhere until then.
    let large = |arrival: u64, tenant: &str| format!("{arrival},{tenant},5,24000,1024,120000\n");
    let lines: String = (0..11).map(|number| large(number * 1000, if number % 2 == 0 { "a" } else { "b" })).collect();
    fs::write(&trace, lines).unwrap();
    let said = output(env!("CARGO_BIN_EXE_fleet_policy"), &[Path::new("spread"), &svg, &trace]);
    let rows: Vec<&str> = said.lines().collect();
    assert_eq!(rows[0], "11 jobs under spread, a point a minute");
    let curve = |title: &str| {
        let row = rows.iter().find(|row| row.starts_with(title)).unwrap_or_else(|| panic!("{title}: {said}"));
        row.split_whitespace().last().unwrap().chars().count()
    };
    // Ten fill the ten large machines at once, the eleventh waits for 110 s and ends after 240 s.
    assert_eq!(["utilisation", "wait", "fairness"].map(curve), [5; 3], "{said}");
    assert!(said.contains("wait ≤ 110 s"), "{said}");
    let drawn = fs::read_to_string(&svg).unwrap();
    assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
    assert_eq!(drawn.matches("<polyline ").count(), 3);
    assert_eq!(drawn, {
        output(env!("CARGO_BIN_EXE_fleet_policy"), &[Path::new("spread"), &svg, &trace]);
        fs::read_to_string(&svg).unwrap()
    });
    for (line, complaint) in [
        ("0,a,5,24000,1024", "line 1: six fields are needed, found 5"),
        ("arrival,a,5,1,1,1", "line 1: arrival is `arrival`, which is not a whole number"),
        ("0,a,10,1,1,1", "line 1"),
    ] {
        fs::write(&trace, line).unwrap();
        let program = env!("CARGO_BIN_EXE_fleet_policy");
        let refused = Command::new(program).args([Path::new("spread"), &svg, &trace]).output().unwrap();
        let reported = String::from_utf8(refused.stderr).unwrap();
        assert!(!refused.status.success() && reported.contains(complaint), "{reported}");
    }
}

#[test]
fn a_server_is_planned_for_a_repository_without_credentials() {
    let said = output(env!("CARGO_BIN_EXE_server_for_repository"), &[]);
    assert!(said.contains("cards Some(1) with Some(24) GB each"), "{said}");
    assert!(said.contains("because of requirements.txt:1 \u{201c}torch==2.1.0+cu121\u{201d}"), "{said}");
    assert!(said.contains("for 17 hours, the best first:\n  gpu_rtx_6000 at uc with CC-Ubuntu22.04-CUDA"), "{said}");
    let folder = output(env!("CARGO_BIN_EXE_server_for_repository"), &[&here("..")]);
    assert!(folder.contains("cores Some(") && folder.contains("the best first:"), "{folder}");
}
