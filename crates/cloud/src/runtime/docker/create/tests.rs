//! Tests of the translation into create requests.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_core::attempt::AttemptKey;

use super::*;
use crate::runtime::pod::{EnvText, HostNamespaces, Mount as Bind, PodKey};

fn plan(main: ContainerPlan) -> PodPlan {
    let attempt = AttemptKey { flow: "uid".into(), step: "load".into(), item: Some(3), attempt: 2 };
    PodPlan {
        key: PodKey { attempt, pod: 1 },
        name: "etl-load-i3-uid-2-1".to_owned(),
        labels: BTreeMap::from([("workflow.kube-zen.io/step".to_owned(), "load-i3".to_owned())]),
        init: Vec::new(),
        main,
        restart_on_failure: false,
        restart_limit: 0,
        grace: Duration::from_secs(30),
        active_deadline: None,
        further_groups: vec![100, 2000],
        secret_files: Vec::new(),
        host_namespaces: HostNamespaces::default(),
        hostname: Some("box".to_owned()),
        host_aliases: vec![("10.0.0.1".to_owned(), vec!["a".to_owned(), "b".to_owned()])],
        pull_secrets: Vec::new(),
        stdout: "/run/out".into(),
        stderr: "/run/err".into(),
        delivered: Vec::new(),
        outputs: Vec::new(),
        directory: "/run/pod".into(),
    }
}

fn full() -> ContainerPlan {
    ContainerPlan {
        name: "main".to_owned(),
        image: Some("busybox:1".to_owned()),
        command: vec!["sh".to_owned()],
        args: vec!["-c".to_owned(), "true".to_owned()],
        env: vec![("A".to_owned(), EnvText { value: "b=c".to_owned(), secret: true })],
        working_dir: Some("/work".to_owned()),
        mounts: vec![Bind { source: "/src".into(), target: "/dst".to_owned(), read_only: true }],
        cpu_limit_milli: Some(1500),
        cpu_request_milli: Some(500),
        memory_limit_bytes: Some(1 << 30),
        gpus: vec![0, 2],
        user: Some(1000),
        group: Some(1001),
        termination_message_path: "/dev/termination-log".to_owned(),
        read_only_root: true,
        add_capabilities: vec!["NET_ADMIN".to_owned()],
        drop_capabilities: vec!["ALL".to_owned()],
        seccomp: Some("Unconfined".to_owned()),
        ..Default::default()
    }
}

fn facts() -> Facts {
    Facts {
        network: None,
        cpus: 4,
        cpu_quota: true,
        cpu_shares: true,
        swap_limit: true,
        local_log: true,
        selinux: false,
    }
}

fn created(plan: &PodPlan, facts: &Facts) -> serde_json::Value {
    let words = words(&plan.main, Path::new("/run/pod/termination-0"));
    let around = Surroundings { facts, words: &words, image_user: "ada:staff", seccomp: None };
    serde_json::to_value(body(plan, &plan.main, &around)).unwrap()
}

/// One member a line.
fn lines(value: &serde_json::Value) -> String {
    value.as_object().unwrap().iter().map(|(key, value)| format!("{key}: {value}\n")).collect()
}

#[test]
fn every_field_of_a_plan_is_rendered() {
    let mut body = created(&plan(full()), &facts());
    let host = body.as_object_mut().unwrap().remove("HostConfig").unwrap();
    insta::assert_snapshot!(lines(&body), @r#"
    Cmd: ["-c","true"]
    Entrypoint: ["sh"]
    Env: ["A=b=c"]
    Hostname: "box"
    Image: "busybox:1"
    Labels: {"workflow.kube-zen.io/attempt":"2","workflow.kube-zen.io/container":"main","workflow.kube-zen.io/flow-uid":"uid","workflow.kube-zen.io/pod":"1","workflow.kube-zen.io/pod-key":"uid/load-i3/2#1","workflow.kube-zen.io/step":"load-i3","workflow.kube-zen.io/step-name":"load-i3"}
    User: "1000:1001"
    WorkingDir: "/work"
    "#);
    insta::assert_snapshot!(lines(&host), @r#"
    CapAdd: ["NET_ADMIN"]
    CapDrop: ["ALL"]
    CpuShares: 512
    DeviceRequests: [{"Capabilities":[["gpu"]],"DeviceIDs":["0","2"]}]
    ExtraHosts: ["a:10.0.0.1","b:10.0.0.1"]
    GroupAdd: ["100","2000"]
    LogConfig: {"Type":"json-file"}
    Memory: 1073741824
    MemorySwap: 1073741824
    Mounts: [{"ReadOnly":true,"Source":"/src","Target":"/dst","Type":"bind"},{"ReadOnly":false,"Source":"/run/pod/termination-0","Target":"/dev/termination-log","Type":"bind"}]
    NanoCpus: 1500000000
    Privileged: false
    ReadonlyRootfs: true
    RestartPolicy: {"Name":"no"}
    SecurityOpt: ["seccomp=unconfined"]
    "#);
}

#[test]
fn a_plain_container_asks_for_nothing_special() {
    let plain = ContainerPlan { name: "main".to_owned(), image: Some("a:1".to_owned()), ..Default::default() };
    let plan = PodPlan { further_groups: Vec::new(), hostname: None, host_aliases: Vec::new(), ..plan(plain) };
    let body = created(&plan, &facts());
    insta::assert_snapshot!(body["HostConfig"], @r#"{"LogConfig":{"Type":"json-file"},"Mounts":[],"Privileged":false,"ReadonlyRootfs":false,"RestartPolicy":{"Name":"no"}}"#);
    for absent in ["Entrypoint", "Cmd", "User", "Hostname", "WorkingDir"] {
        assert!(body.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn a_group_alone_keeps_the_user_of_the_image() {
    let group = ContainerPlan { group: Some(7), ..Default::default() };
    assert_eq!(user(&group, "ada:staff").as_deref(), Some("ada:7"));
    assert_eq!(user(&group, "").as_deref(), Some("0:7"));
    let user_only = ContainerPlan { user: Some(5), ..Default::default() };
    assert_eq!(user(&user_only, "ada").as_deref(), Some("5"));
    assert_eq!(user(&ContainerPlan::default(), "ada"), None);
}

#[test]
fn cpu_limits_stay_within_what_an_engine_takes() {
    let nano = |milli| nano_cpus(milli, &facts());
    assert_eq!(nano(1), Some(10_000_000));
    assert_eq!(nano(1500), Some(1_500_000_000));
    assert_eq!(nano(64_000), Some(4_000_000_000));
    let without = Facts { cpu_quota: false, cpu_shares: false, ..facts() };
    assert_eq!((nano_cpus(500, &without), shares(500, &without)), (None, None));
    assert_eq!((shares(500, &facts()), shares(1, &facts())), (Some(512), Some(2)));
    let tiny = ContainerPlan { cpu_request_milli: Some(1), cpu_limit_milli: Some(500), ..Default::default() };
    assert_eq!(created(&plan(tiny), &facts())["HostConfig"]["CpuShares"], 2);
}

#[test]
fn namespaces_of_the_host_are_shared_only_when_asked_for() {
    let mut plan = plan(ContainerPlan::default());
    plan.host_namespaces = HostNamespaces { network: true, pid: true, ipc: true };
    let body = created(&plan, &Facts { network: Some("none".to_owned()), ..facts() });
    let mode = |name: &str| body["HostConfig"][name].as_str().map(str::to_owned);
    assert_eq!([mode("NetworkMode"), mode("PidMode"), mode("IpcMode")], [(); 3].map(|()| Some("host".to_owned())));
    assert!(body.get("Hostname").is_none());
}

#[test]
fn last_words_do_not_hide_a_mount_of_the_same_path() {
    let file = Path::new("/run/t");
    let with = |target: &str| ContainerPlan {
        mounts: vec![Bind { source: "/s".into(), target: target.to_owned(), read_only: false }],
        ..full()
    };
    assert_eq!(words(&with("/dev"), file), Words::File(file.to_owned()));
    assert_eq!(words(&with("/dev/termination-log/"), file), Words::Inside("/dev/termination-log".to_owned()));
    assert_eq!(words(&ContainerPlan::default(), file), Words::None);
}

#[test]
fn seccomp_profiles_are_read_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("profile.json");
    let of = |seccomp: &str| seccomp_of(seccomp);
    fn seccomp_of(profile: &str) -> Result<Option<String>, Problem> {
        seccomp(&ContainerPlan { name: "main".to_owned(), seccomp: Some(profile.to_owned()), ..Default::default() })
    }
    assert_eq!(of("RuntimeDefault").unwrap(), None);
    assert_eq!(of("Unconfined").unwrap(), None);
    insta::assert_snapshot!(of("/does/not/exist").unwrap_err(), @"the seccomp profile /does/not/exist of container `main` cannot be used: No such file or directory (os error 2)");
    std::fs::write(&path, "{").unwrap();
    assert_eq!(of(path.to_str().unwrap()).unwrap_err().class, Class::Invalid);
    std::fs::write(&path, r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#).unwrap();
    let text = of(path.to_str().unwrap()).unwrap();
    assert_eq!(text.as_deref(), Some(r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#));
    let container = ContainerPlan { seccomp: Some("x".to_owned()), ..Default::default() };
    let selinux = Facts { selinux: true, ..facts() };
    let around = Surroundings { facts: &selinux, words: &Words::None, image_user: "", seccomp: text };
    assert_eq!(security(&container, &around), [r#"seccomp={"defaultAction": "SCMP_ACT_ALLOW"}"#, "label=disable"]);
}
