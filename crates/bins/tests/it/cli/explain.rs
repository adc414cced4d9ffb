//! Why steps stand where they stand, as people and programs read it.

use serde_json::json;

use super::bench::{Bench, after, step};

#[test]
fn a_failed_run_is_explained_step_by_step() {
    let bench = Bench::new();
    let steps =
        [step("load", "exit 3"), after(step("sum", "true"), &["load"]), after(step("report", "true"), &["sum"])];
    let file = bench.flow("etl", &json!({"steps": steps, "executionPolicy": {"failurePolicy": "Continue"}}));
    assert_eq!(bench.run(&file, &[]).code, 1);
    let gave = bench.orlop(&["flow", "explain", "etl"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    insta::assert_snapshot!(gave.out, @"
    load is Failed (NonZeroExit)
      container `main` ended with exit code 3
    sum is Skipped (DependencyFailed)
      step load did not succeed
      that began with load, which is Failed (NonZeroExit): container `main` ended with exit code 3
    report is Skipped (DependencyFailed)
      step sum did not succeed
      that began with load, which is Failed (NonZeroExit): container `main` ended with exit code 3
    ");
    let gave = bench.orlop(&["flow", "explain", "etl", "report", "-o", "json"]);
    let reported: serde_json::Value = serde_json::from_str(&gave.out).unwrap();
    assert_eq!(reported[0]["because"][1]["because"], "root");
    assert_eq!(reported[0]["because"][1]["name"], "load");
    assert_eq!(bench.orlop(&["flow", "explain", "etl", "-o", "name"]).out, "load\nsum\nreport\n");
    let gave = bench.orlop(&["flow", "explain", "etl", "lode"]);
    assert_eq!(gave.code, 4);
    insta::assert_snapshot!(gave.err, @"error: the flow etl has no step or instance lode; see `orlop flow get etl`");
    assert_eq!(bench.orlop(&["flow", "explain", "other"]).code, 4);
}
