//! What commands print.

use serde_json::json;

use super::bench::{Bench, after, step};

#[test]
fn lists_names_and_deletions() {
    let bench = Bench::new();
    for name in ["a", "b"] {
        let file = bench.flow(name, &json!({"steps": [step("s", "true")]}));
        assert_eq!(bench.run(&file, &[]).code, 0);
    }
    assert_eq!(bench.orlop(&["flow", "list", "-o", "name"]).out, "a\nb\n");
    assert_eq!(bench.orlop(&["flow", "list", "-o", "name", "--phase", "failed"]).out, "");
    assert_eq!(bench.orlop(&["flow", "list", "--phase", "odd"]).code, 2);
    assert_eq!(bench.orlop(&["flow", "list", "-n", "other", "-o", "name"]).out, "");
    assert_eq!(bench.orlop(&["flow", "delete", "a"]).out, "a deleted\n");
    assert_eq!(bench.orlop(&["flow", "get", "a"]).code, 4);
    assert_eq!(bench.orlop(&["flow", "delete", "--completed"]).out, "b deleted\n");
    assert_eq!(bench.orlop(&["flow", "list", "-o", "name"]).out, "");
}

#[test]
fn graphs_and_plans_come_from_files() {
    let bench = Bench::new();
    let file = bench.flow("dag", &json!({"steps": [step("a", "true"), after(step("b", "true"), &["a"])]}));
    let file = file.display().to_string();
    let gave = bench.orlop(&["flow", "graph", &file, "-o", "mermaid"]);
    assert!(gave.code == 0 && gave.out.starts_with("flowchart LR"), "{gave:?}");
    let gave = bench.orlop(&["flow", "plan", &file, "--target", "process", "-o", "name"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, "a\nb\n"), "{gave:?}");
    let gave = bench.orlop(&["flow", "plan", &file, "--target", "process"]);
    assert!(gave.out.contains("critical path: a \u{2192} b"), "{}", gave.out);
    assert_eq!(gave.err, "", "that images are not looked at was asked for");
    let mut named = step("c", "true");
    named["template"]["spec"]["template"]["spec"]["hostname"] = json!("h");
    let file = bench.flow("named", &json!({"steps": [named]})).display().to_string();
    let gave = bench.orlop(&["flow", "plan", &file, "--target", "process"]);
    assert!(gave.code == 0 && gave.err.contains("`hostname` is ignored"), "{}", gave.err);
    let gave = bench.orlop(&["flow", "plan", &file, "--target", "process", "--strict"]);
    assert_eq!(gave.code, 3);
}

#[test]
fn plans_show_no_secret_and_logs_mask_them() {
    let bench = Bench::new();
    let mut spec = json!({"steps": [step("a", "echo the ${parameters.pass}")]});
    spec["parameters"] = json!([{"name": "pass", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "pass"}}}]);
    let file = bench.flow("secret", &spec);
    std::fs::create_dir_all(bench.path("secrets/vault")).unwrap();
    bench.file("secrets/vault/pass", "hunter22");
    let dir = bench.path("secrets").display().to_string();
    let text = file.display().to_string();
    let plan = bench.orlop(&["flow", "plan", &text, "--target", "process", "--secrets-dir", &dir]);
    assert!(plan.code == 0 && !plan.out.contains("hunter22") && plan.out.contains("secretKeyRef"), "{plan:?}");
    let gave = bench.run(&file, &["--secrets-dir", &dir]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "logs", "secret"]).out, "a/1 the ***\n");
    let journal = std::fs::read(bench.path("home/runs/default/secret/run.db")).unwrap();
    assert!(!journal.windows(8).any(|bytes| bytes == b"hunter22"));
}

#[test]
fn validation_names_file_line_and_field() {
    let bench = Bench::new();
    let good = bench.flow("good", &json!({"steps": [step("a", "true")]})).display().to_string();
    assert_eq!(bench.orlop(&["flow", "validate", &good]).code, 0);
    let mut bad = step("a", "true");
    bad["when"] = json!("steps.nix.phase == 'Succeeded'");
    let bad = bench.flow("bad", &json!({"steps": [bad]})).display().to_string();
    let gave = bench.orlop(&["flow", "validate", &bad]);
    assert_eq!(gave.code, 3, "{gave:?}");
    assert!(gave.out.contains("bad.json:1:"), "{}", gave.out);
    let folder = bench.path("").display().to_string();
    assert_eq!(bench.orlop(&["flow", "validate", &folder]).code, 3);
    assert_eq!(bench.orlop(&["flow", "validate", "nowhere"]).code, 4);
}

#[test]
fn help_and_completions_are_there() {
    let bench = Bench::new();
    let gave = bench.orlop(&["run", "--help"]);
    assert!(gave.code == 0 && gave.out.contains("Examples:"), "{gave:?}");
    assert!(!bench.orlop(&["--help"]).out.contains("__supervisor"));
    let gave = bench.orlop(&["completions", "bash"]);
    assert!(gave.code == 0 && gave.out.contains("_orlop"), "{}", gave.code);
    let gave = bench.orlop(&["schema", "Flow"]);
    assert!(gave.code == 0 && gave.out.contains("\"title\": \"JobFlow\""), "{gave:?}");
}

#[test]
fn a_plan_shows_finally_after_the_waves() {
    let bench = Bench::new();
    let main = json!([step("a", "true"), after(step("b", "true"), &["a"])]);
    let last = json!([step("x", "true"), after(step("y", "true"), &["x"]), after(step("z", "true"), &["y"])]);
    let file = bench.flow("last", &json!({"steps": main, "finally": last})).display().to_string();
    let gave = bench.orlop(&["flow", "plan", &file, "--target", "process"]);
    let head: Vec<&str> = gave.out.lines().take(6).collect();
    insta::assert_snapshot!(head.join("\n"), @r"
    default/last: 5 steps
      wave 1: a
      wave 2: b
      finally: x → y → z
      critical path: a → b
    ");
    let gave = bench.orlop(&["flow", "plan", &file, "--target", "process", "-o", "name"]);
    assert_eq!(gave.out, "a\nb\nx\ny\nz\n");
}
