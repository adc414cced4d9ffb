//! Profiles: values of options where neither the command line nor the environment gives one.

use serde_json::json;

use super::bench::{Bench, Gave};

#[test]
fn a_profile_gives_options_their_values_and_everything_else_comes_before_it() {
    let bench = Bench::new();
    let orlop = |args: &[&str]| bench.orlop(args);
    let with = |variable: &str, value: &str, args: &[&str]| {
        Gave::of(bench.command(args).env(variable, value).output().expect("the program runs"))
    };
    assert_eq!(orlop(&["flow", "list"]).code, 0);
    let used = orlop(&["config", "use", "lab", "--target", "FLEET", "--server", "http://127.0.0.1:9", "-n", "team"]);
    assert_eq!(used.out, "now using profile `lab`: namespace team, server http://127.0.0.1:9, target fleet\n");
    let far = orlop(&["flow", "list"]);
    assert!(far.code == 7 && far.err.contains("127.0.0.1:9"), "{far:?}");
    let far = orlop(&["jobs"]);
    assert!(far.code == 7 && far.err.contains("127.0.0.1:9"), "{far:?}");
    assert_eq!(orlop(&["flow", "list", "--target", "local"]).code, 0);
    assert_eq!(with("ORLOP_TARGET", "local", &["flow", "list"]).code, 0);
    assert_eq!(with("ORLOP_PROFILE", "", &["flow", "list"]).code, 0);
    let none = with("ORLOP_PROFILE", "none", &["flow", "list"]);
    assert!(none.code == 2 && none.err.contains("there is no profile `none`; known: lab"), "{none:?}");
    let shown = with("ORLOP_NAMESPACE", "own", &["config", "show"]);
    let shown: Vec<String> =
        shown.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in ["target fleet profile lab", "namespace own variable ORLOP_NAMESPACE", "tenant default"] {
        assert!(shown.contains(&line.to_owned()), "{line}: {shown:?}");
    }
}

#[test]
fn profiles_are_made_chosen_changed_and_deleted() {
    let bench = Bench::new();
    let orlop = |args: &[&str]| bench.orlop(args);
    let unknown = orlop(&["config", "use", "lab"]);
    assert!(unknown.code == 4 && unknown.err.contains("there are none"), "{unknown:?}");
    // The name of a target says which one.
    assert_eq!(orlop(&["config", "use", "process"]).code, 0);
    assert_eq!(orlop(&["config", "use", "local", "--target", "process"]).code, 0);
    assert_eq!(orlop(&["config", "use", "local"]).out, "now using profile `local`: target process\n", "it is not new");
    assert_eq!(orlop(&["config", "delete", "local"]).code, 0);
    assert_eq!(orlop(&["config", "use", "lab", "--target", "fleet", "--token-file", "lab.token"]).code, 0);
    assert_eq!(orlop(&["config", "use", "lab", "--tenant", "physics"]).code, 0);
    assert_eq!(orlop(&["config", "use", "process"]).code, 0);
    let listed: serde_json::Value = serde_json::from_str(&orlop(&["config", "list", "-o", "json"]).out).expect("JSON");
    assert_eq!((&listed["current"], &listed["profiles"]["lab"]["tenant"]), (&json!("process"), &json!("physics")));
    let token = listed["profiles"]["lab"]["token-file"].as_str().expect("a path");
    assert!(token.starts_with('/') && token.ends_with("/lab.token"), "found from anywhere: {token}");
    assert_eq!(orlop(&["config", "delete", "process"]).code, 0);
    assert_eq!(orlop(&["config", "delete", "process"]).code, 4);
    assert_eq!(orlop(&["config", "list", "-o", "name"]).out, "lab\n");
    assert_eq!(orlop(&["flow", "list"]).code, 0, "none is in use");
    assert_eq!(orlop(&["config", "use", "Lab_1", "--target", "fleet"]).code, 2);
    for wrong in [["--server", "lab:7070"], ["--server", ""], ["-n", "Foo Bar"], ["--tenant", ""]] {
        assert_eq!(orlop(&["config", "use", "lab", wrong[0], wrong[1]]).code, 2, "{wrong:?}");
    }
}

#[test]
fn a_file_of_profiles_that_cannot_be_read_is_named() {
    let bench = Bench::new();
    let folder = bench.path("config/orlop");
    std::fs::create_dir_all(&folder).expect("a folder");
    for text in ["current: [", "profiles: {lab: {sever: x}}", "profiles: {lab: {target: flet}}", "profile: {}"] {
        std::fs::write(folder.join("config.yaml"), text).expect("a file");
        let gave = bench.orlop(&["flow", "list"]);
        assert!(
            gave.code == 2 && gave.err.contains("config.yaml: ") && gave.err.contains("fix or remove it"),
            "{gave:?}"
        );
        let passed = Gave::of(bench.command(&["flow", "list"]).env("ORLOP_PROFILE", "").output().expect("it runs"));
        assert_eq!(passed.code, 0, "{passed:?}");
        assert_eq!((bench.orlop(&["--help"]).code, bench.orlop(&["completions", "bash"]).code), (0, 0), "{text}");
    }
}
