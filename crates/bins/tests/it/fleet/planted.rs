//! One look everywhere: a secret of every kind is planted on the programs, and none is found in a log, an event, an answer, a
//! metric, a process's arguments or a file, but for the files that hold it on purpose.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::bench::Gave;
use super::programs::{Programs, Running, Scheduler, ask, until};

/// A value with characters that encodings change.
const SECRET: &str = "planted/22?\"jöb+secret";
/// What the store is opened with, where it is a database.
const PASSWORD: &str = "planted-database-password";
/// What secrets are sealed with.
const KEY: &str = "5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e";

/// What must be found nowhere, by what it is.
#[derive(Default)]
struct Needles(BTreeMap<String, Vec<u8>>);

impl Needles {
    fn plant(&mut self, what: &str, value: &str) {
        let json = Value::from(value).to_string();
        let forms = [value, json.trim_matches('"'), &STANDARD.encode(value), &URL_SAFE_NO_PAD.encode(value)];
        for (number, form) in forms.into_iter().enumerate() {
            self.0.insert(format!("{what} ({number})"), form.as_bytes().to_vec());
        }
    }

    fn look(&self, place: &str, bytes: &[u8]) {
        for (what, needle) in &self.0 {
            let found = bytes.windows(needle.len()).any(|part| part == needle.as_slice());
            assert!(!found, "{place} holds {what}");
        }
    }

    /// Looks through every file below a folder but those of these names; gives how many there were.
    fn scan(&self, folder: &Path, but: &[&str]) -> usize {
        let mut count = 0;
        // What an attempt had may go meanwhile.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            match entry.file_type().expect("a kind") {
                kind if kind.is_dir() => count += self.scan(&path, but),
                kind if kind.is_file() && !but.iter().any(|known| name.to_str() == Some(known)) => {
                    count += 1;
                    self.look(&path.display().to_string(), &std::fs::read(&path).unwrap_or_default());
                }
                _ => {}
            }
        }
        count
    }

    /// Looks through the arguments of every process of this machine.
    fn processes(&self) {
        for entry in std::fs::read_dir("/proc").expect("processes").flatten() {
            let Ok(words) = std::fs::read(entry.path().join("cmdline")) else { continue };
            self.look(&format!("the command line {}", String::from_utf8_lossy(&words)), &words);
        }
    }
}

/// What a server answers, with its head.
fn whole(server: &str, path: &str, token: &str) -> Vec<u8> {
    let host = server.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).expect("the server is there");
    let head = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("it is sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it is answered");
    answer
}

/// Reads events until the server ends, into a text that is shared.
fn events(server: &str, token: &str) -> Arc<Mutex<String>> {
    let heard = Arc::new(Mutex::new(String::new()));
    let (host, token, to) = (server.trim_start_matches("http://").to_owned(), token.to_owned(), heard.clone());
    std::thread::spawn(move || {
        let mut stream = TcpStream::connect(&host).expect("the server is there");
        let head = format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut text = to.lock().expect("the text");
            text.push_str(&line);
            text.push('\n');
        }
    });
    heard
}

/// A flow whose step says a secret of its tenant in many ways.
fn flow() -> Value {
    let env = json!([{ "name": "P", "valueFrom": { "secretKeyRef": { "name": "db", "key": "password" } } }]);
    let script = "echo \"it is $P\"; printf %s \"$P\" | base64 -w0; echo; echo \"$P\" > /tmp/out; exit 3";
    let container = json!({ "name": "main", "command": ["/bin/sh", "-c", script], "env": env });
    let template = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": { "spec": { "containers": [container] } } } });
    let outputs = json!({ "parameters": [{ "name": "o", "valueFrom": { "path": "/tmp/out" }, "default": "" }] });
    let step = json!({ "name": "says", "template": template, "outputs": outputs });
    json!({ "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": "planted" },
        "spec": { "steps": [step] } })
}

/// A collector of spans, where this program can send them.
#[cfg(feature = "otel")]
struct Collector {
    receiver: orlop::telemetry::trace::receiver::Receiver,
    _runtime: tokio::runtime::Runtime,
}

#[cfg(feature = "otel")]
impl Collector {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let receiver = runtime.block_on(orlop::telemetry::trace::receiver::Receiver::start()).expect("a collector");
        Self { receiver, _runtime: runtime }
    }

    fn endpoint(&self) -> Option<String> {
        Some(self.receiver.endpoint())
    }

    /// The spans, once the last one of a job has come.
    fn spans(&self, id: &str) -> String {
        until("spans", || {
            let spans = self.receiver.spans();
            let of_job = |of: Option<&String>| of.is_some_and(|of| of == id);
            let last = spans.iter().any(|span| span.name == "result" && of_job(span.attributes.get("orlop.job")));
            last.then(|| format!("{spans:?}"))
        })
    }
}

/// Without traces there is nothing to look at.
#[cfg(not(feature = "otel"))]
struct Collector;

#[cfg(not(feature = "otel"))]
impl Collector {
    const fn new() -> Self {
        Self
    }

    const fn endpoint(&self) -> Option<String> {
        None
    }

    fn spans(&self, _id: &str) -> String {
        String::new()
    }
}

/// A scheduler, a worker and a collector of spans, in which everything is planted.
struct Planted {
    programs: Programs,
    scheduler: Scheduler,
    admin: String,
    needles: Needles,
    heard: Arc<Mutex<String>>,
    collector: Collector,
    variables: Vec<(&'static str, String)>,
    _worker: Running,
}

impl Planted {
    fn new(programs: Programs, mut variables: Vec<(&'static str, String)>) -> Self {
        let collector = Collector::new();
        let endpoint = collector.endpoint();
        variables.extend([("ORLOP_SECRETS_KEY", KEY.to_owned()), ("ORLOP_LOG_LEVEL", "debug".to_owned())]);
        if let Some(endpoint) = &endpoint {
            variables.extend([("ORLOP_TRACE_ENDPOINT", endpoint.clone()), ("ORLOP_TRACE_RATIO", "1".to_owned())]);
        }
        let given: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let scheduler = programs.scheduler_with("s1", &given, &["--auth-first-token-file=admin.token"]);
        let file = programs.path("admin.token");
        let admin =
            until("the first token", || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')));
        let admin = admin.trim().to_owned();
        let mut needles = Needles::default();
        needles.plant("the secret of a job", SECRET);
        needles.plant("the password of the database", PASSWORD);
        needles.plant("the key of secrets", KEY);
        needles.plant("the first token", admin.rsplit('_').next().expect("its secret"));
        until("the token to be good", || {
            let jobs = programs.orlop_with(&scheduler.rest, &[("ORLOP_TOKEN", &admin)], &["jobs"]);
            (jobs.code == 0).then_some(())
        });
        let heard = events(&scheduler.rest, &admin);
        // Over plain text on this machine its session speaks for a worker, also where there are tokens.
        let traces: Vec<&str> = endpoint.as_deref().map(|to| ["--trace-endpoint", to]).into_iter().flatten().collect();
        let worker = programs.worker("w1", &[&scheduler.grpc], &traces);
        Self { programs, scheduler, admin, needles, heard, collector, variables, _worker: worker }
    }

    fn orlop(&self, args: &[&str]) -> Gave {
        self.programs.orlop_with(&self.scheduler.rest, &[("ORLOP_TOKEN", &self.admin)], args)
    }

    fn whole(&self, path: &str) -> Vec<u8> {
        whole(&self.scheduler.rest, &format!("/api/v1{path}"), &self.admin)
    }

    /// Secrets of a tenant; wrong ones are refused without being repeated.
    fn secrets(&self) {
        let file = self.programs.path("value");
        std::fs::write(&file, SECRET).expect("it is written");
        for name in ["db", "db.password"] {
            let set = self.orlop(&["secret", "set", name, "--file", &file.display().to_string()]);
            assert_eq!(set.code, 0, "{set:?}");
            self.needles.look("an answer", format!("{set:?}").as_bytes());
        }
        std::fs::remove_file(&file).expect("it goes");
        let wrong = format!("{}x", self.admin);
        let refused = self.programs.orlop_with(&self.scheduler.rest, &[("ORLOP_TOKEN", &wrong)], &["jobs"]);
        assert_eq!(refused.code, 6, "{refused:?}");
        self.needles.look("a refusal", format!("{refused:?}").as_bytes());
    }

    /// A token of the interface, made under a key: the answer of a repeated request is not kept.
    fn token(&mut self) {
        let headers = format!("Authorization: Bearer {}\r\nIdempotency-Key: planted\r\n", self.admin);
        let body = json!({ "role": "viewer", "tenants": ["default"] }).to_string();
        let made = ask(&self.scheduler.rest, "POST", "/tokens", &headers, &body);
        let (status, text) = made.expect("an answer");
        assert_eq!(status, 201, "{text}");
        let made: Value = serde_json::from_str(&text).expect("JSON");
        let token = made["token"].as_str().expect("it is shown once").to_owned();
        self.needles.plant("a token", token.rsplit('_').next().expect("its secret"));
        let (status, again) = ask(&self.scheduler.rest, "POST", "/tokens", &headers, &body).expect("an answer");
        self.needles.look(&format!("the second answer, {status}"), again.as_bytes());
        let read = whole(&self.scheduler.rest, "/api/v1/jobs", &token);
        assert!(read.starts_with(b"HTTP/1.1 200") || read.starts_with(b"HTTP/1.0 200"), "it is good");
    }

    /// A job and a flow that say what they were given, in many ways. Gives the job.
    fn work(&self) -> String {
        let go = self.programs.path("go");
        let script = [
            "echo \"$P\"; cat $ORLOP_SECRETS_DIR/f >&2; printf %s \"$P\" | base64 -w0; echo; echo left > kept",
            "echo \"o=$P\" >> $ORLOP_OUTPUT",
            &format!("until [ -e {} ]; do sleep 0.05; done; exit 4", go.display()),
        ];
        let job = json!({
            "script": script.join("; "),
            "resources": { "cpu_m": 100, "memory_bytes": 16 << 20 },
            "secret_refs": [{ "name": "db", "as": "env", "target": "P" }, { "name": "db", "as": "file", "target": "f" }],
            "artifacts_out": [{ "name": "kept", "path": "kept", "required": true }],
        });
        let file = self.programs.path("job.json");
        std::fs::write(&file, job.to_string()).expect("it is written");
        let id = self.orlop(&["submit", "-f", &file.display().to_string()]).out.trim().to_owned();
        let in_state = |state: &str| self.orlop(&["jobs", "--state", state, "-o", "name"]).out.contains(&id);
        until("the job to run", || in_state("Running").then_some(()));
        self.needles.processes();
        std::fs::write(&go, "").expect("it is written");
        until("the job to end", || in_state("Failed").then_some(()));
        let file = self.programs.path("flow.json");
        std::fs::write(&file, flow().to_string()).expect("it is written");
        let ran = self.orlop(&["run", &file.display().to_string(), "--target", "fleet"]);
        assert_eq!(ran.code, 1, "{ran:?}\n{}", self.programs.log("w1"));
        let logs = self.orlop(&["logs", &id]);
        assert!(format!("{}{}", logs.out, logs.err).matches("***").count() >= 3, "{logs:?}");
        let more =
            [&["job", "get", &id, "-o", "json"][..], &["flow", "logs", "planted", "--target", "fleet"], &["top"]];
        for reported in [ran, logs].into_iter().chain(more.map(|words| self.orlop(words))) {
            self.needles.look("an answer", format!("{}{}", reported.out, reported.err).as_bytes());
        }
        id
    }

    /// Everything that can be asked for.
    fn answers(&self, id: &str) {
        let artifacts = String::from_utf8_lossy(&self.whole(&format!("/jobs/{id}/artifacts"))).into_owned();
        assert!(artifacts.contains("\"kept\""), "the worker stored what the job left: {artifacts}");
        let below =
            ["", "/attempts", "/elements", "/logs", "/artifacts", "/explain"].map(|part| format!("/jobs/{id}{part}"));
        let plain = "/jobs /pipelines /flows /flows/planted?object=true /flows/planted/steps/says /flows/planted/logs /workers \
                     /workers/w1 /tenants /tenants/default /tenants/default/quota /tenants/default/usage /tokens /secrets \
                     /join-tokens /stats /version /metrics /openapi.json /health/ready";
        for path in plain.split_whitespace().map(str::to_owned).chain(below) {
            let answer = self.whole(&path);
            let text = String::from_utf8_lossy(&answer);
            assert!(text.starts_with("HTTP/1.0 200") || text.starts_with("HTTP/1.1 200"), "{path}: {text}");
            self.needles.look(&path, &answer);
        }
        until("the events", || self.heard.lock().expect("the text").contains("flow.failed").then_some(()));
        self.needles.look("events", self.heard.lock().expect("the text").as_bytes());
        self.needles.look("spans", self.collector.spans(id).as_bytes());
        let mut printed = self.programs.scheduler_command();
        printed.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str()))).arg("--print-config");
        let printed = printed.output().expect("it runs");
        assert!(printed.status.success() && !printed.stdout.is_empty());
        self.needles.look("the settings that are shown", &[printed.stdout, printed.stderr].concat());
    }

    /// Stores, logs, spools, caches and what is left of attempts are files.
    fn files(&self) {
        let root = self.programs.path("");
        assert!(self.needles.scan(&root, &["admin.token"]) > 5, "store, logs and spool are there");
    }
}

/// Plants everything, has it used, and looks everywhere.
fn look_everywhere(programs: Programs, variables: Vec<(&'static str, String)>) -> Needles {
    let mut planted = Planted::new(programs, variables);
    planted.secrets();
    planted.token();
    let id = planted.work();
    planted.answers(&id);
    planted.needles.processes();
    planted.files();
    std::mem::take(&mut planted.needles)
}

#[test]
fn planted_secrets_of_every_kind_are_found_nowhere() {
    let programs = Programs::new();
    let path = programs.path("fleet.db").display().to_string();
    look_everywhere(programs, vec![("ORLOP_STORE_PATH", path)]);
}

#[cfg(feature = "postgres")]
#[test]
fn planted_secrets_are_found_nowhere_with_a_database_that_has_a_password() {
    let Some(reported) =
        std::env::var("ORLOP_TEST_POSTGRES").ok().filter(|url| !url.is_empty() && !url.contains("://"))
    else {
        return println!("skipped: no PostgreSQL in ORLOP_TEST_POSTGRES; scripts/with-postgres provides one");
    };
    let schema = format!("t{}_planted", std::process::id());
    let url = format!("{reported} password={PASSWORD}");
    let needles =
        look_everywhere(Programs::new(), vec![("ORLOP_STORE_URL", url), ("ORLOP_STORE_SCHEMA", schema.clone())]);
    let folders = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let dump = folders.map(|entry| entry.path().join("bin/pg_dump")).find(|path| path.exists());
    let Some(dump) = dump else { return println!("the rows of the database were not looked at: there is no pg_dump") };
    let rows =
        std::process::Command::new(dump).args(["--inserts", "--schema", &schema, "--dbname", &reported]).output();
    let rows = rows.expect("it runs").stdout;
    assert!(String::from_utf8_lossy(&rows).contains("INSERT INTO"), "there are rows");
    needles.look("the database", &rows);
}
