//! Flows of a server by its program and the command line: submitted, decided about, read, killed in the middle.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::bench::{Bench, Gave, PATIENCE};

/// A step that runs a script, as a process.
fn step(name: &str, script: &str, after: &[&str]) -> Value {
    let container = json!({
        "name": "main", "command": ["/bin/sh", "-c", script],
        "resources": { "requests": { "cpu": "100m", "memory": "32Mi" } },
    });
    let pod = json!({ "containers": [container], "terminationGracePeriodSeconds": 1 });
    let template = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": { "spec": pod } } });
    json!({ "name": name, "dependencies": after, "template": template })
}

fn write(bench: &Bench, name: &str, steps: &[Value]) -> String {
    write_spec(bench, name, &json!({ "steps": steps }))
}

fn write_spec(bench: &Bench, name: &str, spec: &Value) -> String {
    let flow = json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": name }, "spec": spec,
    });
    let path = bench.place(&format!("{name}.json"));
    std::fs::write(&path, flow.to_string()).expect("a file is written");
    path.display().to_string()
}

/// One of the steps of a status; null where it is not there.
fn of(steps: &Value, name: &str) -> Value {
    let found = steps.as_array().and_then(|steps| steps.iter().find(|known| known["name"] == name));
    found.cloned().unwrap_or_default()
}

fn phase(bench: &Bench, name: &str, step: &str) -> String {
    let flow = bench.orlop(&["flow", "get", name, "--target", "fleet", "-o", "json"]);
    if flow.code != 0 {
        return String::new();
    }
    of(&flow.json()["status"]["steps"], step)["phase"].as_str().unwrap_or_default().to_owned()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_flow_is_handed_over_watched_and_read() {
    let bench = Bench::up(&["--memory-store"]);
    let mut one = step("one", "echo first; mkdir /tmp/d; echo x > /tmp/d/f; echo y > /tmp/y", &[]);
    one["outputs"] = json!({ "artifacts": [{ "name": "d", "path": "/tmp/d" }, { "name": "y", "path": "/tmp/y" }] });
    let file = write(&bench, "good", &[one, step("two", "echo second; echo more >&2", &["one"])]);
    let options = ["--target", "fleet"];
    let done = bench.orlop(&[&["flow", "submit", &file, "--watch"][..], &options].concat());
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.err.contains("two Succeeded") && done.out.contains("Succeeded"), "{done:?}");
    let logs = bench.good(&["flow", "logs", "good", "--target", "fleet"]);
    let mut lines: Vec<&str> = logs.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one/1 first", "two/1 more", "two/1 second"]);
    assert_eq!(bench.good(&["flow", "logs", "good", "one", "--target", "fleet"]), "one/1 first\n");
    let list = bench.good(&["flow", "list", "--target", "fleet"]);
    assert!(list.contains("good") && list.contains("2/2"), "{list}");
    let jobs = bench.good(&["jobs", "-o", "name"]);
    assert_eq!(jobs.lines().count(), 2, "each attempt is one job");
    let results = bench.place("results");
    let artifacts = ["flow", "artifacts", "good", "--target", "fleet", "--to", &results.display().to_string()];
    assert!(bench.good(&artifacts).contains("results/one/d"));
    let text = |name: &str| std::fs::read_to_string(results.join("one").join(name)).expect("it is written");
    assert_eq!([text("d/f"), text("y")], ["x\n", "y\n"]);
    assert_eq!(std::fs::read_dir(&results).expect("a folder").count(), 1, "nothing else is left");

    let file = write(&bench, "bad", &[step("one", "exit 7", &[]), step("two", "true", &["one"])]);
    let run = bench.orlop(&["run", &file, "--target", "fleet", "-o", "json"]);
    assert_eq!(run.code, 1, "{run:?}");
    let status: Value = serde_json::from_str(&run.out).expect("the object");
    let reasons: Vec<&str> =
        status["status"]["steps"].as_array().unwrap().iter().map(|s| s["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["NonZeroExit", "DependencyFailed"]);
    let again = bench.good(&["flow", "retry", "bad", "--target", "fleet"]);
    assert_eq!(again.trim(), "bad-r2");
    assert_eq!(bench.orlop(&["flow", "watch", "bad-r2", "--target", "fleet"]).code, 1);

    let refused = bench.orlop(&["flow", "retry", "good", "--target", "fleet"]);
    assert!(refused.code == 5 && refused.err.contains("--force"), "{refused:?}");
    let file = write(&bench, "bad", &[step("one", "true", &[]), step("two", "echo ok", &["one"])]);
    assert_eq!(bench.good(&["flow", "retry", "bad", &file, "--target", "fleet"]).trim(), "bad-r3");
    assert_eq!(bench.orlop(&["flow", "watch", "bad-r3", "--target", "fleet"]).code, 0);
}

#[test]
fn people_decide_about_flows_of_a_server() {
    let bench = Bench::up(&["--memory-store"]);
    let gate = json!({ "name": "gate", "type": "Manual" });
    let file =
        write(&bench, "release", &[gate, step("then", "echo on", &["gate"]), step("long", "sleep 600", &["then"])]);
    let fleet = ["--target", "fleet"];
    let verb = |words: &[&str]| bench.orlop(&[&["flow"], words, &fleet].concat());
    let name = bench.good(&[&["flow", "submit", &file][..], &fleet].concat());
    assert_eq!(name, "release\n");
    assert_eq!(verb(&["submit", &file]).code, 5, "the name is taken");
    until("the gate", || phase(&bench, "release", "gate") == "PendingApproval");
    let late = verb(&["watch", "release", "--timeout", "100ms"]);
    assert_eq!(late.code, 8, "{late:?}");
    assert_eq!(verb(&["approve", "release", "nothing"]).code, 4);
    assert_eq!(verb(&["approve", "release", "gate", "--reason", "seen"]).code, 0);
    assert_eq!(verb(&["reject", "release", "gate"]).code, 5);
    until("the last step", || phase(&bench, "release", "long") == "Running");
    assert_eq!(verb(&["delete", "release"]).code, 5);
    assert_eq!(verb(&["terminate", "release"]).code, 0);
    assert_eq!(verb(&["watch", "release"]).code, 9);
    assert_eq!(verb(&["stop", "release"]).code, 5);
    assert_eq!(verb(&["delete", "release"]).code, 0);
    assert_eq!(verb(&["get", "release"]).code, 4);
    let wrong = bench.place("wrong.yaml");
    std::fs::write(&wrong, "name: x\nsteps:\n- {name: a, depends_on: [b], job_spec: {comand: [x]}}\n").unwrap();
    let refused = verb(&["submit", &wrong.display().to_string()]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("steps[0]"), "{}", refused.err);
    let nobody = bench.orlop_at("http://127.0.0.1:9", &["flow", "list", "--target", "fleet"]);
    assert_eq!(nobody.code, 7, "{nobody:?}");
}

#[test]
fn a_server_that_is_killed_in_the_middle_goes_on_with_its_flows() {
    let mut bench = Bench::up(&[]);
    // Steps have a `/tmp` of their own, so that nothing below it would do.
    let place = tempfile::tempdir_in("/var/tmp").expect("a temporary directory");
    let reported = place.path().join("reported");
    let tell = |name: &str, seconds: &str| format!("sleep {seconds}; echo {name} >> {}", reported.display());
    let steps = [
        step("one", &tell("one", "0"), &[]),
        step("two", &tell("two", "6"), &["one"]),
        step("side", &tell("side", "1"), &["one"]),
        step("three", &tell("three", "0"), &["two", "side"]),
    ];
    let file = write(&bench, "long", &steps);
    bench.good(&["flow", "submit", &file, "--target", "fleet"]);
    until("the middle", || phase(&bench, "long", "two") == "Running" && phase(&bench, "long", "one") == "Succeeded");
    bench.signal(Signal::SIGKILL);
    bench.end();
    bench.start(&[]);
    let done = bench.orlop(&["flow", "watch", "long", "--target", "fleet", "--timeout", "60s"]);
    assert_eq!(done.code, 0, "{done:?}");
    let written = std::fs::read_to_string(&reported).expect("what the steps wrote");
    let mut lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines.last(), Some(&"three"), "{lines:?}");
    lines.sort_unstable();
    assert_eq!(lines, ["one", "side", "three", "two"], "every step ran once");
    let flow = bench.orlop(&["flow", "get", "long", "--target", "fleet", "-o", "json"]).json();
    let attempts = flow["status"]["steps"].as_array().unwrap().iter().map(|step| step["attempt"].clone());
    assert!(attempts.into_iter().all(|attempt| attempt == 1), "{flow}");
}

#[test]
fn secrets_of_the_tenant_reach_steps_and_are_masked() {
    let bench = Bench::up(&["--memory-store"]);
    let set = bench.orlop_with(&["secret", "set", "db.password"], b"hunter22");
    assert_eq!(set.code, 0, "{set:?}");
    let mut reads = step("reads", "test \"$P\" = hunter22 && echo it is $P", &[]);
    let env = json!([{ "name": "P", "valueFrom": { "secretKeyRef": { "name": "db", "key": "password" } } }]);
    reads["template"]["spec"]["template"]["spec"]["containers"][0]["env"] = env;
    let file = write(&bench, "secret", &[reads]);
    let done = bench.orlop(&["run", &file, "--target", "fleet"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(bench.good(&["flow", "logs", "secret", "--target", "fleet"]), "reads/1 it is ***\n");
}

/// What is asked of a file.
fn of_a_file(verb: &dyn Fn(&[&str]) -> Gave, bench: &Bench, file: &str) {
    let plan = verb(&["plan", file]);
    assert!(plan.code == 0 && plan.out.contains("wave 1"), "{plan:?}");
    let graph = verb(&["graph", file, "-o", "dot"]);
    assert!(graph.code == 0 && graph.out.contains("digraph"), "{graph:?}");
    assert_eq!(bench.orlop(&["flow", "validate", file, "--target", "fleet"]).code, 0);
}

/// Why steps of a flow wait that waits for a person, and what is said of logs that are not there.
fn of_a_paused_flow(verb: &dyn Fn(&[&str]) -> Gave) {
    let why = verb(&["explain", "all"]);
    assert!(
        why.code == 0 && why.out.contains("gate is PendingApproval") && why.out.contains("late is Pending"),
        "{why:?}"
    );
    assert_eq!(verb(&["explain", "all", "none"]).code, 4);
    let items = verb(&["logs", "all", "one", "--item", "3"]);
    assert!(items.code == 4 && items.err.contains("has no instances"), "{items:?}");
    let why = verb(&["logs", "all", "late"]);
    assert!(why.code == 0 && why.err.contains("no attempt of `late` has started"), "{why:?}");
}

#[test]
fn every_verb_works_on_flows_of_a_server() {
    let bench = Bench::up(&["--memory-store"]);
    let fleet = ["--target", "fleet"];
    let verb = |words: &[&str]| bench.orlop(&[&["flow"], words, &fleet].concat());
    let gate = json!({ "name": "gate", "type": "Manual" });
    let object = json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow",
        "metadata": { "name": "all", "labels": { "team": "red" } },
        "spec": { "steps": [step("one", "echo early", &[]), gate, step("late", "echo late", &["one", "gate"])] },
    });
    let path = bench.place("all.json");
    std::fs::write(&path, object.to_string()).expect("a file is written");
    let file = path.display().to_string();
    of_a_file(&verb, &bench, &file);
    // A run that waits for nobody is left as soon as only a person can go on.
    let left = bench.orlop(&["run", &file, "--target", "fleet", "--no-wait-approval"]);
    assert_eq!(left.code, 10, "{left:?}");
    let graph = verb(&["graph", "all"]);
    assert!(graph.code == 0 && graph.out.contains("gate"), "{graph:?}");
    assert_eq!(verb(&["graph", "none"]).code, 4);
    of_a_paused_flow(&verb);
    // Lists.
    let listed = |label: &str| verb(&["list", "-l", label, "-o", "name"]).out;
    assert_eq!((listed("team=red").as_str(), listed("team=blue").as_str()), ("all\n", ""));
    assert_eq!(verb(&["list", "--phase", "Paused", "-o", "name"]).out, "all\n");
    // Suspended it starts nothing, not even what was approved.
    assert_eq!(verb(&["suspend", "all", "--mode", "suspend"]).code, 2);
    assert_eq!(verb(&["suspend", "all"]).code, 0);
    assert_eq!(verb(&["approve", "all", "gate"]).code, 0);
    // A log that is followed goes on with steps that begin later.
    let logs = bench.begin(&["flow", "logs", "all", "--follow", "--target", "fleet"]);
    until("the flow is suspended", || verb(&["get", "all"]).out.contains("Suspended"));
    assert_eq!(verb(&["resume", "all"]).code, 0);
    assert_eq!(verb(&["watch", "all", "--timeout", "60s"]).code, 0);
    let reported = Gave::of(logs.wait_with_output().expect("it ends"));
    let mut lines: Vec<&str> = reported.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((reported.code, lines), (0, vec!["late/1 late", "one/1 early"]), "{reported:?}");
    assert_eq!(verb(&["logs", "all", "one", "--since", "1h"]).out, "one/1 early\n");
    assert_eq!(verb(&["logs", "none"]).code, 4);
    // Ends of several kinds.
    let again = |name: &str| {
        let words = ["flow", "submit", &file, "--name", name];
        bench.orlop(&[&words[..], &fleet].concat()).code
    };
    assert_eq!(again("second"), 0);
    assert_eq!(verb(&["stop", "second"]).code, 0);
    assert_eq!(verb(&["watch", "second"]).code, 9);
    assert_eq!(again("third"), 0);
    assert_eq!(verb(&["delete", "third"]).code, 5, "it has not ended");
    let gone = verb(&["delete", "third", "--force"]);
    assert_eq!((gone.code, gone.out.as_str()), (0, "third deleted\n"), "{gone:?}");
    assert_eq!(verb(&["delete", "--older-than", "72h"]).out, "");
    let gone = verb(&["delete", "--completed"]);
    let mut names: Vec<&str> = gone.out.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["all deleted", "second deleted"], "{gone:?}");
    assert_eq!(verb(&["list", "-o", "name"]).out, "");
    // What is counted of all that.
    let metrics = bench.get("/metrics", "");
    for line in [
        "orlop_flows_finished_total{outcome=\"Succeeded\",reason=\"\"} 1",
        "orlop_flows_finished_total{outcome=\"Failed\",reason=\"Stopped\"} 1",
        "orlop_flows{phase=\"Running\"} 0",
        "orlop_approvals_pending 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
}

/// As a step whose containers need an engine that no worker has.
#[test]
fn a_step_that_no_worker_can_take_says_so_and_the_first_interrupt_ends_its_flow() {
    let bench = Bench::up(&["--memory-store"]);
    let mut large = step("large", "true", &[]);
    large["template"]["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("4000");
    let file = write(&bench, "stuck", &[large]);
    let mut run = bench.begin(&["run", &file, "--target", "fleet"]);
    let lines = BufReader::new(run.stderr.take().expect("its errors")).lines();
    let mut lines = lines.map(|line| line.expect("a line"));
    let why = lines.find(|line| line.contains("large waits: ")).expect("why it waits");
    assert!(why.contains("orlop job get j") && why.contains("workers lack cpu: needs 4000000m"), "{why}");
    let pid = Pid::from_raw(i32::try_from(run.id()).expect("a process id"));
    kill(pid, Signal::SIGTERM).expect("the signal is sent");
    let rest: Vec<String> = lines.collect();
    assert_eq!(run.wait().expect("it ends").code(), Some(9), "{rest:?}");
    assert_eq!(phase(&bench, "stuck", "large"), "Failed");
}

/// A step beside which no other of its kind runs on a worker.
fn alone(name: &str, script: &str) -> Value {
    let most = std::thread::available_parallelism().expect("the machine has processors").get() * 600;
    let mut step = step(name, script, &[]);
    let pod = &mut step["template"]["spec"]["template"]["spec"];
    pod["containers"][0]["resources"]["requests"]["cpu"] = json!(format!("{most}m"));
    step
}

/// Two steps of which a worker has one; the other waits.
#[test]
fn a_graceful_stop_lets_what_runs_finish_ends_what_waits_for_a_worker_and_runs_finally() {
    let bench = Bench::up(&["--memory-store"]);
    let spec = json!({"steps": [alone("a", "sleep 3"), alone("b", "sleep 3")], "finally": [step("last", "true", &[])]});
    let file = write_spec(&bench, "halted", &spec);
    let mut run = bench.begin(&["run", &file, "--target", "fleet"]);
    let lines = BufReader::new(run.stderr.take().expect("its errors")).lines();
    let mut lines = lines.map(|line| line.expect("a line"));
    lines.find(|line| line.contains(" waits: ")).expect("one waits");
    assert_eq!(bench.orlop(&["flow", "stop", "halted", "--target", "fleet"]).code, 0);
    let rest: Vec<String> = lines.collect();
    assert_eq!(run.wait().expect("it ends").code(), Some(9), "{rest:?}");
    let status = bench.orlop(&["flow", "get", "halted", "--target", "fleet", "-o", "json"]).json()["status"].clone();
    let ends = |name| (of(&status["steps"], name)["phase"].clone(), of(&status["steps"], name)["reason"].clone());
    let mut main = [ends("a"), ends("b")];
    main.sort_by_key(|(phase, _)| phase.to_string());
    assert_eq!(main[0], (json!("Failed"), json!("Stopped")), "{status}");
    assert_eq!((&main[1].0, ends("last").0), (&json!("Succeeded"), json!("Succeeded")), "{status}");
}

/// Three steps that only run one after the other, each with less time than it has to wait.
#[test]
fn the_time_in_a_queue_is_not_that_of_the_step() {
    let bench = Bench::up(&["--memory-store"]);
    let of_two_seconds = |name| {
        let mut step = alone(name, "sleep 1.2");
        step["timeoutSeconds"] = json!(2);
        step
    };
    let file = write(&bench, "queue", &["a", "b", "c"].map(of_two_seconds));
    let gave = bench.orlop(&["run", &file, "--target", "fleet"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let steps =
        bench.orlop(&["flow", "get", "queue", "--target", "fleet", "-o", "json"]).json()["status"]["steps"].clone();
    let waited: Vec<u64> = ["a", "b", "c"].map(|name| of(&steps, name)["waitedSeconds"].as_u64().unwrap_or(0)).into();
    assert_eq!(waited.iter().filter(|seconds| **seconds >= 1).count(), 2, "{steps}");
}
