//! Data of the machine for steps: paths that parameters give, relative paths, the directory that processes begin in.

use serde_json::{Value, json};

use super::bench::{Bench, Gave, after, phases, step};

/// A step with a volume of the machine at `/data`.
fn mounting(path: &str, script: &str) -> Value {
    let mut step = step("a", script);
    let pod = &mut step["template"]["spec"]["template"]["spec"];
    pod["volumes"] = json!([{"name": "d", "hostPath": {"path": path}}]);
    pod["containers"][0]["volumeMounts"] = json!([{"name": "d", "mountPath": "/data"}]);
    step
}

/// Runs a flow of a file below the bench, from the bench's folder.
fn run(bench: &Bench, file: &str, spec: &Value, args: &[&str]) -> Gave {
    let object = json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"generateName": "d-"}, "spec": spec,
    });
    std::fs::create_dir_all(bench.path(file).parent().unwrap()).unwrap();
    bench.file(file, &object.to_string());
    bench.orlop(&[&["run", file, "--target", "process", "--progress", "none"], args].concat())
}

#[test]
fn a_parameter_says_where_data_is_and_is_held_to_what_is_allowed() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path("flows/in/sub")).unwrap();
    bench.file("flows/in/sub/text", "seen");
    let spec = |path: &str| json!({"parameters": [{"name": "dir", "value": "sub"}], "steps": [mounting(path, "test $(cat /data/text) = seen")]});
    let base = std::fs::canonicalize(bench.path("flows/in")).unwrap().display().to_string();
    let by_parameter = spec("{{parameters.dir}}");
    let whole = format!("dir={base}/sub");
    let gave = run(&bench, "flows/a.json", &by_parameter, &["-p", &whole, "--allow-host-path", "flows/in"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    // Relative paths, those of parameters too, begin where the manifest is.
    let gave = run(&bench, "flows/b.json", &spec("in/${parameters.dir}"), &["--allow-host-path", "flows/in"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let gave = run(&bench, "flows/c.json", &spec("./in/sub"), &["--allow-host-path", "flows/in"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    // What is not allowed is refused as soon as it is known.
    let outside = run(&bench, "flows/d.json", &by_parameter, &["-p", "dir=/etc", "--allow-host-path", "flows/in"]);
    assert_eq!(outside.code, 1, "{outside:?}");
    assert!(outside.out.contains("TemplateInvalid"), "{}", outside.out);
    // A retry may allow more.
    std::fs::create_dir(bench.path("more")).unwrap();
    bench.file("more/text", "seen");
    let more = format!("dir={}", std::fs::canonicalize(bench.path("more")).unwrap().display());
    let less = ["-p", &more, "--allow-host-path", "flows/in", "--name", "less"];
    assert_eq!(run(&bench, "flows/d.json", &by_parameter, &less).code, 1);
    let gave = bench.orlop(&["flow", "retry", "less", "--allow-host-path", "more", "--progress", "none"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let nothing = run(&bench, "flows/e.json", &by_parameter, &["-p", &whole]);
    assert!(nothing.code == 3 && nothing.err.contains("allow it with --allow-host-path"), "{nothing:?}");
    let other = run(&bench, "flows/f.json", &spec("../home"), &["--allow-host-path", "flows/in"]);
    assert_eq!(other.code, 3, "{other:?}");
}

#[test]
fn processes_begin_in_the_directory_that_is_asked_for() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("work")).unwrap();
    bench.file("work/in", "text");
    let mut named = after(step("named", "test $(pwd) = /tmp && ! test -e in"), &["there"]);
    named["template"]["spec"]["template"]["spec"]["containers"][0]["workingDir"] = json!("/tmp");
    let file = bench.flow("begin", &json!({"steps": [step("there", "cat in > out && pwd"), named]}));
    let gave = bench.run(&file, &["--workdir", "work"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(std::fs::read_to_string(bench.path("work/out")).unwrap(), "text");
    let work = std::fs::canonicalize(bench.path("work")).unwrap();
    assert_eq!(bench.orlop(&["flow", "logs", "begin", "there"]).out, format!("there/1 {}\n", work.display()));
    let gave = bench.run(&file, &["--name", "private"]);
    assert_eq!(gave.code, 1, "without it they begin in a place of their own: {gave:?}");
    assert!(phases(&bench.status("private").unwrap()).starts_with("there=Failed/NonZeroExit"));
    assert_eq!(bench.run(&file, &["--name", "none", "--workdir", "nowhere"]).code, 2);
}

#[test]
fn a_retry_with_another_value_runs_the_steps_again_that_read_it() {
    let bench = Bench::new();
    let steps = json!([step("build", "echo v ${parameters.version}"), step("other", "true"), step("bad", "exit 1")]);
    let policy = json!({"failurePolicy": "Continue"});
    let spec = |version: &str| {
        let version = json!({"name": "version", "value": version});
        json!({"steps": steps, "parameters": [version], "executionPolicy": policy})
    };
    assert_eq!(run(&bench, "flows/v.json", &spec("1"), &["--name", "one"]).code, 1);
    let logs = |run: &str| bench.orlop(&["flow", "logs", run, "build"]).out;
    assert_eq!(logs("one"), "build/1 v 1\n");
    bench.orlop(&["flow", "retry", "one", "-p", "version=9", "--name", "two", "--progress", "none"]);
    assert_eq!(logs("two"), "build/1 v 9\n");
    assert!(phases(&bench.status("two").unwrap()).contains("other=Succeeded/Reused"));
    let object = json!({"apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": {"generateName": "d-"}, "spec": spec("7")});
    let file = bench.file("flows/w.json", &object.to_string());
    let file = file.display().to_string();
    bench.orlop(&["flow", "retry", "one", &file, "--name", "three", "--progress", "none"]);
    assert_eq!(logs("three"), "build/1 v 7\n", "another value in the file");
    let other = bench.flow("another", &json!({"steps": [step("x", "true")]})).display().to_string();
    let gave = bench.orlop(&["flow", "retry", "one", &other, "--progress", "none"]);
    assert!(gave.code == 2 && gave.err.contains("it is another flow"), "{gave:?}");
}
