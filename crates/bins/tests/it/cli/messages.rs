//! What the program says of itself while it works and where nothing happens: failures that are tried again, supervisors that were
//! stopped, steps that never started, names and phases as they are shown.

use nix::sys::signal::Signal;
use serde_json::json;

use super::bench::{Bench, after, end, signal, step};

#[test]
fn a_failure_that_is_tried_again_is_shown_with_its_reason() {
    let bench = Bench::new();
    let mut again = step("a", "exit 3");
    again["retryPolicy"] = json!({"limit": 1, "backoff": {"type": "Fixed", "duration": "1s"}});
    let file = bench.flow("again", &json!({"steps": [again]}));
    let gave = bench.run(&file, &["--progress", "plain"]);
    assert_eq!(gave.code, 1, "{gave:?}");
    let lines: Vec<&str> =
        gave.err.lines().filter(|line| line.contains("a failed (attempt 1): NonZeroExit: ")).collect();
    assert!(lines.len() == 1 && lines[0].contains("exit code 3") && lines[0].contains("; tried again at "), "{gave:?}");
}

#[test]
fn a_step_that_never_started_has_no_log_for_a_reason() {
    let bench = Bench::new();
    assert_eq!(bench.run_steps("never", &json!([step("a", "exit 1"), after(step("b", "true"), &["a"])])).code, 1);
    let gave = bench.orlop(&["flow", "logs", "never", "b"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, ""), "{gave:?}");
    assert!(
        gave.err.starts_with("no attempt of `b` has started, so it has no log; b is Skipped (DependencyFailed)"),
        "{gave:?}"
    );
    assert_eq!(bench.orlop(&["flow", "logs", "never"]).err, "", "nothing is said of a step that nobody asked for");
}

#[test]
fn a_step_that_failed_before_it_wrote_anything_says_why_it_has_no_log() {
    let bench = Bench::new();
    let mut lacks = step("b", "true");
    lacks["inputs"] = json!({"artifacts": [{"name": "x", "path": "/tmp/x", "http": {"url": "http://127.0.0.1:9/x"}}]});
    assert_eq!(bench.run_steps("lacks", &json!([lacks])).code, 1);
    let gave = bench.orlop(&["flow", "logs", "lacks", "b"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, ""), "{gave:?}");
    assert!(gave.err.contains("b is Failed (ArtifactUnavailable)") && gave.err.contains("127.0.0.1:9"), "{gave:?}");
}

#[test]
fn an_instance_or_attempt_that_is_not_there_is_not_found() {
    let bench = Bench::new();
    let mut fan = step("fan", "echo one");
    fan["withItems"] = json!(["x", "y"]);
    assert_eq!(bench.run_steps("few", &json!([fan, step("a", "echo one")])).code, 0);
    let gave = |args: &[&str]| {
        let gave = bench.orlop(&[&["flow", "logs", "few"], args].concat());
        format!("{} {}{}", gave.code, gave.out, gave.err)
    };
    let shown = [
        gave(&["fan", "--item", "1"]),
        gave(&["fan", "--item", "9"]),
        gave(&["a", "--item", "0"]),
        gave(&["a", "--attempt", "1"]),
        gave(&["a", "--attempt", "7"]),
        gave(&["fan-i0", "--attempt", "2"]),
        gave(&["fan", "--attempt", "2"]),
        gave(&["fan-i9"]),
        gave(&["--item", "9"]),
        gave(&["fan", "--item", "9", "--follow"]),
    ];
    insta::assert_snapshot!(shown.concat(), @"
    0 fan-i1/1 one
    4 error: step `fan` has no instance 9; its 2 are numbered from 0
    4 error: step `a` has no instances; leave --item out
    0 a/1 one
    4 error: step `a` has no attempt 7; the last one is 1
    4 error: step `fan-i0` has no attempt 2; the last one is 1
    4 error: step `fan` has no attempt 2; the last one is 1
    4 error: step `fan-i9` was not found in the flow; see `orlop flow get`
    4 error: flow `few` has no instance 9 of any step
    4 error: step `fan` has no instance 9; its 2 are numbered from 0
    ");
    assert!(gave(&["a", "--attempt", "0"]).starts_with("2 "), "attempts are counted from 1");
}

#[test]
fn a_termination_message_with_a_secret_is_no_output_and_one_made_of_a_secret_is_handed_on() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("secrets/db")).unwrap();
    std::fs::write(bench.path("secrets/db/key"), "hunter22-hunter22").unwrap();
    for (name, script, code) in [
        ("plain", r#"printf %s "$T" >/dev/termination-log"#, 1),
        ("made", r#"printf %s "$T" | base64 | tr -d '\n' >/dev/termination-log"#, 0),
    ] {
        let mut give = step("give", script);
        give["template"]["spec"]["template"]["spec"]["containers"][0]["env"] =
            json!([{"name": "T", "valueFrom": {"secretKeyRef": {"name": "db", "key": "key"}}}]);
        give["outputs"] = json!({"parameters": [{"name": "o", "valueFrom": {"jsonPath": "$.termination.message"}}]});
        let mut take =
            after(step("take", "test \"$(echo ${parameters.o} | base64 -d)\" = hunter22-hunter22"), &["give"]);
        take["inputs"] = json!({"parameters": [{"name": "o", "valueFrom": {"jsonPath": "give:$.outputs.o"}}]});
        let file = bench.flow(name, &json!({"steps": [give, take]}));
        let gave = bench.run(&file, &["--secrets-dir", "secrets"]);
        assert_eq!(gave.code, code, "{gave:?}");
        let step = bench.status(name).unwrap()["steps"][0].clone();
        let refused = step["message"].as_str().unwrap_or_default().contains("holds the value of a Secret");
        assert_eq!((step["reason"] == "Forbidden", refused), (code == 1, code == 1), "{step}");
    }
}

#[test]
fn files_of_the_kernel_are_no_outputs() {
    let bench = Bench::new();
    for (name, output) in [
        ("own", json!({"parameters": [{"name": "o", "valueFrom": {"path": "/proc/self/environ"}}]})),
        ("tree", json!({"artifacts": [{"name": "o", "path": "/proc/cpuinfo"}]})),
        ("sys", json!({"artifacts": [{"name": "o", "path": "/sys/devices/system/cpu/online"}]})),
    ] {
        let mut made = step("a", "true");
        made["outputs"] = output;
        let gave = bench.run(&bench.flow(name, &json!({"steps": [made]})), &[]);
        assert_eq!(gave.code, 1, "{gave:?}");
        let step = bench.status(name).unwrap()["steps"][0].clone();
        assert_eq!(step["reason"], "OutputInvalid", "{step}");
        assert!(step["message"].as_str().unwrap().contains("is a file of the kernel"), "{step}");
    }
}

#[test]
fn a_file_without_end_is_no_manifest() {
    let bench = Bench::new();
    let gave = bench.orlop(&["flow", "validate", "/dev/zero"]);
    assert!(gave.code == 3 && gave.out.contains("/dev/zero is longer than 256 MiB"), "{gave:?}");
}

#[test]
fn what_others_call_cancel_terminates() {
    let bench = Bench::new();
    let child = bench.running("gone", &json!([step("a", "sleep 100")]));
    assert_eq!(bench.orlop(&["flow", "cancel", "gone"]).code, 0);
    assert_eq!(end(child).code, 9);
}

#[test]
fn a_list_is_filtered_by_every_phase_that_it_shows() {
    let bench = Bench::new();
    let child = bench.running("left", &json!([step("a", "sleep 100")]));
    let listed = |phase: &str| bench.orlop(&["flow", "list", "-o", "name", "--phase", phase]).out;
    assert_eq!((listed("running"), listed("Interrupted")), ("left\n".to_owned(), String::new()));
    signal(&child, Signal::SIGKILL);
    end(child);
    assert_eq!((listed("running"), listed("interrupted")), (String::new(), "left\n".to_owned()));
    let gave = bench.orlop(&["flow", "list", "--phase", "gone"]);
    assert!(gave.code == 2 && gave.err.contains("Interrupted"), "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "delete", "left", "--force"]).code, 0);
}

#[test]
fn a_retry_of_an_instance_names_its_step() {
    let bench = Bench::new();
    let mut fan = step("fan", "exit 1");
    fan["withItems"] = json!(["x", "y"]);
    assert_eq!(bench.run_steps("fan", &json!([fan])).code, 1);
    for form in ["fan-i1", "fan[1]", "fan-i1 (y)"] {
        let gave = bench.orlop(&["flow", "retry", "fan", "--step", form]);
        assert!(gave.code == 4 && gave.err.contains("`--step fan` runs all its instances again"), "{gave:?}");
    }
}

#[test]
fn a_message_is_whole_in_a_pipe() {
    let bench = Bench::new();
    let long = format!("exit 1 # {}", "x".repeat(200));
    let mut failing = step("a", &long);
    failing["template"]["spec"]["template"]["spec"]["containers"][0]["command"] =
        json!([format!("/no/{}", "x".repeat(120))]);
    assert_eq!(bench.run_steps("long", &json!([failing])).code, 1);
    for verb in [&["flow", "get", "long"][..], &["flow", "list"]] {
        let gave = bench.orlop(verb);
        assert!(gave.out.contains(&"x".repeat(120)), "{gave:?}");
    }
}

#[test]
fn a_name_that_is_taken_leads_to_names_that_are_made() {
    let bench = Bench::new();
    let file = bench.flow("twice", &json!({"steps": [step("a", "true")]}));
    assert_eq!(bench.run(&file, &[]).code, 0);
    let gave = bench.run(&file, &[]);
    assert!(gave.code == 5 && gave.err.contains("`metadata.generateName`"), "{gave:?}");
}

#[test]
fn stopped_supervisors_are_shown() {
    let bench = Bench::new();
    let file = bench.flow("still", &json!({"steps": [step("a", "sleep 100")]}));
    let child = bench.begin(&file, &["--progress", "none"]);
    let status = bench.until("still", |status| status["progress"]["runningSteps"] == 1);
    let supervisor = status["steps"][0]["jobRef"]["uid"].as_str().unwrap().split('@').next().unwrap().to_owned();
    let supervisor_pid = nix::unistd::Pid::from_raw(supervisor.parse().unwrap());
    let said = |verb: &str| format!("{:?}", bench.orlop(&["flow", verb, "still"]));
    assert!(!said("get").contains("is stopped") && !said("explain").contains("is stopped"));
    nix::sys::signal::kill(supervisor_pid, Signal::SIGSTOP).unwrap();
    let of_supervisor = format!("the supervisor process {supervisor} of step `a` is stopped");
    bench.until("still", |_| said("get").contains(&of_supervisor));
    assert!(said("explain").contains(&of_supervisor), "{}", said("explain"));
    let watched = bench.orlop(&["flow", "watch", "still", "--timeout", "5s"]);
    assert!(watched.code == 8 && watched.err.contains(&of_supervisor), "{watched:?}");
    nix::sys::signal::kill(supervisor_pid, Signal::SIGCONT).unwrap();
    signal(&child, Signal::SIGSTOP);
    let of_host = format!("the run's supervisor process {} is stopped", child.id());
    for verb in ["get", "explain"] {
        let text = said(verb);
        assert!(text.contains(&of_host) && !text.contains(&of_supervisor), "{text}");
    }
    let watched = bench.orlop(&["flow", "watch", "still", "--timeout", "2s"]);
    assert!(watched.code == 8 && watched.err.contains(&of_host), "{watched:?}");
    let stopping = bench.start(&["flow", "terminate", "still"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal(&child, Signal::SIGCONT);
    let stopped = end(stopping);
    assert!(stopped.code == 0 && stopped.err.contains("has not answered yet"), "{stopped:?}");
    assert_eq!(end(child).code, 9);
}

#[test]
fn an_output_that_is_a_link_out_of_the_step_is_refused() {
    let bench = Bench::new();
    for (name, output) in [
        ("file", json!({"parameters": [{"name": "o", "valueFrom": {"path": "/tmp/o"}}]})),
        ("tree", json!({"artifacts": [{"name": "o", "path": "/tmp/o"}]})),
    ] {
        let mut linked = step("a", "ln -s /etc/passwd /tmp/o");
        linked["outputs"] = output;
        let file = bench.flow(name, &json!({"steps": [linked]}));
        let gave = bench.run(&file, &[]);
        assert_eq!(gave.code, 1, "{gave:?}");
        let step = bench.status(name).unwrap()["steps"][0].clone();
        let message = step["message"].as_str().unwrap();
        assert_eq!(step["reason"], "OutputInvalid", "{message}");
        assert!(message.contains("is a symbolic link that leads out of the directories of the step"), "{message}");
    }
}
