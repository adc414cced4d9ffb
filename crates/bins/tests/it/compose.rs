//! The fleet in containers that ships: every program, flag, setting, file and volume that it names is there, nobody runs as
//! root, and no secret stands in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/compose")
}

fn compose() -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(folder().join("compose.yaml")).unwrap()).unwrap()
}

/// A service with what it takes over from others (`<<`).
fn whole(service: &Value) -> Value {
    let mut all = service.as_object().unwrap().clone();
    if let Some(Value::Object(base)) = all.remove("<<") {
        for (key, value) in base {
            all.entry(key).or_insert(value);
        }
    }
    Value::Object(all)
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

/// Whether a verb of `orlop` has all flags that it is given.
fn check_verb(words: &[&str]) {
    let verb: Vec<&str> = words.iter().copied().skip(1).take_while(|word| !word.starts_with('-')).collect();
    let help = crate::role::program().args(&verb).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let known: BTreeSet<&str> = help.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
    for flag in words.iter().filter(|word| word.starts_with("--")) {
        let name = flag.split('=').next().unwrap();
        assert!(known.contains(name), "`orlop {}` has no {name}:\n{help}", verb.join(" "));
    }
}

/// The effective settings of a program with what its service gives it, read where the test is.
fn settings(service: &Value, configs: &Value, secrets: &Path) -> Value {
    let words = texts(&service["command"]);
    let mount = &service["configs"][0];
    assert_eq!(mount["target"].as_str(), Some(words[3]), "the settings are where the program looks for them");
    let file = configs[mount["source"].as_str().unwrap()]["file"].as_str().unwrap();
    let mut command = crate::role::program();
    command.args([words[1], "--config", folder().join(file).to_str().unwrap(), "--print-config"]);
    for (name, value) in service["environment"].as_object().into_iter().flatten() {
        let name_of_secret = value.as_str().unwrap().strip_prefix("/run/secrets/").unwrap();
        command.env(name, secrets.join(name_of_secret));
    }
    let given = command.output().unwrap();
    assert!(given.status.success(), "{words:?}: {}", String::from_utf8_lossy(&given.stderr));
    serde_saphyr::from_str(&String::from_utf8(given.stdout).unwrap()).unwrap()
}

#[test]
fn the_fleet_in_containers_names_only_what_there_is() {
    let compose = compose();
    let known = |kind: &str| -> BTreeSet<String> { compose[kind].as_object().unwrap().keys().cloned().collect() };
    let (volumes, secrets, configs) = (known("volumes"), known("secrets"), known("configs"));
    let services = compose["services"].as_object().unwrap();
    let secret_files = tempfile::tempdir().unwrap();
    for secret in &secrets {
        assert_eq!(compose["secrets"][secret]["file"].as_str(), Some(format!("./secrets/{secret}").as_str()));
        std::fs::write(secret_files.path().join(secret), "postgres://orlop:hush@postgres/orlop\n").unwrap();
    }
    let mut mounted = BTreeSet::new();
    for (name, service) in services {
        let service = whole(service);
        for volume in texts(&service["volumes"]) {
            let source = volume.split(':').next().unwrap();
            assert!(source.starts_with('/') || volumes.contains(source), "{name}: volume {source}");
        }
        for secret in texts(&service["secrets"]) {
            assert!(secrets.contains(secret), "{name}: secret {secret}");
            mounted.insert(secret.to_owned());
        }
        for config in service["configs"].as_array().into_iter().flatten() {
            assert!(configs.contains(config["source"].as_str().unwrap()), "{name}: {config}");
        }
        for (other, wanted) in service["depends_on"].as_object().into_iter().flatten() {
            let checked = services.get(other).is_some_and(|other| !whole(other)["healthcheck"].is_null());
            let condition = wanted["condition"].as_str().unwrap();
            assert!(services.contains_key(other), "{name} depends on {other}");
            assert!(condition != "service_healthy" || checked, "{name} waits for the health of {other}");
        }
        let words = texts(&service["command"]);
        match words[..words.len().min(2)] {
            ["orlop", "scheduler"] => {
                let all = settings(&service, &compose["configs"], secret_files.path());
                assert_eq!(
                    all["store"]["url"], "postgres://orlop:***@postgres/orlop",
                    "the file was read, and is masked"
                );
                assert_eq!((&all["bus"]["token"], &all["bus"]["url"]), (&"***".into(), &"nats://nats:4222".into()));
                assert_eq!(all["secrets"]["key_file"].as_str().map(|file| file.ends_with("secrets-key")), Some(true));
            }
            ["orlop", "worker"] => {
                let all = settings(&service, &compose["configs"], secret_files.path());
                assert_eq!(all["join_token_file"], "/join/join-token");
            }
            ["orlop", _] => check_verb(&words),
            _ => assert!(service["image"].as_str().unwrap().starts_with("docker.io/"), "{name}: {words:?}"),
        }
        if let Some(test) = service["healthcheck"]["test"].as_array().filter(|test| test[1] == "orlop") {
            check_verb(&test.iter().skip(1).map(|word| word.as_str().unwrap()).collect::<Vec<_>>());
        }
    }
    assert_eq!(mounted, secrets, "every secret is for somebody");
    for config in &configs {
        assert!(folder().join(compose["configs"][config]["file"].as_str().unwrap()).is_file(), "{config}");
    }
}

#[test]
fn nobody_in_a_container_is_root_and_no_secret_is_a_variable() {
    let compose = compose();
    let container = std::fs::read_to_string(folder().join("../container/Containerfile")).unwrap();
    for (name, service) in compose["services"].as_object().unwrap() {
        let service = whole(service);
        assert_eq!(texts(&service["cap_drop"]), ["ALL"], "{name}");
        assert_eq!(texts(&service["security_opt"]), ["no-new-privileges:true"], "{name}");
        assert!(
            service["privileged"].is_null() && service["network_mode"].is_null() && service["pid"].is_null(),
            "{name}"
        );
        let image = service["image"].as_str().unwrap();
        match image.strip_prefix("docker.io/") {
            Some(foreign) => {
                let user = service["user"].as_str().unwrap_or_default();
                assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{name} runs as `{user}`");
                let (_, version) = foreign.split_once(':').unwrap();
                assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{name}: {image} names a version");
            }
            // Ours have their user in the image.
            None => assert!(["orlop", "orlop-worker"].contains(&image), "{name}: {image}"),
        }
        if let Some(target) = service["build"]["target"].as_str() {
            assert!(container.contains(&format!(" AS {target}\n")), "{name}: there is no stage {target}");
        }
        for (variable, value) in service["environment"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap();
            let secret = ["PASSWORD", "TOKEN", "KEY", "SECRET", "URL"].iter().any(|word| variable.contains(word));
            assert!(!secret || variable.ends_with("_FILE"), "{name}: {variable} is no file");
            assert!(!value.contains('@'), "{name}: {variable} holds who logs in");
        }
        for port in texts(&service["ports"]) {
            assert!(
                port.starts_with("127.0.0.1:"),
                "{name}: {port} is open to everybody before anybody asked for that"
            );
        }
    }
    let stages: Vec<&str> = container.split("\nFROM ").skip(1).collect();
    for stage in stages.iter().filter(|stage| !stage.contains(" AS build\n")) {
        let user = stage.lines().find_map(|line| line.strip_prefix("USER "));
        assert!(user.is_some_and(|user| !user.starts_with('0') && !user.contains("root")), "{stage}");
    }
    assert!(stages.len() >= 3);
}

#[test]
fn the_fleet_in_containers_is_understood_by_docker() {
    let version = Command::new("docker").args(["compose", "version"]).output();
    if !version.is_ok_and(|version| version.status.success()) {
        println!("skipped: the_fleet_in_containers_is_understood_by_docker: docker compose is not here");
        return;
    }
    let file = folder().join("compose.yaml");
    let read = Command::new("docker").arg("compose").arg("-f").arg(file).args(["config", "--quiet"]).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}
