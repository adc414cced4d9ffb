//! The line breaks while a worker stores what a job has left, and the server is killed: it goes on where the server is.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::super::programs::{Programs, until};
use super::proxy::Proxy;
use super::{FAST, job_in, only_final, serve, submit, worker_in};

/// Uploads that grow below a folder of artifacts: their names, and how far the longest is.
fn growing(folder: &Path) -> (BTreeSet<String>, u64) {
    let entries = std::fs::read_dir(folder.join("uploads")).into_iter().flatten().flatten();
    let mut found = (BTreeSet::new(), 0);
    for entry in entries {
        found.0.insert(entry.file_name().to_string_lossy().into_owned());
        found.1 = found.1.max(entry.metadata().map_or(0, |metadata| metadata.len()));
    }
    found
}

#[test]
fn what_a_job_leaves_is_stored_through_broken_lines_and_a_killed_server() {
    const BYTES: u64 = 192 << 20;
    let programs = Programs::new();
    let server = serve(&programs, &FAST);
    let line = Proxy::to(&server.grpc);
    let _worker = programs.worker("w1", &[&line.url()], &[]);
    worker_in(&server, "w1", &["Available"]);
    let folder = programs.path("s1-artifacts");
    let script = format!("head -c {BYTES} /dev/urandom > big; sha256sum big | cut -d' ' -f1");
    let out = json!({ "artifacts_out": [{ "name": "big", "path": "big", "required": true }] });
    let id = submit(&server, &script, out);
    let mut names = BTreeSet::new();
    let mut server = server;
    let mut reached = 0;
    for step in 1..=3 {
        // Some more of it has come.
        let some = |folder: &Path| {
            let (now, bytes) = growing(folder);
            (bytes >= reached + (8 << 20)).then_some((now, bytes))
        };
        let (now, bytes) = until("a part of it", || some(&folder));
        line.quiet(true, true);
        names.extend(now);
        assert!(bytes < BYTES, "it was stored before the line broke");
        if step == 2 {
            server.process.kill();
            server = programs.scheduler_again("s1", &server, &FAST);
        }
        line.break_off();
        reached = growing(&folder).1;
        line.quiet(false, false);
    }
    let done = job_in(&server, &id, "Completed");
    assert_eq!((&done["attempt"], only_final(&server, &id)), (&json!(1), 1), "{}", programs.log("w1"));
    assert_eq!(names.len(), 1, "one upload went on: {names:?}");
    let list = programs.orlop(&server.rest, &["artifacts", "list", &id, "-o", "json"]).json();
    let item = &list["items"][0];
    let digest = programs.good(&server.rest, &["logs", &id]);
    assert_eq!((item["sha256"].as_str(), item["bytes"].as_u64()), (Some(digest.trim()), Some(BYTES)), "{list}");
    assert_eq!(growing(&folder).0.len(), 0, "nothing is left of the upload");
}
