//! Chapter 10 row by row: every option that it names is there, every verb keeps to `--timeout` whatever the server does,
//! and what operators say is kept and shown.

use std::io::Read as _;
use std::net::TcpListener;
use std::process::Child;

use nix::sys::signal::Signal;
use serde_json::json;

use super::bench::{Bench, Gave, PATIENCE};
use super::programs::{Programs, until};

/// Verbs with the options that the contract gives them. Every verb has the global ones too, but where they are named apart.
const OPTIONS: &[(&str, &str)] = &[
    ("up", "--data --listen --workers --no-worker --memory-store"),
    (
        "submit",
        "--file --name --cpu --memory --gpus --image --env --secret --priority --timeout --retries --array --max-parallel \
         --gang --require --label --in --out --not-before --key --follow --wait --exit-code",
    ),
    ("jobs", "--state --label --since --limit --watch"),
    ("job get", "--explain"),
    ("job retry", ""),
    ("logs", "--follow --stderr --attempt --index --since --timestamps"),
    ("cancel", "--state --label --all --yes --wait"),
    ("workers", ""),
    ("workers get", ""),
    ("workers cordon", ""),
    ("workers uncordon", ""),
    ("workers token create", "--uses --ttl --label"),
    ("drain", "--deadline --reason --wait --undo"),
    ("quota get", ""),
    ("quota set", ""),
    ("quota usage", ""),
    ("top", ""),
];
/// Those of all verbs that ask a server.
const GLOBAL: &str = "--server --token-file --tenant --output --no-color --timeout";

#[test]
fn every_option_of_the_contract_is_there() {
    let bench = Bench::nowhere();
    for (verb, options) in OPTIONS {
        let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        let help = bench.orlop_at("http://127.0.0.1:1", &words);
        assert_eq!(help.code, 0, "{verb}: {help:?}");
        let global = if *verb == "up" { "" } else { GLOBAL };
        for option in options.split_whitespace().chain(global.split_whitespace()) {
            let known = help.out.split_whitespace().any(|word| word.trim_end_matches(',') == option);
            assert!(known, "{verb} has no {option}:\n{}", help.out);
        }
        assert!(*verb == "up" || help.out.contains("ORLOP_SERVER"), "{verb}");
    }
    let bare = bench.orlop_at("http://127.0.0.1:1", &["jobs", "-o", "name", "--server", "nonsense"]);
    assert!(bare.code == 2 && bare.err.contains("is not a server address"), "{bare:?}");
    let nobody = bench.orlop_at("http://127.0.0.1:1", &["jobs"]);
    assert!(nobody.code == 7 && nobody.err.contains("--server"), "{nobody:?}");
}

#[test]
fn whether_a_server_is_ready_needs_no_token() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    assert_eq!(bench.good(&["health"]), "leading\n");
    assert_eq!(bench.good(&["health", "--live"]), "live\n");
    let mut stranger = Bench::nowhere();
    stranger.use_token("orlop_0000000000000000_0000000000000000000000000000000000000000000000000000");
    assert_eq!(stranger.orlop_at(&bench.address(), &["jobs"]).code, 6);
    assert_eq!(stranger.orlop_at(&bench.address(), &["health"]).out, "leading\n");
    assert_eq!(bench.good(&["health"]), "leading\n");
    assert_eq!(bench.orlop_at("http://127.0.0.1:1", &["health"]).code, 7);
}

/// What a program that was begun gave in the end.
fn ended(mut child: Child) -> Gave {
    let status = until("the end of a verb", || child.try_wait().expect("it is a child"));
    let mut err = String::new();
    child.stderr.take().expect("its errors").read_to_string(&mut err).expect("they are read");
    Gave { code: status.code().unwrap_or(-1), out: String::new(), err }
}

#[test]
fn every_verb_ends_with_its_timeout_though_the_server_never_answers() {
    // As a stopped process: the system takes connections for it, and nobody reads.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = format!("http://{}", silent.local_addr().expect("an address"));
    let mut bench = Bench::nowhere();
    bench.use_token("orlop_0000000000000000_0000000000000000000000000000000000000000000000000000");
    let verbs = [
        "jobs",
        "jobs --watch",
        "job get j0",
        "job get j0 --explain",
        "job retry j0",
        "logs j0",
        "logs j0 --follow",
        "cancel j0 --wait",
        "cancel --all --yes",
        "workers",
        "workers get w1",
        "workers cordon w1",
        "workers uncordon w1",
        "workers token create",
        "workers token list",
        "workers token revoke x",
        "drain w1 --wait",
        "drain w1 --undo",
        "quota get a",
        "quota set a cpu=1",
        "quota usage",
        "top",
        "secret list",
        "artifacts list j0",
    ];
    let begun = verbs.map(|verb| {
        let words: Vec<&str> = verb.split(' ').chain(["--timeout", "300ms"]).collect();
        (verb, bench.begin_at(&server, &words))
    });
    let submit = bench.begin_at(&server, &["submit", "--wait-timeout", "300ms", "--", "true"]);
    for (verb, child) in begun.into_iter().chain([("submit", submit)]) {
        let gave = ended(child);
        assert_eq!(gave.code, 8, "{verb}: {gave:?}");
        assert!(gave.err.contains("within 300ms"), "{verb}: {gave:?}");
    }
}

#[test]
fn a_drain_has_a_reason_that_is_kept() {
    let mut bench = Bench::up(&[]);
    let worker = until("the worker", || {
        Some(bench.good(&["workers", "-o", "name"]).trim().to_owned()).filter(|name| !name.is_empty())
    });
    bench.good(&["submit", "--cpu", "10m", "--memory", "1Mi", "--", "sleep", "1000"]);
    until("a job to run", || (!bench.good(&["jobs", "--state", "Running", "-o", "name"]).is_empty()).then_some(()));
    let long = "x".repeat(300);
    let refused = bench.orlop(&["drain", &worker, "--reason", &long]);
    assert!(refused.code == 3 && refused.err.contains("at most 256"), "{refused:?}");
    bench.good(&["drain", &worker, "--deadline", "1h", "--reason", "new disks"]);
    let shows = |bench: &Bench| {
        until("the reason to be shown", || {
            let shown = bench.orlop(&["workers", "get", &worker, "-o", "json"]);
            let drain = if shown.code == 0 { shown.json()["drain"].clone() } else { json!(null) };
            (drain["reason"] == "new disks" && drain["deadline"].is_string()).then_some(())
        });
    };
    shows(&bench);
    assert!(bench.good(&["workers"]).contains("drain: new disks"));
    assert!(bench.good(&["workers", "get", &worker]).contains("drain for   new disks"));
    // It is stored: a server that comes back knows it.
    let address = bench.address();
    bench.signal(Signal::SIGKILL);
    bench.end();
    bench.start_at(&address, &[]);
    shows(&bench);
    bench.good(&["drain", &worker, "--undo"]);
    until("the drain to be withdrawn", || {
        let shown = bench.orlop(&["workers", "get", &worker, "-o", "json"]).json();
        shown["drain"].is_null().then_some(())
    });
    assert_eq!(bench.orlop(&["cancel", "--all", "--yes", "--wait"]).code, 0);
}

#[test]
fn the_agent_learns_why_it_is_drained() {
    let programs = Programs::new();
    let scheduler = programs.scheduler("s1", &[]);
    let worker = programs.worker("w1", &[&scheduler.grpc], &[]);
    let orlop = |args: &[&str]| programs.orlop(&scheduler.rest, args);
    let one = ["submit", "--cpu", "10m", "--memory", "1Mi", "--", "sleep", "1000"];
    until("a job to be taken", || (orlop(&one).code == 0).then_some(()));
    until("it to run", || (!orlop(&["jobs", "--state", "Running", "-o", "name"]).out.is_empty()).then_some(()));
    assert_eq!(orlop(&["drain", "w1", "--reason", "new disks"]).code, 0);
    until("the agent to hear of it", || programs.log("w1").contains("new disks").then_some(()));
    assert_eq!(orlop(&["cancel", "--all", "--yes", "--wait"]).code, 0);
    assert_eq!(worker.end(), Some(0), "a worker that is drained ends");
}

#[test]
fn a_worker_of_orlop_up_takes_no_work_where_less_is_free_than_was_asked_for() {
    // Its own data is on that disk: never all of it is free.
    let bench = Bench::up(&["--min-free-percent", "100"]);
    until("what the worker lacks", || {
        let table = bench.good(&["workers"]);
        (table.contains("Unhealthy") && table.contains("MiB are free")).then_some(())
    });
}

#[test]
fn several_workers_share_the_machine() {
    let mut bench = Bench::up(&["--memory-store", "--workers", "3"]);
    let workers = until("three workers", || {
        let shown = bench.orlop(&["workers", "-o", "json"]).json();
        (shown["items"].as_array()?.len() == 3).then_some(shown)
    });
    let cpus = std::thread::available_parallelism().expect("processors").get() as u64 * 1000;
    let offered = |field: &str| -> u64 {
        let all = workers["items"].as_array().expect("items").iter();
        all.map(|worker| worker["capabilities"][field].as_u64().expect("a number")).sum()
    };
    assert!(offered("cpu_m") <= cpus && offered("cpu_m") > cpus - 10, "{workers:#}");
    let array = ["submit", "--cpu", "10m", "--memory", "1Mi", "--array", "12", "--wait", "--", "true"];
    assert_eq!(bench.orlop(&array).code, 0);
    bench.signal(Signal::SIGINT);
    assert_eq!(bench.end(), Some(0));
    let neither = bench.orlop_at("http://127.0.0.1:1", &["up", "--workers", "2", "--no-worker"]);
    assert_eq!(neither.code, 2, "{neither:?}");
}

#[test]
fn top_tells_what_waits_and_why() {
    let bench = Bench::up(&["--memory-store"]);
    until("the worker", || bench.good(&["workers"]).contains("Available").then_some(()));
    let mistyped = bench.orlop(&["submit", "--tenant", "physisc", "--", "true"]);
    assert!(
        mistyped.code == 4 && mistyped.err.contains("there is no tenant `physisc` (there are default)"),
        "{mistyped:?}"
    );
    bench.good(&["quota", "set", "physics", "weight=100"]);
    let id = bench.good(&["submit", "--cpu", "1000000", "--memory", "1Mi", "--tenant", "physics", "--", "true"]);
    let top = until("what is blocked", || {
        let top = bench.good(&["top", "--interval", "100ms"]);
        top.contains("BLOCKED").then_some(top).filter(|top| top.contains(id.trim()))
    });
    assert!(top.contains("never fits 1"), "{top}");
    assert!(top.contains("normal  physics  0      1"), "{top}");
    assert!(top.contains("submitted/s") && top.contains("60-85%") && top.contains("1 Available"), "{top}");
    let stats = bench.orlop(&["top", "-o", "json"]).json();
    assert_eq!((&stats["totals"]["submitted"], &stats["totals"]["ended"]), (&json!(1), &json!(0)), "{stats:#}");
    assert_eq!(stats["blocked"][0]["first"], json!(id.trim()));
    assert_eq!(bench.orlop(&["submit", "--cpu", "10m", "--memory", "1Mi", "--wait", "--", "true"]).code, 0);
    until("the count of ends", || {
        let totals = bench.orlop(&["top", "-o", "json"]).json()["totals"].clone();
        (totals == json!({ "submitted": 2, "started": 1, "ended": 1 })).then_some(())
    });
}

#[test]
fn a_server_that_can_be_reached_from_outside_says_how() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let data = dir.path().join("data");
    let token = data.join("client.token");
    let mut command = crate::role::program();
    command.args(["up", "--listen", "0.0.0.0:0", "--grpc-listen", "127.0.0.1:0", "--no-worker", "--data"]).arg(&data);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().expect("the program starts");
    let mut out = child.stdout.take().expect("its output");
    let mut text = String::new();
    let began = std::time::Instant::now();
    while !text.contains("--name HOST") && began.elapsed() < PATIENCE {
        let mut bytes = [0; 4096];
        let read = out.read(&mut bytes).expect("it is read");
        assert!(read > 0, "it has ended: {text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    let ca = data.join("tls/authority.pem");
    let reported = format!("--ca-file {} --token-file {}", ca.display(), token.display());
    let good = text.contains(&reported) && text.contains("https://") && text.contains("ORLOP_CA_FILE");
    // It does as it says.
    let port = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("REST")?.trim().trim_end_matches("/api/v1").rsplit_once(':'));
    let port = port.map(|(_, port)| port.to_owned()).unwrap_or_default();
    let server = format!("https://localhost:{port}");
    let bench = Bench::nowhere();
    let access =
        ["--ca-file".to_owned(), ca.display().to_string(), "--token-file".to_owned(), token.display().to_string()];
    let args: Vec<&str> = ["jobs"].into_iter().chain(access.iter().map(String::as_str)).collect();
    let listed = until("the first token", || Some(bench.orlop_at(&server, &args)).filter(|gave| gave.code == 0));
    drop(child.kill());
    drop(child.wait());
    assert!(good, "{text}");
    assert_eq!(listed.out, "no jobs\n");
}
