//! Logs of jobs on the real programs: short and long ones, of arrays, followed, over a restart of the server, and over REST.

use std::io::Read as _;
use std::process::Child;

use nix::sys::signal::Signal;

use super::bench::{Bench, PATIENCE};

const SMALL: [&str; 5] = ["submit", "--cpu", "100m", "--memory", "16Mi"];

fn sh<'a>(more: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&SMALL[..], more, &["--", "sh", "-c", script]].concat()
}

/// Everything a verb says until it ends: its code, its output, its errors.
fn ended(mut child: Child) -> (Option<i32>, String, String) {
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("its output").read_to_string(&mut out).expect("a text");
    child.stderr.take().expect("its errors").read_to_string(&mut err).expect("a text");
    (child.wait().expect("it is a child").code(), out, err)
}

#[test]
fn submit_follow_shows_what_the_job_writes_and_ends_as_it_does() {
    let bench = Bench::up(&["--memory-store"]);
    let good = bench.orlop(&sh(&["--follow"], "echo one; echo two >&2; sleep 0.4; printf 'three'"));
    assert_eq!((good.code, good.out.contains("one\n") && good.out.contains("two\n")), (0, true), "{good:?}");
    assert!(good.out.ends_with("three") && good.err.contains("Completed"), "{good:?}");
    let short = bench.orlop(&sh(&["--follow"], "echo only the tail; exit 3"));
    assert_eq!((short.code, short.out.as_str()), (1, "only the tail\n"), "{short:?}");
    assert_eq!(bench.orlop(&sh(&["--follow", "--exit-code"], "exit 7")).code, 7);
}

#[test]
fn logs_are_shown_by_stream_attempt_and_element() {
    let bench = Bench::up(&["--memory-store"]);
    let script = "echo try {{attempt}}; echo bad >&2; sleep 0.3; [ {{attempt}} = 2 ]";
    let job = bench.orlop(&sh(&["--retries", "1", "--wait"], script));
    let id = job.out.trim();
    assert_eq!(job.code, 0, "{job:?}");
    assert_eq!(bench.good(&["logs", id, "--stdout"]), "try 2\n");
    assert_eq!(bench.good(&["logs", id, "--stdout", "--attempt", "1"]), "try 1\n");
    assert_eq!(bench.good(&["logs", id, "--stderr"]), "bad\n");
    let lines = bench.good(&["logs", id, "--stdout", "--timestamps"]);
    assert!(lines.starts_with("20") && lines.trim_end().ends_with("Z try 2"), "{lines}");
    assert_eq!(bench.good(&["logs", id, "--stdout", "--since", "1h"]), "try 2\n");
    let events = |args: &[&str]| -> Vec<serde_json::Value> {
        let text = bench.good(&[&["logs", id, "-o", "json"], args].concat());
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
    };
    let both = events(&["--attempt", "1"]);
    assert!(both.iter().all(|event| event["event"] == "chunk" && event["attempt"] == 1), "{both:?}");
    let text = |stream: &str| {
        let of = both.iter().filter(|event| event["stream"] == stream);
        of.filter_map(|event| event["text"].as_str()).collect::<String>()
    };
    assert_eq!((text("stdout").as_str(), text("stderr").as_str()), ("try 1\n", "bad\n"));
    let yaml = bench.orlop(&["logs", id, "-o", "yaml"]);
    assert!(yaml.code == 2 && yaml.err.contains("-o json"), "{yaml:?}");
    let array = bench.orlop(&sh(&["--array", "0-2", "--wait"], "echo element {{index}}"));
    let id = array.out.trim();
    let events = bench.good(&["logs", id, "-o", "json"]);
    let indices = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("an object")["index"].as_u64();
    assert_eq!(events.lines().map(indices).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    assert_eq!(bench.good(&["logs", id]), "[0] element 0\n[1] element 1\n[2] element 2\n");
    assert_eq!(bench.good(&["logs", id, "--index", "1"]), "element 1\n");
    assert_eq!(bench.orlop(&["logs", id, "--index", "3"]).code, 4);
    assert_eq!(bench.orlop(&["logs", "j0000000000009"]).code, 4);
}

#[test]
fn following_survives_a_server_that_is_killed() {
    let mut bench = Bench::up(&[]);
    let (go, end) = (bench.place("go"), bench.place("end"));
    let script = format!(
        "echo before; until [ -e {} ]; do sleep 0.05; done; echo between; until [ -e {} ]; do sleep 0.05; done; echo after",
        go.display(),
        end.display()
    );
    let id = bench.good(&sh(&[], &script));
    let id = id.trim();
    let began = std::time::Instant::now();
    while bench.good(&["logs", id]) != "before\n" {
        assert!(began.elapsed() < PATIENCE, "it writes");
    }
    let following = bench.begin(&["logs", id, "--follow"]);
    let address = bench.address();
    bench.signal(Signal::SIGKILL);
    bench.end();
    std::fs::write(&go, "").expect("a file");
    bench.start_at(&address, &[]);
    std::fs::write(&end, "").expect("a file");
    let (code, out, err) = ended(following);
    assert_eq!((code, out.as_str()), (Some(0), "before\nbetween\nafter\n"), "nothing twice, nothing missing: {err}");
}

#[test]
fn logs_over_rest_are_text_or_events_with_positions() {
    let bench = Bench::up(&["--memory-store"]);
    // Each piece is sent before the next one is written.
    let files = ["go2", "go3", "go4"].map(|name| bench.place(name));
    let wait = |number: usize| format!("until [ -e {} ]; do sleep 0.05; done", files[number].display());
    let (second, third, end) = (wait(0), wait(1), wait(2));
    let script = format!("echo one; {second}; printf '\\377\\n'; {third}; echo three; {end}");
    let id = bench.good(&sh(&[], &script));
    let path = format!("/jobs/{}/logs", id.trim());
    for (piece, file) in ["one\n", "\u{fffd}\n", "three\n"].into_iter().zip(&files) {
        let began = std::time::Instant::now();
        while !bench.get(&path, "").contains(piece) {
            assert!(began.elapsed() < PATIENCE, "{piece:?} comes");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        std::fs::write(file, "").expect("a file");
    }
    bench.good(&["logs", id.trim(), "--follow"]);
    let text = bench.get(&path, "");
    assert!(text.contains("content-type: text/plain; charset=utf-8") && text.contains("one\n"), "{text}");
    let events = bench.get(&path, "Accept: text/event-stream\r\n");
    for part in [
        "id: 1.1\nevent: chunk\n",
        "\"text\":\"one\\n\"",
        "\"base64\":\"/wo=\"",
        "event: end\ndata: {\"state\":\"Completed\"}",
    ] {
        assert!(events.contains(part), "{part}: {events}");
    }
    let rest = bench.get(&path, "Accept: text/event-stream\r\nLast-Event-ID: 1.2\r\n");
    assert!(!rest.contains("one") && rest.contains("id: 1.3") && rest.contains("three"), "{rest}");
    assert!(!bench.get(&format!("{path}?since_seq=2"), "").contains("one"));
    assert!(bench.get(&path, "Accept: text/event-stream\r\nLast-Event-ID: x\r\n").starts_with("HTTP/1.1 400"));
}
