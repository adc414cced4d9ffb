//! The server, the one of two that leads, or an agent, is killed at full load, many times: no submit or result that was acknowledged is missing, none is
//! accepted twice; with the books in SQLite and events in the program, and with PostgreSQL and NATS. Owns the load and the
//! reckoning. By default it is once, at a moment that a seed chooses, and a hundred times in a long run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::super::programs::{Programs, Running, Scheduler, ask, json as read, until};

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Server,
    /// Of two servers that share their books.
    Leader,
    Agent,
}

/// Lines of the log of a job that leaves one.
const LINES: u32 = 2000;

/// What the server keeps its books in and tells of jobs, and what must stand there in the end.
pub(super) trait Books {
    /// Flags of the server.
    fn args(&self) -> Vec<String>;

    /// It leads, and nothing has been submitted yet.
    fn begin(&mut self) {}

    /// All jobs have ended, and the server is still there.
    fn reckon_while_it_runs(&self, _rest: &str, _done: &Done<'_>) {}

    /// The server has ended.
    fn reckon(self, programs: &Programs, done: &Done<'_>);
}

/// What was to be done, and what was.
pub(super) struct Done<'a> {
    pub(super) victim: Victim,
    /// Ids of all jobs whose submit was acknowledged.
    pub(super) acknowledged: &'a BTreeSet<String>,
    /// What the jobs wrote.
    ran: &'a str,
}

/// SQLite, and events that stay in the program.
struct Embedded;

impl Books for Embedded {
    fn args(&self) -> Vec<String> {
        Vec::new()
    }

    fn reckon(self, programs: &Programs, done: &Done<'_>) {
        reckon(programs, done);
    }
}

/// How often it is killed where nobody says, and in a long run.
const FEW: usize = 1;
const MANY: usize = 100;
/// Jobs in one submit.
const BATCH: usize = 25;
/// So many jobs wait at most: the load is full, and the test ends.
const WAITING: u64 = 600;

/// What the server that leads counts, if one does.
fn stats(servers: &[String]) -> Option<Value> {
    servers.iter().filter_map(|server| read(server, "/stats")).find(|stats| stats["status"] == "leading")
}

/// Submits under keys of its own, each until it is acknowledged, until told to stop. Gives the ids by key.
fn submit(servers: &[String], who: &str, job: &Value, stop: &AtomicBool) -> BTreeMap<String, Vec<String>> {
    let body = json!({ "jobs": vec![job; BATCH] }).to_string();
    let mut acknowledged = BTreeMap::new();
    while !stop.load(Ordering::SeqCst) {
        if stats(servers).is_none_or(|stats| stats["jobs"].as_u64().is_none_or(|jobs| jobs > WAITING)) {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        let key = format!("{who}-{}", acknowledged.len());
        let ids = until("an acknowledgement", || again(servers, &key, &body));
        acknowledged.insert(key, ids);
    }
    acknowledged
}

/// Tells others to stop when it goes, also where something fails: a scope waits for its threads even then.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One try of a submit, wherever it is taken.
fn again(servers: &[String], key: &str, body: &str) -> Option<Vec<String>> {
    servers.iter().find_map(|server| again_to(server, key, body))
}

fn again_to(server: &str, key: &str, body: &str) -> Option<Vec<String>> {
    let (status, answer) = ask(server, "POST", "/jobs", &format!("Idempotency-Key: {key}\r\n"), body)?;
    if status != 202 {
        assert!(matches!(status, 503 | 429 | 409), "{status}: {answer}");
        return None;
    }
    let answer: Value = serde_json::from_str(&answer).ok()?;
    let ids = answer["ids"].as_array().expect("ids").iter().map(|id| id.as_str().expect("an id").to_owned());
    Some(ids.collect())
}

/// Numbers that look random and are the same in every run.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// What the store says of all jobs, and what the jobs wrote: each ended well, once.
fn reckon(programs: &Programs, done: &Done<'_>) {
    let store = rusqlite::Connection::open(programs.path("orlop-fleet.db")).expect("the store is there");
    let number = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).expect("an answer");
    let jobs = number("SELECT count(*) FROM jobs");
    assert_eq!(jobs, done.acknowledged.len() as i64, "one job for each that was acknowledged");
    assert_eq!(number("SELECT count(*) FROM jobs WHERE state = 'Completed'"), jobs);
    let finals = "SELECT count(*) FROM jobs WHERE 1 = \
                  (SELECT count(*) FROM attempts WHERE job_id = jobs.id AND final = 1 AND state = 'Succeeded')";
    assert_eq!(number(finals), jobs, "each has one result that counts");
    let live = "SELECT count(*) FROM attempts WHERE state IN ('Assigned', 'Accepted', 'Running', 'Suspect')";
    assert_eq!(number(live), 0, "nothing is left over");
    count_runs(done);
}

/// The same as the server tells it, whatever it keeps its books in.
#[cfg(all(feature = "postgres", feature = "nats"))]
pub(super) fn reckon_by_asking(rest: &str, done: &Done<'_>) {
    let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page = until("a page of jobs", || read(rest, &format!("/jobs?limit=1000{cursor}")));
        for job in page["items"].as_array().expect("jobs") {
            assert_eq!(job["state"], "Completed", "{job}");
            seen.insert(job["id"].as_str().expect("an id").to_owned());
        }
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, *done.acknowledged, "one job for each that was acknowledged");
    for id in &seen {
        let attempts = until("its attempts", || read(rest, &format!("/jobs/{id}/attempts")));
        let attempts = attempts["items"].as_array().expect("attempts");
        let finals = attempts.iter().filter(|attempt| attempt["final"] == true);
        let states: Vec<&Value> = finals.map(|attempt| &attempt["state"]).collect();
        assert_eq!(states, ["Succeeded"], "{attempts:?}");
        assert!(attempts.iter().all(|attempt| attempt["finished_at"].is_string()), "nothing is left: {attempts:?}");
    }
    if done.victim == Victim::Leader {
        check_left(rest, &seen);
    }
    count_runs(done);
}

/// That the log and the artifact of every job that leaves some are whole, whichever server kept them.
#[cfg(all(feature = "postgres", feature = "nats"))]
fn check_left(rest: &str, jobs: &BTreeSet<String>) {
    let get = |path: &str| until(path, || ask(rest, "GET", path, "", "").filter(|(status, _)| *status == 200)).1;
    let streamed = |path: &str| unchunked(&get(path));
    let mut left = 0;
    for id in jobs {
        let log = streamed(&format!("/jobs/{id}/logs"));
        if log.is_empty() {
            continue;
        }
        left += 1;
        let lines: Vec<String> = (1..=LINES).map(|line| line.to_string()).collect();
        assert!(log.lines().eq(lines.iter().map(String::as_str)), "{} lines of {id}", log.lines().count());
        let artifacts = read(rest, &format!("/jobs/{id}/artifacts")).expect("its artifacts");
        let sha256 = artifacts["items"][0]["sha256"].as_str().unwrap_or_else(|| panic!("{id} left one: {artifacts}"));
        assert_eq!(get(&format!("/artifacts/{sha256}")).trim(), id);
    }
    assert_eq!(left * 2, jobs.len(), "each that works has a log");
}

/// A body that comes in chunks, whole.
#[cfg(all(feature = "postgres", feature = "nats"))]
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("the length of a chunk");
        whole.push_str(&rest[..length]);
        body = rest[length..].strip_prefix("\r\n").expect("the end of a chunk");
    }
    whole
}

/// What the jobs wrote.
fn count_runs(done: &Done<'_>) {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    done.ran.lines().for_each(|line| *times.entry(line).or_default() += 1);
    // What an agent had begun and nobody kept runs again; its first result never counts.
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1 && done.victim != Victim::Agent).collect();
    assert_eq!(twice, [], "nothing ran twice: the workers were there all the time");
    // Every result that was accepted is of work that was done: the other half of the jobs do nothing.
    assert_eq!(times.len() * 2, done.acknowledged.len(), "{} ran", times.len());
}

#[test]
fn a_server_that_is_killed_at_full_load_loses_nothing_and_counts_nothing_twice() {
    killed_at_full_load(Victim::Server, Embedded);
}

#[test]
fn an_agent_that_is_killed_at_full_load_loses_nothing_and_counts_nothing_twice() {
    killed_at_full_load(Victim::Agent, Embedded);
}

/// How often, and the seed of the moments.
fn kills() -> (usize, u64) {
    let sample = orlop_core::sample!(MANY, FEW);
    (sample.count(), sample.seed())
}

/// Waits until nothing is left to do, as the books have it: counts of jobs may be a moment older than the last submit. After
/// many kills a worker waits for up to a minute before it asks again.
fn all_end(servers: &[String]) {
    let path = "/jobs?limit=1&state=pending,queued,assigned,running,backoff,cancelling";
    let none = |server: &String| read(server, path).is_some_and(|page| page["items"] == json!([]));
    let ended = Instant::now();
    while !servers.iter().any(none) {
        assert!(ended.elapsed() < Duration::from_secs(180), "the ends of all jobs do not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The programs of a test, as they run now.
struct Fleet<'a> {
    programs: &'a Programs,
    args: Vec<&'a str>,
    servers: Vec<Scheduler>,
    workers: Vec<Running>,
}

const SERVERS: [&str; 2] = ["s1", "s2"];
const WORKERS: [&str; 2] = ["w1", "w2"];

impl<'a> Fleet<'a> {
    fn start(programs: &'a Programs, more: &'a [String], victim: Victim) -> Self {
        // Nothing is given up for lost meanwhile: whatever runs twice would be a mistake.
        let mut args = vec!["--scheduler-reassign-after=120s", "--log-level=warn"];
        args.extend(more.iter().map(String::as_str));
        let mut servers = vec![programs.leader(SERVERS[0], &args)];
        if victim == Victim::Leader {
            servers.push(programs.scheduler(SERVERS[1], &args));
        }
        let mut fleet = Self { programs, args, servers, workers: Vec::new() };
        fleet.workers = WORKERS.into_iter().map(|name| fleet.worker(name)).collect();
        fleet
    }

    fn worker(&self, name: &str) -> Running {
        let servers: Vec<&str> = self.servers.iter().map(|server| server.grpc.as_str()).collect();
        let offer = ["--cpu-m", "2000", "--max-jobs", "16", "--memory-bytes", "4000000000", "--reconnect-seconds", "2"];
        self.programs.worker(name, &servers, &offer)
    }

    fn rests(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.rest.clone()).collect()
    }

    /// Which of the servers leads, once one does.
    fn leader(&self) -> usize {
        until("a server that leads", || self.servers.iter().position(Scheduler::leads))
    }

    /// Kills one, and starts it again.
    fn strike(&mut self, victim: Victim, seed: &mut u64) {
        match victim {
            Victim::Server => {
                self.servers[0].process.kill();
                self.servers[0] = self.programs.scheduler_again(SERVERS[0], &self.servers[0], &self.args);
            }
            Victim::Leader => {
                let at = self.leader();
                self.servers[at].process.kill();
                self.servers[at] = self.programs.scheduler_back(SERVERS[at], &self.servers[at], &self.args);
                self.leader();
            }
            Victim::Agent => {
                let which = usize::try_from(random(seed)).expect("a number") % WORKERS.len();
                self.workers[which].kill();
                self.workers[which] = self.worker(WORKERS[which]);
            }
        }
    }

    fn end_workers(&mut self) {
        for worker in &self.workers {
            worker.signal(Signal::SIGTERM);
        }
        for worker in self.workers.drain(..) {
            assert_eq!(worker.end(), Some(0));
        }
    }

    fn end(self) {
        for (server, name) in self.servers.into_iter().zip(SERVERS) {
            server.process.signal(Signal::SIGTERM);
            assert_eq!(server.process.end(), Some(0), "{}", self.programs.log(name));
        }
    }
}

/// Kills somebody a few times, or as often as is asked for.
pub(super) fn killed_at_full_load(victim: Victim, mut books: impl Books) {
    let ((kills, mut seed), programs, more) = (kills(), Programs::new(), books.args());
    let mut fleet = Fleet::start(&programs, &more, victim);
    books.begin();
    let ran = programs.path("ran");
    let small = json!({ "cpu_m": 1, "memory_bytes": 1 << 20 });
    let script = format!("echo $ORLOP_JOB_ID >> {}", ran.display());
    let mut works = json!({ "runtime": "process", "command": ["sh", "-c", script], "resources": small });
    if victim == Victim::Leader {
        // More than comes with a result.
        works["command"][2] = format!("seq {LINES}; echo $ORLOP_JOB_ID | tee left >> {}", ran.display()).into();
        works["artifacts_out"] = json!([{ "name": "left", "path": "left", "required": true }]);
    }
    let nothing = json!({ "runtime": "noop", "resources": small });
    let (rests, stop) = (fleet.rests(), AtomicBool::new(false));
    let began = Instant::now();
    let acknowledged = std::thread::scope(|threads| {
        let guard = Stop(&stop);
        let one = threads.spawn(|| submit(&rests, "works", &works, &stop));
        let two = threads.spawn(|| submit(&rests, "nothing", &nothing, &stop));
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(30 + random(&mut seed) % 700));
            fleet.strike(victim, &mut seed);
        }
        drop(guard);
        let mut all = one.join().expect("it submits");
        let two = two.join().expect("it submits");
        // As many of one kind as of the other, so that they can be told by their number.
        let most = all.len().max(two.len());
        all.extend(two);
        for (who, job) in [("works", &works), ("nothing", &nothing)] {
            let body = json!({ "jobs": vec![job; BATCH] }).to_string();
            for number in 0..most {
                let key = format!("{who}-{number}");
                let ids = until("an acknowledgement", || again(&rests, &key, &body));
                let known = all.entry(key).or_insert_with(|| ids.clone());
                assert_eq!(*known, ids, "the answer to a key is the same for ever");
            }
        }
        all
    });
    all_end(&rests);
    let ids: BTreeSet<String> = acknowledged.values().flatten().cloned().collect();
    println!("{kills} kills of the {victim:?}, {} jobs, {:.0?}", ids.len(), began.elapsed());
    fleet.end_workers();
    let ran = std::fs::read_to_string(ran).expect("the jobs ran");
    let done = Done { victim, acknowledged: &ids, ran: &ran };
    books.reckon_while_it_runs(&rests[fleet.leader()], &done);
    fleet.end();
    books.reckon(&programs, &done);
}
