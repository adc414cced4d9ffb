//! The failure matrix of the scheduler contract on the real programs: each failure is brought about, and its
//! guarantee looked for.
//!
//! | failure | here |
//! |---|---|
//! | network partition, short, long, one way | `line` |
//! | worker crash, agent crash, job crash, broken worker, poison job, log flood, reconnect storm | `workers` |
//! | server crash | `kills`, `shared` (on PostgreSQL and NATS), `workers` (storm) |
//! | leader stalls; worker stalls; clock jump | `pause`, and `fleet::lead` |
//! | store down, slow, full, damaged | `store` |
//! | bus down | `fleet::nats` |
//! | duplicate and late results, lost answer to a submit | `line`, `pause` |
//! | disk full on a worker, clock of a worker | `host` |
//! | an upload that breaks off | `uploads` |
//! | container failure, engine down, agent of a step killed | `containers` |

mod containers;
mod host;
mod kills;
mod line;
mod pause;
mod proxy;
#[cfg(all(feature = "postgres", feature = "nats"))]
mod shared;
mod store;
mod uploads;
mod workers;

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::programs::{Programs, Scheduler, ask, get, json as read, until};

/// Times short enough for a test, as long as the contract's against one another.
const FAST: [&str; 4] = [
    "--server-heartbeat=500ms",
    "--scheduler-heartbeat-timeout=3s",
    "--scheduler-lease=3s",
    "--scheduler-reassign-after=9s",
];

/// The same where a worker that is away is not given up, however long that takes on a busy machine.
const PATIENT: [&str; 4] = [FAST[0], FAST[1], FAST[2], "--scheduler-reassign-after=120s"];

/// Submits a job that is a script, with more fields, and gives its id.
fn submit(server: &Scheduler, script: &str, more: Value) -> String {
    let mut job = json!({
        "runtime": "process",
        "command": ["sh", "-c", script],
        "resources": { "cpu_m": 10, "memory_bytes": 1 << 20 },
    });
    let fields = more.as_object().expect("fields").clone();
    job.as_object_mut().expect("fields").extend(fields);
    let (status, text) = ask(&server.rest, "POST", "/jobs", "", &job.to_string()).expect("an answer");
    assert_eq!(status, 202, "{text}");
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    answer["id"].as_str().expect("an id").to_owned()
}

/// A job as the server shows it.
fn job(server: &Scheduler, id: &str) -> Option<Value> {
    read(&server.rest, &format!("/jobs/{id}"))
}

/// A server that leads.
fn serve(programs: &Programs, args: &[&str]) -> Scheduler {
    programs.leader("s1", args)
}

/// Waits until a job is in a state, and gives it.
fn job_in(server: &Scheduler, id: &str, state: &str) -> Value {
    until(&format!("job {id} in the state {state}"), || {
        let job = job(server, id)?;
        let ended = job["finished_at"].is_string();
        assert!(!ended || job["state"] == state, "it ended otherwise: {job} {:?}", attempts(server, id));
        (job["state"] == state).then_some(job)
    })
}

/// Attempts of a job.
fn attempts(server: &Scheduler, id: &str) -> Vec<Value> {
    let list = until("its attempts", || read(&server.rest, &format!("/jobs/{id}/attempts")));
    list["items"].as_array().expect("attempts").clone()
}

/// That a job has one result that counts, and of which attempt.
fn only_final(server: &Scheduler, id: &str) -> u64 {
    let all = attempts(server, id);
    let finals: Vec<_> = all.iter().filter(|attempt| attempt["final"] == true).collect();
    assert_eq!(finals.len(), 1, "{all:?}");
    finals[0]["attempt"].as_u64().expect("a number")
}

/// Waits until a worker is in one of some states.
fn worker_in(server: &Scheduler, id: &str, states: &[&str]) {
    until(&format!("worker {id} in {states:?}"), || {
        let worker = read(&server.rest, &format!("/workers/{id}"))?;
        states.iter().any(|state| worker["state"] == *state).then_some(())
    });
}

/// The sum of a metric over its labels; with a text, of lines that hold it.
fn metric(server: &Scheduler, name: &str, with: &str) -> f64 {
    let text = get(server.rest.trim_start_matches("http://"), "/metrics").expect("an answer");
    let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(with));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// A script that says it is there, and goes on when a file is.
fn waits_for(file: &Path) -> String {
    format!("echo before; until [ -e {} ]; do sleep 0.05; done; echo after", file.display())
}

fn touch(programs: &Programs, name: &str) {
    std::fs::write(programs.path(name), "").expect("a file is written");
}

/// What is in a file by now.
fn text(programs: &Programs, name: &str) -> String {
    std::fs::read_to_string(programs.path(name)).unwrap_or_default()
}

/// Fills a disk until so many bytes are free.
fn fill(disk: &Path, leave: u64) {
    let found = nix::sys::statvfs::statvfs(disk).expect("a file system");
    let free = found.blocks_available() * found.fragment_size();
    let mut file = std::fs::File::options().create(true).append(true).open(disk.join("ballast")).expect("a file");
    let bytes = usize::try_from(free.saturating_sub(leave)).expect("a small disk");
    // The last block may not fit: the disk is as full as it can be then.
    drop(file.write_all(&vec![1; bytes]));
}
