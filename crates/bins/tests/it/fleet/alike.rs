//! Verbs of flows on this machine and on a fleet beside each other: the same words, exit codes, tables and members.

use serde_json::{Value, json};

use super::bench::{Bench, Gave};

/// A step that runs a script, as a process.
fn step(name: &str, script: &str) -> Value {
    let container = json!({ "name": "main", "command": ["/bin/sh", "-c", script] });
    let template = json!({
        "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": { "spec": { "containers": [container] } } },
    });
    json!({ "name": name, "template": template })
}

fn object(name: &str, spec: &Value) -> Value {
    let metadata = json!({ "name": name, "labels": { "team": "red" } });
    json!({ "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": metadata, "spec": spec })
}

fn write(bench: &Bench, name: &str, documents: &[Value]) -> String {
    let path = bench.place(&format!("{name}.yaml"));
    let texts: Vec<String> = documents.iter().map(ToString::to_string).collect();
    std::fs::write(&path, texts.join("\n---\n")).expect("a file is written");
    path.display().to_string()
}

/// A flow with a parameter, a Manual step, and a warning.
fn gate(bench: &Bench) -> String {
    let mut then = step("then", "echo ${parameters.env}");
    then["dependencies"] = json!(["ok"]);
    let parameters = json!([{ "name": "env", "enum": ["dev", "prod"] }]);
    let spec = json!({ "parameters": parameters, "steps": [{ "name": "ok", "type": "Manual" }, then] });
    write(bench, "gate", &[object("gate", &spec)])
}

/// A flow with items of its text and of an output; the second instance of `read` fails.
fn fan(bench: &Bench) -> String {
    let mut list = step("list", "printf '[\"p\",\"q\"]' > /tmp/l");
    list["outputs"] = json!({ "parameters": [{ "name": "l", "valueFrom": { "path": "/tmp/l" } }] });
    let env = json!([{ "name": "ITEM", "value": "${parameters.item}" }]);
    let mut text = step("text", "echo $ITEM");
    text["withItems"] = json!(["3.9", { "name": "good" }]);
    let mut read = step("read", "echo $ITEM; test $ITEM = p");
    read["withParam"] = json!("${parameters.l}");
    read["inputs"] = json!({ "parameters": [{ "name": "l", "valueFrom": { "jsonPath": "list:$.outputs.l" } }] });
    for step in [&mut text, &mut read] {
        step["template"]["spec"]["template"]["spec"]["containers"][0]["env"] = env.clone();
    }
    write(bench, "fan", &[object("fan", &json!({ "steps": [list, text, read] }))])
}

/// A flow of one step, which writes the flow's name.
fn only(name: &str) -> Value {
    object(name, &json!({ "steps": [step("a", &format!("echo {name}"))] }))
}

fn on(bench: &Bench, target: &str, args: &[&str]) -> Gave {
    bench.orlop(&[args, &["--target", target]].concat())
}

/// What a verb gives on this machine, which has to end with a code and be the same on a fleet.
fn alike(bench: &Bench, code: i32, args: &[&str]) -> Gave {
    let (here, there) = (on(bench, "process", args), on(bench, "fleet", args));
    assert_eq!((there.code, there.err.as_str()), (here.code, here.err.as_str()), "{args:?}");
    assert_eq!(here.code, code, "{args:?}: {here:?}");
    here
}

/// Text in which times are one word and columns one blank apart.
fn untimed(text: &str) -> String {
    let is_time = |word: &str| word.ends_with('s') && word.starts_with(|first: char| first.is_ascii_digit());
    let line = |line: &str| {
        line.split_whitespace().map(|word| if is_time(word) { "TIME" } else { word }).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn options_that_do_not_fit_a_flow_are_refused_alike_and_nothing_is_created() {
    let bench = Bench::up(&["--memory-store"]);
    let file = gate(&bench);
    for args in [
        &["run", &file][..],
        &["run", &file, "-p", "env=test"],
        &["run", &file, "-p", "env=dev", "-p", "nope=1"],
        &["run", &file, "-p", "env=dev", "--auto-approve", "nope"],
    ] {
        let gave = alike(&bench, 2, args);
        assert_eq!(
            gave.err.matches("warning[shell]").count(),
            1,
            "what is doubtful in the file is said once: {gave:?}"
        );
    }
    alike(&bench, 2, &["run", &file, "-p", "env=dev", "--name", "Bad_Name"]);
    let phase = alike(&bench, 2, &["flow", "list", "--phase", "nope"]);
    assert!(phase.err.contains("use one of Pending, Running"), "{phase:?}");
    let wrong = bench.place("wrong.yaml");
    std::fs::write(&wrong, "name: x\nsteps:\n- {name: a, depends_on: [b], job_spec: {comand: [x]}}\n").unwrap();
    let wrong = alike(&bench, 3, &["run", &wrong.display().to_string()]);
    assert!(wrong.err.contains("wrong.yaml:3:"), "{wrong:?}");
    for target in ["process", "fleet"] {
        assert_eq!(on(&bench, target, &["flow", "list", "-o", "name"]).out, "");
    }
}

#[test]
fn a_flow_that_is_not_there_is_reported_alike_by_every_verb() {
    let bench = Bench::up(&["--memory-store"]);
    for args in [
        &["get", "nope"][..],
        &["explain", "nope"],
        &["logs", "nope"],
        &["graph", "nope"],
        &["artifacts", "nope"],
        &["watch", "nope"],
        &["stop", "nope"],
        &["suspend", "nope"],
        &["approve", "nope", "ok"],
        &["confirm-gone", "nope", "ok"],
        &["retry", "nope"],
        &["delete", "nope"],
    ] {
        for target in ["process", "fleet"] {
            let gave = on(&bench, target, &[&["flow"], args].concat());
            assert_eq!(gave.code, 4, "{args:?}: {gave:?}");
            assert!(gave.err.starts_with("error: there is no flow `nope`"), "{args:?}: {gave:?}");
            assert!(gave.err.contains("; see `orlop flow list "), "{args:?}: {gave:?}");
        }
    }
}

#[test]
fn steps_that_are_not_there_and_flows_that_have_ended_are_reported_alike() {
    let bench = Bench::up(&["--memory-store"]);
    let file = gate(&bench);
    for target in ["process", "fleet"] {
        let left = on(&bench, target, &["run", &file, "-p", "env=dev", "--no-wait-approval", "--progress", "none"]);
        assert_eq!(left.code, 10, "{left:?}");
        assert!(left.err.contains("left `gate` waiting for a decision: `orlop flow approve gate"), "{left:?}");
        assert_eq!(on(&bench, target, &["flow", "list", "--phase", "running", "-o", "name"]).out, "");
        assert_eq!(on(&bench, target, &["flow", "list", "--phase", "PAUSED", "-o", "name"]).out, "gate\n");
        assert_eq!(on(&bench, target, &["flow", "list", "--phase", "interrupted", "-o", "name"]).out, "");
        let taken = on(&bench, target, &["run", &file, "-p", "env=dev"]);
        assert!(taken.code == 5 && taken.err.contains("the name is taken: there is a "), "{taken:?}");
        assert!(taken.err.contains("choose another with --name"), "{taken:?}");
    }
    let missing = alike(&bench, 4, &["flow", "approve", "gate", "nope"]);
    assert!(missing.err.contains("flow `gate` has no step `nope`; its Manual steps are ok"), "{missing:?}");
    alike(&bench, 5, &["flow", "approve", "gate", "then"]);
    alike(&bench, 4, &["flow", "confirm-gone", "gate", "nope"]);
    alike(&bench, 4, &["flow", "explain", "gate", "nope"]);
    alike(&bench, 4, &["flow", "logs", "gate", "nope"]);
    let file = fan(&bench);
    for target in ["process", "fleet"] {
        let ran = on(&bench, target, &["run", &file, "--progress", "none"]);
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{ran:?}");
    }
    alike(&bench, 5, &["flow", "stop", "fan"]);
    alike(&bench, 4, &["flow", "retry", "fan", "--step", "nope"]);
    alike(&bench, 4, &["flow", "retry", "fan", "--step", "read-i1"]);
    alike(&bench, 2, &["flow", "retry", "fan", "-p", "nope=1"]);
    alike(&bench, 2, &["flow", "retry", "fan", "--name", "Bad_Name"]);
    let foreign = alike(&bench, 2, &["flow", "retry", "fan", &write(&bench, "other", &[only("other")])]);
    assert!(foreign.err.contains("other.yaml: no step of it is a step of `fan`"), "{foreign:?}");
}

#[test]
fn a_run_is_shown_and_listed_alike_with_its_items() {
    let bench = Bench::up(&["--memory-store"]);
    let file = fan(&bench);
    let table = |target: &str| {
        let ran = on(&bench, target, &["run", &file, "--progress", "plain"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains("list") && ran.err.contains("read-i1"), "{ran:?}");
        untimed(ran.out.split("\n\n").next().unwrap_or_default())
    };
    let here = table("process");
    assert_eq!(table("fleet"), here);
    assert!(here.contains("read-i1 (q) Failed NonZeroExit") && here.contains("text-i1 (good) Succeeded"), "{here}");
    let both = |args: &[&str]| ["process", "fleet"].map(|target| on(&bench, target, args).out);
    for args in [&["flow", "get", "fan"][..], &["flow", "explain", "fan"], &["flow", "explain", "fan", "read-i1"]] {
        let [here, there] = both(args).map(|text| untimed(text.split("\n\n").next().unwrap_or_default()));
        assert_eq!(there, here, "{args:?}");
    }
    for args in [&["flow", "logs", "fan"][..], &["flow", "logs", "fan", "--item", "1"]] {
        let [here, there] = both(args);
        assert_eq!(there, here, "{args:?}");
        assert!(there.contains("read-i1/1 q\n"), "{there}");
    }
    for text in both(&["flow", "logs", "fan", "read", "--item", "1", "--timestamps"]) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [place, time, said] = words.as_slice() else { panic!("{text}") };
        assert!((*place, *said) == ("read-i1/1", "q") && time.starts_with("20") && time.ends_with('Z'), "{text}");
    }
    let members = |text: &String| {
        let list: Value = serde_json::from_str(text).expect("JSON");
        let item = list["items"][0].as_object().cloned().expect("an item");
        // Of a fleet nobody knows a directory here.
        let known = item.into_iter().filter(|(name, _)| name != "directory");
        known.map(|(name, value)| (name, std::mem::discriminant(&value))).collect::<Vec<_>>()
    };
    let [here, there] = both(&["flow", "list", "-o", "json"]);
    assert_eq!(members(&there), members(&here), "{there}\n{here}");
}

#[test]
fn progress_is_as_asked_for_and_one_of_several_flows_is_chosen_by_its_name() {
    let bench = Bench::up(&["--memory-store"]);
    let file = write(&bench, "several", &[only("first"), only("second")]);
    let fleet = |args: &[&str]| on(&bench, "fleet", args);
    let tree = fleet(&["run", &file, "--name", "second", "--progress", "tree"]);
    assert!(tree.code == 2 && tree.err.contains("`--progress plain`"), "{tree:?}");
    let several = fleet(&["run", &file]);
    assert!(
        several.code == 2 && several.err.contains("several flows: first, second; choose one with --name"),
        "{several:?}"
    );
    assert_eq!(fleet(&["flow", "list", "-o", "name"]).out, "", "nothing was created");
    alike(&bench, 2, &["run", &file, "--name", "third"]);
    alike(&bench, 0, &["run", &file, "--name", "second", "--progress", "none"]);
    assert_eq!(fleet(&["flow", "logs", "second"]).out, "a/1 second\n");
    let watched = fleet(&["flow", "watch", "second"]);
    assert!(watched.out.starts_with("a Succeeded\n") && watched.err.is_empty(), "as on this machine: {watched:?}");
    let file = write(&bench, "third", &[only("third")]);
    assert_eq!(fleet(&["flow", "submit", &file, "--wait", "-o", "name"]).out, "third\n", "once");
}
