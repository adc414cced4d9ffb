//! A job's way through all programs as one trace at a collector, and its correlation id in everything that is told of it.

use std::collections::BTreeMap;

use orlop::telemetry::trace::receiver::{Received, Receiver};
use serde_json::{Value, json};

use super::bench::bearer;
use super::programs::{Programs, Scheduler, get, until};

/// A caller's context whose trace is kept.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const ABOVE: &str = "00f067aa0ba902b7";

/// Posts JSON as any client would, with headers, and gives the answer's JSON.
fn post(scheduler: &Scheduler, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
    use std::io::{Read as _, Write as _};
    let host = scheduler.rest.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(host).expect("the server is there");
    let body = body.to_string();
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "POST /api/v1{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{}{more}\r\n{body}",
        body.len(),
        bearer(host)
    );
    stream.write_all(head.as_bytes()).expect("it is sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it is answered");
    let json = text.split_once("\r\n\r\n").expect("a head and a body").1;
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A job that has ended.
fn job(scheduler: &Scheduler, id: &str) -> Value {
    until("the end of a job", || {
        let text = get(scheduler.rest.trim_start_matches("http://"), &format!("/api/v1/jobs/{id}?wait=2s"))?;
        let job: Value = serde_json::from_str(&text).ok()?;
        ["Completed", "Failed", "TimedOut", "Cancelled"].iter().any(|state| job["state"] == *state).then_some(job)
    })
}

/// Submits a job as soon as the server leads, and gives its id.
fn submit(scheduler: &Scheduler, headers: &[(&str, &str)], job: &Value) -> String {
    until("a server that leads", || Some(post(scheduler, "/jobs", headers, job)["id"].as_str()?.to_owned()))
}

fn small(command: &[&str]) -> Value {
    json!({ "command": command, "resources": { "cpu_m": 10, "memory_bytes": "1Mi" } })
}

fn by_name(spans: &[Received], trace: &str) -> BTreeMap<String, Received> {
    spans.iter().filter(|span| span.trace == trace).map(|span| (span.name.clone(), span.clone())).collect()
}

#[test]
fn a_job_is_one_trace_from_submit_to_result() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let collector = runtime.block_on(Receiver::start()).expect("a collector");
    let endpoint = collector.endpoint();
    let programs = Programs::new();
    let scheduler = programs.scheduler("s1", &["--trace-endpoint", &endpoint, "--trace-ratio", "0"]);
    let _worker = programs.worker("w1", &[&scheduler.grpc], &["--trace-endpoint", &endpoint]);
    let kept = format!("00-{TRACE}-{ABOVE}-01");
    let id = submit(&scheduler, &[("traceparent", &kept)], &small(&["sh", "-c", "exit 3"]));
    assert_eq!(job(&scheduler, &id)["state"], "Failed");
    // Neither a trace that its caller does not keep nor one that chance does not choose leaves a span.
    let other = format!("00-{}-{ABOVE}-00", TRACE.replace('4', "5"));
    let unkept = submit(&scheduler, &[("traceparent", &other)], &small(&["true"]));
    let without = submit(&scheduler, &[], &small(&["true"]));
    for id in [unkept, without] {
        assert_eq!(job(&scheduler, &id)["state"], "Completed");
    }
    let spans = until("all five spans", || {
        let spans = by_name(&collector.spans(), TRACE);
        (spans.len() == 5).then_some(spans)
    });
    let of = |name: &str| spans.get(name).unwrap_or_else(|| panic!("there is no {name}: {spans:#?}"));
    let above: Vec<(&str, &str)> = vec![
        ("submit", ABOVE),
        ("queue", &of("submit").span),
        ("assign", &of("submit").span),
        ("run", &of("assign").span),
        ("result", &of("run").span),
    ];
    for (name, parent) in above {
        let span = of(name);
        assert_eq!(span.parent, parent, "{name}: {spans:#?}");
        assert_eq!(span.service, if name == "run" { "orlop-worker" } else { "orlop-scheduler" });
        assert_eq!(span.attributes.get("orlop.job"), Some(&id), "{name}");
        assert!(span.from_ns <= span.until_ns && span.from_ns > 0, "{name}");
    }
    assert!(!of("run").error.is_empty(), "it failed: {:#?}", of("run"));
    assert_eq!(of("run").attributes.get("orlop.exit_code").map(String::as_str), Some("3"));
    assert!(collector.spans().iter().all(|span| span.trace == TRACE), "{:#?}", collector.spans());
}

#[test]
fn a_chosen_trace_begins_at_the_server_and_ends_with_it() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let collector = runtime.block_on(Receiver::start()).expect("a collector");
    let endpoint = collector.endpoint();
    let programs = Programs::new();
    let scheduler = programs.scheduler("s1", &["--trace-endpoint", &endpoint, "--trace-ratio", "1"]);
    let array = json!({ "runtime": "noop", "array": { "count": 20 } });
    let id = submit(&scheduler, &[], &array);
    let _worker = programs.worker("w1", &[&scheduler.grpc], &["--trace-endpoint", &endpoint]);
    assert_eq!(job(&scheduler, &id)["state"], "Completed");
    // What is not sent yet is sent at the end.
    scheduler.process.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(scheduler.process.end(), Some(0));
    let counts = until("the spans of twenty elements", || {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for span in collector.spans() {
            *counts.entry(span.name).or_default() += 1;
        }
        (counts.get("run") == Some(&20)).then_some(counts)
    });
    let expected = [("assign", 20), ("queue", 20), ("result", 20), ("run", 20), ("submit", 1)];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
    let spans = collector.spans();
    let first = spans.iter().find(|span| span.name == "submit").expect("it begins");
    assert_eq!(first.parent, "");
    assert!(spans.iter().all(|span| span.trace == first.trace), "one trace");
}

#[test]
fn a_correlation_id_is_in_job_environment_events_audit_and_logs() {
    let programs = Programs::new();
    let scheduler = programs.scheduler("s1", &["--log-level", "info,orlop::jobs=debug,orlop::api=debug"]);
    let _worker = programs.worker("w1", &[&scheduler.grpc], &[]);
    let host = scheduler.rest.trim_start_matches("http://").to_owned();
    // Events are a stream without an end: read until the one that is looked for has come.
    let (listening, begun) = std::sync::mpsc::channel();
    let events = std::thread::spawn(move || {
        use std::io::{BufRead as _, BufReader, Write as _};
        let mut stream = std::net::TcpStream::connect(&host).expect("the server is there");
        stream.set_read_timeout(Some(super::bench::PATIENCE)).expect("it can be set");
        write!(stream, "GET /api/v1/events?type=job.* HTTP/1.1\r\nHost: {host}\r\n{}\r\n", bearer(&host))
            .expect("it is sent");
        let mut seen = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line.expect("a line");
            if line.starts_with("HTTP/1.1 200") {
                listening.send(()).expect("somebody waits");
            }
            let Some(data) = line.strip_prefix("data:") else { continue };
            let event: Value = serde_json::from_str(data.trim()).unwrap_or_default();
            let last = event["type"] == "job.completed";
            seen.push(event);
            if last {
                break;
            }
        }
        seen
    });
    begun.recv().expect("events are listened to");
    let command = ["sh", "-c", "echo id=$ORLOP_CORRELATION_ID"];
    // The caller's own id of the request is the job's where the job has none.
    let id = submit(&scheduler, &[("X-Request-Id", "nightly-7")], &small(&command));
    let ended = job(&scheduler, &id);
    assert_eq!((&ended["state"], &ended["correlation_id"]), (&json!("Completed"), &json!("nightly-7")));
    let log = get(scheduler.rest.trim_start_matches("http://"), &format!("/api/v1/jobs/{id}/logs")).expect("a log");
    assert_eq!(log.trim(), "id=nightly-7");
    let events = events.join().expect("events came");
    let of_job: Vec<&Value> = events.iter().filter(|event| event["job"] == id.as_str()).collect();
    assert!(of_job.len() >= 4, "{events:#?}");
    assert!(of_job.iter().all(|event| event["correlation_id"] == "nightly-7"), "{of_job:#?}");
    // One that the specification names goes everywhere too, whatever the request is called.
    let mut own = small(&["true"]);
    own["correlation_id"] = json!("order-66");
    let second = submit(&scheduler, &[("X-Request-Id", "another")], &own);
    let ended = job(&scheduler, &second);
    assert_eq!(ended["correlation_id"], "order-66");
    let reported = until("lines of the log", || {
        let log = programs.log("s1");
        (log.contains("order-66") && log.matches("nightly-7").count() >= 3).then_some(log)
    });
    let lines = reported.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_jobs: Vec<Value> = lines.filter(|line| line["target"] == "orlop::jobs").collect();
    let complete = |line: &Value| {
        ["timestamp", "level", "message", "tenant", "job", "epoch", "correlation_id"]
            .iter()
            .all(|key| !line[*key].is_null())
    };
    assert!(!of_jobs.is_empty() && of_jobs.iter().all(complete), "{of_jobs:#?}");
    scheduler.process.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(scheduler.process.end(), Some(0));
    let store = rusqlite::Connection::open(programs.path("orlop-fleet.db")).expect("the store");
    let audited = |wanted: &str| -> i64 {
        let query = "SELECT count(*) FROM audit WHERE action = 'jobs.submit' AND request_id = ?1";
        store.query_row(query, [wanted], |row| row.get(0)).expect("an answer")
    };
    // A server that does not lead yet refuses, and that is told too.
    assert!(audited("nightly-7") >= 1);
    assert_eq!(audited("another"), 1);
    let query = "SELECT target FROM audit WHERE request_id = 'another'";
    let target: String = store.query_row(query, [], |row| row.get(0)).expect("an answer");
    assert!(target.ends_with(" correlation_id=order-66"), "{target}");
}

#[test]
fn the_command_line_hands_its_trace_on_to_a_server_of_one_process() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let collector = runtime.block_on(Receiver::start()).expect("a collector");
    let mut bench = super::bench::Bench::up(&["--memory-store", "--trace-endpoint", &collector.endpoint()]);
    let mut command = crate::role::program();
    command.env("ORLOP_SERVER", bench.address()).env("TRACEPARENT", format!("00-{TRACE}-{ABOVE}-01"));
    command.args(["submit", "--cpu", "10m", "--memory", "1Mi", "--wait", "--", "true"]);
    let gave = super::bench::Gave::of(command.output().expect("the program runs"));
    assert_eq!(gave.code, 0, "{gave:?}");
    bench.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(bench.end(), Some(0));
    let spans = by_name(&collector.spans(), TRACE);
    assert_eq!(spans.len(), 5, "{spans:#?}");
    assert!(spans.values().all(|span| span.service == "orlop" && span.error.is_empty()), "{spans:#?}");
    assert_eq!(spans["submit"].parent, ABOVE);
    let wrong = bench.orlop_at("http://127.0.0.1:1", &["up", "--memory-store", "--trace-endpoint", "collector"]);
    assert!(wrong.code == 2 && wrong.err.contains("--trace-endpoint"), "{wrong:?}");
}
