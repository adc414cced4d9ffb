//! Containers go wrong: one is killed behind the worker's back, the engine is away, the runner of a step is killed. In no case
//! is a container left behind.
//!
//! Containers are named after their worker, so workers of tests that run at once have names of their own.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::super::bench::Bench;
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

/// The process that runs a step below this directory.
fn runner(data: &Path) -> Option<nix::unistd::Pid> {
    let data = data.display().to_string();
    std::fs::read_dir("/proc").expect("processes").flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let words = String::from_utf8(std::fs::read(entry.path().join("cmdline")).ok()?).ok()?;
        let is_it = words.split('\0').nth(1) == Some("__step") && words.contains(&data);
        is_it.then(|| nix::unistd::Pid::from_raw(pid))
    })
}

#[test]
fn the_container_of_a_step_whose_runner_is_killed_goes_with_it() {
    let Some(engine) = Engine::found("the_container_of_a_step_whose_runner_is_killed_goes_with_it") else { return };
    let mut bench = Bench::up(&[]);
    let container = json!({
        "name": "main", "image": engine.0.0, "imagePullPolicy": "Never", "command": ["/bin/sleep", "600"],
        "resources": { "requests": { "cpu": "100m", "memory": "32Mi" } },
    });
    let pod = json!({ "containers": [container], "terminationGracePeriodSeconds": 1 });
    let template = json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": { "spec": pod } } });
    for (name, agent_too) in [("one", false), ("two", true)] {
        let flow = json!({
            "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": name },
            "spec": { "steps": [{ "name": "long", "template": template }] },
        });
        let file = bench.place("flow.json");
        std::fs::write(&file, flow.to_string()).expect("a file is written");
        bench.good(&["flow", "submit", &file.display().to_string(), "--target", "fleet"]);
        let container = engine.one();
        let pid = until("its runner", || runner(&bench.data()));
        let kill = || nix::sys::signal::kill(pid, Signal::SIGKILL).expect("it is there");
        if agent_too {
            // Nobody is there to see it.
            let address = bench.address();
            bench.signal(Signal::SIGKILL);
            bench.end();
            kill();
            assert!(engine.containers().contains(&container));
            bench.start_at(&address, &[]);
        } else {
            kill();
        }
        until("its removal", || (!engine.containers().contains(&container)).then_some(()));
        // Without `--force` it may have failed by now already.
        bench.orlop(&["flow", "delete", name, "--force", "--target", "fleet"]);
        until("the end of all containers", || engine.containers().is_empty().then_some(()));
    }
}
