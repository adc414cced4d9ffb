//! The interface against its own document: requests made from the shapes of the document, good and spoiled, by every role.
//! None is answered by a fault of the server, every answer has the form that the document gives it, and every good answer
//! that it promises is reached. A seed makes the same requests again; `ORLOP_FUZZ_SEED` and `ORLOP_TEST_LONG` choose more.

mod check;
mod dice;
mod operation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_core::id::SessionId;
use orlop_scheduler::event::Capabilities;
use orlop_scheduler::job::Runtime;

use self::dice::Dice;
use self::operation::{Document, Operation};
use super::fixture::{Answer, Ask, Fixture};
use crate::host::scheduler::Registration;

/// Good answers that these requests do not reach, and who does.
const ELSEWHERE: &[(&str, u16, &str)] = &[
    ("flows.confirmGone", 202, "an attempt is overdue, by the time of the test, in tests of the host of a flow"),
    ("live.topics", 204, "there is a stream in tests of live views"),
    ("session.begin", 201, "a link is followed in tests of sessions"),
    ("session.end", 204, "there is one in tests of sessions"),
    ("uploads.add", 204, "pieces fit their offsets in tests of artifacts"),
    ("uploads.finish", 201, "contents fit their sums in tests of artifacts"),
    ("artifacts.get", 200, "there is one in tests of artifacts"),
    ("artifacts.get", 206, "there is one in tests of artifacts"),
    ("join_tokens.create", 201, "there is an authority in tests of TLS"),
    ("join_tokens.revoke", 204, "there is one in tests of TLS"),
    ("workers.drain", 202, "a worker is connected in tests of the programs"),
    ("workers.undrain", 202, "a worker is connected in tests of the programs"),
    ("workers.cordon", 202, "a worker is connected in tests of the programs"),
    ("workers.uncordon", 202, "a worker is connected in tests of the programs"),
    ("workers.remove", 202, "a worker is connected in tests of the programs"),
];
/// Roles in order of what they may.
const ROLES: [&str; 4] = ["viewer", "submitter", "operator", "admin"];

/// Who asks.
#[derive(Debug)]
struct Callers {
    /// Role, whether all tenants are theirs, and token.
    all: Vec<(&'static str, bool, String)>,
}

impl Callers {
    async fn new(fixture: &Fixture) -> Self {
        let admin = fixture.token(None, "admin", &["*"]).await;
        let mut all = vec![("admin", true, admin.clone())];
        for role in ROLES {
            all.push((role, false, fixture.token(Some(&admin), role, &["default"]).await));
            all.push((role, true, fixture.token(Some(&admin), role, &["*"]).await));
        }
        Self { all }
    }
}

/// What can be asked about.
#[derive(Debug, Default)]
struct KnownIds {
    /// Ids by the first word of the operations that are about them.
    ids: BTreeMap<String, Vec<String>>,
}

impl KnownIds {
    fn part(&self, dice: &mut Dice, operation: &Operation, name: &str) -> String {
        let kind = operation.name.split('.').next().unwrap_or_default();
        let ids = self.ids.get(kind).filter(|ids| !ids.is_empty() && !dice.once_in(5));
        match (ids, name) {
            (_, "step") if !dice.once_in(5) => "gate".to_owned(),
            (Some(ids), _) => ids[dice.below(ids.len())].clone(),
            (None, _) => match dice.below(3) {
                0 => escaped(&dice.text()),
                1 => "0".repeat(64),
                _ => "j0000000000001".to_owned(),
            },
        }
    }

    /// Remembers what an answer made.
    fn learn(&mut self, operation: &Operation, answer: &Answer) {
        let kind = match operation.name.as_str() {
            "pipelines.run" => "flows",
            name => name.split('.').next().unwrap_or_default(),
        };
        let body = answer.body();
        for field in ["id", "name"] {
            let made = body[field].as_str().filter(|_| answer.status == 201 || answer.status == 202);
            let named_by = if matches!(kind, "tenants" | "secrets") { "name" } else { "id" };
            let ids = self.ids.entry(kind.to_owned()).or_default();
            if let Some(id) = made.filter(|_| field == named_by)
                && ids.len() < 40
            {
                ids.push(id.to_owned());
            }
        }
    }
}

/// A text as a part of a path or query.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn query(dice: &mut Dice, operation: &Operation) -> String {
    let mut pairs = Vec::new();
    for name in &operation.query {
        if !dice.once_in(4) {
            continue;
        }
        let value = match (name.as_str(), dice.once_in(3)) {
            // Nobody waits here.
            ("wait", _) => "1ms".to_owned(),
            ("follow", _) => "false".to_owned(),
            ("limit", false) => "2".to_owned(),
            ("since" | "not_before", false) => "2026-11-21T00:00:00Z".to_owned(),
            ("tenant", false) => "default".to_owned(),
            ("state", false) => if operation.name == "workers.list" { "Available" } else { "Queued" }.to_owned(),
            ("offset" | "index" | "attempt" | "since_seq", false) => "0".to_owned(),
            ("force" | "failed" | "object", false) => "true".to_owned(),
            ("order", false) => "oldest".to_owned(),
            ("stream", false) => "stdout".to_owned(),
            ("type", false) => "job.*".to_owned(),
            ("label", false) => "a=b".to_owned(),
            (_, _) => dice.text(),
        };
        pairs.push(format!("{name}={}", escaped(&value)));
    }
    if dice.once_in(30) {
        pairs.push("nobody=knows".to_owned());
    }
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// A request of an operation.
fn request(dice: &mut Dice, document: &Document, operation: &Operation, known: &KnownIds) -> Ask {
    let mut path = operation.path.clone();
    while let Some((before, rest)) = path.split_once('{') {
        let (name, after) = rest.split_once('}').unwrap();
        path = format!("{before}{}{after}", known.part(dice, operation, name));
    }
    let mut ask = Ask::new(&operation.method, &format!("{path}{}", query(dice, operation)));
    if let Some(schema) = &operation.body
        && !dice.once_in(20)
    {
        let mut body = dice.good(document, schema, "");
        if dice.once_in(3) {
            dice.spoil(&mut body);
        }
        ask = match dice.below(30) {
            0 => ask.raw(vec![b'['; 2000]).with("content-type", "application/json"),
            1 => ask.raw(body.to_string().into_bytes()).with("content-type", "text/plain"),
            2 => ask.raw(body.to_string().into_bytes().split_last().map(|(_, rest)| rest.to_vec()).unwrap_or_default()),
            _ => ask.json(&body),
        };
    } else if operation.bytes {
        ask = ask.raw(b"true".to_vec()).with("content-type", "application/octet-stream");
    }
    for (header, values) in [
        ("idempotency-key", &["k1", "k2", "", "\u{7f}"][..]),
        ("if-match", &["\"1\"", "*", "1", "\"x\""]),
        ("x-request-id", &["r-1", "r 1"]),
        ("traceparent", &["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-x"]),
        ("accept", &["application/json", "*/*"]),
        ("range", &["bytes=0-1", "bytes=9-", "lines=1"]),
        ("last-event-id", &["0", "x"]),
    ] {
        if dice.once_in(10) {
            ask = ask.with(header, dice.pick(values));
        }
    }
    ask
}

/// A worker, so that there is one to ask about.
async fn worker(fixture: &Fixture) {
    let offer = Capabilities {
        cpu_m: 1000,
        memory_bytes: 1 << 30,
        max_jobs: 4,
        runtimes: [Runtime::Process].into(),
        ..Capabilities::default()
    };
    let registration = Registration {
        worker: "w1".parse().unwrap(),
        state_id: "s".to_owned(),
        place: String::new(),
        capabilities: Arc::new(offer),
        agent_version: "1".to_owned(),
        session: SessionId::from_bytes(uuid::Uuid::new_v4().into_bytes()),
    };
    drop(fixture.server().handle().register(registration).await.unwrap());
}

/// How often, from which seed.
#[derive(Debug)]
struct Run {
    seed: u64,
    rounds: usize,
    until: Instant,
}

/// What came of it.
#[derive(Debug, Default)]
struct FuzzReport {
    /// How often each operation was answered with each status.
    reached: BTreeMap<(String, u16), usize>,
    /// What was wrong, one of each kind with the request.
    faults: BTreeMap<(String, String), String>,
}

impl FuzzReport {
    fn join(&mut self, other: Self) {
        for (key, count) in other.reached {
            *self.reached.entry(key).or_default() += count;
        }
        self.faults.extend(other.faults);
    }
}

async fn run(run: &Run) -> FuzzReport {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::full(folder.path()).await;
    worker(&fixture).await;
    let callers = Callers::new(&fixture).await;
    let document = Document::new();
    let (mut dice, mut known, mut found) = (Dice(run.seed), KnownIds::default(), FuzzReport::default());
    known.ids.insert("workers".to_owned(), vec!["w1".to_owned()]);
    for round in 0..run.rounds {
        if Instant::now() > run.until {
            break;
        }
        for operation in &document.operations {
            let (role, whole, token) = &callers.all[if dice.once_in(2) { 0 } else { dice.below(callers.all.len()) }];
            let mut ask = request(&mut dice, &document, operation, &known);
            let stranger = dice.once_in(25);
            ask = ask.token(if stranger { "" } else { token });
            let shown =
                format!("seed {} round {round} {} as {role} (all tenants: {whole}): {ask:?}", run.seed, operation.name);
            let no_route = ask.path().ends_with('/') || ask.path().contains("//");
            let asked = async {
                // A stream has no end: one that is let in is not read.
                if operation.stream { fixture.try_head(ask).await } else { fixture.try_ask(ask).await }
            };
            let answer = tokio::time::timeout(Duration::from_secs(60), asked).await;
            let answer = answer.unwrap_or_else(|_| panic!("no answer: {shown}"));
            // Some texts cannot stand in a request at all.
            let Some(answer) = answer else { continue };
            let mut faults = check::faults(&document, operation, &answer);
            // A part of the path that is empty makes it no route.
            if stranger && operation.secured && !no_route && ![401, 403, 429].contains(&answer.status) {
                faults.push(format!("{} to a stranger", answer.status));
            }
            if let Some(fault) = faults.first() {
                // One of a kind says it: the rest is the same again.
                let kind = fault.chars().take(50).collect::<String>();
                found.faults.entry((operation.name.clone(), kind)).or_insert(format!("{fault}\n    {shown}"));
            }
            known.learn(operation, &answer);
            *found.reached.entry((operation.name.clone(), answer.status)).or_default() += 1;
        }
    }
    found
}

fn seed() -> Option<u64> {
    std::env::var("ORLOP_FUZZ_SEED").ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_interface_keeps_to_its_document() {
    let begun = Instant::now();
    // One with which 240 rounds reach every operation.
    let short = Run { seed: seed().unwrap_or(10), rounds: 240, until: begun + Duration::from_secs(240) };
    let mut found = run(&short).await;
    if std::env::var_os("ORLOP_TEST_LONG").is_some() {
        let until = begun + Duration::from_secs(180);
        for seed in 1.. {
            if Instant::now() > until {
                break;
            }
            found.join(run(&Run { seed, rounds: 200, until }).await);
        }
    }
    let FuzzReport { reached, faults } = found;
    let reported: Vec<String> = faults.iter().map(|((name, _), fault)| format!("{name}: {fault}")).collect();
    let elsewhere: BTreeSet<(&str, u16)> = ELSEWHERE.iter().map(|(name, status, _)| (*name, *status)).collect();
    let mut missing = Vec::new();
    for operation in &Document::new().operations {
        for (status, _) in &operation.good {
            let name = operation.name.as_str();
            if !reached.contains_key(&(name.to_owned(), *status)) && !elsewhere.contains(&(name, *status)) {
                missing.push(format!("{name} {status}"));
            }
        }
    }
    let mut table: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((name, status), count) in &reached {
        table.entry(name.as_str()).or_default().push(format!("{status}x{count}"));
    }
    for (name, row) in &table {
        println!("{name}: {}", row.join(" "));
    }
    assert!(reported.is_empty(), "{}\nnot reached: {missing:?}", reported.join("\n"));
    assert_eq!(missing, Vec::<String>::new(), "good answers of the document that nothing reached");
    let codes: BTreeSet<u16> = reached.keys().map(|(_, status)| *status).collect();
    for code in [400, 401, 403, 404, 409, 412, 415, 422] {
        assert!(codes.contains(&code), "no request was refused with {code}: {codes:?}");
    }
}
