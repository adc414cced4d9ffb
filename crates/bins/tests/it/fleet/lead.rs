//! Two schedulers on one PostgreSQL: one leads, the other reads what is stored and refuses the rest, and takes over within 12 s when
//! the first is killed or stalls; what the first wrote down, logs and artifacts too, is all there, and it writes no more.

use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;
use orlop::core::spec::job::JobSpec;
use orlop::core::time::Time;
use orlop::wire::grpc::{Connector, Endpoint, JobClient};
use orlop::wire::job::Submission;
use orlop_core::error::Code;
use serde_json::json;

use super::programs::{Programs, Scheduler, until};

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

/// The flags with which the book starts each of two servers.
fn recipe(programs: &Programs, url: &str) -> Vec<String> {
    let book = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/high-availability.md"))
        .expect("the book");
    let line = book.lines().find_map(|line| line.strip_prefix("orlop scheduler --store-url ")).expect("its line");
    let (database, rest) = line.split_once(' ').expect("flags");
    assert_eq!(database, "\"$DATABASE\"");
    let path = |word: &str| match word.strip_prefix("--") {
        Some(_) => word.to_owned(),
        None => programs.path(word).display().to_string(),
    };
    std::iter::once(url.to_owned()).chain(rest.split(' ').map(path)).collect()
}

/// Two servers, the first of which leads, and a worker that knows both.
struct Pair {
    programs: Programs,
    first: Scheduler,
    second: Scheduler,
    _worker: super::programs::Running,
}

fn status(programs: &Programs, server: &str) -> String {
    let shown = programs.orlop(server, &["health", "-o", "json"]);
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
    /// Logs and artifacts are in the database, or in folders that both servers have.
    fn start(name: &str, folders: bool) -> Option<Self> {
        let [url, schema] = database(name)?;
        let programs = Programs::new();
        let of = |what: &str| format!("--store-{what}={}", programs.path(what).display());
        let mut args = recipe(&programs, &url);
        args.extend([schema, "--scheduler-reassign-after=120s".to_owned()]);
        if folders {
            args.extend([of("logs"), of("artifacts")]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let first = programs.scheduler("s1", &args);
        until("leadership", || (status(&programs, &first.rest) == "leading").then_some(()));
        let second = programs.scheduler("s2", &args);
        until("a standby", || (status(&programs, &second.rest) == "standby").then_some(()));
        let worker = programs.worker("w1", &[&first.grpc, &second.grpc], &[]);
        Some(Self { programs, first, second, _worker: worker })
    }

    /// Submits a job that leaves lines and an artifact; `middle` runs in between.
    fn leave(&self, server: &str, middle: &str) -> String {
        let script = format!("seq 20000; {middle}; seq 20001 40000; seq 3 >left");
        let args = ["submit", "--cpu", "10m", "--memory", "1Mi", "--out", "left", "--", "sh", "-c", &script];
        self.programs.good(server, &args).trim().to_owned()
    }

    /// That all of it is there.
    fn assert_left(&self, servers: &str, job: &str) {
        until("its end", || {
            let end = self.programs.orlop(servers, &["job", "get", job, "-o", "json"]);
            (end.code == 0 && end.json()["state"] == "Completed").then_some(())
        });
        let lines: Vec<String> = (1..=40_000).map(|line| line.to_string()).collect();
        let logs = self.programs.good(servers, &["logs", job]);
        assert!(logs.lines().eq(lines.iter().map(String::as_str)), "{} lines of {job}", logs.lines().count());
        let file = self.programs.path(&format!("left-{job}"));
        let file = file.to_str().expect("a path");
        self.programs.good(servers, &["artifacts", "get", job, "left", "--file", file]);
        assert_eq!(std::fs::read_to_string(file).expect("the artifact"), "1\n2\n3\n");
    }

    fn submit(&self, server: &str, key: &str, command: &[&str]) -> super::bench::Gave {
        let args = ["submit", "--cpu", "10m", "--memory", "1Mi", "--key", key, "--"];
        self.programs.orlop(server, &[&args, command].concat())
    }
}

#[test]
fn a_killed_leader_is_replaced_and_nothing_it_acknowledged_is_lost() {
    let Some(pair) = Pair::start("killed", false) else { return };
    let Pair { programs, first, second, .. } = &pair;
    let before = pair.leave(&first.rest, "true");
    pair.assert_left(&first.rest, &before);
    // Runs over the change of leaders.
    let long = pair.leave(&first.rest, "sleep 14") + "\n";
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
    ids.extend([taken.out, long.clone(), before.clone() + "\n"]);
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
    // The client asks the one that is gone first.
    pair.assert_left(&both, &before);
    pair.assert_left(&both, long["id"].as_str().expect("an id"));
}

#[test]
fn a_stalled_leader_is_replaced_and_its_writes_are_refused() {
    let Some(pair) = Pair::start("stalled", true) else { return };
    let Pair { programs, first, second, .. } = &pair;
    let runs = pair.leave(&first.rest, "sleep 5");
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
    assert_eq!(programs.good(&first.rest, &["jobs", "-o", "name"]).lines().count(), 3, "both read the same");
    until("the ends of all jobs", || {
        (programs.good(&first.rest, &["jobs", "--state", "Completed", "-o", "name"]).lines().count() == 3).then_some(())
    });
    assert!(programs.good(&first.rest, &["jobs", "-o", "name"]).contains(id.trim()));
    // The standby is asked first.
    pair.assert_left(&format!("{},{}", first.rest, second.rest), &runs);
    // In good order it gives leadership up at once.
    second.process.signal(Signal::SIGTERM);
    let began = Instant::now();
    until("leadership of the first", || (status(programs, &first.rest) == "leading").then_some(()));
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
    pair.assert_left(&first.rest, &runs);
}

#[test]
fn a_server_that_would_keep_logs_where_the_others_do_not_find_them_is_refused() {
    let Some([url, schema]) = database("places") else { return };
    let programs = Programs::new();
    let first = programs.leader("s1", &[&url, &schema]);
    for what in ["logs", "artifacts"] {
        let folder = format!("--store-{what}={}", programs.path("own").display());
        let second = programs.spawn_scheduler("s2", &[&url, &schema, &folder]);
        assert_eq!(second.end(), Some(1), "{}", programs.log("s2"));
        let said = programs.log("s2");
        assert!(said.contains(&format!("leave `store.{what}` out")), "{said}");
    }
    drop(first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_reads_and_says_who_leads() {
    let Some(pair) = tokio::task::block_in_place(|| Pair::start("standby", false)) else { return };
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
    // What only the leader sees as it is now is not answered from what was: a client asks the next of its servers.
    tokio::task::block_in_place(|| {
        until("a worker", || {
            let shown = programs.good(&first.rest, &["workers", "-o", "name"]);
            (shown == "w1\n").then_some(())
        });
        let both = format!("{},{}", second.rest, first.rest);
        let verbs: [&[&str]; 5] =
            [&["workers"], &["workers", "get", "w1"], &["top", "--once"], &["logs", id.trim()], &["quota", "usage"]];
        for verb in verbs {
            // To logs a server may come back: they are waited for.
            if verb[0] != "logs" {
                let refused = programs.orlop(&second.rest, verb);
                assert!(refused.code == 7 && refused.err.contains(&first.rest), "{verb:?}: {refused:?}");
            }
            assert_eq!(programs.orlop(&both, verb).code, 0, "{verb:?}");
        }
        assert!(programs.good(&both, &["top", "--once"]).contains("workers  1 "), "as it is now");
    });
    let endpoint: Endpoint = second.grpc.parse().expect("an address");
    let channel = Connector::plain(endpoint).expect("plain").connect().await.expect("it is there");
    let token = std::fs::read_to_string(pair.programs.client_token()).expect("the client token");
    let client = JobClient::new(channel, Some(token.trim())).expect("a client");
    let spec = JobSpec::from_json(&json!({ "runtime": "noop" })).expect("a job");
    let problem = client.submit(Submission { jobs: vec![spec], key: None }).await.expect_err("it does not lead");
    assert_eq!((problem.code, problem.details().leader.as_deref()), (Code::NotLeader, Some(first.grpc.as_str())));
}
