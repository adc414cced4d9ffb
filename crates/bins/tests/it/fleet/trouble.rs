//! What goes wrong: refusals, nobody there, tokens, a server that is killed.

use nix::sys::signal::Signal;
use serde_json::json;

use super::bench::Bench;

#[test]
fn exit_codes_of_usage_refusals_missing_jobs_and_no_server() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    assert_eq!(bench.orlop(&["submit"]).code, 2);
    assert_eq!(bench.orlop(&["submit", "--priority", "12", "--", "true"]).code, 2);
    let bad = bench.noop("bad.yaml", "comand: [x]\nretries: 1000\n");
    let refused = bench.orlop(&["submit", "-f", &bad]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("comand: is no field") && refused.err.contains("retries"), "{}", refused.err);
    assert_eq!(bench.orlop(&["job", "get", "j0000000000009"]).code, 4);
    let nobody = bench.orlop_at("http://127.0.0.1:9", &["jobs"]);
    assert_eq!(nobody.code, 7, "{nobody:?}");
    assert!(nobody.err.contains("is `orlop up` running there?"), "{}", nobody.err);
    assert_eq!(bench.orlop_at(&format!("http://127.0.0.1:9,{}", bench.address()), &["jobs"]).code, 0);
}

#[test]
fn s5_5_a_server_that_can_be_reached_from_outside_does_not_start() {
    let bench = Bench::up(&["--memory-store", "--no-worker"]);
    let open = bench.orlop(&["up", "--listen", "0.0.0.0:0", "--memory-store"]);
    assert_eq!(open.code, 2);
    assert!(open.err.contains("needs TLS and tokens"), "{}", open.err);
}

#[test]
fn s7_what_was_acknowledged_is_there_after_a_kill() {
    let mut bench = Bench::up(&["--no-worker"]);
    let file = bench.noop("job.yaml", "");
    let mut ids: Vec<String> = (0..5).map(|_| bench.good(&["submit", "-f", &file, "--cpu", "100000"])).collect();
    bench.signal(Signal::SIGKILL);
    bench.end();
    bench.start(&["--no-worker"]);
    let mut listed: Vec<String> = bench.good(&["jobs", "-o", "name"]).lines().map(|id| format!("{id}\n")).collect();
    ids.sort();
    listed.sort();
    assert_eq!(listed, ids);
    let top = bench.orlop(&["top", "-o", "json"]).json();
    assert_eq!((&top["epoch"], &top["jobs"]), (&json!(2), &json!(5)));
    bench.signal(Signal::SIGINT);
    assert_eq!(bench.end(), Some(0), "it ends in good order");
}

#[test]
fn s7_1_a_second_server_on_the_same_data_says_why_it_does_not_start() {
    let bench = Bench::up(&["--no-worker"]);
    let data = bench.data().display().to_string();
    let second = bench.orlop(&["up", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data", &data]);
    assert_eq!(second.code, 5, "{second:?}");
}

#[test]
fn s5_5_tokens_decide_who_may_what() {
    let mut bench = Bench::up(&["--memory-store", "--no-worker"]);
    let id = bench.good(&["submit", "--", "true"]);
    let made = |bench: &Bench, by: Option<&str>, body| {
        bench.post("/tokens", by, &body)["token"].as_str().expect("a token").to_owned()
    };
    let admin = made(&bench, None, json!({ "role": "admin", "tenants": ["*"] }));
    let stranger = bench.orlop(&["jobs"]);
    assert_eq!((stranger.code, stranger.err.contains("give a token")), (6, true), "{stranger:?}");
    let viewer = made(&bench, Some(&admin), json!({ "role": "viewer", "tenants": ["physics"] }));
    bench.use_token(&viewer);
    let refused = bench.orlop(&["submit", "--", "true"]);
    assert_eq!((refused.code, refused.err.contains("needs the role submitter")), (6, true), "{refused:?}");
    let foreign = bench.orlop(&["job", "get", id.trim()]);
    assert_eq!((foreign.code, foreign.err.contains("is not known")), (4, true), "{foreign:?}");
    assert_eq!(bench.good(&["jobs", "-o", "name"]), "");
    bench.use_token(&admin);
    assert_eq!(bench.good(&["jobs", "-o", "name"]), id);
}
