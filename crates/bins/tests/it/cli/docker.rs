//! The command line with containers, where an engine answers.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::bench::{Bench, after, end, phases, signal, step};
use super::web::Server;
use crate::image::{Image, remove_containers, run};

/// A bench with an image; none, said loudly, where no engine answers.
struct Engine {
    bench: Bench,
    image: Image,
}

impl Engine {
    fn found(test: &str) -> Option<Self> {
        match Image::import() {
            Ok(image) => Some(Self { bench: Bench::new(), image }),
            Err(why) => {
                println!("\nskipped: {test}: {why}");
                None
            }
        }
    }

    /// A step that runs a shell script in a container.
    fn step(&self, name: &str, script: &str) -> Value {
        let mut step = step(name, script);
        step["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(self.image.0);
        step
    }

    fn flow(&self, name: &str, steps: &Value) -> PathBuf {
        self.bench.flow(name, &json!({ "steps": steps }))
    }

    fn orlop(&self, file: &Path, args: &[&str]) -> super::bench::Gave {
        let file = file.display().to_string();
        self.bench.orlop(&[&["run", file.as_str()], args].concat())
    }

    /// Names of containers that are there, running or not.
    fn containers(&self) -> Vec<String> {
        let filter = format!("ancestor={}", self.image.0);
        let names = run("docker", &["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"]).unwrap();
        names.lines().map(str::to_owned).collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        remove_containers(&self.image.0);
    }
}

#[test]
fn steps_with_an_image_run_as_containers_and_delete_takes_these_along() {
    let Some(engine) = Engine::found("steps_with_an_image_run_as_containers_and_delete_takes_these_along") else {
        return;
    };
    let mut build = engine.step("build", "echo abc > /tmp/out; echo built in $(cat /proc/1/comm)");
    build["outputs"] = json!({"parameters": [{"name": "digest", "valueFrom": {"path": "/tmp/out"}}]});
    let mut test = after(engine.step("test", "echo got ${parameters.digest}"), &["build"]);
    test["inputs"] = json!({"parameters": [{"name": "digest", "valueFrom": {"jsonPath": "build:$.outputs.digest"}}]});
    let gave = engine.orlop(&engine.flow("boxes", &json!([build, test])), &["--keep"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(engine.bench.orlop(&["flow", "logs", "boxes", "test"]).out, "test/1 got abc\n");
    let status = engine.bench.status("boxes").unwrap();
    assert_eq!(status["steps"][0]["jobRef"]["kind"], "Container");
    let mut containers = engine.containers();
    containers.sort();
    let names: Vec<&str> =
        status["steps"].as_array().unwrap().iter().map(|s| s["jobRef"]["name"].as_str().unwrap()).collect();
    assert_eq!(containers, names, "with --keep containers stay until the run goes");
    let gave = engine.bench.orlop(&["flow", "delete", "boxes"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, "boxes deleted\n"), "{gave:?}");
    assert_eq!(engine.containers(), Vec::<String>::new());
}

#[test]
fn containers_outlive_a_killed_host_and_the_next_one_takes_them_up() {
    let Some(engine) = Engine::found("containers_outlive_a_killed_host_and_the_next_one_takes_them_up") else { return };
    let bench = &engine.bench;
    let file = engine.flow(
        "crash",
        &json!([engine.step("slow", "sleep 3; echo once"), after(engine.step("next", "echo after"), &["slow"])]),
    );
    let child = bench.start(&["run", &file.display().to_string()]);
    bench.until("crash", |status| status["progress"]["runningSteps"] == 1);
    signal(&child, Signal::SIGKILL);
    end(child);
    let gave = bench.orlop(&["run", "--resume", "--name", "crash"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "logs", "crash"]).out, "slow/1 once\nnext/1 after\n");
    assert_eq!(bench.status("crash").unwrap()["steps"][0]["attempt"], 1);
    assert_eq!(engine.containers(), Vec::<String>::new(), "nobody needs them any more");
    assert_eq!(bench.orlop(&["flow", "delete", "crash"]).code, 0);
}

#[test]
fn delete_force_removes_a_running_container() {
    let Some(engine) = Engine::found("delete_force_removes_a_running_container") else { return };
    let bench = &engine.bench;
    let file = engine.flow("live", &json!([engine.step("slow", "sleep 100")]));
    let child = bench.start(&["run", &file.display().to_string()]);
    bench.until("live", |status| status["progress"]["runningSteps"] == 1);
    signal(&child, Signal::SIGKILL);
    end(child);
    assert_eq!(engine.containers().len(), 1);
    let gave = bench.orlop(&["flow", "delete", "live", "--force"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, "live deleted\n"), "{gave:?}");
    assert_eq!(engine.containers(), Vec::<String>::new());
}

#[test]
fn a_run_whose_engine_is_gone_is_deleted_by_force_only() {
    let Some(engine) = Engine::found("a_run_whose_engine_is_gone_is_deleted_by_force_only") else { return };
    let bench = &engine.bench;
    assert_eq!(engine.orlop(&engine.flow("gone", &json!([engine.step("a", "true")])), &["--keep"]).code, 0);
    let gave = bench.without_engine(&["flow", "delete", "gone"]);
    assert_eq!(gave.code, 7, "{gave:?}");
    assert!(gave.err.contains("--force deletes the run and leaves its containers behind"), "{}", gave.err);
    let gave = bench.without_engine(&["flow", "delete", "gone", "--force"]);
    assert_eq!((gave.code, gave.out.as_str()), (0, "gone deleted\n"), "{gave:?}");
    assert!(gave.err.starts_with("warning: cannot remove what is left of the attempts of `gone`"), "{}", gave.err);
    assert_eq!(engine.containers().len(), 1);
}

#[test]
fn secrets_reach_a_container_and_its_logs_do_not_show_them() {
    let Some(engine) = Engine::found("secrets_reach_a_container_and_its_logs_do_not_show_them") else { return };
    let bench = &engine.bench;
    let mut a = engine.step("a", "echo pin $PIN; test $PIN = 7");
    a["template"]["spec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "PIN", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "pin"}}}]);
    std::fs::create_dir_all(bench.path("secrets/vault")).unwrap();
    bench.file("secrets/vault/pin", "7");
    let dir = bench.path("secrets").display().to_string();
    let gave = engine.orlop(&engine.flow("hush", &json!([a])), &["--secrets-dir", &dir]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(bench.orlop(&["flow", "logs", "hush"]).out, "a/1 pin ***\n");
}

#[test]
fn a_private_registry_is_shown_the_login_of_the_pull_secret() {
    let Some(engine) = Engine::found("a_private_registry_is_shown_the_login_of_the_pull_secret") else { return };
    let bench = &engine.bench;
    let registry = Server::registry();
    let mut a = engine.step("a", "true");
    let pod = &mut a["template"]["spec"]["template"]["spec"];
    pod["containers"][0]["image"] = json!(format!("{}/team/app:1", registry.address()));
    pod["imagePullSecrets"] = json!([{"name": "regcred"}]);
    let file = engine.flow("private", &json!([a]));
    let dir = bench.path("secrets").display().to_string();
    std::fs::create_dir_all(bench.path("secrets/regcred")).unwrap();
    let gave = engine.orlop(&file, &["--secrets-dir", &dir]);
    assert_eq!(
        (gave.code, phases(&bench.status("private").unwrap()).as_str()),
        (1, "a=Failed/ParameterUnresolved"),
        "{gave:?}"
    );
    assert!(gave.out.contains("Secret regcred has no text under key .dockerconfigjson"), "{}", gave.out);
    let login = json!({"auths": {registry.address(): {"username": "ann", "password": "hunter22"}}});
    bench.file("secrets/regcred/.dockerconfigjson", &login.to_string());
    let gave = engine.orlop(&file, &["--secrets-dir", &dir, "--name", "again"]);
    assert_eq!(gave.code, 1, "the registry has no image: {gave:?}");
    // `ann:hunter22`
    assert!(registry.seen().iter().any(|login| login == "Basic YW5uOmh1bnRlcjIy"), "{:?}", registry.seen());
    assert!(!format!("{gave:?}").contains("hunter22"), "{gave:?}");
}

/// Gives the engine's image another name.
fn tag(image: &Image, name: &str) -> Image {
    run("docker", &["tag", &image.0, name]).unwrap();
    Image(name.to_owned())
}

#[test]
fn an_image_of_this_machine_is_used_where_its_registry_cannot_be_asked() {
    let Some(engine) = Engine::found("an_image_of_this_machine_is_used_where_its_registry_cannot_be_asked") else {
        return;
    };
    // Nothing listens there. Without a tag it may have moved, so it is asked for first.
    let local = tag(&engine.image, &format!("127.0.0.1:9/orlop-{}", std::process::id()));
    let mut first = engine.step("first", "echo ran");
    first["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(local.0);
    let mut second = after(first.clone(), &["first"]);
    second["name"] = json!("second");
    let file = engine.flow("local", &json!([first, second]));
    let gave = engine.orlop(&file, &["--progress", "plain"]);
    assert_eq!(gave.code, 0, "{gave:?}");
    assert_eq!(engine.bench.orlop(&["flow", "logs", "local"]).out, "first/1 ran\nsecond/1 ran\n");
    assert_eq!(gave.err.matches("pulling an image").count(), 1, "shown at once, and pulled once: {}", gave.err);
    assert_eq!(gave.err.matches("the image of this machine is used as it is").count(), 1, "{}", gave.err);
    let gave = engine.orlop(&file, &["--name", "missing", "--pull", "missing"]);
    assert!(gave.code == 0 && !gave.err.contains("pulling"), "{gave:?}");
    remove_containers(&local.0);
    let mut none = engine.step("none", "true");
    none["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("127.0.0.1:9/none:1");
    let gave = engine.orlop(&engine.flow("never", &json!([none])), &["--pull", "never"]);
    assert_eq!(phases(&engine.bench.status("never").unwrap()), "none=Failed/ErrImageNeverPull", "{gave:?}");
}

#[test]
fn what_is_delivered_belongs_to_the_user_of_the_image() {
    let Some(engine) = Engine::found("what_is_delivered_belongs_to_the_user_of_the_image") else { return };
    let users = engine.bench.file("users", "root:x:0:0::/:/bin/sh\nworker:x:1001:1001::/:/bin/sh\n");
    let mut make = engine.step("make", "mkdir -m 700 /tmp/d; echo k > /tmp/d/key; chmod 600 /tmp/d/key");
    make["outputs"] = json!({"artifacts": [{"name": "d", "path": "/tmp/d"}]});
    let mut steps = vec![make];
    let mut images = Vec::new();
    for (name, user) in [("number", "1000"), ("named", "worker")] {
        let image = format!("{}-{name}", engine.image.0);
        let container = run("docker", &["create", &engine.image.0, "true"]).unwrap().trim().to_owned();
        run("docker", &["cp", users.to_str().unwrap(), &format!("{container}:/etc/passwd")]).unwrap();
        run("docker", &["commit", "--change", &format!("USER {user}"), &container, &image]).unwrap();
        run("docker", &["rm", &container]).unwrap();
        let mut take = engine.step(name, "cat /in/key && echo more > /in/own && id -u");
        take["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        take["inputs"] = json!({"artifacts": [{"name": "d", "from": "make/d", "path": "/in"}]});
        steps.push(take);
        images.push(Image(image));
    }
    let gave = engine.orlop(&engine.flow("users", &json!(steps)), &[]);
    assert_eq!(gave.code, 0, "{gave:?}");
    let bench = &engine.bench;
    assert_eq!(bench.orlop(&["flow", "logs", "users", "number"]).out, "number/1 k\nnumber/1 1000\n");
    assert_eq!(bench.orlop(&["flow", "logs", "users", "named"]).out, "named/1 k\nnamed/1 1001\n");
    for image in &images {
        remove_containers(&image.0);
    }
}
