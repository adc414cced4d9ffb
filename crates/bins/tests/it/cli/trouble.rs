//! What goes wrong around a run: disks, rights, files that are no flows. Every text says what to do.

use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;

use super::bench::{Bench, Gave, after, end, phases, step};

/// A file system in memory, as long as this lives.
struct Memory(PathBuf);

impl Memory {
    /// Mounts one, or says loudly why it cannot.
    fn mount(test: &str, place: &Path, flags: MsFlags, options: &str) -> Option<Self> {
        std::fs::create_dir_all(place).unwrap();
        match mount(Some("tmpfs"), place, Some("tmpfs"), flags, Some(options)) {
            Ok(()) => Some(Self(place.to_owned())),
            Err(error) => {
                println!("\nskipped: {test}: no file system in memory can be mounted: {error}");
                None
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Err(error) = umount2(&self.0, MntFlags::MNT_DETACH) {
            println!("{} stays mounted: {error}", self.0.display());
        }
    }
}

/// A flow about which nothing is to be warned.
fn flow(bench: &Bench) -> PathBuf {
    let pipeline = json!({"name": "small", "steps": [{"name": "a", "job_spec": {"command": ["true"]}}]});
    bench.file("small.json", &pipeline.to_string())
}

/// Code and error text.
fn shown(gave: &Gave) -> String {
    assert_eq!(gave.out, "");
    format!("{} ({})", gave.err.trim_end(), gave.code)
}

#[test]
fn a_full_disk_is_reported_and_the_run_can_be_begun_again() {
    let bench = Bench::new();
    let test = "a_full_disk_is_told_and_the_run_can_be_begun_again";
    let Some(disk) = Memory::mount(test, &bench.path("disk"), MsFlags::empty(), "size=512k") else { return };
    let home = disk.0.display().to_string();
    let file = flow(&bench);
    let ballast = disk.0.join("ballast");
    drop(std::fs::write(&ballast, vec![0; 1 << 20]));
    let gave = bench.run(&file, &["--home", &home, "--progress", "none"]);
    assert_eq!(gave.code, 11, "{gave:?}");
    assert!(gave.err.contains("the disk is full; free some space"), "{}", gave.err);
    std::fs::remove_file(&ballast).unwrap();
    let gave = bench.run(&file, &["--home", &home, "--progress", "none"]);
    assert_eq!(gave.code, 0, "{gave:?}");
}

#[test]
fn a_read_only_directory_is_not_permitted() {
    let bench = Bench::new();
    let place = bench.path("ro");
    let disk = Memory::mount("a_read_only_directory_is_not_permitted", &place, MsFlags::MS_RDONLY, "size=64k");
    if disk.is_none() {
        return;
    }
    let home = place.display().to_string();
    let gave = bench.run(&flow(&bench), &["--home", &home]);
    bench.settings().bind(|| insta::assert_snapshot!(shown(&gave), @"error: DIR/ro/runs/default/small-UID8 cannot be used for a run: Read-only file system (os error 30); keep runs elsewhere with --home DIR or --run-dir DIR (6)"));
    let gave = bench.run(&flow(&bench), &["--run-dir", &home]);
    bench.settings().bind(|| insta::assert_snapshot!(shown(&gave), @"error: DIR/ro cannot be used for a run: Read-only file system (os error 30); keep runs elsewhere with --home DIR or --run-dir DIR (6)"));
}

#[test]
fn a_manifest_of_ten_megabytes_is_read() {
    let bench = Bench::new();
    let filler = "x".repeat(150);
    let steps: Vec<String> =
        (0..60_000).map(|n| format!("- name: s{n}\n  job_spec: {{command: [\"true\", {filler}]}}\n")).collect();
    let text = format!("name: big\nsteps:\n{}", steps.concat());
    assert!(text.len() > 10_000_000, "{}", text.len());
    let file = bench.file("big.yaml", &text).display().to_string();
    let gave = bench.orlop(&["flow", "validate", &file]);
    assert_eq!(gave.code, 0, "{}", gave.err);
    let wrong = bench.file("wrong.yaml", &text.replace("s59999\n", "s1\n")).display().to_string();
    let gave = bench.orlop(&["flow", "validate", &wrong]);
    assert_eq!(gave.code, 3);
    bench.settings().bind(|| {
        insta::assert_snapshot!(gave.out.lines().take(2).collect::<Vec<_>>().join("\n"), @"
    error[pipeline]: two steps are called `s1`
          --> DIR/wrong.yaml:120001:9
    ");
    });
}

/// Code and error text for a file.
fn refused(bench: &Bench, name: &str, text: &str) -> String {
    let gave = bench.run(&bench.file(name, text), &[]);
    format!("{name} gives {}\n{}", gave.code, gave.err)
}

#[test]
fn files_that_are_no_flows_are_refused_with_place_and_help() {
    let bench = Bench::new();
    let run = |name: &str, text: &str| refused(&bench, name, text);
    bench.settings().bind(|| {
        insta::assert_snapshot!(run("deep.json", &"[".repeat(100_000)), @"
        deep.json gives 3
        error[syntax]: lists and mappings are nested deeper than 64 levels
         --> DIR/deep.json:1:65
          |
        1 | …[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[…
          |                                      ^
          = help: flatten the document; no field of a flow needs that

        1 error
        ");
        insta::assert_snapshot!(run("deep.yaml", &format!("steps: {}", "- ".repeat(10_000))), @"
        deep.yaml gives 3
        error[syntax]: the text is neither YAML nor JSON: block sequence entries are not allowed in this context
         --> DIR/deep.yaml:1:8
          |
        1 | steps: - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - -…
          |        ^
          = help: check the indentation of this line and the `:` after its key

        1 error
        ");
    });
}

#[test]
fn wrong_fields_cycles_and_types_are_refused_with_place_and_help() {
    let bench = Bench::new();
    let run = |name: &str, text: &str| refused(&bench, name, text);
    bench.settings().bind(|| {
        insta::assert_snapshot!(run("field.yaml", "name: f\nsteps:\n- name: a\n  jobspec: {command: [x]}\n"), @"
        field.yaml gives 3
        error[pipeline]: `job_spec` is missing
         --> DIR/field.yaml:3:3
          |
        3 | - name: a
          |   ^^^^
          = field: steps[0].job_spec
          = help: it must be a mapping

        error[unknown-field]: unknown field `jobspec`
         --> DIR/field.yaml:4:3
          |
        4 |   jobspec: {command: [x]}
          |   ^^^^^^^
          = field: steps[0].jobspec
          = help: did you mean `job_spec`?

        2 errors
        ");
        insta::assert_snapshot!(
            run("cycle.yaml", "name: c\nsteps:\n- {name: a, depends_on: [b], job_spec: {command: [x]}}\n- {name: b, depends_on: [a], job_spec: {command: [x]}}\n"),
            @"
        cycle.yaml gives 3
        error[cycle]: steps wait for each other in a cycle: a → b → a
         --> DIR/cycle.yaml:3:13
          |
        3 | - {name: a, depends_on: [b], job_spec: {command: [x]}}
          |             ^^^^^^^^^^
          = field: steps[0].depends_on
          = help: remove one of these dependencies or references

        1 error
        "
        );
        insta::assert_snapshot!(run("type.yaml", "name: t\nsteps:\n- name: a\n  job_spec: {command: x, retries: many}\n"), @"
        type.yaml gives 3
        error[pipeline]: expected a list of texts, found the text `x`
         --> DIR/type.yaml:4:23
          |
        4 |   job_spec: {command: x, retries: many}
          |                       ^
          = field: steps[0].job_spec.command
          = help: write a list: one item per line, each after `- `, or [a, b]

        error[pipeline]: expected a whole number of 32 bits, found the text `many`
         --> DIR/type.yaml:4:35
          |
        4 |   job_spec: {command: x, retries: many}
          |                                   ^^^^
          = field: steps[0].job_spec.retries

        2 errors
        ");
        insta::assert_snapshot!(run("empty.yaml", ""), @"
        empty.yaml gives 3
        error[object]: the file holds no flow
         = help: write a document with apiVersion: workflow.kube-zen.io/v1alpha1 and kind: JobFlow, or a pipeline with `steps`

        1 error
        ");
    });
    assert!(!bench.path("home").exists(), "nothing was begun");
}

#[test]
fn files_that_cannot_be_read_are_distinguished() {
    let bench = Bench::new();
    std::fs::write(bench.path("latin.yaml"), b"name: caf\xe9\n").unwrap();
    let run = |name: &str| {
        let gave = bench.run(&bench.path(name), &[]);
        format!("{} ({})", gave.err.trim_end(), gave.code)
    };
    std::fs::create_dir(bench.path("folder")).unwrap();
    bench.settings().bind(|| {
        insta::assert_snapshot!(run("latin.yaml"), @"error: DIR/latin.yaml is not UTF-8 text, so it is not a manifest (3)");
        insta::assert_snapshot!(run("none.yaml"), @"error: reading DIR/none.yaml failed: No such file or directory (os error 2) (4)");
        insta::assert_snapshot!(run("folder"), @"error: DIR/folder is a folder; give a file, or check all it holds with `orlop flow validate DIR/folder` (2)");
    });
    assert!(!bench.path("home").exists(), "nothing was begun");
}

#[test]
fn a_program_that_is_replaced_during_a_run_finishes_it() {
    let bench = Bench::new();
    let program = bench.path("copy-of-orlop");
    std::fs::copy(crate::role::PROGRAM, &program).expect("the program is copied");
    let wait = json!({"name": "upgrade", "type": "Manual"});
    let file = bench.flow("upgraded", &json!({"steps": [wait, after(step("next", "echo still here"), &["upgrade"])]}));
    let run = bench.command(&["run", &file.display().to_string(), "--target", "process"]);
    // The same command with the copy as its program.
    let mut copy = std::process::Command::new(&program);
    copy.args(run.get_args()).current_dir(run.get_current_dir().expect("a directory"));
    copy.env("ORLOP_HOME", bench.path("home"))
        .env("ORLOP_PROFILE", "")
        .env("USER", "ann")
        .stdin(std::process::Stdio::null());
    let child = crate::ongoing::Ongoing::begin(&mut copy);
    bench.until("upgraded", |status| status["phase"] == "Paused");
    std::fs::remove_file(&program).expect("the old program goes");
    std::fs::write(&program, "new").expect("a new one comes");
    assert_eq!(bench.orlop(&["flow", "approve", "upgraded", "upgrade"]).code, 0);
    let gave = end(child);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(phases(&bench.status("upgraded").expect("a status")), "upgrade=Succeeded next=Succeeded");
}
