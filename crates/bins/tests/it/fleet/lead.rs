//! Two schedulers on one PostgreSQL: one leads, the other reads and refuses writes, and takes over within 12 s when the
//! first is killed or stalls; what the first wrote down is all there, and it writes no more.

use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;
use orlop::core::spec::job::JobSpec;
use orlop::core::time::Time;
use orlop::wire::grpc::{Connector, Endpoint, JobClient};
use orlop::wire::job::Submission;
use orlop::wire::problem::Code;
use serde_json::json;

use super::programs::{Programs, Scheduler, json as told, until};

/// Within so much of a leader's end another one leads.
const TAKEOVER: Duration = Duration::from_secs(12);

/// A schema of its own in the database for tests, if there is one.
pub(super) fn database(name: &str) -> Option<[String; 2]> {
    let url = std::env::var("ORLOP_TEST_POSTGRES").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        println!("skipped: no PostgreSQL in ORLOP_TEST_POSTGRES; scripts/with-postgres provides one");
    }
    Some([format!("--store-url={}", url?), format!("--store-schema=t{}_{name}", std::process::id())])
}

/// Two servers, the first of which leads, and a worker that knows both.
struct Pair {
    programs: Programs,
    first: Scheduler,
    second: Scheduler,
    _worker: super::programs::Running,
}

fn status(programs: &Programs, server: &str) -> String {
    let shown = programs.orlop(server, &["top", "-o", "json"]);
    if shown.code == 0 { shown.json()["status"].as_str().unwrap_or_default().to_owned() } else { String::new() }
}

/// That the second server led within the time of the contract, as it says itself: what this test needed to see it does not count.
fn assert_taken_over(programs: &Programs, ended: SystemTime) {
    let log = programs.log("s2");
    let line = log.lines().find(|line| line.contains("\"leads\"")).unwrap_or_else(|| panic!("it leads: {log}"));
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let led: Time = line["timestamp"].as_str().expect("a time").parse().expect("a time");
    let ended = ended.duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_millis();
    let took = led.since(Time::from_millis(i64::try_from(ended).expect("a time")));
    assert!(took < TAKEOVER, "it took {took:?}\n{log}");
}

impl Pair {
    fn start(name: &str) -> Option<Self> {
        let [url, schema] = database(name)?;
        let programs = Programs::new();
        let args = [url.as_str(), schema.as_str(), "--scheduler-reassign-after=120s"];
        let first = programs.scheduler("s1", &args);
        until("leadership", || (status(&programs, &first.rest) == "leading").then_some(()));
        let second = programs.scheduler("s2", &args);
        until("a standby", || (status(&programs, &second.rest) == "standby").then_some(()));
        let worker = programs.worker("w1", &[&first.grpc, &second.grpc], &[]);
        Some(Self { programs, first, second, _worker: worker })
    }

    fn submit(&self, server: &str, key: &str, command: &[&str]) -> super::bench::Gave {
        let args = ["submit", "--cpu", "10m", "--memory", "1Mi", "--key", key, "--"];
        self.programs.orlop(server, &[&args, command].concat())
    }
}

#[test]
fn s5_4_a_killed_leader_is_replaced_and_nothing_it_acknowledged_is_lost() {
    let Some(pair) = Pair::start("killed") else { return };
    let Pair { programs, first, second, .. } = &pair;
    // Runs over the change of leaders.
    let long = pair.submit(&first.rest, "long", &["sleep", "14"]).out;
    until("the long one to run", || {
        (!programs.good(&first.rest, &["jobs", "--state", "Running", "-o", "name"]).is_empty()).then_some(())
    });
    let mut ids: Vec<String> = (0..10).map(|n| pair.submit(&first.rest, &format!("a{n}"), &["true"]).out).collect();
    first.process.signal(Signal::SIGKILL);
    let killed = SystemTime::now();
    let both = format!("{},{}", first.rest, second.rest);
    let taken = until("a submit to the second server", || {
        Some(pair.submit(&both, "b", &["true"])).filter(|gave| gave.code == 0)
    });
    assert_taken_over(programs, killed);
    // The answer of the first server to a request is the second one's too.
    assert_eq!(pair.submit(&both, "a3", &["true"]).out, ids[3]);
    ids.extend([taken.out, long.clone()]);
    ids.sort();
    let ended = until("the ends of all jobs", || {
        let listed = programs.good(&second.rest, &["jobs", "--state", "Completed", "-o", "name"]);
        let mut ended: Vec<String> = listed.lines().map(|id| format!("{id}\n")).collect();
        ended.sort();
        (ended.len() == ids.len()).then_some(ended)
    });
    assert_eq!(ended, ids);
    let long = programs.orlop(&second.rest, &["job", "get", long.trim(), "-o", "json"]).json();
    assert_eq!(long["attempt"], 1, "what ran went on: {long}\n{}", programs.log("w1"));
}

#[test]
fn s5_4_a_stalled_leader_is_replaced_and_its_writes_are_refused() {
    let Some(pair) = Pair::start("stalled") else { return };
    let Pair { programs, first, second, .. } = &pair;
    let id = pair.submit(&first.rest, "a", &["true"]).out;
    first.process.signal(Signal::SIGSTOP);
    let stopped = SystemTime::now();
    until("leadership of the second", || (status(programs, &second.rest) == "leading").then_some(()));
    assert_taken_over(programs, stopped);
    first.process.signal(Signal::SIGCONT);
    let refused = pair.submit(&first.rest, "b", &["true"]);
    assert_eq!(refused.code, 7, "{refused:?}");
    until("the first to stand by", || (status(programs, &first.rest) == "standby").then_some(()));
    assert_eq!(pair.submit(&second.rest, "c", &["true"]).code, 0);
    assert_eq!(programs.good(&first.rest, &["jobs", "-o", "name"]).lines().count(), 2, "both read the same");
    until("the ends of all jobs", || {
        (programs.good(&first.rest, &["jobs", "--state", "Completed", "-o", "name"]).lines().count() == 2).then_some(())
    });
    assert!(programs.good(&first.rest, &["jobs", "-o", "name"]).contains(id.trim()));
    // In good order it gives leadership up at once.
    second.process.signal(Signal::SIGTERM);
    let began = Instant::now();
    until("leadership of the first", || (status(programs, &first.rest) == "leading").then_some(()));
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s5_4_a_standby_reads_and_says_who_leads() {
    let Some(pair) = tokio::task::block_in_place(|| Pair::start("standby")) else { return };
    let Pair { programs, first, second, .. } = &pair;
    let id = pair.submit(&first.rest, "a", &["true"]).out;
    let (read, refused) = tokio::task::block_in_place(|| {
        (
            programs.good(&second.rest, &["job", "get", id.trim(), "-o", "name"]),
            pair.submit(&second.rest, "b", &["true"]),
        )
    });
    assert_eq!(read, id);
    assert!(refused.code == 7 && refused.err.contains(&first.rest), "{refused:?}");
    // Workers, and what a tenant has stored, are read there too; what attempts hold only who leads knows.
    let worker = |server: &str| told(server, "/workers")?["items"][0]["id"].as_str().map(str::to_owned);
    let id = until("a worker of who leads", || worker(&first.rest));
    assert_eq!(until("a worker of the standby", || worker(&second.rest)), id);
    assert_eq!(told(&second.rest, &format!("/workers/{id}")).expect("a worker")["id"], id.as_str());
    let usage = told(&second.rest, "/tenants/default/usage").expect("its usage");
    assert!(usage["active"].is_u64() && usage.get("cpu_m").is_none(), "{usage}");
    let endpoint: Endpoint = second.grpc.parse().expect("an address");
    let channel = Connector::plain(endpoint).expect("plain").connect().await.expect("it is there");
    let token = std::fs::read_to_string(pair.programs.client_token()).expect("the client token");
    let client = JobClient::new(channel, Some(token.trim())).expect("a client");
    let spec = JobSpec::from_json(&json!({ "runtime": "noop" })).expect("a job");
    let problem = client.submit(Submission { jobs: vec![spec], key: None }).await.expect_err("it does not lead");
    assert_eq!((problem.code, problem.leader.as_deref()), (Code::NotLeader, Some(first.grpc.as_str())));
}
