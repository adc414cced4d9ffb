//! What the engine is asked for.

use orlop_core::task::Run;
use std::sync::Arc;

use orlop_core::id::{Epoch, JobId};
use orlop_core::spec::job::SecretAs;
use serde_json::{Value, json};

use super::*;
use crate::runtime::worker::plan::Secret;

fn facts() -> Facts {
    let selinux = false;
    Facts { network: None, cpus: 4, cpu_quota: true, cpu_shares: true, swap_limit: true, local_log: true, selinux }
}

fn asked(plan: &AttemptPlan, image: &ImageDefaults) -> Value {
    let options = ContainerOptions { mark: "m".to_owned(), ..ContainerOptions::new("w", "/state") };
    let directories = AttemptDirectories { work: Path::new("/state/a"), secrets: Some(Path::new("/run/s/a")) };
    serde_json::to_value(body(plan, &options, &facts(), image, directories).unwrap()).unwrap()
}

fn plan(spec: Run) -> AttemptPlan {
    let id = TaskRef { job: JobId::from_u64(7), index: 1, member: 0, attempt: 2, epoch: Epoch(3) };
    AttemptPlan::new(id, Arc::new(Run { cpu_m: 1500, memory_bytes: 1 << 30, ..spec }))
}

#[test]
fn limits_mounts_and_what_a_container_may_not_do() {
    let mut plan = plan(Run { image: Some("i".to_owned()), ..Run::default() });
    plan.artifacts = Some("/in".into());
    plan.secrets = vec![Secret {
        name: "s".to_owned(),
        value: "v".to_owned(),
        given_as: SecretAs::Env,
        target: "TOKEN".to_owned(),
    }];
    let body = asked(&plan, &ImageDefaults::default());
    let mount = |source: &str, name: &str, read_only: bool| json!({"Target": format!("/orlop/{name}"), "Source": source, "Type": "bind", "ReadOnly": read_only});
    let expected = json!({
        "CpuShares": 1536, "NanoCpus": 1_500_000_000_u64,
        "Memory": 1 << 30, "MemorySwap": 1 << 30, "PidsLimit": 4096,
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
        "LogConfig": {"Type": "local", "Config": {"max-file": "2", "compress": "false", "max-size": "67108864"}},
        "RestartPolicy": {"Name": "no"},
        "Mounts": [
            mount("/state/a", "job", false), mount("/run/s/a", "secrets", true), mount("/in", "artifacts", true)
        ],
        "CapDrop": ["ALL"], "Privileged": false, "SecurityOpt": ["no-new-privileges"]
    });
    assert_eq!(body["HostConfig"], expected);
    assert_eq!(body["Labels"]["orlop.ref"], "j0000000000007.1.0.2.3");
    assert_eq!((&body["Entrypoint"], &body["Cmd"]), (&Value::Null, &Value::Null), "the image's own command");
    let env = body["Env"].to_string();
    for expected in ["TOKEN=v", "ORLOP_OUTPUT=/orlop/job/.orlop-output", "ORLOP_ARTIFACTS_DIR=/orlop/artifacts"] {
        assert!(env.contains(expected), "{env}");
    }
    assert!(env.contains("NVIDIA_VISIBLE_DEVICES=void") && !env.contains("PATH=") && !env.contains("ORLOP_REF"));
}

#[test]
fn a_command_takes_the_place_of_the_entry_point() {
    let argv = vec!["echo".to_owned(), "{{index}}".to_owned()];
    let body = asked(&plan(Run { argv, ..Run::default() }), &ImageDefaults::default());
    assert_eq!(body["Entrypoint"], json!(["echo", "1"]));
}

#[test]
fn the_working_directory_is_the_specs_or_the_images_or_the_attempts() {
    let dir = |wanted: Option<&str>, image: &str| {
        let spec = Run { working_dir: wanted.map(str::to_owned), ..Run::default() };
        working_dir(&plan(spec), &ImageDefaults { working_dir: image.to_owned(), ..ImageDefaults::default() })
    };
    assert_eq!(dir(None, "").unwrap().as_deref(), Some("/orlop/job"));
    assert_eq!(dir(None, "/").unwrap().as_deref(), Some("/orlop/job"));
    assert_eq!(dir(None, "/app").unwrap(), None);
    assert_eq!(dir(Some("."), "/app").unwrap().as_deref(), Some("/orlop/job/"));
    assert_eq!(dir(Some("a/{{index}}"), "/app").unwrap().as_deref(), Some("/orlop/job/a/1"));
    insta::assert_snapshot!(dir(Some("../x"), "").unwrap_err(), @"the working directory `../x` is not below the attempt's own");
}

#[test]
fn devices_of_each_maker_are_asked_for_in_its_way() {
    assert_eq!(devices(&[]), None);
    let gpu = GpuDevice::numbered;
    let slice = GpuDevice { uuid: Some("MIG-d0dd2f3e".to_owned()), ..gpu("nvidia", 3) };
    let own = devices(&[gpu("nvidia", 1), slice]).unwrap();
    assert_eq!(own[0].device_ids.as_deref(), Some(&["1".to_owned(), "MIG-d0dd2f3e".to_owned()][..]));
    let other = devices(&[gpu("amd", 2)]).unwrap();
    assert_eq!(
        (other[0].driver.as_deref(), other[0].device_ids.as_ref().unwrap()[0].as_str()),
        (Some("cdi"), "amd.com/gpu=2")
    );
}

#[test]
fn containers_are_known_by_their_labels_alone() {
    let entry = |label: &str, state| ContainerSummary {
        id: Some("c".to_owned()),
        labels: Some(HashMap::from([(REF.to_owned(), label.to_owned())])),
        state: Some(state),
        ..Default::default()
    };
    assert_eq!(seen(&entry("other", State::RUNNING)), None);
    let of = |state| seen(&entry("j0000000000007.1.0.2.3", state)).map(|(_, seen)| (seen.runs, seen.began)).unwrap();
    assert_eq!(of(State::RUNNING), (true, true));
    assert_eq!(of(State::EXITED), (false, true));
    assert_eq!(of(State::CREATED), (false, false));
}
