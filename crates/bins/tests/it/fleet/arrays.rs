//! Arrays on the command line: how far they are, which elements failed, and verbs about single elements.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::bench::Bench;
use super::programs::until;

const SMALL: [&str; 5] = ["submit", "--cpu", "100m", "--memory", "1Mi"];

fn submit(bench: &Bench, more: &[&str], script: &str) -> String {
    bench.good(&[&SMALL, more, &["--", "sh", "-c", script]].concat()).trim().to_owned()
}

#[test]
fn an_array_shows_how_far_it_is_and_which_elements_failed() {
    let bench = Bench::up(&["--memory-store"]);
    let script = "echo out {{index}}; test {{index}} -ne 3 || exit 3";
    let ended = bench.orlop(&[&SMALL[..], &["--array", "0-9", "--wait", "--", "sh", "-c", script]].concat());
    assert_eq!(ended.code, 1, "{ended:?}");
    let id = ended.out.trim();
    let jobs = bench.good(&["jobs"]);
    assert!(jobs.contains("9/10, 1 failed") && jobs.contains(" sh "), "a name is the program's: {jobs}");
    let job = bench.orlop(&["job", "get", id, "-o", "json"]).json();
    let counts = json!({"waiting": 0, "running": 0, "completed": 9, "failed": 1, "timed_out": 0, "cancelled": 0});
    assert_eq!(job["elements"], counts, "{job}");
    let page = bench.good(&["job", "get", id]);
    assert!(
        page.contains("tasks      9/10, 1 failed") && page.contains("command    sh -c 'echo out {{index}};"),
        "{page}"
    );

    assert_eq!(bench.good(&["elements", id, "--state", "failed", "-o", "name"]), format!("{id}.3\n"));
    let table = bench.good(&["elements", id]);
    assert_eq!(table.lines().count(), 11, "{table}");
    let some = bench.orlop(&["elements", &format!("{id}.2-4,8"), "-o", "json"]).json();
    let states: Vec<&Value> = some["items"].as_array().expect("items").iter().map(|item| &item["state"]).collect();
    assert_eq!(states, ["Completed", "Failed", "Completed", "Completed"]);
    let short = bench.orlop(&["elements", id, "--limit", "4"]);
    assert!(short.out.lines().count() == 5 && short.err.contains("the first 4"), "{short:?}");

    let third = format!("{id}.3");
    let page = bench.good(&["job", "get", &third]);
    assert!(page.contains("index      3") && page.contains("exit code  3") && page.contains("ATTEMPT"), "{page}");
    assert_eq!(bench.orlop(&["job", "get", &third, "-o", "json"]).json()["exit_code"], 3);
    assert!(bench.good(&["job", "get", &third, "--explain"]).starts_with("Failed; "));
    assert_eq!(bench.orlop(&["job", "get", &format!("{id}.10")]).code, 4);
    assert_eq!((bench.orlop(&["wait", &third]).code, bench.orlop(&["wait", &format!("{id}.4-9")]).code), (1, 0));
    assert_eq!(bench.orlop(&["wait", id]).code, 1);

    let again = bench.good(&["job", "retry", &format!("{id}.3,5")]);
    let again = bench.orlop(&["wait", again.trim(), "-o", "json"]);
    assert!(again.code == 1 && again.out.contains("\"count\": 2"), "{again:?}");
    let again = bench.good(&["job", "retry", id]);
    assert_eq!(bench.orlop(&["job", "get", again.trim(), "-o", "json"]).json()["count"], 1);
    assert_eq!(bench.orlop(&["job", "retry", &format!("{id}.10")]).code, 4);
    assert_eq!(bench.orlop(&["logs", &format!("{id}.x")]).code, 2);
}

#[test]
fn elements_that_wait_are_cancelled_explained_and_retried_by_their_index() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let id = submit(&bench, &["--array", "0-98:2", "--name", "sweep"], "true");
    let job = bench.orlop(&["job", "get", &id, "-o", "json"]).json();
    assert_eq!((&job["count"], &job["elements"]["waiting"]), (&json!(50), &json!(50)));
    let some = format!("{id}.10,12,14");
    let cancelled = bench.orlop(&["cancel", &some, "--wait"]);
    assert_eq!((cancelled.code, cancelled.out.as_str()), (0, format!("{some} Cancelled\n").as_str()), "{cancelled:?}");
    assert_eq!(bench.good(&["cancel", &format!("{id}.16"), "--wait"]), format!("{id}.16 Cancelled\n"));
    assert!(bench.orlop(&["cancel", &format!("{id}.10,12")]).err.contains("had ended before"));
    assert_eq!(bench.orlop(&["cancel", &format!("{id}.11")]).code, 4, "there is no such element");
    let names = bench.good(&["elements", &id, "--state", "Cancelled", "-o", "name"]);
    assert_eq!(names, [10, 12, 14, 16].map(|index| format!("{id}.{index}\n")).concat());
    let jobs = bench.good(&["jobs"]);
    assert!(jobs.contains("0/50, 4 cancelled") && jobs.contains("sweep"), "{jobs}");
    assert!(bench.good(&["job", "get", &format!("{id}.10"), "--explain"]).starts_with("Cancelled"));
    assert!(bench.good(&["job", "get", &format!("{id}.20"), "--explain"]).contains("Queued"));
    let again = bench.good(&["job", "retry", &format!("{id}.10")]);
    assert_eq!(bench.orlop(&["job", "get", again.trim(), "-o", "json"]).json()["retry_of"], id.as_str());
    let live = bench.orlop(&["job", "retry", &format!("{id}.20")]);
    assert!(live.code == 5 && live.err.contains("element 20"), "{live:?}");
    let odd = bench.orlop(&["logs", &format!("{id}.11-12")]);
    assert!(odd.code == 4 && odd.err.contains("element 11"), "{odd:?}");
    let single = submit(&bench, &["--timeout", "1d12h"], "true");
    assert_eq!(bench.orlop(&["job", "get", &single, "-o", "json"]).json()["spec"]["timeout_ms"], 36 * 3_600_000);
    let no_array = bench.orlop(&["cancel", &format!("{single}.0")]);
    assert!(no_array.code == 3 && no_array.err.contains("not an array"), "{no_array:?}");
}

#[test]
fn the_output_of_an_array_comes_in_the_order_of_its_elements() {
    let bench = Bench::up(&["--memory-store"]);
    // One is longer than what is read at once, one has no line feed at its end, and one says nothing.
    let script = "case {{index}} in 2) seq 30000;; 3) printf half;; 4) ;; *) echo out {{index}}; echo err >&2;; esac";
    let id = submit(&bench, &["--array", "0-5", "--wait"], script);
    let long: String = (1..=30_000).map(|n| format!("{n}\n")).collect();
    let wanted = format!("out 0\nout 1\n{long}half\nout 5\n");
    let plain = bench.good(&["logs", &id, "--no-prefix", "--stdout"]);
    assert!(plain == wanted, "{} of {} bytes", plain.len(), wanted.len());
    let prefixed = bench.good(&["logs", &id, "--stdout"]);
    assert!(prefixed.starts_with("[0] out 0\n[1] out 1\n[2] 1\n[2] 2\n"), "{}", &prefixed[..200]);
    assert!(prefixed.ends_with("[2] 30000\n[3] half\n[5] out 5\n"));
    assert_eq!(bench.good(&["logs", &format!("{id}.3-5"), "--stdout"]), "[3] half\n[5] out 5\n");
    assert_eq!(bench.good(&["logs", &format!("{id}.3")]), "half");
    assert_eq!(bench.good(&["logs", &id, "--index", "5", "--stderr"]), "err\n");
    let text = bench.get(&format!("/jobs/{id}/logs?index=all&stream=stdout"), "");
    assert!(text.contains("half\r\n1\r\n\n\r\n"), "lines of two elements do not run into each other: {}", text.len());
    let refused = bench.get(&format!("/jobs/{id}/logs?index=0-1&follow"), "");
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
}

#[test]
fn a_followed_array_shows_what_runs_and_what_begins_later() {
    let bench = Bench::up(&["--memory-store"]);
    let gate = bench.place("gate");
    let script = format!(
        "echo begin {{{{index}}}}; [ {{{{index}}}} -ne 0 ] || until [ -e {} ]; do sleep 0.02; done; echo end {{{{index}}}}",
        gate.display()
    );
    let id = submit(&bench, &["--array", "0-4", "--max-parallel", "2"], &script);
    let mut follow = bench.begin(&["logs", "-f", &id]);
    let mut wait = bench.begin(&["wait", &id]);
    let mut progress = BufReader::new(wait.stderr.take().expect("its errors")).lines();
    let mut lines = BufReader::new(follow.stdout.take().expect("its output")).lines().map(|line| line.expect("a line"));
    let mut seen = Vec::new();
    while !["[0] begin 0", "[4] end 4"].iter().all(|line| seen.iter().any(|seen| seen == line)) {
        seen.push(lines.next().expect("it goes on"));
    }
    assert!(!seen.contains(&"[0] end 0".to_owned()), "{seen:?}");
    assert!(progress.any(|line| line.expect("a line") == "4/5 done"), "whoever waits sees how far it is");
    let mut given_up = bench.begin(&["wait", &id]);
    let mut said =
        BufReader::new(given_up.stderr.take().expect("its errors")).lines().map(|line| line.expect("a line"));
    assert_eq!(said.next().as_deref(), Some("4/5 done"));
    kill(Pid::from_raw(given_up.id().try_into().expect("a process")), Signal::SIGINT).expect("it runs");
    assert!(said.any(|line| line.starts_with(&format!("{id} is not cancelled"))), "it goes on, and that is said");
    assert_eq!(given_up.wait().expect("it ends").code(), Some(130));
    std::fs::write(&gate, "").expect("a file");
    let waited = wait.wait_with_output().expect("it ends");
    assert!(waited.status.success() && waited.stdout.ends_with(b" Completed: 5/5\n"), "{waited:?}");
    seen.extend(lines);
    assert!(follow.wait().expect("it ends").success());
    let mut wanted: Vec<String> = (0..5).flat_map(|n| [format!("[{n}] begin {n}"), format!("[{n}] end {n}")]).collect();
    wanted.sort();
    seen.sort();
    assert_eq!(seen, wanted, "each line once");
}

#[test]
fn following_an_array_survives_a_server_that_is_killed() {
    let mut bench = Bench::up(&[]);
    let (go, end) = (bench.place("go"), bench.place("end"));
    let wait = |file: &std::path::Path| format!("until [ -e {} ]; do sleep 0.02; done", file.display());
    let script =
        format!("echo begun; printf before{{{{index}}}}; {}; echo between; {}; echo after", wait(&go), wait(&end));
    let id = submit(&bench, &["--array", "5-6"], &script);
    let shown = || bench.good(&["logs", &id]).lines().count() == 4;
    until("both write", || shown().then_some(()));
    let mut follow = bench.begin(&["logs", &id, "--follow"]);
    let mut shown = BufReader::new(follow.stdout.take().expect("its output")).lines();
    let mut lines: Vec<String> = shown.by_ref().take(2).map(|line| line.expect("a line")).collect();
    let address = bench.address();
    bench.signal(nix::sys::signal::Signal::SIGKILL);
    bench.end();
    std::fs::write(&go, "").expect("a file");
    bench.start_at(&address, &[]);
    std::fs::write(&end, "").expect("a file");
    let ended = follow.wait_with_output().expect("it ends");
    lines.extend(shown.map(|line| line.expect("a line")));
    lines.sort_unstable();
    let wanted = ["[5] after", "[5] before5between", "[5] begun", "[6] after", "[6] before6between", "[6] begun"];
    assert!(ended.status.success() && lines == wanted, "{lines:?} {}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn what_an_array_left_is_fetched_at_once_and_named_by_job_and_element() {
    let bench = Bench::up(&[]);
    let id = submit(&bench, &["--array", "0-2", "--out", "who=who.txt", "--wait"], "echo {{index}} > who.txt");
    let dir = bench.place("results");
    let all = ["artifacts", "get", &id, "--all", "--dir", dir.to_str().expect("a path")];
    let fetched = |files: usize, new: usize| {
        let done = bench.orlop(&[&all[..], &["-o", "json"]].concat()).json();
        assert_eq!(done, json!({"files": files, "fetched": new, "there": files - new}));
    };
    fetched(3, 3);
    assert_eq!(std::fs::read_to_string(dir.join("1/who")).expect("a file"), "1\n");
    std::fs::write(dir.join("1/who"), "x\n").expect("a file");
    fetched(3, 1);
    assert_eq!(std::fs::read_to_string(dir.join("1/who")).expect("a file"), "1\n");
    fetched(3, 0);
    let page = bench.get(&format!("/jobs/{id}/artifacts?limit=2"), "");
    let page: Value = serde_json::from_str(page.split_once("\r\n\r\n").expect("a body").1).expect("JSON");
    let next = page["next_cursor"].as_str().expect("there is more");
    let rest = bench.get(&format!("/jobs/{id}/artifacts?limit=2&cursor={next}"), "");
    assert!(page["items"].as_array().is_some_and(|items| items.len() == 2) && rest.contains("\"index\":2"), "{rest}");
    let some = bench.orlop(&["artifacts", "list", &format!("{id}.1-2"), "-o", "json"]).json();
    assert_eq!(some["items"].as_array().map(Vec::len), Some(2), "{some}");
    assert_eq!(bench.good(&["artifacts", "get", &format!("{id}.2"), "who"]), "2\n");

    let cat = |input: &str| bench.orlop(&[&SMALL[..], &["--in", input, "--follow", "--", "cat", "in"]].concat());
    assert_eq!(cat(&format!("@{id}.2/who:in")).out, "2\n");
    let several = cat(&format!("@{id}/who:in"));
    assert!(several.code == 2 && several.err.contains(&format!("{id}.0/who.txt")), "{several:?}");
    let ambiguous = cat("@who:in");
    assert!(ambiguous.code == 3 && ambiguous.err.contains(&format!("{id}.1/who")), "{ambiguous:?}");
    // Of a pattern the folder names what is found, which is fetched as it stood there.
    let script = "mkdir results; for name in a b; do echo {{index}} > results/$name.csv; done";
    let found = submit(&bench, &["--array", "0-1", "--out", "results/*.csv", "--wait"], script);
    let dir = bench.place("found");
    bench.good(&["artifacts", "get", &found, "--all", "--dir", dir.to_str().expect("a path")]);
    assert_eq!(std::fs::read_to_string(dir.join("1/results/b.csv")).expect("a file"), "1\n");
    let single = submit(&bench, &["--out", "only=who.txt", "--wait"], "echo one > who.txt");
    assert_eq!((cat("@only:in").out, cat(&format!("@{single}/only:in")).out), ("one\n".to_owned(), "one\n".to_owned()));
    // What is uploaded by hand is what the name stands for from then on.
    std::fs::write(bench.place("mine"), "mine\n").expect("a file");
    bench.good(&["artifacts", "put", "who", "mine"]);
    assert_eq!(cat("@who:in").out, "mine\n");
}

#[test]
fn a_job_that_a_signal_ended_shows_it() {
    let bench = Bench::up(&["--memory-store"]);
    let killed = bench.orlop(&[&SMALL[..], &["--wait", "--", "sh", "-c", "kill -15 $$"]].concat());
    let page = bench.good(&["job", "get", killed.out.trim()]);
    assert!(page.contains("signal     15 (SIGTERM)") && page.contains("signal 15"), "{page}");
}

#[test]
fn a_watch_goes_on_over_a_restart_of_the_server() {
    let mut bench = Bench::up(&["--no-worker"]);
    let id = submit(&bench, &[], "true");
    let mut watch = bench.begin(&["jobs", "--watch", "-o", "name"]);
    let mut lines = BufReader::new(watch.stdout.take().expect("its output")).lines().map(|line| line.expect("a line"));
    assert_eq!(lines.next().as_deref(), Some(id.as_str()));
    let address = bench.address();
    bench.signal(nix::sys::signal::Signal::SIGKILL);
    bench.end();
    let mut errors = BufReader::new(watch.stderr.take().expect("its errors")).lines().map(|line| line.expect("a line"));
    assert!(errors.next().is_some_and(|line| line.ends_with("; trying again")), "it says so");
    bench.start_at(&address, &["--no-worker"]);
    assert_eq!(lines.next().as_deref(), Some(id.as_str()), "it goes on");
    assert_eq!(errors.next().as_deref(), Some("the server answers again"));
    watch.kill().expect("it is a child");
    watch.wait().expect("it ends");
}

#[test]
fn a_submit_that_comes_too_fast_waits_as_the_server_says() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let server = std::thread::spawn(move || {
        let slow = json!({"type": "urn:orlop:error:rate-limited", "title": "x", "status": 429, "detail": "too fast",
            "retry_after_ms": 200});
        let good = json!({"id": "j000000000000g", "ids": ["j000000000000g"]});
        for (status, body) in [("429 Too Many Requests", slow), ("202 Accepted", good)] {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            while !String::from_utf8_lossy(&request).contains("\"command\"") {
                let len = stream.read(&mut piece).expect("a request");
                request.extend_from_slice(&piece[..len]);
            }
            let body = body.to_string();
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("it is sent");
        }
    });
    let mut bench = Bench::nowhere();
    bench.use_token("any");
    let began = std::time::Instant::now();
    let made = bench.orlop_at(&address, &["submit", "--", "true"]);
    assert_eq!((made.code, made.out.trim()), (0, "j000000000000g"), "{made:?}");
    assert!(made.err.contains("waiting as the server asks") && began.elapsed().as_millis() >= 200, "{made:?}");
    server.join().expect("it was asked twice");
}

/// The commands of the page about arrays, as a reader runs them.
#[test]
fn the_example_of_an_array_in_the_documents_works() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/jobs-and-arrays.md"))
        .expect("the page");
    let (_, section) = page.split_once("## Arrays\n").expect("the section");
    let (_, block) = section.split_once("```sh\n").expect("its commands");
    let (commands, _) = block.split_once("```").expect("their end");
    let bench = Bench::up(&[]);
    let program = std::path::Path::new(crate::role::PROGRAM);
    let folder = program.parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", commands])
        .env("PATH", path)
        .env("ORLOP_SERVER", bench.address())
        .env("ORLOP_PROFILE", "");
    let ran = shell.current_dir(bench.place("")).stdin(Stdio::null()).output().expect("bash runs");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    assert!(out.contains("[7] element 7") && out.contains("10/10") && out.contains("Completed"), "{out}{err}");
    let left = bench.place("results/7/result");
    assert_eq!(until("what it left", || std::fs::read_to_string(&left).ok()), "49\n");
}
