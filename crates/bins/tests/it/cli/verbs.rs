//! Verbs of the command line and their options that no other test here holds.

use serde_json::{Value, json};

use super::bench::{Bench, ReleaseFile, after, end, phases, step};

/// Sets a field of a step's pod.
fn pod(mut step: Value, field: &str, value: Value) -> Value {
    step["template"]["spec"]["template"]["spec"][field] = value;
    step
}

/// Sets a field of a step's container.
fn container(mut step: Value, field: &str, value: Value) -> Value {
    step["template"]["spec"]["template"]["spec"]["containers"][0][field] = value;
    step
}

#[test]
fn run_jobs_bounds_what_runs_at_once() {
    let bench = Bench::new();
    let claim = json!([{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]);
    let script = "mkdir /d/lock || exit 1; sleep 0.2; rmdir /d/lock";
    let alone = |name: &str| {
        let step = container(step(name, script), "volumeMounts", json!([{"name": "d", "mountPath": "/d"}]));
        pod(step, "volumes", claim.clone())
    };
    std::fs::create_dir_all(bench.path("volumes/d")).unwrap();
    let volumes = bench.path("volumes").display().to_string();
    let file = bench.flow("one", &json!({"steps": [alone("a"), alone("b"), alone("c")]}));
    let gave = bench.run(&file, &["--jobs", "1", "--volumes-dir", &volumes]);
    assert_eq!(gave.code, 0, "{gave:?}");
}

#[test]
fn validate_reads_folders_both_forms_and_all_documents_for_every_target() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("flows/deep")).unwrap();
    let object = std::fs::read_to_string(bench.flow("obj", &json!({"steps": [step("a", "true")]}))).unwrap();
    bench
        .file("flows/two.yaml", &format!("{object}\n---\nname: p\nsteps:\n- {{name: x, job_spec: {{command: []}}}}\n"));
    bench.file("flows/deep/good.json", &object);
    bench.file("flows/empty.yaml", "");
    bench.file("flows/notes.txt", "no flow");
    bench.file("flows/deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\n---\nreplicas: 3\n");
    bench.file("flows/misspelt.yaml", "apiVersion: workflow.kube-zen.io/v1alpha1\nkind: JobFlo\n");
    std::fs::write(bench.path("flows/latin.yaml"), b"name: caf\xe9\n").unwrap();
    let gave = bench.orlop(&["flow", "validate", "flows"]);
    assert_eq!(gave.code, 3);
    bench.settings().bind(|| insta::assert_snapshot!(gave.out, @"
    flows/deep/good.json: good
    flows/deployment.yaml: skipped, it holds no flow
    flows/empty.yaml: error[object]: the file holds no flow
     = help: write a document with apiVersion: workflow.kube-zen.io/v1alpha1 and kind: JobFlow, or a pipeline with `steps`

    1 error
    error: flows/latin.yaml is not UTF-8 text, so it is not a manifest
    error[object]: there is no kind `JobFlo`
     --> flows/misspelt.yaml:2:7
      |
    2 | kind: JobFlo
      |       ^^^^^^
      = field: kind
      = help: did you mean `JobFlow`?

    1 error
    error[pipeline]: the command is empty
     --> flows/two.yaml:5:24
      |
    5 | - {name: x, job_spec: {command: []}}
      |                        ^^^^^^^
      = field: steps[0].job_spec.command
      = help: list the program and its arguments; there is no shell around them

    1 error
    "));
    assert_eq!(bench.orlop(&["flow", "validate", "flows/deployment.yaml"]).code, 3, "what is named is checked");
    let two = pod(step("a", "true"), "hostNetwork", json!(true));
    let two = pod(two, "nodeSelector", json!({"disk": "ssd"}));
    let file = bench.flow("net", &json!({"steps": [two]})).display().to_string();
    let code = |args: &[&str]| bench.orlop(&[&["flow", "validate", &file], args].concat()).code;
    for (target, plain, strict) in
        [("local", 3, 3), ("process", 3, 3), ("docker", 3, 3), ("fleet", 3, 3), ("kube", 0, 0), ("Kube", 0, 0)]
    {
        let codes = (code(&["--target", target]), code(&["--target", target, "--strict"]));
        assert_eq!(codes, (plain, strict), "{target}");
    }
    assert_eq!(code(&[]), 0);
    assert_eq!(bench.orlop(&["flow", "validate", "nowhere"]).code, 4);
}

#[test]
fn every_warning_is_an_error_under_strict() {
    let bench = Bench::new();
    let text = "name: odd\nsteps: [{name: n, job_spec: {command: [echo, 'y']}}]\n";
    let file = bench.file("odd.yaml", text).display().to_string();
    let plain = bench.orlop(&["flow", "validate", &file]);
    assert!(plain.code == 0 && plain.out.contains("warning[syntax]"), "{}", plain.out);
    let strict = bench.orlop(&["flow", "validate", &file, "--strict"]);
    assert!(
        strict.code == 3 && strict.out.contains("error[syntax]") && strict.out.contains("1 error"),
        "{}",
        strict.out
    );
    let run = bench.orlop(&["run", &file, "--target", "process", "--strict"]);
    assert!(run.code == 3 && run.err.contains("error[syntax]"), "{} {}", run.code, run.err);
}

#[test]
fn graphs_of_files_and_runs_have_four_forms() {
    let bench = Bench::new();
    let file = bench.flow("dag", &json!({"steps": [step("a", "true"), after(step("b", "false"), &["a"])]}));
    assert_eq!(bench.run(&file, &[]).code, 1);
    let graph = |subject: &str, form: &str| bench.orlop(&["flow", "graph", subject, "-o", form]).out;
    let file = file.display().to_string();
    assert!(graph(&file, "dot").starts_with("digraph"));
    let object: Value = serde_json::from_str(&graph("dag", "json")).unwrap();
    assert!(object.to_string().contains("Failed"), "{object}");
    assert!(!graph(&file, "json").contains("Failed"));
    insta::assert_snapshot!(graph("dag", "text"), @"
    wave 1
      ✔ a  Succeeded
    wave 2
      ✖ b  Failed/NonZeroExit  ← a
    ");
    insta::assert_snapshot!(graph("dag", "mermaid"), @r#"
    flowchart LR
      n0("a")
      n1("b")
      n0 --> n1
      style n0 fill:#d3f2d3
      style n1 fill:#f8d0d0
    "#);
}

#[test]
fn plan_runs_nothing_and_has_every_form() {
    let bench = Bench::new();
    let spec = json!({"parameters": [{"name": "env"}], "steps": [step("a", "deploy ${parameters.env}")]});
    let file = bench.flow("dry", &spec).display().to_string();
    let plan = |form: &str| {
        bench.orlop(&["flow", "plan", &file, "--target", "process", "-p", "env=prod", "--name", "other", "-o", form])
    };
    let object: Value = serde_json::from_str(&plan("json").out).unwrap();
    assert_eq!(
        (&object["name"], &object["waves"], &object["first"]),
        (&json!("other"), &json!([["a"]]), &json!(["a"]))
    );
    assert!(plan("yaml").out.contains("deploy prod"));
    let gave = bench.orlop(&["flow", "plan", &file, "--target", "process"]);
    assert_eq!(gave.code, 2, "{gave:?}");
    assert!(!bench.path("home").exists());
}

#[test]
fn list_filters_by_phase_label_and_age() {
    let bench = Bench::new();
    for (name, team) in [("a", "red"), ("b", "blue")] {
        let flow = json!({
            "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow",
            "metadata": {"name": name, "labels": {"team": team}}, "spec": {"steps": [step("s", "true")]},
        });
        assert_eq!(bench.run(&bench.file(&format!("{name}.json"), &flow.to_string()), &[]).code, 0);
    }
    let list = |args: &[&str]| bench.orlop(&[&["flow", "list"], args].concat()).out;
    assert_eq!(list(&["-o", "name", "-l", "team=red"]), "a\n");
    assert_eq!(list(&["-o", "name", "-l", "team=red", "-l", "team=blue"]), "");
    assert_eq!(list(&["-o", "name", "--phase", "succeeded"]), "a\nb\n");
    assert_eq!(list(&["-o", "name", "--older-than", "1h"]), "");
    assert_eq!(list(&["-o", "name", "--older-than", "0s"]), "a\nb\n");
    let all: Value = serde_json::from_str(&list(&["-o", "json"])).unwrap();
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    bench.settings().bind(|| {
        insta::assert_snapshot!(list(&[]), @"
    NAME  PHASE      PROGRESS  AGE   MESSAGE
    a     Succeeded  1/1       DURATION
    b     Succeeded  1/1       DURATION
    ");
    });
}

#[test]
fn reject_records_who_and_why() {
    let bench = Bench::new();
    let file =
        bench.flow("gate", &json!({"steps": [{"name": "ok", "type": "Manual"}, after(step("b", "true"), &["ok"])]}));
    let child = bench.begin(&file, &[]);
    bench.until("gate", |status| status["phase"] == "Paused");
    assert_eq!(bench.orlop(&["flow", "reject", "gate", "ok", "--reason", "not on a Friday"]).code, 0);
    assert_eq!(end(child).code, 1);
    let status = bench.status("gate").unwrap();
    assert_eq!(phases(&status), "ok=Failed/Rejected b=Skipped/DependencyFailed");
    let approval = &status["steps"][0]["approval"];
    assert_eq!((&approval["by"], &approval["reason"]), (&json!(super::bench::user()), &json!("not on a Friday")));
}

#[test]
fn suspend_mode_suspend_stops_live_attempts_and_resume_lets_them_go_on() {
    let (bench, release) = (Bench::new(), ReleaseFile::new());
    let child = bench.running("nap", &json!([step("a", &release.then("echo awake"))]));
    assert_eq!(bench.orlop(&["flow", "suspend", "nap", "--mode", "suspend"]).code, 0);
    bench.until("nap", |status| status["phase"] == "Suspended");
    release.until_script_is_stopped();
    // It would end now.
    release.open();
    assert_eq!(bench.orlop(&["flow", "watch", "nap", "--timeout", "1500ms"]).code, 8);
    assert_eq!(bench.status("nap").unwrap()["steps"][0]["phase"], "Running");
    // Once more and without a mode it stays as it is.
    assert_eq!(bench.orlop(&["flow", "suspend", "nap"]).code, 0);
    assert_eq!(bench.orlop(&["flow", "watch", "nap", "--timeout", "1500ms"]).code, 8);
    assert_eq!(bench.orlop(&["flow", "resume", "nap"]).code, 0);
    assert_eq!(end(child).code, 0);
    assert_eq!(bench.orlop(&["flow", "logs", "nap"]).out, "a/1 awake\n");
}

#[test]
fn stop_from_another_process_lets_attempts_and_finally_run() {
    let (bench, release) = (Bench::new(), ReleaseFile::new());
    let steps = json!([step("slow", &release.then("true")), after(step("next", "true"), &["slow"])]);
    let file = bench.flow("soft", &json!({"steps": steps, "finally": [step("clean", "true")]}));
    let child = bench.begin(&file, &[]);
    bench.until("soft", |status| status["progress"]["runningSteps"] == 1);
    assert_eq!(bench.orlop(&["flow", "stop", "soft"]).code, 0);
    bench.until("soft", |status| status["steps"][1]["reason"] == "Stopped");
    release.open();
    assert_eq!(end(child).code, 9);
    assert_eq!(phases(&bench.status("soft").unwrap()), "slow=Succeeded next=Skipped/Stopped clean=Succeeded");
}

#[test]
fn retry_takes_steps_and_a_name() {
    let bench = Bench::new();
    assert_eq!(
        bench.run_steps("once", &json!([step("a", "true"), after(step("b", "true"), &["a"]), step("c", "true")])).code,
        0
    );
    let gave = bench.orlop(&["flow", "retry", "once", "--step", "b", "--name", "anew"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(phases(&bench.status("anew").unwrap()), "a=Succeeded/Reused b=Succeeded c=Succeeded/Reused");
    assert_eq!(bench.orlop(&["flow", "retry", "once", "--step", "nix"]).code, 4);
    assert_eq!(bench.orlop(&["flow", "retry", "once", "--step", "b", "--name", "anew"]).code, 5);
}

#[test]
fn a_run_that_succeeded_is_repeated_only_where_somebody_insists() {
    let bench = Bench::new();
    let spec = json!({"steps": [step("a", "true")], "finally": [step("mail", "echo mail")]});
    assert_eq!(bench.run(&bench.flow("sent", &spec), &[]).code, 0);
    let gave = bench.orlop(&["flow", "retry", "sent"]);
    assert_eq!(gave.code, 5, "{gave:?}");
    assert!(gave.err.contains("--step") && gave.err.contains("--force"), "{}", gave.err);
    assert_eq!(bench.orlop(&["flow", "get", "sent-r2"]).code, 4, "nothing was begun");
    assert_eq!(bench.orlop(&["flow", "retry", "sent", "--force"]).code, 0);
    assert_eq!(phases(&bench.status("sent-r2").unwrap()), "a=Succeeded/Reused mail=Succeeded");
}

/// Of a fan-out only the instance that failed runs again, over a list of the spec and over one that a step gave; the others
/// hand over outputs and artifacts.
#[test]
fn a_retry_of_a_fan_out_runs_only_the_instances_that_failed() {
    let bench = Bench::new();
    // Away from `/tmp`, which every step has for itself.
    let mended = tempfile::tempdir_in("/var/tmp").expect("a temporary directory");
    let good = mended.path().join("good");
    let script = |name: &str| {
        format!(
            "echo {name}${{parameters.item}}; echo part ${{parameters.item}} > /tmp/part; \
             printf %s ${{parameters.item}}{name} > /tmp/o; test ${{parameters.item}} != 2 || test -e {}",
            good.display()
        )
    };
    let outputs = json!({"parameters": [{"name": "o", "valueFrom": {"path": "/tmp/o"}}], "artifacts": [{"name": "part", "path": "/tmp/part"}]});
    let mut list = step("list", "printf '[1,2,3]' > /tmp/l");
    list["outputs"] = json!({"parameters": [{"name": "l", "valueFrom": {"path": "/tmp/l"}}]});
    let mut listed = step("listed", &script("a"));
    (listed["withItems"], listed["outputs"]) = (json!([1, 2, 3]), outputs.clone());
    let mut read = step("read", &script("b"));
    (read["withParam"], read["outputs"]) = (json!("list:$.outputs.l"), outputs);
    let mut sum = after(step("sum", "cat /in/*; echo '${parameters.all}'"), &["listed", "read"]);
    sum["inputs"] = json!({
        "parameters": [{"name": "all", "valueFrom": {"jsonPath": "read:$.outputs.o"}}],
        "artifacts": [{"name": "part", "from": "listed/part", "path": "/in"}]});
    let spec = json!({"executionPolicy": {"failurePolicy": "Continue"}, "steps": [list, listed, read, sum]});
    assert_eq!(bench.run(&bench.flow("fans", &spec), &[]).code, 1);
    std::fs::write(&good, "").expect("a file is written");
    let gave = bench.orlop(&["flow", "retry", "fans"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    for (step, only) in [("listed", "a2"), ("read", "b2")] {
        let logs = bench.orlop(&["flow", "logs", "fans-r2", step]).out;
        assert!(logs.lines().count() == 1 && logs.trim_end().ends_with(only), "the others ran again: {logs}");
    }
    let status = bench.status("fans-r2").unwrap();
    assert!(
        phases(&status).contains("listed-i0=Succeeded/Reused listed-i1=Succeeded listed-i2=Succeeded/Reused"),
        "{status}"
    );
    let logs = bench.orlop(&["flow", "logs", "fans-r2", "sum"]).out;
    assert_eq!(logs, "sum/1 part 1\nsum/1 part 2\nsum/1 part 3\nsum/1 [\"1b\",\"2b\",\"3b\"]\n");
}

/// One value may have 256 KiB, also where another step reads it; a program gets less, and the error says what to use.
#[test]
fn large_values_are_recorded_and_a_program_that_cannot_get_them_is_pointed_to_artifacts() {
    let bench = Bench::new();
    let mut big = step("big", "head -c 200000 /dev/zero | tr '\\0' x > /tmp/o");
    big["outputs"] = json!({"parameters": [{"name": "o", "valueFrom": {"path": "/tmp/o"}}]});
    let mut reads = step("reads", "true ${parameters.v}");
    reads["inputs"] = json!({"parameters": [{"name": "v", "valueFrom": {"jsonPath": "big:$.outputs.o"}}]});
    assert_eq!(bench.run(&bench.flow("large", &json!({"steps": [big, reads]})), &[]).code, 1);
    let status = bench.status("large").unwrap();
    assert!(phases(&status).starts_with("big=Succeeded reads=Failed"), "{}", phases(&status));
    let message = status["steps"][1]["message"].as_str().unwrap();
    assert!(message.contains("artifact"), "{message}");
}

/// A changed file: what it changes runs again with all that comes after it, and nothing else.
#[test]
fn a_retry_takes_a_changed_file() {
    let bench = Bench::new();
    let spec = |bad: &str, mode: &str| {
        json!({"parameters": [{"name": "mode", "value": mode}, {"name": "who"}],
            "steps": [step("a", "true"), after(step("bad", bad), &["a"]), after(step("last", "echo ${parameters.mode} ${parameters.who}"), &["bad"])]})
    };
    assert_eq!(bench.run(&bench.flow("mend", &spec("exit 1", "old")), &["-p", "who=me"]).code, 1);
    let file = bench.flow("mend", &spec("exit 0", "new")).display().to_string();
    let gave = bench.orlop(&["flow", "retry", "mend", &file]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(phases(&bench.status("mend-r2").unwrap()), "a=Succeeded/Reused bad=Succeeded last=Succeeded");
    assert_eq!(bench.orlop(&["flow", "logs", "mend-r2"]).out, "last/1 new me\n");
    let file = bench.flow("mend", &spec("true", "new")).display().to_string();
    assert_eq!(bench.orlop(&["flow", "retry", "mend-r2", &file]).code, 5, "it succeeded");
    let gave = bench.orlop(&["flow", "retry", "mend-r2", &file, "--force"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(phases(&bench.status("mend-r3").unwrap()), "a=Succeeded/Reused bad=Succeeded last=Succeeded");
}

#[test]
fn host_paths_and_privileges_need_their_option() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("data/sub")).unwrap();
    bench.file("data/sub/text", "words\n");
    let data = std::fs::canonicalize(bench.path("data")).unwrap().display().to_string();
    let volumes = json!([{"name": "h", "hostPath": {"path": format!("{data}/sub")}}]);
    let read = container(step("a", "cat /h/text"), "volumeMounts", json!([{"name": "h", "mountPath": "/h"}]));
    let file = bench.flow("host", &json!({"steps": [pod(read, "volumes", volumes)]}));
    let gave = bench.run(&file, &[]);
    assert_eq!(gave.code, 3, "{gave:?}");
    assert!(gave.err.contains("--allow-host-path"), "{}", gave.err);
    let gave = bench.run(&file, &["--allow-host-path", &data]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "logs", "host"]).out, "a/1 words\n");
    let mighty = container(step("a", "true"), "securityContext", json!({"privileged": true}));
    let file = bench.flow("root", &json!({"steps": [mighty]})).display().to_string();
    let gave = bench.orlop(&["flow", "plan", &file]);
    assert_eq!(gave.code, 3, "{gave:?}");
    assert!(gave.err.contains("--allow-privileged"), "{}", gave.err);
    assert_eq!(bench.orlop(&["flow", "plan", &file, "--allow-privileged"]).code, 0);
}

#[test]
fn job_backoff_default_and_artifact_max_bytes_count() {
    let bench = Bench::new();
    let file = bench.flow("back", &json!({"steps": [step("a", "echo pod; exit 1")]}));
    // The second pod comes ten seconds after the first.
    let child = bench.begin(&file, &["--job-backoff-default", "1"]);
    let mut big = step("big", "head -c 5000 /dev/zero > /tmp/big");
    big["outputs"] = json!({"artifacts": [{"name": "big", "path": "/tmp/big"}]});
    let large = bench.flow("large", &json!({"steps": [big]}));
    assert_eq!(bench.run(&large, &["--name", "fits"]).code, 0);
    let gave = bench.run(&large, &["--artifact-max-bytes", "1000"]);
    assert_eq!(gave.code, 1, "{gave:?}");
    assert!(gave.out.contains("1000"), "{}", gave.out);
    assert_eq!(end(child).code, 1);
    assert_eq!(bench.orlop(&["flow", "logs", "back"]).out, "a/1 pod\na/1 pod\n");
}

#[test]
fn requests_beyond_the_machine_are_unschedulable() {
    let bench = Bench::new();
    let greedy = container(step("a", "true"), "resources", json!({"requests": {"cpu": "100000"}}));
    let gave = bench.run(&bench.flow("greedy", &json!({"steps": [greedy]})), &[]);
    assert_eq!(gave.code, 1, "{gave:?}");
    assert_eq!(phases(&bench.status("greedy").unwrap()), "a=Failed/Unschedulable");
    assert!(gave.out.contains("ask for less"), "{}", gave.out);
}

#[test]
fn logs_of_a_flow_asked_of_a_fleet_that_is_not_there_are_reported_at_once_where_they_are() {
    let bench = Bench::new();
    let since = std::time::Instant::now();
    let gave = bench.orlop(&["logs", "etl", "--server", "http://127.0.0.1:9"]);
    assert_eq!(gave.code, 7, "{gave:?}");
    assert!(gave.err.contains("`orlop flow logs etl`"), "{}", gave.err);
    assert!(since.elapsed() < std::time::Duration::from_secs(20), "{:?}", since.elapsed());
}

#[test]
fn what_the_environment_says_is_not_required_in_usage_lines() {
    let bench = Bench::new();
    let gave = bench.orlop(&["flow", "get"]);
    assert_eq!(gave.code, 2, "{gave:?}");
    assert!(gave.err.contains("Usage: orlop flow get <NAME>") && !gave.err.contains("--home"), "{}", gave.err);
}

#[test]
fn of_many_steps_few_are_shown_at_the_end_and_instances_with_their_items() {
    let bench = Bench::new();
    let mut many = step("many", "test $ITEM != gut");
    many["template"]["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "ITEM", "value": "${parameters.item.name}"}]);
    let items: Vec<Value> =
        (0..24).map(|n| json!({"name": if n == 23 { "gut".into() } else { format!("s{n}") }})).collect();
    many["withParam"] = json!("${parameters.samples}");
    let spec = json!({"parameters": [{"name": "samples"}], "steps": [many]});
    let file = bench.flow("fan", &spec);
    let samples = format!("samples={}", Value::from(items));
    let gave = bench.run(&file, &["-p", &samples]);
    assert_eq!(gave.code, 1, "{gave:?}");
    assert!(
        gave.out.contains("many-i23 (gut)") && gave.out.contains("and 5 more steps: orlop flow get fan"),
        "{}",
        gave.out
    );
    assert!(gave.out.lines().count() < 45, "{}", gave.out);
    assert!(bench.orlop(&["flow", "get", "fan"]).out.contains("many-i0 (s0)"));
    let why = bench.orlop(&["flow", "explain", "fan", "many-i23"]).out;
    assert!(why.starts_with("many-i23 (gut) is Failed"), "{why}");
}

#[test]
fn what_runs_without_an_image_is_valid_where_no_place_is_named() {
    let bench = Bench::new();
    let mut bare = step("a", "true");
    bare["template"]["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("image");
    let file = bench.flow("bare", &json!({"steps": [bare]})).display().to_string();
    for (place, code) in [(&[][..], 0), (&["--target", "process"], 0), (&["--target", "kube"], 3)] {
        let gave = bench.orlop(&[&["flow", "validate", &file][..], place].concat());
        assert_eq!(gave.code, code, "{place:?}: {gave:?}");
    }
    assert_eq!(bench.orlop(&["run", &file]).code, 0);
}
