//! A fleet that can be reached from outside: TLS on both interfaces, tokens for people, join tokens and certificates for
//! workers.

use std::os::unix::fs::PermissionsExt as _;

use orlop::wire::grpc::{ArtifactClient, Connector, Endpoint, WorkerClient};
use orlop::wire::identity::Authority;
use orlop::wire::v1::DownloadRequest;
use orlop::wire::worker::{ProtocolRange, Registration};
use orlop_core::error::Code;
use orlop_core::id::Epoch;
use orlop_core::task::TaskRef;
use orlop_scheduler::event::Capabilities;

use super::bench::Gave;
use super::programs::{Programs, Running, Scheduler, until};

/// Options of a scheduler whose two listeners speak TLS with the fleet's own authority.
const SECURE: [&str; 6] = [
    "--tls-mode=always",
    "--tls-directory=tls",
    "--auth-first-token-file=admin.token",
    "--log-level",
    "info",
    "--server-seed=1",
];

/// Whether a process of this machine sleeps so many seconds.
fn is_running(seconds: &str) -> bool {
    let wanted = format!("sleep\0{seconds}\0");
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    processes
        .map(|entry| entry.path().join("cmdline"))
        .any(|path| std::fs::read(path).is_ok_and(|line| line == wanted.as_bytes()))
}

/// A token whose file goes once it was used: the same command starts the worker again without it.
fn a_token_whose_file_goes(programs: &Programs, grpc: &str, orlop: impl Fn(&[&str]) -> Gave) {
    assert_eq!(orlop(&["workers", "token", "create", "--write", "third.token"]).code, 0);
    let going = ["--join-token-file", "third.token", "--delete-join-token", "--label", "only=w4"];
    let file = programs.path("third.token");
    let w4 = programs.worker("w4", &[grpc], &going);
    until("the file of the token to go", || (!file.exists()).then_some(()));
    drop(w4);
    let _again = programs.worker("w4", &[grpc], &going);
    let done = orlop(&["submit", "--cpu", "100m", "--memory", "1Mi", "--require", "only=w4", "--wait", "--", "true"]);
    assert_eq!(done.code, 0, "{done:?}\n{}", programs.log("w4"));
}

#[test]
fn a_worker_joins_with_a_token_and_comes_back_with_its_certificate() {
    let programs = Programs::new();
    let scheduler = programs.scheduler("s1", &SECURE);
    assert!(scheduler.rest.starts_with("https://") && scheduler.grpc.starts_with("https://"));
    let file = programs.path("admin.token");
    until("the first token", || file.exists().then_some(()));
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let (token, ca) = (file.display().to_string(), programs.path("tls/authority.pem").display().to_string());
    let admin = until("the whole token", || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')));
    let access = [("ORLOP_TOKEN", admin.trim()), ("ORLOP_CA_FILE", ca.as_str())];
    let orlop = |args: &[&str]| programs.orlop_with(&scheduler.rest, &access, args);
    until("the token to be good", || (orlop(&["jobs"]).code == 0).then_some(()));
    for verb in [&["flow", "list", "--target", "fleet"][..], &["jobs"]] {
        let named = programs.orlop(&scheduler.rest, &[verb, &["--ca-file", &ca, "--token-file", &token]].concat());
        assert_eq!(named.code, 0, "{named:?}");
    }
    let stranger = programs.stranger(&scheduler.rest, &["jobs", "--ca-file", &ca]);
    assert!(stranger.code == 6 && stranger.err.contains("--token-file FILE"), "{stranger:?}");
    let unknown = programs.orlop(&scheduler.rest, &["jobs", "--token-file", &token]);
    assert_eq!(unknown.code, 7, "the system does not know the fleet's authority: {unknown:?}");
    assert!(unknown.err.contains("--ca-file FILE"), "{unknown:?}");

    let made = orlop(&["workers", "token", "create", "--uses", "1", "--label", "zone=a"]);
    assert!(
        made.code == 0 && made.out.contains("--join-token-file FILE") && made.out.contains(&scheduler.grpc),
        "{made:?}"
    );
    let join = made.out.lines().next().expect("a token").to_owned();
    std::fs::write(programs.path("join.token"), &join).expect("it is written");
    // A label that the token does not allow.
    let foreign = programs.worker("w0", &[&scheduler.grpc], &["--join-token-file", "join.token", "--label", "zone=b"]);
    until("the refusal of a label", || programs.log("w0").contains("does not allow the label").then_some(()));
    drop(foreign);
    let args = ["--join-token-file", "join.token", "--label", "zone=a"];
    let worker = programs.worker("w1", &[&scheduler.grpc], &args);
    let submit = ["submit", "--cpu", "100m", "--memory", "1Mi", "--require", "zone=a", "--wait", "--", "true"];
    let done = orlop(&submit);
    assert_eq!(done.code, 0, "{done:?}\n{}\n{}", programs.log("s1"), programs.log("w1"));
    // The token is used up: another machine does not join with it, the first one comes back with its certificate.
    let late = programs.worker("w2", &[&scheduler.grpc], &args);
    until("the refusal of a used token", || programs.log("w2").contains("is used up").then_some(()));
    drop((late, worker));
    let again = programs.worker("w1", &[&scheduler.grpc], &["--label", "zone=a"]);
    let done = orlop(&submit);
    assert_eq!(done.code, 0, "{done:?}\n{}", programs.log("w1"));
    drop(again);

    let listed = orlop(&["workers", "token", "list", "-o", "json"]).json();
    assert_eq!(listed["items"][0]["uses_left"], 0);
    assert!(listed["items"][0]["token"].is_null());
    // A token that nobody sees: it goes to a file.
    let written = orlop(&["workers", "token", "create", "--write", "second.token"]);
    assert!(written.code == 0 && written.out.is_empty(), "{written:?}");
    let file = programs.path("second.token");
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let second = std::fs::read_to_string(&file).expect("it is read").trim().to_owned();
    assert!(!written.err.contains(&second), "{written:?}");
    let id = second.split('.').nth(1).expect("its id");
    assert_eq!(orlop(&["workers", "token", "revoke", id]).code, 0);
    let revoked = programs.worker("w3", &[&scheduler.grpc], &["--join-token-file", "second.token"]);
    until("the refusal of a revoked token", || programs.log("w3").contains("was revoked").then_some(()));
    drop(revoked);
    a_token_whose_file_goes(&programs, &scheduler.grpc, orlop);
    assert!(programs.path("join.token").exists(), "a file that nobody gave away stays");
    for log in ["s1", "w1"].map(|name| programs.log(name)) {
        let secret = join.split('.').nth(2).expect("its secret");
        assert!(!log.contains(secret) && !log.contains("PRIVATE KEY"), "a secret is in a log");
    }
}

/// A fleet that can be reached from outside, and its administrator.
struct Secured {
    programs: Programs,
    scheduler: Scheduler,
    token: String,
    ca: String,
}

impl Secured {
    fn new() -> Self {
        let programs = Programs::new();
        let scheduler = programs.scheduler("s1", &SECURE);
        let file = programs.path("admin.token");
        let token =
            until("the whole token", || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')));
        let ca = programs.path("tls/authority.pem").display().to_string();
        let fleet = Self { programs, scheduler, token: token.trim().to_owned(), ca };
        until("the token to be good", || (fleet.orlop(&["jobs"]).code == 0).then_some(()));
        fleet
    }

    fn orlop(&self, args: &[&str]) -> Gave {
        self.orlop_with(&[], args)
    }

    /// Runs a verb with further variables.
    fn orlop_with(&self, more: &[(&str, &str)], args: &[&str]) -> Gave {
        let access = [("ORLOP_TOKEN", self.token.as_str()), ("ORLOP_CA_FILE", self.ca.as_str())];
        self.programs.orlop_with(&self.scheduler.rest, &[&access[..], more].concat(), args)
    }

    /// A new join token, in a file.
    fn join_token(&self, name: &str, more: &[&str]) {
        let made = self.orlop(&[&["workers", "token", "create", "--write", name], more].concat());
        assert_eq!(made.code, 0, "{made:?}");
    }

    /// A worker of this id with a state directory of this name.
    fn worker(&self, id: &str, state: &str, args: &[&str]) -> Running {
        self.programs.worker_with(state, id, &[&self.scheduler.grpc], args)
    }

    /// Runs a job on a worker with this label, and gives how that ended.
    fn run(&self, label: &str) -> Gave {
        let ask =
            ["submit", "--cpu", "100m", "--memory", "1Mi", "--require", label, "--wait-timeout", "60s", "--", "true"];
        self.orlop(&ask)
    }
}

#[test]
fn a_refused_join_changes_nothing_of_the_worker_whose_name_it_used() {
    let fleet = Secured::new();
    fleet.join_token("good.token", &["--label", "on=w1"]);
    fleet.join_token("bad.token", &["--tenant", "red", "--label", "on=w1"]);
    let good = ["--join-token-file", "good.token", "--label", "on=w1"];
    let worker = fleet.worker("w1", "good", &good);
    assert_eq!(fleet.run("on=w1").code, 0, "{}", fleet.programs.log("good"));
    let refused = |times: usize| {
        let bad = ["--join-token-file", "bad.token", "--tenant", "red", "--label", "on=w1"];
        let attacker = fleet.worker("w1", "bad", &bad);
        let log = || fleet.programs.log("bad").matches("belongs to another worker").count();
        until("the refusal", || (log() >= times).then_some(()));
        drop(attacker);
        log()
    };
    // While it is there, and while it is away.
    let times = refused(1);
    drop(worker);
    refused(times + 1);
    let listed = fleet.orlop(&["workers", "token", "list", "-o", "json"]).json();
    let left = listed["items"].as_array().expect("tokens").iter().filter(|token| token["uses_left"] == 1).count();
    assert_eq!(left, 1, "the token of who was refused is not used up: {listed}");
    let _again = fleet.worker("w1", "good", &["--label", "on=w1"]);
    let done = fleet.run("on=w1");
    assert_eq!(done.code, 0, "it comes back with its certificate: {done:?}\n{}", fleet.programs.log("good"));
}

#[test]
fn whoever_follows_a_log_stops_when_its_token_is_revoked() {
    use std::io::{Read as _, Write as _};
    let programs = Programs::new();
    let scheduler = programs.scheduler("s1", &["--auth-first-token-file=admin.token"]);
    let file = programs.path("admin.token");
    let token = until("the token", || std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')));
    let token = token.trim().to_owned();
    let access = [("ORLOP_TOKEN", token.as_str())];
    let orlop = |args: &[&str]| programs.orlop_with(&scheduler.rest, &access, args);
    until("the token to be good", || (orlop(&["jobs"]).code == 0).then_some(()));
    let _worker = programs.worker("w1", &[&scheduler.grpc], &[]);
    let script = ["submit", "--cpu", "100m", "--memory", "1Mi", "--", "sh", "-c", "echo begun; sleep 600"];
    let job = orlop(&script).out.trim().to_owned();
    until("its log", || orlop(&["logs", &job]).out.contains("begun").then_some(()));
    let follower = programs.follow("follower", &scheduler.rest, &access, &["logs", "--follow", &job]);
    until("the beginning of the log", || programs.log("follower").contains("begun").then_some(()));
    let id = token.split('_').nth(1).expect("an id");
    let mut stream = std::net::TcpStream::connect(scheduler.rest.trim_start_matches("http://")).expect("a connection");
    let head = format!("DELETE /api/v1/tokens/{id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n");
    write!(stream, "{head}Connection: close\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    let began = std::time::Instant::now();
    assert_eq!(follower.end(), Some(6), "{}", programs.log("follower"));
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_worker_that_was_shut_out_comes_back_with_a_new_join_token_only() {
    let fleet = Secured::new();
    // It could be used again, but by nobody who was shut out.
    fleet.join_token("first.token", &["--label", "on=w1", "--uses", "5"]);
    let worker = fleet.worker("w1", "one", &["--join-token-file", "first.token", "--label", "on=w1"]);
    assert_eq!(fleet.run("on=w1").code, 0, "{}", fleet.programs.log("one"));
    // As no other test has it.
    let seconds = format!("600.{}", std::process::id());
    let waits =
        fleet.orlop(&["submit", "--cpu", "100m", "--memory", "1Mi", "--require", "on=w1", "--", "sleep", &seconds]);
    let job = waits.out.trim().to_owned();
    let state = || fleet.orlop(&["job", "get", &job, "-o", "json"]).json()["state"].clone();
    until("the job to run", || (state() == "Running" && is_running(&seconds)).then_some(()));
    assert_eq!(fleet.orlop(&["workers", "revoke", "w1"]).code, 0);
    let began = std::time::Instant::now();
    until("what it ran to be taken from it", || (state() != "Running").then_some(()));
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "its stream ends at once");
    until("the refusal", || fleet.programs.log("one").contains("this worker was revoked").then_some(()));
    until("what it ran to end", || (!is_running(&seconds)).then_some(()));
    drop(worker);
    assert_eq!(fleet.orlop(&["cancel", &job]).code, 0);
    // Neither its certificate nor its used token lets it in, nor another certificate of its state directory.
    let again = fleet.worker("w1", "one", &["--join-token-file", "first.token", "--label", "on=w1"]);
    let times = || fleet.programs.log("one").matches("this worker was revoked").count();
    let before = times();
    until("another refusal", || (times() > before).then_some(()));
    drop(again);
    // Its name is free for who has a new token.
    fleet.join_token("second.token", &["--label", "on=w1"]);
    let _other = fleet.worker("w1", "two", &["--join-token-file", "second.token", "--label", "on=w1"]);
    let done = fleet.run("on=w1");
    assert_eq!(done.code, 0, "{done:?}\n{}", fleet.programs.log("two"));
    // The certificate of the one that was shut out is not good again.
    let _late = fleet.worker("w1", "one", &["--label", "on=w1"]);
    until("its refusal", || fleet.programs.log("one").contains("no longer valid").then_some(()));
    assert_eq!(fleet.orlop(&["workers", "revoke", "nobody"]).code, 4);
}

#[test]
fn a_server_with_the_certificate_of_an_outside_authority() {
    let programs = Programs::new();
    let now = orlop::cloud::runtime::logs::now();
    let (authority, _) = Authority::create(now).expect("an authority");
    let server = authority.server(&["127.0.0.1".to_owned()], now).expect("a certificate");
    for (name, text) in [("ca.pem", authority.pem()), ("server.pem", &server.chain), ("server.key", &server.key)] {
        std::fs::write(programs.path(name), text).expect("it is written");
    }
    let tls = ["--tls-mode=always", "--tls-certificate=server.pem", "--tls-key=server.key", "--tls-authority=ca.pem"];
    let scheduler = programs.scheduler("s1", &tls);
    assert!(!programs.path("orlop-tls").exists(), "no authority of its own is made");
    let ca = programs.path("ca.pem").display().to_string();
    until("an answer", || (programs.orlop(&scheduler.rest, &["jobs", "--ca-file", &ca]).code == 0).then_some(()));
    assert_eq!(programs.orlop(&scheduler.rest, &["jobs"]).code, 7, "the system does not know that authority");
    // Half of it is a mistake, which is told before anything is served.
    let half = programs.spawn_scheduler("s2", &["--tls-mode=always", "--tls-certificate=server.pem"]);
    assert_eq!(half.end(), Some(2), "{}", programs.log("s2"));
    let gone = [tls[0], "--tls-certificate=gone.pem", tls[2], tls[3], "--store-path=other.db"];
    assert_eq!(programs.spawn_scheduler("s3", &gone).end(), Some(1));
    assert!(programs.log("s3").contains("gone.pem"), "{}", programs.log("s3"));
}

#[test]
fn a_first_token_that_cannot_be_made_is_made_once_it_can() {
    let programs = Programs::new();
    std::fs::write(programs.path("bad.token"), "no token\n").expect("it is written");
    let scheduler = programs.scheduler("s1", &["--auth-first-token-file=bad.token"]);
    until("the complaint", || programs.log("s1").contains("there is no first token").then_some(()));
    for verb in [&["jobs"][..], &["submit", "--", "true"]] {
        assert_eq!(programs.stranger(&scheduler.rest, verb).code, 6, "{verb:?}");
    }
    // Once it can be made it is.
    std::fs::remove_file(programs.path("bad.token")).expect("it goes");
    let token = until("the token", || std::fs::read_to_string(programs.path("bad.token")).ok());
    let access = [("ORLOP_TOKEN", token.trim())];
    until("the token to be good", || {
        (programs.orlop_with(&scheduler.rest, &access, &["jobs"]).code == 0).then_some(())
    });
}

/// Another user of the same machine, who finds no client token: over loopback nobody passes without one, also before any token was made.
#[test]
fn whoever_has_no_token_is_nobody_on_loopback_too() {
    let programs = Programs::new();
    let scheduler = programs.leader("s1", &[]);
    for verb in [&["jobs"][..], &["submit", "--", "true"], &["token", "create", "--role=admin", "--for-tenant=*"]] {
        let refused = programs.stranger(&scheduler.rest, verb);
        assert!(refused.code == 6 && refused.err.contains("--token-file FILE"), "{verb:?}: {refused:?}");
        assert_eq!(programs.orlop(&scheduler.rest, verb).code, 0, "{verb:?}");
    }
    assert_eq!(programs.stranger(&scheduler.rest, &["health"]).out, "leading\n");
    let file = programs.client_token();
    assert_eq!(file.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    // A worker of somebody else.
    let mut command = programs.worker_command("w1", "w1", &[&scheduler.grpc], &[]);
    command.args(["--token-file", "/dev/null"]);
    let _worker = programs.spawn("w1", command);
    until("the refusal", || programs.log("w1").contains("needs the client token").then_some(()));
}

/// A worker that is no agent of ours: what it may fetch follows from its attempts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_fetches_artifacts_of_its_own_attempts_only() {
    let programs = Programs::new();
    let scheduler = programs.leader("s1", &[]);
    let _worker = programs.worker("w1", &[&scheduler.grpc], &[]);
    programs.good(&scheduler.rest, &["quota", "set", "blue", "weight=100"]);
    let small = ["submit", "--cpu", "10m", "--memory", "1Mi", "--tenant", "blue"];
    let made = [&small[..], &["--wait", "--out", "x", "--", "sh", "-c", "echo secret > x"]].concat();
    let job = programs.good(&scheduler.rest, &made).trim().to_owned();
    let listed = programs.orlop(&scheduler.rest, &["artifacts", "list", &job, "-o", "json"]).json();
    let sha256 = listed["items"][0]["sha256"].as_str().expect("a digest").to_owned();
    let running = programs.good(&scheduler.rest, &[&small[..], &["--", "sleep", "600"]].concat()).trim().to_owned();
    let state = || programs.orlop(&scheduler.rest, &["job", "get", &running, "-o", "json"]).json()["state"].clone();
    until("the job to run", || (state() == "Running").then_some(()));

    let endpoint: Endpoint = scheduler.grpc.parse().expect("an address");
    let channel = Connector::plain(endpoint).expect("plain text").connect().await.expect("it connects");
    let registration = Registration {
        worker: "rogue".parse().expect("an id"),
        join_token: String::new(),
        csr: Vec::new(),
        protocol: ProtocolRange::OURS,
        features: std::collections::BTreeSet::new(),
        capabilities: Capabilities { cpu_m: 1, memory_bytes: 1, max_jobs: 1, ..Capabilities::default() },
        agent_version: "1".to_owned(),
        boot_id: "b".to_owned(),
        state_id: "rogue".to_owned(),
        state_place: String::new(),
    };
    let stranger = WorkerClient::new(channel.clone(), None).expect("a client");
    let refused = stranger.register(registration.clone()).await.expect_err("anybody on this machine could be a worker");
    assert_eq!(refused.code, Code::Unauthenticated);
    let token = std::fs::read_to_string(programs.client_token()).expect("the client token");
    let workers = WorkerClient::new(channel.clone(), Some(token.trim())).expect("a client");
    let session = workers.register(registration).await.expect("the same user may bring a worker").session;
    let without = ArtifactClient::new(channel.clone(), None).expect("a client").of_session(session);
    let download = DownloadRequest { sha256: sha256.clone(), offset: 0, r#ref: None };
    assert_eq!(without.download(download).await.err().map(|refused| refused.code), Some(Code::Unauthenticated));
    let files = ArtifactClient::new(channel, Some(token.trim())).expect("a client").of_session(session);
    let attempt =
        |job: &str| TaskRef { job: job.parse().expect("an id"), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
    for of in [None, Some(attempt(&running)), Some(attempt(&job))] {
        let refused = files
            .download(DownloadRequest { sha256: sha256.clone(), offset: 0, r#ref: of.map(Into::into) })
            .await
            .err();
        let refused = refused.unwrap_or_else(|| panic!("{of:?}: it was given")).code;
        assert!(matches!(refused, Code::Forbidden | Code::NotFound), "{of:?}: {refused:?}");
    }
}

#[test]
fn no_server_is_asked_through_a_proxy_of_the_environment() {
    let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].map(|name| (name, "http://127.0.0.1:1"));
    let secured = Secured::new().orlop_with(&proxies, &["jobs"]);
    assert_eq!(secured.code, 0, "{secured:?}");
    let programs = Programs::new();
    let plain = programs.scheduler("s1", &[]);
    let gave = programs.orlop_with(&plain.rest, &proxies, &["jobs"]);
    assert_eq!(gave.code, 0, "{gave:?}");
}
