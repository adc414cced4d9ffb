//! Programs and folders that are sent with a job, on the real programs.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::bench::{Bench, Gave};
use crate::image::Image;

const SMALL: [&str; 6] = ["submit", "--cpu", "100m", "--memory", "32Mi", "--wait"];

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it can be run");
}

/// What the job of a submit that waited wrote.
fn wrote(bench: &Bench, ran: &Gave) -> String {
    let log = bench.orlop(&["logs", ran.out.trim()]).out;
    assert_eq!(ran.code, 0, "{ran:?} {log}");
    log
}

/// A project with a program, what it reads, and a link.
fn project(bench: &Bench) -> std::path::PathBuf {
    let dir = bench.place("project");
    script(
        &dir.join("bin/simulate"),
        "set -e; cat data/current; echo \"seed $2\" > result.txt; mkdir -p out; pwd > out/place",
    );
    fs::create_dir(dir.join("data")).expect("a folder");
    fs::write(dir.join("data/first"), "first\n").expect("a file");
    symlink("first", dir.join("data/current")).expect("a link");
    dir
}

#[test]
fn a_program_that_is_sent_can_be_run_and_other_files_cannot() {
    let bench = Bench::up(&[]);
    let program = bench.place("program");
    script(&program, "echo \"ran $1\"; stat -c %a \"$0\"");
    let plain = bench.place("plain");
    fs::write(&plain, "#!/bin/sh\necho no\n").expect("a file");
    let run = |more: &[&str]| bench.orlop(&[&SMALL[..], more].concat());
    let path = |path: &Path| path.to_str().expect("a path").to_owned();
    let sent = run(&["--in", &path(&program), "--", "./program", "{{index}}"]);
    assert_eq!(wrote(&bench, &sent), "ran 0\n555\n");
    let denied = run(&["--in", &path(&plain), "--exit-code", "--", "./plain"]);
    assert_eq!(denied.code, 126, "{denied:?}");
    // By the name under which it was stored, and as another job left it.
    bench.good(&["artifacts", "put", "tool", &path(&program)]);
    assert_eq!(wrote(&bench, &run(&["--in", "@tool", "--", "./tool", "b"])), "ran b\n555\n");
    let make = "printf '#!/bin/sh\\necho made\\n' > made; chmod 755 made";
    let maker = run(&["--out", "made", "--", "sh", "-c", make]);
    wrote(&bench, &maker);
    assert_eq!(wrote(&bench, &run(&["--in", "@made:bin/made", "--", "bin/made"])), "made\n");
    let of_job = format!("@{}/made", maker.out.trim());
    assert_eq!(wrote(&bench, &run(&["--in", &of_job, "--", "./made"])), "made\n");
    let plain = run(&["--no-placeholders", "--", "printf", "%s ", "{{name}}", "{{index}}", "$HOME"]);
    assert_eq!(wrote(&bench, &plain), "{{name}} {{index}} $HOME ");
}

#[test]
fn a_folder_is_sent_whole_and_belongs_to_the_attempt() {
    let bench = Bench::up(&[]);
    let dir = project(&bench);
    let run = |more: &[&str]| bench.orlop_in(&dir, &[&SMALL[..], more].concat());
    let here = run(&["--with-cwd", "--out", "result.txt", "--", "bin/simulate", "--seed", "{{index}}"]);
    assert_eq!(wrote(&bench, &here), "first\n");
    assert_eq!(bench.good(&["artifacts", "get", here.out.trim(), "result.txt"]), "seed 0\n");
    assert!(!dir.join("result.txt").exists(), "it ran in a copy");
    let below = run(&[
        "--in",
        "data",
        "--in",
        "bin:tools",
        "--workdir",
        "data",
        "--",
        "sh",
        "-c",
        "../tools/simulate x 1 2>&1; ls",
    ]);
    assert!(below.code == 0 || below.code == 1, "{below:?}");
    let text = bench.orlop(&["logs", below.out.trim()]).out;
    assert!(text.contains("current\nfirst\n"), "{text}");
    // What an attempt changes is its own: another gets the folder as it was sent.
    let change = "echo changed > data/first; rm data/current; ls data; stat -c %a bin/simulate data/first";
    for _ in 0..2 {
        assert_eq!(wrote(&bench, &run(&["--with-cwd", "--", "sh", "-c", change])), "first\n755\n644\n");
    }
    // Nothing outside comes along.
    symlink("/etc", dir.join("outside")).expect("a link");
    let refused = run(&["--with-cwd", "--", "true"]);
    assert!(refused.code == 3 && refused.err.contains("outside leads out of the folder"), "{refused:?}");
    assert!(refused.err.contains(dir.to_str().expect("a path")), "{refused:?}");
    let missing = run(&["--in", "nosuch", "--", "true"]);
    assert!(missing.code == 2 && missing.err.contains("nosuch cannot be read"), "{missing:?}");
}

#[test]
fn what_is_no_archive_of_a_folder_fails_the_job_and_says_so() {
    let bench = Bench::up(&["--memory-store"]);
    let file = bench.place("text");
    fs::write(&file, "no archive").expect("a file");
    bench.good(&["artifacts", "put", "text", file.to_str().expect("a path")]);
    let submit = |inputs: Value| bench.post("/jobs", None, &json!({ "command": ["true"], "artifacts_in": inputs }));
    let spec = json!({ "command": ["true"], "artifacts_in": [{ "name": "text", "path": ".", "unpack": true }] });
    let job = bench.orlop_with(&["submit", "-f", "-", "--wait", "-o", "json"], spec.to_string().as_bytes());
    let job: Value = serde_json::from_str(&job.out).unwrap_or_else(|error| panic!("{error}: {job:?}"));
    let reason = job["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("artifact: `text`: the artifact cannot be unpacked"), "{job}");
    for (input, place) in [
        (json!({ "name": "text", "path": "." }), "path"),
        (json!({ "name": "text", "path": "../up", "unpack": true }), "path"),
        (json!({ "name": "text", "path": "/up", "unpack": true }), "path"),
        (json!({ "name": "text", "path": "x", "unpack": true, "executable": true }), "executable"),
    ] {
        let refused = submit(json!([input]));
        assert_eq!(refused["errors"][0]["path"], format!("artifacts_in[0].{place}"), "{refused}");
    }
}

#[test]
fn a_folder_goes_to_a_container_where_its_user_may_change_it() {
    let image = match Image::import() {
        Ok(image) => image,
        Err(why) => {
            return println!("\nskipped: a_folder_goes_to_a_container_where_its_user_may_change_it: {why}");
        }
    };
    let bench = Bench::up(&["--memory-store"]);
    let dir = project(&bench);
    let run = ["--image", &image.0, "--with-cwd", "--out", "out/*", "--", "bin/simulate", "--seed", "1"];
    let ran = bench.orlop_in(&dir, &[&SMALL[..], &run].concat());
    assert_eq!(wrote(&bench, &ran), "first\n");
    assert_eq!(bench.good(&["artifacts", "get", ran.out.trim(), "out/place"]).trim(), "/orlop/job");
}
