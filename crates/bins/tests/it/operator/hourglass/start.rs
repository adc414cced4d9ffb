//! How the program begins: tables that are wrong, definitions that are not there.

use super::super::http;
use super::fixture::{Fixture, example, quick};

/// Starts it with a file of tables; gives its exit code and what it says.
fn started(text: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tables.yaml");
    std::fs::write(&file, text).unwrap();
    let mut command = crate::role::command("operator");
    for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("ORLOP_")) {
        command.env_remove(variable);
    }
    // Nobody is there: it ends before it would ask.
    let kubeconfig = http::kubeconfig(dir.path(), "http://127.0.0.1:1");
    command.arg(format!("--hardware-config={}", file.display())).arg("--kubeconfig").arg(kubeconfig);
    let done = command.args(["--metrics-addr=127.0.0.1:0", "--health-addr=off"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).replace(&*dir.path().to_string_lossy(), "DIR");
    (done.status.code(), said)
}

#[test]
fn a_wrong_table_ends_the_start_and_names_file_and_line() {
    for (text, line, what) in [
        ("gpu:\n  migStrategy: mixed\n  colours: {}\n", 3, "colours"),
        ("tee:\n  kinds:\n    tdx:\n      runtimeClass: Kata_TDX\n", 4, "Kata_TDX"),
    ] {
        let (code, said) = started(text);
        assert_eq!(code, Some(2), "{said}");
        for part in ["hardware-config", "DIR/tables.yaml", &format!("line {line}"), what] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn the_program_translates_by_the_tables_it_is_given() {
    let fixture = Fixture::everywhere();
    let file = fixture.dir.path().join("tables.yaml");
    std::fs::write(&file, "gpu:\n  labelFamilies: [gke]\n").unwrap();
    let operator =
        fixture.start("operator", &["--controllers=performer", &format!("--hardware-config={}", file.display())]);
    operator.comes_to_lead();
    fixture.submit(&example("performer-gpu"));
    fixture.waits("a pod", || !fixture.names("pods").is_empty());
    let pod = fixture.server.look_all("pods")[0]["spec"].to_string();
    assert!(pod.contains("cloud.google.com/gke-accelerator") && !pod.contains("nvidia.com/gpu.product"), "{pod}");
}

#[test]
fn a_missing_definition_makes_readiness_false_and_the_other_controllers_work() {
    let fixture = Fixture::without("performers");
    let operator = fixture.start("operator", &["--controllers=performer,executor"]);
    fixture.submit(&example("executor-basic"));
    fixture.comes_to("HourglassExecutor", "basic", "Running");
    let reported = || operator.get("/readyz");
    fixture.waits("what is missing", || reported().1.contains("the server has no performers"));
    let (code, text) = reported();
    assert_eq!(code, 503, "{text}");
    assert!(text.contains("install them with `kubectl apply -f "), "{text}");
    fixture.install("performers");
    fixture.submit(&quick("avs"));
    fixture.comes_to("Performer", "avs", "Running");
    fixture.waits("readiness", || reported().0 == 200);
}
