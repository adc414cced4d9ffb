//! GPUs of workers on the real programs, with an `nvidia-smi` on their path that lists a machine: an attempt sees the very devices and
//! slices that it holds, and no other has them meanwhile.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::programs::{Programs, Running, Scheduler, json, until};

const SMALL: [&str; 5] = ["submit", "--cpu", "100m", "--memory", "1Mi"];
const WHOLE: &str = "GPU-6c89852c-d268-c3f3-1b07-005d5ae1dc40";
const SLICES: [&str; 2] = ["MIG-1a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e02", "MIG-2a6b1d1f-98b5-5a22-8cf1-6a0c6b0d5e03"];

fn list_devices(programs: &Programs) {
    let program = programs.path("bin/nvidia-smi");
    std::fs::create_dir(programs.path("bin")).expect("a folder");
    let [first, second] = SLICES;
    let text = format!(
        "#!/bin/sh\ncase $* in -L) cat <<'END'\n\
         GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)\n  \
         MIG 1g.10gb     Device  0: (UUID: {first})\n  MIG 1g.10gb     Device  1: (UUID: {second})\n\
         GPU 1: NVIDIA A100-SXM4-80GB (UUID: {WHOLE})\nEND\n\
         ;; *memory.total*) printf '0, 81920, Enabled\\n1, 81920, Disabled\\n';; *) exit 2;; esac\n"
    );
    std::fs::write(&program, text).expect("a program");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("a program");
}

fn worker(programs: &Programs, server: &Scheduler) -> Running {
    let mut command = programs.worker_command("w1", "w1", &[&server.grpc], &[]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", programs.path("bin").display()));
    let worker = programs.spawn("w1", command);
    until("the worker", || json(&server.rest, "/workers/w1").filter(|worker| worker["connected"] == true));
    worker
}

#[test]
fn attempts_see_the_slices_and_devices_that_they_hold_also_after_a_restart_of_the_agent() {
    let programs = Programs::new();
    list_devices(&programs);
    let server = programs.leader("s1", &[]);
    let mut agent = worker(&programs, &server);
    let found = json(&server.rest, "/workers/w1").expect("the worker");
    let units = found["capabilities"]["gpu_units"].as_array().cloned().unwrap_or_default();
    let uuids: Vec<&Value> = units.iter().map(|unit| &unit["uuid"]).collect();
    assert_eq!(uuids, [SLICES[0], SLICES[1], WHOLE], "{found}");
    let page = programs.good(&server.rest, &["workers", "get", "w1"]);
    assert!(page.contains(&format!("gpu unit    1 nvidia a100 {WHOLE}")), "{page}");
    let submit = |more: &[&str]| programs.good(&server.rest, &[&SMALL, more].concat()).trim().to_owned();
    let seen = |kind: &str, more: &[&str]| {
        let show = ["--wait", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $NVIDIA_VISIBLE_DEVICES"];
        let job = submit(&[&["--gpus", kind], more, &show].concat());
        programs.good(&server.rest, &["logs", &job])
    };
    assert_eq!(seen("nvidia:1", &[]), format!("{WHOLE} {WHOLE}\n"), "who names no model gets a whole one");
    // One goes on while its agent does not.
    let long = submit(&["--gpus", "nvidia:a100mig1g10gb:1", "--", "sleep", "600"]);
    until("it runs", || json(&server.rest, &format!("/jobs/{long}")).filter(|job| job["state"] == "Running"));
    agent.kill();
    let _agent = worker(&programs, &server);
    let log = seen("nvidia:a100mig1g10gb:1", &["--array", "0-3"]);
    assert!(log.contains(SLICES[1]) && !log.contains(SLICES[0]) && !log.contains(WHOLE), "{log}");
    programs.good(&server.rest, &["cancel", &long]);
}

#[test]
fn a_step_of_a_flow_sees_the_device_that_its_job_holds() {
    let programs = Programs::new();
    list_devices(&programs);
    let server = programs.leader("s1", &[]);
    let _agent = worker(&programs, &server);
    let container = serde_json::json!({
        "name": "main", "command": ["sh", "-c", "echo sees $CUDA_VISIBLE_DEVICES"],
        "resources": { "requests": { "cpu": "100m", "memory": "32Mi" }, "limits": { "nvidia.com/gpu": 1 } },
    });
    let template = serde_json::json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": { "template": { "spec": { "containers": [container] } } } });
    let flow = serde_json::json!({
        "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": { "name": "gpu" },
        "spec": { "steps": [{ "name": "a", "template": template }] },
    });
    let place = programs.path("flow.json");
    std::fs::write(&place, flow.to_string()).expect("a file is written");
    let file = place.display().to_string();
    programs.good(&server.rest, &["run", &file, "--target", "fleet"]);
    let logs = programs.good(&server.rest, &["flow", "logs", "gpu", "--target", "fleet"]);
    // The other is cut into slices.
    assert_eq!(logs, "a/1 sees 1\n");
}
