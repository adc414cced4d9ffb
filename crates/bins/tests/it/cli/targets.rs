//! Where a flow runs, `--target`: what each of the five does on this machine, and how earlier spellings end.

use serde_json::{Value, json};

use super::bench::{Bench, Gave, step};
use crate::image::{Image, remove_containers};

/// A flow of a step with an image and of one without.
fn mixed(bench: &Bench, name: &str, image: &str) -> String {
    let of = |name: &str| step(name, "true");
    let (mut boxed, mut bare) = (of("boxed"), of("bare"));
    boxed["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    let containers = bare["template"]["spec"]["template"]["spec"]["containers"][0].as_object_mut();
    containers.expect("a container").remove("image");
    bench.flow(name, &json!({ "steps": [boxed, bare] })).display().to_string()
}

/// Kinds of what ran the steps, in their order.
fn kinds(bench: &Bench, name: &str) -> Vec<String> {
    let status = bench.status(name).expect("it ran");
    let kind = |step: &Value| step["jobRef"]["kind"].as_str().unwrap_or_default().to_owned();
    status["steps"].as_array().expect("steps").iter().map(kind).collect()
}

fn refused(gave: &Gave, words: &[&str]) {
    for word in words {
        assert!(gave.err.contains(word), "{word}: {}", gave.err);
    }
}

#[test]
fn process_runs_all_steps_as_processes_and_says_nothing_of_images() {
    let bench = Bench::new();
    let file = mixed(&bench, "plain", "busybox");
    let gave = bench.without_engine(&["run", &file, "--target", "Process", "--progress", "none", "--strict"]);
    assert_eq!((gave.code, gave.err.as_str()), (0, ""), "{gave:?}");
    assert_eq!(kinds(&bench, "plain"), ["Process", "Process"]);
    let mut command = bench.command(&["run", &file, "--name", "again", "--progress", "none"]);
    let by_variable = command.env("ORLOP_TARGET", "process").output().expect("it runs");
    assert_eq!(by_variable.status.code(), Some(0), "{by_variable:?}");
}

#[test]
fn the_tour_warns_of_nothing_that_its_user_did_not_ask_for() {
    let bench = Bench::new();
    let tour = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/flows/tour.yaml");
    let gave = bench.without_engine(&["run", "--target", "process", tour]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert!(!format!("{}{}", gave.out, gave.err).contains("warning"), "{gave:?}");
}

#[test]
fn a_container_command_never_runs_as_a_process_unasked() {
    let bench = Bench::new();
    let file = mixed(&bench, "boxed", "busybox");
    for target in [&[][..], &["--target", "local"]] {
        let gave = bench.without_engine(&[&["run", &file], target].concat());
        assert_eq!(gave.code, 2, "{gave:?}");
        let way = if cfg!(feature = "docker") { "start a container engine" } else { "--features docker" };
        refused(&gave, &[way, "`--target process`"]);
    }
    assert_eq!(bench.orlop(&["flow", "list", "-o", "name"]).out, "");
    let bare =
        bench.file("bare.json", r#"{"name": "bare", "steps": [{"name": "a", "job_spec": {"command": ["true"]}}]}"#);
    let gave = bench.without_engine(&["run", &bare.display().to_string(), "--name", "bare"]);
    assert_eq!(gave.code, 0, "no step needs an engine: {gave:?}");
}

#[test]
fn docker_refuses_steps_without_an_image_by_their_name() {
    let bench = Bench::new();
    let file = mixed(&bench, "mixed", "busybox");
    for verb in [&["run"][..], &["flow", "plan"], &["flow", "validate"]] {
        let gave = bench.without_engine(&[verb, &[&file, "--target", "docker"]].concat());
        assert_eq!(gave.code, 3, "{verb:?}: {gave:?}");
        let text = format!("{}{}", gave.out, gave.err);
        assert!(text.contains("step `bare` names no image") && !text.contains("`boxed`"), "{text}");
    }
    let boxed = bench.flow("only", &json!({"steps": [step("a", "true")]})).display().to_string();
    let gave = bench.without_engine(&["run", &boxed, "--target", "docker"]);
    assert_eq!(gave.code, 2, "no engine answers: {gave:?}");
}

#[test]
fn where_an_engine_answers_images_decide_or_all_is_a_container() {
    let image = match Image::import() {
        Ok(image) => image,
        Err(why) => {
            println!("\nskipped: where_an_engine_answers_images_decide_or_all_is_a_container: {why}");
            return;
        }
    };
    let bench = Bench::new();
    let file = mixed(&bench, "mixed", &image.0);
    let gave = bench.orlop(&["run", &file]);
    assert_eq!((gave.code, kinds(&bench, "mixed")), (0, vec!["Container".into(), "Process".into()]), "{gave:?}");
    let mut only = step("a", "true");
    only["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image.0);
    let only = bench.flow("only", &json!({ "steps": [only] })).display().to_string();
    let gave = bench.orlop(&["run", &only, "--target", "docker"]);
    assert_eq!((gave.code, kinds(&bench, "only")), (0, vec!["Container".into()]), "{gave:?}");
    for name in ["mixed", "only"] {
        assert_eq!(bench.orlop(&["flow", "delete", name]).code, 0);
    }
    remove_containers(&image.0);
}

#[test]
fn fleet_and_kube_are_asked_and_not_this_machine() {
    let bench = Bench::new();
    let file = mixed(&bench, "away", "busybox");
    let gave = bench.orlop(&["run", &file, "--target", "fleet", "--server", "http://127.0.0.1:9"]);
    let wanted = if cfg!(feature = "fleet") { 7 } else { 2 };
    assert_eq!(gave.code, wanted, "{gave:?}");
    let gave = bench.orlop(&["run", &file, "--target", "kube", "--kubeconfig", "/nowhere/config"]);
    assert_eq!(gave.code, 3, "Kubernetes runs containers only: {gave:?}");
    let boxed = bench.flow("boxed", &json!({"steps": [step("a", "true")]})).display().to_string();
    let gave = bench.orlop(&["run", &boxed, "--target", "kube", "--kubeconfig", "/nowhere/config"]);
    assert_eq!(gave.code, 2, "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "list", "-o", "name"]).out, "");
    let gave = bench.orlop(&["run", &file, "--target", "elsewhere"]);
    assert!(gave.code == 2 && gave.err.contains("local, process, docker, fleet, kube"), "{gave:?}");
}

#[test]
fn earlier_spellings_end_with_the_new_one() {
    let bench = Bench::new();
    let file = mixed(&bench, "old", "busybox");
    for (args, new) in [
        (&["run", &file, "--on", "fleet"][..], "--target fleet"),
        (&["flow", "list", "--on", "local"], "--target local"),
        (&["run", &file, "--backend", "process"], "--target process"),
        (&["run", &file, "--backend=docker"], "--target local"),
        (&["flow", "plan", &file, "--backend", "process"], "--target process"),
        (&["flow", "submit", &file, "--target", "fleet", "--backend", "process"], "--target fleet"),
        (&["flow", "validate", &file, "--for", "Kube"], "--target kube"),
        (&["flow", "validate", &file, "--for", "local"], "--target process"),
    ] {
        let gave = bench.orlop(args);
        assert_eq!((gave.code, gave.err.lines().count()), (2, 1), "{args:?}: {gave:?}");
        refused(&gave, &[&format!("`{new}`")]);
    }
    let gave = bench.command(&["run", &file]).env("ORLOP_BACKEND", "process").output().expect("it runs");
    assert_eq!(gave.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&gave.stderr).contains("ORLOP_TARGET"), "{gave:?}");
    for help in [&["run", "--help"][..], &["flow", "validate", "--help"]] {
        let text = bench.orlop(help).out;
        assert!(["--on", "--backend", "--for"].iter().all(|old| !text.contains(&format!("{old} "))), "{text}");
    }
}
