//! `orlop-scheduler` with its events on NATS: the bus is away, comes, and goes again; scheduling does not wait for it, and
//! every event arrives once, in order.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use orlop::cloud::bus::nats::{NatsBus, NatsOptions};
use orlop::core::ports::bus::{Delivery, EventBus as _, SubjectFilter};
use serde_json::Value;

use super::programs::{Programs, Running, get, until};

/// A port that nobody has at this moment.
pub(super) fn free() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    socket.local_addr().expect("its address").port()
}

/// A NATS server on these ports, if the program is there.
pub(super) fn nats(programs: &Programs, port: u16, monitor: u16) -> Option<Running> {
    let mut command = Command::new("nats-server");
    command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "--http_port", &monitor.to_string()]);
    command.arg("--jetstream").arg("--store_dir").arg(programs.path("nats"));
    match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => Some(Running::of(child)),
        Err(error) => {
            println!("skipped: nats-server cannot be started: {error}");
            None
        }
    }
}

/// Messages in the streams of a NATS server.
fn stored(monitor: u16) -> Option<u64> {
    let text = get(&format!("127.0.0.1:{monitor}"), "/jsz")?;
    serde_json::from_str::<Value>(&text).ok()?["messages"].as_u64()
}

/// A metric without labels.
fn metric(rest: &str, name: &str) -> Option<f64> {
    let text = get(rest.trim_start_matches("http://"), "/metrics")?;
    text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).and_then(|value| value.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_wait_for_a_bus_that_is_down_and_arrive_once_and_in_order() {
    let programs = Programs::new();
    let (port, monitor) = (free(), free());
    let url = format!("nats://127.0.0.1:{port}");
    let Some(probe) = nats(&programs, port, monitor) else { return };
    drop(probe);
    let scheduler = programs.leader("s1", &["--bus-url", &url]);
    let worker = programs.worker("w1", &[&scheduler.grpc], &[]);
    let job = ["submit", "--cpu", "10m", "--memory", "1Mi", "--array", "0-19", "--wait", "--", "true"];
    let done = programs.orlop(&scheduler.rest, &job);
    assert_eq!(done.code, 0, "nothing waits for the bus: {done:?}");
    until("events in the outbox", || metric(&scheduler.rest, "orlop_outbox_pending").filter(|count| *count >= 20.0));
    assert!(programs.log("s1").contains("events wait for the event bus"), "{}", programs.log("s1"));

    let bus = nats(&programs, port, monitor).expect("it was there before");
    let drained = || (metric(&scheduler.rest, "orlop_outbox_pending") == Some(0.0)).then_some(());
    until("an empty outbox", drained);
    let published = metric(&scheduler.rest, "orlop_events_published_total").expect("a count");
    assert_eq!(stored(monitor), Some(published as u64), "each is there once");

    let listening = NatsBus::open(NatsOptions::new(&url, "orlop")).await.expect("the bus is there");
    let mut heard =
        listening.subscribe(SubjectFilter::new("orlop.events.job.>").expect("a filter")).await.expect("it is heard");
    let gave = programs.orlop(&scheduler.rest, &["submit", "--cpu", "10m", "--memory", "1Mi", "--wait", "--", "true"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let mut verbs = Vec::new();
    while verbs.last().is_none_or(|verb| verb != "completed") {
        let next = tokio::time::timeout(super::bench::PATIENCE, heard.next()).await.expect("an event");
        let Some(Delivery::Event(event)) = next else { panic!("{next:?}") };
        if event.body.contains(gave.out.trim()) {
            verbs.push(event.subject.rsplit('.').next().expect("a verb").to_owned());
        }
    }
    // A result implies that the job started: where both come in one frame nothing is said of the start.
    verbs.retain(|verb| verb != "started");
    assert_eq!(verbs, ["created", "queued", "assigned", "completed"]);

    // It goes again, and comes back with what it had.
    drop(bus);
    assert_eq!(programs.orlop(&scheduler.rest, &job).code, 0);
    until("events in the outbox", || metric(&scheduler.rest, "orlop_outbox_pending").filter(|count| *count >= 20.0));
    let _bus = nats(&programs, port, monitor).expect("it was there before");
    until("an empty outbox", drained);
    let published = metric(&scheduler.rest, "orlop_events_published_total").expect("a count");
    until("all of them", || stored(monitor).filter(|count| *count as f64 >= published));
    drop(worker);
}

#[test]
fn what_has_ended_long_ago_is_deleted_by_the_program() {
    let programs = Programs::new();
    let args = ["--retain-jobs=1s", "--retain-every=200ms", "--retain-batch=3"];
    let scheduler = programs.leader("s1", &args);
    let _worker = programs.worker("w1", &[&scheduler.grpc], &[]);
    for _ in 0..8 {
        programs.good(&scheduler.rest, &["submit", "--cpu", "10m", "--memory", "1Mi", "--wait", "--", "true"]);
    }
    let waits = programs.good(&scheduler.rest, &["submit", "--cpu", "100000", "--", "true"]);
    until("the end of old jobs", || {
        let listed = programs.good(&scheduler.rest, &["jobs", "-o", "name"]);
        (listed == waits).then_some(())
    });
}
