//! Artifacts on the real programs: uploads with offsets and checksums, ranges, and files of jobs.

use serde_json::{Value, json};

use super::bench::Bench;
use crate::image::Image;

const HELLO: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
const BYTES: &str = "Content-Type: application/octet-stream\r\n";

fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").expect("a head").1).unwrap_or_default()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).expect("a status")
}

#[test]
fn uploads_grow_at_their_offset_and_are_checked() {
    let mut bench = Bench::up(&["--no-worker"]);
    let begun = bench.post("/uploads", None, &json!({ "name": "greeting", "bytes": 5 }));
    let id = begun["id"].as_str().expect("an id").to_owned();
    assert_eq!((&begun["committed"], &begun["stored"]), (&json!(0), &json!(false)));
    let add = |bench: &Bench, id: &str, offset: u64, text: &str| {
        bench.raw("PATCH", &format!("/uploads/{id}?offset={offset}"), BYTES, text.as_bytes())
    };
    let first = add(&bench, &id, 0, "hel");
    assert!(status(&first) == "204" && first.contains("upload-offset: 3"), "{first}");
    let wrong = add(&bench, &id, 0, "hel");
    assert_eq!((status(&wrong), &body(&wrong)["errors"][0]), ("409", &json!({ "path": "offset", "message": "3" })));
    assert_eq!(status(&add(&bench, &id, 3, "much too long")), "413");
    assert_eq!(status(&bench.raw("PATCH", &format!("/uploads/{id}?offset=3"), "", b"lo")), "415");
    // A server that was killed goes on where it was.
    let address = bench.address();
    bench.signal(nix::sys::signal::Signal::SIGKILL);
    bench.end();
    bench.start_at(&address, &["--no-worker"]);
    let again = bench.post("/uploads", None, &json!({ "name": "greeting", "bytes": 5, "upload": id }));
    assert_eq!(again["committed"], 3);
    assert_eq!(status(&add(&bench, &id, 3, "lo")), "204");
    let end = json!({ "sha256": HELLO });
    let made = bench.post(&format!("/uploads/{id}/finalize"), None, &end);
    assert_eq!((&made["sha256"], &made["bytes"]), (&json!(HELLO), &json!(5)));
    let content = format!("/artifacts/{HELLO}");
    assert!(bench.get(&content, "").ends_with("\r\n\r\nhello"));
    let part = bench.get(&content, "Range: bytes=1-3\r\n");
    assert!(
        status(&part) == "206" && part.contains("content-range: bytes 1-3/5") && part.ends_with("\r\nell"),
        "{part}"
    );
    assert_eq!(status(&bench.get(&content, "Range: bytes=9-\r\n")), "416");
    let known = bench.post("/uploads", None, &json!({ "name": "again", "bytes": 5, "sha256": HELLO }));
    assert_eq!(known["stored"], true, "it need not be sent again");
    let other = bench.post("/uploads", None, &json!({ "name": "bad", "bytes": 5 }));
    let id = other["id"].as_str().expect("an id");
    assert_eq!(status(&add(&bench, id, 0, "hullo")), "204");
    let refused = bench.post(&format!("/uploads/{id}/finalize"), None, &end);
    assert_eq!((&refused["status"], &refused["type"]), (&json!(422), &json!("urn:orlop:error:checksum")));
    assert_eq!(bench.post(&format!("/uploads/{id}/finalize"), None, &end)["status"], 404, "it is gone");
    assert_eq!(status(&bench.get(&format!("/artifacts/{}", "0".repeat(64)), "")), "404");
}

#[test]
fn artifacts_of_other_tenants_are_as_if_they_were_not_there() {
    let mut bench = Bench::up(&["--memory-store", "--no-worker"]);
    let file = bench.place("file");
    std::fs::write(&file, "hello").expect("a file");
    let unknown = bench.orlop(&["artifacts", "put", "greeting", file.to_str().expect("a path"), "--tenant", "a"]);
    assert!(unknown.code == 4 && unknown.err.contains("orlop quota set a weight=100"), "{unknown:?}");
    for tenant in ["a", "b"] {
        bench.good(&["quota", "set", tenant, "weight=100"]);
    }
    let put = ["artifacts", "put", "greeting", file.to_str().expect("a path"), "--tenant", "a"];
    assert_eq!(bench.good(&put).trim(), HELLO);
    assert_eq!(bench.good(&put).trim(), HELLO, "again is fine");
    let token = |bench: &Bench, by: Option<&str>, role: &str, tenant: &str| {
        let made = bench.post("/tokens", by, &json!({ "role": role, "tenants": [tenant] }));
        made["token"].as_str().expect("a token").to_owned()
    };
    let admin = token(&bench, None, "admin", "*");
    let (a, b) = (token(&bench, Some(&admin), "submitter", "a"), token(&bench, Some(&admin), "submitter", "b"));
    bench.use_token(&a);
    assert_eq!(bench.good(&["artifacts", "get", HELLO]), "hello");
    bench.use_token(&b);
    assert_eq!(bench.orlop(&["artifacts", "get", HELLO]).code, 4);
    let spec = json!({ "command": ["true"], "artifacts_in": [{ "name": "greeting", "path": "g" }] });
    let refused = bench.post("/jobs", Some(&b), &spec);
    assert_eq!(
        (&refused["status"], &refused["errors"][0]["path"]),
        (&json!(400), &json!("artifacts_in[0]")),
        "{refused}"
    );
    let by_digest = json!({ "command": ["true"], "artifacts_in": [{ "name": "x", "path": "g", "sha256": HELLO }] });
    assert_eq!(bench.post("/jobs", Some(&b), &by_digest)["status"], 400, "a digest is no key");
    let id = bench.post("/jobs", Some(&a), &spec)["id"].as_str().expect("a job").to_owned();
    let job = bench.get(&format!("/jobs/{id}"), &format!("Authorization: Bearer {a}\r\n"));
    assert!(job.contains(HELLO), "the latest of that name is pinned: {job}");
}

#[test]
fn files_go_to_a_job_and_come_back() {
    let bench = Bench::up(&[]);
    let file = bench.place("data.txt");
    // More than one piece of an upload.
    let text: String = (0..400_000).map(|n| format!("{n}\n")).collect();
    std::fs::write(&file, &text).expect("a file");
    let input = format!("{}:in/data.txt", file.display());
    let script = "set -e; stat -c %a in/data.txt; tail -1 in/data.txt; cmp in/data.txt $ORLOP_ARTIFACTS_DIR/in/data.txt; \
                  mkdir -p out/deep; rev in/data.txt > out/big; echo small > out/deep/small.txt; ln -s /etc/passwd out/link; \
                  ln -s /etc out/deep/etc; sleep 0.3";
    let submit = [
        "submit",
        "--cpu",
        "100m",
        "--memory",
        "64Mi",
        "--in",
        &input,
        "--out",
        "result=out/**",
        "--wait",
        "--",
        "sh",
        "-c",
        script,
    ];
    for _ in 0..2 {
        let ran = bench.orlop(&submit);
        assert_eq!(ran.code, 0, "{ran:?}");
        let id = ran.out.trim();
        assert_eq!(bench.good(&["logs", id]), "444\n399999\n");
        let list = bench.orlop(&["artifacts", "list", id, "-o", "json"]).json();
        let paths: Vec<_> = list["items"].as_array().expect("items").iter().map(|item| item["path"].clone()).collect();
        assert_eq!(paths, ["out/big", "out/deep/small.txt"], "links are not followed: {list}");
        assert_eq!(bench.good(&["artifacts", "get", id, "out/deep/small.txt"]), "small\n");
        let back = bench.place("back");
        bench.good(&["artifacts", "get", id, "out/big", "-f", back.to_str().expect("a path")]);
        let back = std::fs::read_to_string(&back).expect("a file");
        assert_eq!(back.lines().last(), Some("999993"));
        assert_eq!(back.len(), text.len());
    }
    // What is not needed any more is gone from the worker, but for the cache.
    let began = std::time::Instant::now();
    let left = || {
        let names =
            |folder: &str| std::fs::read_dir(bench.data().join("worker").join(folder)).into_iter().flatten().flatten();
        let work = names("work").filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
        work.chain(names("inputs")).count()
    };
    while left() > 0 {
        assert!(began.elapsed() < super::bench::PATIENCE, "files of attempts stay");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let stored =
        ["submit", "--cpu", "100m", "--memory", "16Mi", "--in", "@data.txt:x", "--follow", "--", "tail", "-1", "x"];
    assert_eq!(bench.good(&stored), "399999\n");
}

#[test]
fn files_go_to_a_container_and_come_back() {
    let image = match Image::import() {
        Ok(image) => image,
        Err(why) => return println!("\nskipped: files_go_to_a_container_and_come_back: {why}"),
    };
    let bench = Bench::up(&["--memory-store"]);
    let file = bench.place("data.txt");
    std::fs::write(&file, "hello").expect("a file");
    let input = format!("{}:in/data.txt", file.display());
    let script = "cmp in/data.txt $ORLOP_ARTIFACTS_DIR/in/data.txt && rev in/data.txt > back";
    let small = ["submit", "--cpu", "100m", "--memory", "32Mi", "--image", &image.0, "--wait"];
    let more = ["--in", &input, "--out", "back", "--", "sh", "-c", script];
    let ran = bench.orlop(&[&small[..], &more].concat());
    assert_eq!(ran.code, 0, "{ran:?} {}", bench.good(&["logs", ran.out.trim()]));
    assert_eq!(bench.good(&["artifacts", "get", ran.out.trim(), "back"]).trim(), "olleh");
}

#[test]
fn what_is_required_and_missing_fails_the_job_and_says_what() {
    let bench = Bench::up(&["--memory-store"]);
    let small = ["submit", "--cpu", "100m", "--memory", "16Mi", "--wait", "-o", "json"];
    let missing = bench.orlop(&[&small[..], &["--out", "model=out/model.bin", "--", "true"]].concat());
    let job: Value = serde_json::from_str(&missing.out).expect("a job");
    assert_eq!((missing.code, &job["state"]), (1, &json!("Failed")), "{job}");
    assert_eq!(job["reason"], "artifact: `model`: nothing is at out/model.bin");
    // A job that fails leaves what it has all the same.
    let failed =
        bench.orlop(&[&small[..], &["--out", "log.txt", "--", "sh", "-c", "echo why > log.txt; exit 4"]].concat());
    let job: Value = serde_json::from_str(&failed.out).expect("a job");
    assert_eq!(job["exit_code"], 4, "{job}");
    assert_eq!(bench.good(&["artifacts", "get", job["id"].as_str().expect("an id"), "log.txt"]), "why\n");
}

/// A file may claim to have terabytes: none of it is read when the server does not take that much, and what is read is given up when
/// its job is cancelled.
#[test]
fn a_file_that_claims_terabytes_holds_no_slot() {
    let bench = Bench::up(&[]);
    let submit = |size: &str, more: &[&str]| {
        let script = format!("truncate -s {size} big");
        let shape = ["submit", "--cpu", "100m", "--memory", "1Mi", "--out", "o=big"];
        bench.orlop(&[&shape, more, &["--", "sh", "-c", &script]].concat())
    };
    let began = std::time::Instant::now();
    let huge = submit("1T", &["--wait"]);
    assert_eq!(huge.code, 1, "{huge:?}");
    let why = bench.good(&["job", "get", huge.out.trim()]);
    assert!(why.contains("artifact") && began.elapsed().as_secs() < 20, "{:?}: {why}", began.elapsed());
    // Large, and not too large.
    let large = submit("4G", &[]).out.trim().to_owned();
    let state = |id: &str| bench.orlop(&["job", "get", id, "-o", "json"]).json()["state"].clone();
    super::programs::until("it runs", || (state(&large) == "Running").then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(300));
    let began = std::time::Instant::now();
    bench.orlop(&["cancel", &large, "--wait"]);
    assert_eq!(state(&large), "Cancelled");
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}
