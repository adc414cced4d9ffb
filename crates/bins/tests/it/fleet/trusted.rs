//! What flows of a fleet count and hand on: losses of workers, and values made of secrets.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::bench::{Bench, PATIENCE};

fn step(name: &str, container: Value) -> Value {
    let mut container = container;
    container["name"] = json!("main");
    container["resources"] = json!({ "requests": { "cpu": "100m", "memory": "32Mi" } });
    let pod = json!({ "containers": [container], "terminationGracePeriodSeconds": 1 });
    json!({ "name": name, "template": { "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": { "spec": pod } } } })
}

fn write(bench: &Bench, name: &str, spec: &Value) -> String {
    let flow = json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": name }, "spec": spec,
    });
    let path = bench.place(&format!("{name}.json"));
    std::fs::write(&path, flow.to_string()).expect("a file is written");
    path.display().to_string()
}

fn status(bench: &Bench, name: &str) -> Value {
    bench.orlop(&["flow", "get", name, "--target", "fleet", "-o", "json"]).json()["status"].clone()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The supervisors of a server's own worker.
fn supervisors(server: u32) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let of = |entry: std::fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
        let line = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        (parent == server && line.contains("__supervisor")).then(|| Pid::from_raw(pid))
    };
    processes.filter_map(of).collect()
}

#[test]
fn a_step_that_was_lost_runs_again_as_often_as_its_flow_allows() {
    let bench = Bench::up(&["--memory-store"]);
    for (limit, phase, attempts) in [(0, "Failed", 1), (1, "Succeeded", 2)] {
        let name = format!("limit-{limit}");
        let spec = json!({
            "executionPolicy": { "lostLimit": limit },
            "steps": [step("work", json!({ "command": ["/bin/sh", "-c", "sleep 3"] }))],
        });
        bench.good(&["flow", "submit", &write(&bench, &name, &spec), "--target", "fleet"]);
        let running = || status(&bench, &name)["progress"]["runningSteps"] == 1;
        let found = until("a run", || Some(supervisors(bench.pid())).filter(|all| running() && !all.is_empty()));
        for one in found {
            kill(one, Signal::SIGKILL).expect("it runs");
        }
        let end = until("the end", || Some(status(&bench, &name)).filter(|status| !status["completionTime"].is_null()));
        let work = &end["steps"][0];
        assert_eq!((&end["phase"], &work["attempt"]), (&json!(phase), &json!(attempts)), "{end}");
        assert_eq!(work["lostCount"].as_u64().unwrap_or_default(), limit, "{end}");
        let jobs = bench.orlop(&["jobs", "-o", "json"]).json();
        let of = |job: &&Value| job["labels"]["workflow.kube-zen.io/flow"] == name.as_str();
        let all = jobs["items"].as_array().or(jobs.as_array()).expect("jobs");
        assert_eq!(all.iter().filter(of).count(), attempts, "a job for each attempt: {jobs}");
    }
}

#[test]
fn options_of_runs_on_this_machine_are_refused_elsewhere() {
    let bench = Bench::nowhere();
    let file = write(&bench, "any", &json!({ "steps": [step("work", json!({ "command": ["true"] }))] }));
    for (option, value) in [("--allow-host-path", "."), ("--jobs", "4"), ("--workdir", ".")] {
        let run = bench.orlop_at("http://127.0.0.1:1", &["run", &file, "--target", "fleet", option, value]);
        assert!(run.code == 2 && run.err.contains(option) && run.err.contains("runs on this machine"), "{}", run.err);
    }
}

#[test]
fn a_value_that_is_made_of_a_secret_is_handed_on_as_it_is() {
    let bench = Bench::up(&["--memory-store"]);
    let secret = "hunter2-hunter2-hunter2";
    let set = bench.orlop_with(&["secret", "set", "s.k"], secret.as_bytes());
    assert_eq!(set.code, 0, "{}", set.err);
    let key = json!([{ "name": "K", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }]);
    let mut make = step(
        "make",
        json!({
            "command": ["/bin/sh", "-c", "printf 'user:%s' \"$K\" | base64 -w0 > /tmp/o"], "env": key,
        }),
    );
    make["outputs"] = json!({ "parameters": [{ "name": "o", "valueFrom": { "path": "/tmp/o" } }] });
    let mut take = step(
        "take",
        json!({
            "command": ["/bin/sh", "-c", "printf '%s' \"${parameters.o}\" | base64 -d | wc -c"],
        }),
    );
    take["dependencies"] = json!(["make"]);
    take["inputs"] = json!({ "parameters": [{ "name": "o", "valueFrom": { "jsonPath": "make:$.outputs.o" } }] });
    let file = write(&bench, "derived", &json!({ "steps": [make, take] }));
    let run = bench.orlop(&["run", &file, "--target", "fleet"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let log = bench.good(&["flow", "logs", "derived", "take", "--target", "fleet"]);
    assert!(log.contains(&format!("{}", "user:".len() + secret.len())), "{log}");
}

#[test]
fn a_step_hands_on_256_kib_of_outputs() {
    let bench = Bench::up(&["--memory-store"]);
    let line = |letter: char| format!("head -c 100000 /dev/zero | tr '\\0' {letter}");
    let mut make = step(
        "make",
        json!({
            "command": ["/bin/sh", "-c", format!("{} >/tmp/a; {} >/tmp/b", line('a'), line('b'))],
        }),
    );
    make["outputs"] = json!({ "parameters": [
        { "name": "a", "valueFrom": { "path": "/tmp/a" } }, { "name": "b", "valueFrom": { "path": "/tmp/b" } },
    ] });
    let mut read = step(
        "read",
        json!({
            "command": ["/bin/sh", "-c", "test ${#A} -eq 100000"],
            "env": [{ "name": "A", "value": "${parameters.a}" }],
        }),
    );
    read["inputs"] = json!({ "parameters": [{ "name": "a", "valueFrom": { "jsonPath": "make:$.outputs.a" } }] });
    read["dependencies"] = json!(["make"]);
    let flow = write(&bench, "large", &json!({ "steps": [make, read] }));
    let gave = bench.orlop(&["flow", "submit", &flow, "--target", "fleet", "--wait"]);
    assert_eq!(gave.code, 0, "{gave:?}");
}
