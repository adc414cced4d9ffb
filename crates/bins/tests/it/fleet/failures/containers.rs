//! Containers go wrong: one is killed behind the worker's back, the engine is away, the agent of a step is killed. In no case
//! is a container left behind.
//!
//! Containers are named after their worker, so workers of tests that run at once have names of their own.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::programs::{Programs, until};
use super::proxy::Proxy;
use super::{FAST, attempts, job_in, only_final, serve, submit, worker_in};
use crate::image::{Image, remove_containers, run};

/// An image whose containers go with it; none, said loudly, where no engine answers.
struct Engine(Image);

impl Engine {
    fn found(test: &str) -> Option<Self> {
        match Image::import() {
            Ok(image) => Some(Self(image)),
            Err(why) => {
                println!("\nskipped: {test}: {why}");
                None
            }
        }
    }

    /// Ids of its containers, those that have ended too.
    fn containers(&self) -> Vec<String> {
        let filter = format!("ancestor={}", self.0.0);
        let ids = run("docker", &["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter]).expect("an answer");
        ids.lines().map(str::to_owned).collect()
    }

    fn one(&self) -> String {
        until("a container", || self.containers().pop())
    }

    /// Fields of a job in a container of it.
    fn job(&self, more: &Value) -> Value {
        let mut fields = json!({ "runtime": "docker", "image": self.0.0, "pull": "never" });
        let more = more.as_object().expect("fields").clone();
        fields.as_object_mut().expect("fields").extend(more);
        fields
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        remove_containers(&self.0.0);
    }
}

/// The socket of the engine.
fn socket() -> PathBuf {
    let address = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    PathBuf::from(address.strip_prefix("unix://").expect("the engine has a socket"))
}

/// Waits for a file in its own directory.
const WAITS: &str = "echo before; until [ -e go ]; do sleep 0.05; done; echo after";

/// The directory of the one attempt that runs on a worker as a container.
fn directory(state: &Path) -> PathBuf {
    let entries = std::fs::read_dir(state.join("containers")).expect("a folder").flatten();
    let mut names = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with('j'));
    names.next().expect("an attempt").path()
}

#[test]
fn a_container_that_is_killed_from_outside_fails_and_is_gone() {
    let Some(engine) = Engine::found("a_container_that_is_killed_from_outside_fails_and_is_gone") else { return };
    let programs = Programs::new();
    let server = serve(&programs, &FAST);
    let _worker = programs.worker("killed", &[&server.grpc], &[]);
    let id = submit(&server, "sleep 600", engine.job(&json!({ "retries": 1 })));
    for attempt in 1..=2 {
        until("its start", || {
            let all = attempts(&server, &id);
            all.iter().any(|row| row["attempt"] == attempt && row["state"] == "Running").then_some(())
        });
        run("docker", &["kill", "--signal", "KILL", &engine.one()]).expect("it is killed");
        until("its removal", || engine.containers().is_empty().then_some(()));
    }
    let failed = job_in(&server, &id, "Failed");
    assert_eq!((&failed["exit_code"], only_final(&server, &id)), (&json!(137), 2), "{failed}");
    // One that cannot be started leaves none either.
    let id = submit(&server, "", engine.job(&json!({ "command": ["/no/such/program"] })));
    let failed = job_in(&server, &id, "Failed");
    assert!(engine.containers().is_empty(), "{failed}");
}

#[test]
fn an_engine_that_is_away_is_bad_health_and_its_containers_are_taken_up_again() {
    let test = "an_engine_that_is_away_is_bad_health_and_its_containers_are_taken_up_again";
    let Some(engine) = Engine::found(test) else { return };
    let programs = Programs::new();
    let server = serve(&programs, &[&FAST[..], &["--scheduler-probation-min=2s"]].concat());
    let line = Proxy::to_socket(&socket());
    let address = line.url().replace("http://", "tcp://");
    let _worker = programs.worker("away", &[&server.grpc], &["--docker-host", &address]);
    let id = submit(&server, WAITS, engine.job(&json!({})));
    job_in(&server, &id, "Running");
    let container = engine.one();
    line.cut(true);
    worker_in(&server, "away", &["Unhealthy"]);
    let other = submit(&server, "true", engine.job(&json!({})));
    // What runs goes on, and ends while nobody can see it.
    job_in(&server, &id, "Running");
    std::fs::write(directory(&programs.path("away-state")).join("go"), "").expect("a file is written");
    until("its end", || {
        let state = run("docker", &["inspect", "--format", "{{.State.Status}}", &container]).ok()?;
        (state.trim() == "exited").then_some(())
    });
    assert_eq!(attempts(&server, &other), Vec::<Value>::new(), "nothing is placed there");
    line.cut(false);
    let done = job_in(&server, &id, "Completed");
    assert_eq!((&done["attempt"], only_final(&server, &id)), (&json!(1), 1));
    assert_eq!(programs.good(&server.rest, &["logs", &id]), "before\nafter\n");
    worker_in(&server, "away", &["Available", "Running"]);
    job_in(&server, &other, "Completed");
    until("their removal", || engine.containers().is_empty().then_some(()));
}

#[test]
fn the_container_of_a_step_whose_agent_is_killed_goes_on_and_goes_with_its_flow() {
    let test = "the_container_of_a_step_whose_agent_is_killed_goes_on_and_goes_with_its_flow";
    let Some(engine) = Engine::found(test) else { return };
    let programs = Programs::new();
    let server = programs.leader("s1", &[]);
    let mut agent = programs.worker("stepped", &[&server.grpc], &[]);
    let container = json!({
        "name": "main", "image": engine.0.0, "imagePullPolicy": "Never", "command": ["/bin/sleep", "600"],
        "resources": { "requests": { "cpu": "100m", "memory": "32Mi" } },
    });
    let pod = json!({ "containers": [container], "terminationGracePeriodSeconds": 1 });
    let template = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": { "spec": pod } } });
    let flow = json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": "one" },
        "spec": { "steps": [{ "name": "long", "template": template }] },
    });
    let file = programs.path("flow.json");
    std::fs::write(&file, flow.to_string()).expect("a file is written");
    let verb = |args: &[&str]| programs.good(&server.rest, &[&["flow"], args, &["--target", "fleet"]].concat());
    let step = || first_step(&verb(&["get", "one", "-o", "json"]));
    verb(&["submit", &file.display().to_string()]);
    let container = engine.one();
    until("its start", || (step()["phase"] == "Running").then_some(()));
    agent.kill();
    agent = programs.worker("stepped", &[&server.grpc], &[]);
    until("its adoption", || programs.log("stepped").contains("fate=Adopt").then_some(()));
    worker_in(&server, "stepped", &["Available", "Running"]);
    assert_eq!((engine.containers(), &step()["phase"]), (vec![container], &json!("Running")), "the same, and no other");
    verb(&["terminate", "one"]);
    until("its removal", || engine.containers().is_empty().then_some(()));
    let ended = until("its end", || Some(step()).filter(|step| step["phase"] == "Failed"));
    assert_eq!((&ended["reason"], &ended["attempt"]), (&json!("Terminated"), &json!(1)));
    drop(agent);
}

/// The first step of a flow.
fn first_step(flow: &str) -> Value {
    serde_json::from_str::<Value>(flow).expect("JSON")["status"]["steps"][0].clone()
}
