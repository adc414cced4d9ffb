//! What somebody who may do nothing can do to the doors of a server: silence, half a greeting, half a message. Others are served
//! meanwhile, and the server stays small.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt as _;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tonic::transport::Channel;
use tower::Service as _;

use super::programs::{Programs, Scheduler, until};

/// More than a door has room for.
const MANY: usize = 8192 + 200;

/// Room for so many connections in this process; none where the system gives less.
fn room(test: &str) -> Option<()> {
    let wanted = 2 * MANY as u64 + 1000;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    if soft < wanted && (hard < wanted || setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_err()) {
        println!("skipped: {test}: {wanted} open files are not allowed here");
        return None;
    }
    Some(())
}

fn address(url: &str) -> SocketAddr {
    url.trim_start_matches("http://").parse().expect("an address")
}

/// Bytes of memory that a program holds.
fn memory(scheduler: &Scheduler) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", scheduler.process.pid())).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// How long a request takes that anybody may make.
fn served(rest: &str) -> Duration {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address(rest)).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is set");
    stream
        .write_all(b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    began.elapsed()
}

#[test]
fn silent_connections_shut_no_door() {
    let Some(()) = room("silent_connections_shut_no_door") else { return };
    let programs = Programs::new();
    let scheduler = programs.leader("s1", &[]);
    let before = memory(&scheduler);
    let doors = [address(&scheduler.rest), address(&scheduler.grpc)];
    let mut silent = Vec::new();
    for number in 0..MANY {
        for door in doors {
            let mut stream = TcpStream::connect(door).expect("a connection");
            // Some say nothing, some begin the greeting of HTTP/2.
            if number % 2 == 0 {
                // One that had to go already is fine.
                drop(stream.write_all(b"P"));
            }
            silent.push(stream);
        }
    }
    let took = served(&scheduler.rest);
    assert!(took < Duration::from_secs(1), "a request took {took:?}");
    let began = Instant::now();
    let _worker = programs.worker("w1", &[&scheduler.grpc], &[]);
    let done = programs.orlop(&scheduler.rest, &["submit", "--cpu", "10m", "--memory", "1Mi", "--wait", "--", "true"]);
    assert!(done.code == 0 && began.elapsed() < Duration::from_secs(20), "{done:?} {:?}", began.elapsed());
    let more = memory(&scheduler).saturating_sub(before);
    println!("{} silent connections take {} MiB; a request meanwhile {took:?}", silent.len(), more >> 20);
    assert!(more < 256 << 20, "{} MiB more", more >> 20);
    // They end by themselves: whoever says nothing has ten seconds for it.
    let last = silent.last_mut().expect("a connection");
    last.set_read_timeout(Some(Duration::from_secs(30))).expect("it is set");
    let ended = last.read_to_end(&mut Vec::new());
    assert!(!ended.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "{ended:?}");
}

/// A message of 4 MiB less one byte, of which nothing but the end is missing.
fn endless() -> tonic::body::Body {
    let start = [&[0_u8][..], &((4_u32 << 20) - 1).to_be_bytes()].concat();
    let pieces = std::iter::once(start).chain(std::iter::repeat_n(vec![0; 64 << 10], 63));
    let pieces = futures::stream::iter(pieces.map(|piece| Ok::<_, tonic::Status>(Bytes::from(piece))));
    tonic::body::Body::new(axum::body::Body::from_stream(pieces.chain(futures::stream::pending())))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_messages_of_strangers_take_no_memory() {
    let programs = Programs::new();
    let scheduler = programs.leader("s1", &[]);
    let before = memory(&scheduler);
    let mut calls = Vec::new();
    for _ in 0..4 {
        let channel =
            Channel::from_shared(scheduler.grpc.clone()).expect("an address").connect().await.expect("it connects");
        for _ in 0..300 {
            let mut channel = channel.clone();
            calls.push(tokio::spawn(async move {
                let request = axum::http::Request::post("/orlop.v1.WorkerService/RegisterWorker")
                    .header("content-type", "application/grpc")
                    .header("te", "trailers")
                    .header("grpc-timeout", "290S");
                std::future::poll_fn(|context| channel.poll_ready(context)).await.expect("it is there");
                let answer = channel.call(request.body(endless()).expect("a request")).await;
                answer.ok().and_then(|answer| Some(answer.headers().get("grpc-status")?.to_str().ok()?.to_owned()))
            }));
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let took = served(&scheduler.rest);
    let more = memory(&scheduler).saturating_sub(before);
    println!("{} half messages take {} MiB; a request meanwhile {took:?}", calls.len(), more >> 20);
    assert!(took < Duration::from_secs(1) && more < 256 << 20, "{took:?}, {} MiB more", more >> 20);
    let began = Instant::now();
    for call in futures::future::join_all(calls).await {
        let code = call.expect("it ends");
        assert!(matches!(code.as_deref(), Some("8" | "16")), "too many, or not known: {code:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "whoever is not known is not believed how long it will wait");
    let _worker = programs.worker("w1", &[&scheduler.grpc], &[]);
    until("the worker", || programs.good(&scheduler.rest, &["workers"]).contains("w1").then_some(()));
}

/// Sends requests at once, and gives their statuses, the slowest request that anybody could make meanwhile, and how much more memory
/// the server held at most.
fn attacked(scheduler: &Scheduler, path: &str, bodies: &[String]) -> (Vec<u16>, Duration, u64) {
    let before = memory(scheduler);
    std::thread::scope(|threads| {
        let sending: Vec<_> = bodies
            .iter()
            .map(|body| threads.spawn(move || super::programs::ask(&scheduler.rest, "POST", path, "", body)))
            .collect();
        let (mut slowest, mut most) = (Duration::ZERO, 0);
        while sending.iter().any(|sending| !sending.is_finished()) {
            slowest = slowest.max(served(&scheduler.rest));
            most = most.max(memory(scheduler).saturating_sub(before));
            std::thread::sleep(Duration::from_millis(5));
        }
        let statuses =
            sending.into_iter().map(|sending| sending.join().expect("it ends").map_or(0, |(status, _)| status));
        (statuses.collect(), slowest, most)
    })
}

#[test]
fn a_few_lines_of_aliases_are_no_more_work_than_they_are_long() {
    let programs = Programs::new();
    let scheduler = programs.leader("s1", &[]);
    let list = |name: &str, of: &str| format!("&{name} [{}]", [of; 10].join(", "));
    let mut text = "apiVersion: workflow.kube-zen.io/v1alpha1\nkind: JobFlow\nmetadata: {name: a}\nspec:\n  steps:\n  - name: s\n    \
                    template: {apiVersion: batch/v1, kind: Job, spec: {x: {"
        .to_owned();
    for (number, name) in ["a", "b", "c", "d", "e", "f"].iter().enumerate() {
        let before = if number == 0 { "x".to_owned() } else { format!("*{}", ["a", "b", "c", "d", "e"][number - 1]) };
        text.push_str(&format!("a{number}: {}, ", list(name, &before)));
    }
    text.push_str("}, template: {}}}\n");
    let body = serde_json::json!({ "definition": text }).to_string();
    assert!(body.len() < 1000, "{}", body.len());
    let (statuses, slowest, more) = attacked(&scheduler, "/pipelines", &vec![body; 24]);
    println!("24 texts of aliases: {slowest:?} for a request meanwhile, {} MiB more", more >> 20);
    assert!(statuses.iter().all(|status| *status == 400), "{statuses:?}");
    assert!(slowest < Duration::from_secs(1) && more < 256 << 20, "{slowest:?}, {} MiB more", more >> 20);
}

#[test]
fn long_lists_of_nothing_take_little_memory_together() {
    let programs = Programs::new();
    let scheduler = programs.leader("s1", &[]);
    // Fifteen megabytes of empty lists, of small objects, and as many jobs as one request may have.
    let many = |one: &str, count: usize| format!("{{\"jobs\":[{}]}}", vec![one; count].join(","));
    let bodies = [many("[]", 5_000_000), many("{\"a\":1}", 1_900_000), many("{\"a\":[[[]]]}", 55_000)];
    let bodies: Vec<String> = bodies.iter().cycle().take(12).cloned().collect();
    let (statuses, slowest, more) = attacked(&scheduler, "/jobs", &bodies);
    println!("12 long lists: {slowest:?} for a request meanwhile, {} MiB more", more >> 20);
    assert!(statuses.iter().all(|status| *status == 413), "{statuses:?}");
    assert!(slowest < Duration::from_secs(1) && more < 256 << 20, "{slowest:?}, {} MiB more", more >> 20);
}
