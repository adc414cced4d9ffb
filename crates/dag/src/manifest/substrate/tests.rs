//! Rows and special cases of the target table.

use serde_json::{Value, json};

use super::table::{Answer, rows};
use super::*;
use crate::manifest::Limits;
use crate::manifest::testing::{lines, says_under};

const POD: &str = "spec.steps.0.template.spec.template.spec";

fn pod(target: &Target, field: &str, value: Value) -> String {
    says_under(&Limits::at(target.clone()), [(&format!("{POD}.{field}"), value)])
}

fn job(target: &Target, field: &str, value: Value) -> String {
    says_under(&Limits::at(target.clone()), [(&format!("spec.steps.0.template.spec.{field}"), value)])
}

#[test]
fn every_row_names_a_field_of_kubernetes() {
    let table = crate::manifest::schema::table();
    for (place, row) in rows() {
        let mut at = match place {
            "job" => "JobSpec",
            "pod" => "PodSpec",
            _ => "Container",
        };
        for part in row.key.split('.') {
            let known = table.get(table.find(at).unwrap()).unwrap();
            let field = known.field(part).unwrap_or_else(|| panic!("{place} {} is no field", row.key));
            at = table.type_name(field.kind).unwrap_or(at);
        }
        let default =
            Answer::Fields { process: FieldSupport::Ignored, docker: FieldSupport::Ignored, when: table::When::Set };
        assert!(row.answer != default || row.why.is_some(), "the default needs no row: {}", row.key);
    }
}

#[test]
fn rows_are_there_once() {
    let mut keys: Vec<_> = rows().map(|(place, row)| (place, row.key)).collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all);
}

#[test]
fn processes_ignore_what_needs_a_container() {
    let process = Target::local(Runtime::Process);
    insta::assert_snapshot!(pod(&process, "hostname", json!("h")), @"warning[ignored] spec.steps[0].template.spec.template.spec.hostname: `hostname` is ignored by plain processes");
    let docker = Target::local(Runtime::Docker);
    assert_eq!(pod(&docker, "hostname", json!("h")), "");
    assert_eq!(pod(&Target::local(Runtime::ByImage), "hostname", json!("h")), "", "the step has an image");
    insta::assert_snapshot!(pod(&docker, "containers.0.livenessProbe", json!({"exec": {"command": ["x"]}})), @"warning[ignored] spec.steps[0].template.spec.template.spec.containers[0].livenessProbe: `livenessProbe` is ignored by a container engine");
    insta::assert_snapshot!(pod(&docker, "containers.0.env", json!([{"name": "a", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"}}}])), @"warning[ignored] spec.steps[0].template.spec.template.spec.containers[0].env[0].valueFrom.fileKeyRef: `fileKeyRef` is ignored by a container engine");
    insta::assert_snapshot!(says_under(&Limits::at(docker).strict(), [(&format!("{POD}.dnsPolicy"), json!("Default"))]), @"error[ignored] spec.steps[0].template.spec.template.spec.dnsPolicy: `dnsPolicy` is ignored by a container engine");
}

#[test]
fn processes_need_a_command() {
    let silent = json!({"name": "main", "image": "busybox"});
    insta::assert_snapshot!(pod(&Target::local(Runtime::Process), "containers.0", silent.clone()), @"error[unsupported] spec.steps[0].template.spec.template.spec.containers[0].command: a plain process needs a command: there is no image with an entry point (write `command`)");
    assert_eq!(pod(&Target::local(Runtime::Docker), "containers.0", silent), "");
}

#[test]
fn container_engines_need_an_image() {
    let bare = json!({"name": "main", "command": ["x"]});
    let mut limits = Limits::at(Target::local(Runtime::Docker));
    insta::assert_snapshot!(says_under(&limits, [(&format!("{POD}.containers.0"), bare.clone())]), @"error[container] spec.steps[0].template.spec.template.spec.containers[0].image: the container has no image (name one, such as busybox:1.36)");
    limits.image_optional = true;
    insta::assert_snapshot!(says_under(&limits, [(&format!("{POD}.containers.0"), bare.clone())]), @"error[unsupported] spec.steps[0].template.spec.template.spec.containers[0].image: step `a` names no image to run in a container (name one, or let steps without an image run as processes with `--target local`)");
    limits.target = Some(Target::local(Runtime::ByImage));
    assert_eq!(says_under(&limits, [(&format!("{POD}.containers.0"), bare)]), "", "it runs as a process");
}

#[test]
fn privileges_need_permission_and_containers() {
    let context = json!({"privileged": true, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "readOnlyRootFilesystem": true});
    let docker = Target::local(Runtime::Docker);
    insta::assert_snapshot!(pod(&docker, "containers.0.securityContext", context.clone()), @"
    error[unsupported] spec.steps[0].template.spec.template.spec.containers[0].securityContext.capabilities.add: `add` is not possible with a container engine: it gives privileges on the machine, which needs --allow-privileged (remove it, or run the flow on Kubernetes)
    error[unsupported] spec.steps[0].template.spec.template.spec.containers[0].securityContext.privileged: `privileged` is not possible with a container engine: it gives privileges on the machine, which needs --allow-privileged (remove it, or run the flow on Kubernetes)
    ");
    let allowed = Target { privileged: true, ..docker.clone() };
    assert_eq!(pod(&allowed, "containers.0.securityContext", context.clone()), "");
    let process = Target { privileged: true, ..Target::local(Runtime::Process) };
    insta::assert_snapshot!(pod(&process, "containers.0.securityContext", context), @"
    error[unsupported] spec.steps[0].template.spec.template.spec.containers[0].securityContext.capabilities.add: `add` is not possible with plain processes: it gives privileges on the machine, which needs --allow-privileged (remove it, or run the flow on Kubernetes)
    warning[ignored] spec.steps[0].template.spec.template.spec.containers[0].securityContext.capabilities.drop: `drop` is ignored by plain processes
    error[unsupported] spec.steps[0].template.spec.template.spec.containers[0].securityContext.privileged: `privileged` is not possible with plain processes: it gives privileges on the machine, which needs --allow-privileged (remove it, or run the flow on Kubernetes)
    warning[ignored] spec.steps[0].template.spec.template.spec.containers[0].securityContext.readOnlyRootFilesystem: `readOnlyRootFilesystem` is ignored by plain processes
    ");
    insta::assert_snapshot!(pod(&docker, "hostNetwork", json!(true)), @"error[unsupported] spec.steps[0].template.spec.template.spec.hostNetwork: `hostNetwork` is not possible with a container engine: it gives privileges on the machine, which needs --allow-privileged (remove it, or run the flow on Kubernetes)");
    assert_eq!(pod(&docker, "hostNetwork", json!(false)), "");
}

#[test]
fn what_no_target_can_do_is_refused() {
    let docker = Target::local(Runtime::Docker);
    let side = json!([{"name": "main", "image": "b"}, {"name": "side", "image": "b"}]);
    insta::assert_snapshot!(pod(&docker, "containers", side), @"error[unsupported] spec.steps[0].template.spec.template.spec.containers[1]: a step outside Kubernetes has one container (make it a separate step, or run the flow on Kubernetes)");
    insta::assert_snapshot!(pod(&docker, "initContainers", json!([{"name": "i", "image": "b", "restartPolicy": "Always"}])), @"error[unsupported] spec.steps[0].template.spec.template.spec.initContainers[0].restartPolicy: `restartPolicy` is not possible with a container engine: a step has only one container (remove it, or run the flow on Kubernetes)");
    insta::assert_snapshot!(pod(&docker, "schedulingGates", json!([{"name": "g"}])), @"error[unsupported] spec.steps[0].template.spec.template.spec.schedulingGates: `schedulingGates` is not possible with a container engine: nothing would open the gates (remove it, or run the flow on Kubernetes)");
    insta::assert_snapshot!(pod(&docker, "resourceClaims", json!([{"name": "g"}])), @"error[unsupported] spec.steps[0].template.spec.template.spec.resourceClaims: `resourceClaims` is not possible with a container engine: devices are claimed on Kubernetes only (remove it, or run the flow on Kubernetes)");
    insta::assert_snapshot!(pod(&docker, "containers.0.volumeDevices", json!([{"name": "v", "devicePath": "/d"}])), @"error[unsupported] spec.steps[0].template.spec.template.spec.containers[0].volumeDevices: `volumeDevices` is not possible with a container engine: steps get files, not block devices (remove it, or run the flow on Kubernetes)");
    assert_eq!(pod(&docker, "ephemeralContainers", json!([])), "");
}

#[test]
fn volumes_are_those_every_target_can_give() {
    let docker = Target::local(Runtime::Docker);
    let projected = json!({"sources": [{"secret": {"name": "s"}}, {"serviceAccountToken": {"path": "t"}}]});
    let volumes = json!([{"name": "a", "nfs": {"path": "/", "server": "s"}}, {"name": "b", "projected": projected}, {"name": "c", "hostPath": {"path": "/data/x"}}]);
    insta::assert_snapshot!(pod(&docker, "volumes", volumes.clone()), @"
    error[unsupported] spec.steps[0].template.spec.template.spec.volumes[0].nfs: `nfs` is not possible with a container engine: there is no such volume here (remove it, or run the flow on Kubernetes)
    error[unsupported] spec.steps[0].template.spec.template.spec.volumes[1].projected.sources[1].serviceAccountToken: `serviceAccountToken` is not possible with a container engine: only a cluster issues tokens and certificates (remove it, or run the flow on Kubernetes)
    error[unsupported] spec.steps[0].template.spec.template.spec.volumes[2].hostPath.path: the folder `/data/x` of the machine may not be mounted (allow it with --allow-host-path)
    ");
    let host = |folder: &str, allowed: &str| {
        let target = Target { host_paths: vec![allowed.to_owned()], ..docker.clone() };
        pod(&target, "volumes", json!([{"name": "c", "hostPath": {"path": folder}}]))
    };
    for (folder, allowed) in [("/data/x", "/data"), ("/data", "/data/"), ("/a//b/./c", "/a/b"), ("/x", "/")] {
        assert_eq!(host(folder, allowed), "", "{folder} in {allowed}");
    }
    for (folder, allowed) in [("/database", "/data"), ("/data/../etc", "/data"), ("data", "/"), ("/", "/data")] {
        assert_ne!(host(folder, allowed), "", "{folder} in {allowed}");
    }
    // What a parameter gives is checked when it is put in; relative paths begin in the folder of the manifest.
    for folder in ["{{parameters.dir}}", "${parameters.dir}/x", "/etc/{{.parameters.dir}}"] {
        assert_eq!(host(folder, "/data"), "", "{folder}");
    }
    let none = json!([{"name": "c", "hostPath": {"path": "{{parameters.dir}}"}}]);
    assert_ne!(pod(&docker, "volumes", none), "", "nothing is allowed");
    let relative = |folder: &str, base: &str| {
        let (host_paths, base) = (vec!["/data".to_owned()], Some(base.to_owned()));
        let target = Target { host_paths, folder: base, ..docker.clone() };
        pod(&target, "volumes", json!([{"name": "c", "hostPath": {"path": folder}}]))
    };
    assert_eq!(relative("in/x", "/data/flows"), "");
    assert_eq!(relative("./data", "/"), "");
    for (folder, base) in [("in", "/flows"), ("../x", "/data/flows"), ("/etc", "/data")] {
        assert_ne!(relative(folder, base), "", "{folder} in {base}");
    }
    let fine = json!([{"name": "a", "emptyDir": {"medium": "Memory"}}, {"name": "b", "configMap": {"name": "m"}}, {"name": "c", "downwardAPI": {}}, {"name": "d"}]);
    assert_eq!(pod(&docker, "volumes", fine), "");
}

#[test]
fn claims_come_from_templates_or_folders() {
    let claim = json!([{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}]);
    let template = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let docker = Target { claims: Some(Vec::new()), ..Target::local(Runtime::Docker) };
    let later = json!([{"name": "a", "persistentVolumeClaim": {"claimName": "data-${parameters.team}"}}]);
    assert_eq!(pod(&docker, "volumes", later), "", "its name is not known yet");
    insta::assert_snapshot!(pod(&docker, "volumes", claim.clone()), @"error[unsupported] spec.steps[0].template.spec.template.spec.volumes[0].persistentVolumeClaim.claimName: there is no claim `data` here (add it to resourceTemplates.volumeClaimTemplates, or give a folder of that name in --volumes-dir)");
    assert_eq!(pod(&Target { claims: Some(vec!["data".to_owned()]), ..docker.clone() }, "volumes", claim.clone()), "");
    assert_eq!(pod(&Target::local(Runtime::Docker), "volumes", claim.clone()), "");
    for name in ["data", "flow-data"] {
        let claim = json!([{"name": "a", "persistentVolumeClaim": {"claimName": name}}]);
        let own = ("spec.resourceTemplates.volumeClaimTemplates", template.clone());
        assert_eq!(says_under(&Limits::at(docker.clone()), [(&format!("{POD}.volumes"), claim), own]), "", "{name}");
    }
}

#[test]
fn users_are_those_a_process_can_become() {
    let user = Target { user: Some((1000, 100)), ..Target::local(Runtime::Process) };
    let context = json!({"runAsUser": 0, "runAsGroup": 100, "fsGroup": 5});
    insta::assert_snapshot!(pod(&user, "securityContext", context.clone()), @"
    error[unsupported] spec.steps[0].template.spec.template.spec.securityContext.runAsUser: runAsUser 0 is not possible: processes run as 1000 (remove it, run as root, or use containers)
    error[unsupported] spec.steps[0].template.spec.template.spec.securityContext.fsGroup: fsGroup 5 is not possible: processes run as 100 (remove it, run as root, or use containers)
    ");
    let root = Target { user: None, ..user.clone() };
    assert_eq!(pod(&root, "securityContext", context.clone()), "", "root can, and nobody looks at the image");
    assert_eq!(pod(&Target { runtime: Runtime::Docker, ..user }, "securityContext", context), "");
}

#[test]
fn placement_counts_on_a_fleet_only() {
    let resources = ("containers.0.resources", json!({"limits": {"nvidia.com/gpu": 1, "example.com/fpga": 2}}));
    let local = Target::local(Runtime::Docker);
    insta::assert_snapshot!(pod(&local, "nodeSelector", json!({"zone": "a"})), @"warning[ignored] spec.steps[0].template.spec.template.spec.nodeSelector: `nodeSelector` is ignored by a container engine: it picks a machine of a fleet or cluster");
    insta::assert_snapshot!(pod(&local, resources.0, resources.1.clone()), @r#"warning[ignored] spec.steps[0].template.spec.template.spec.containers[0].resources.limits["example.com/fpga"]: `example.com/fpga` is ignored by a container engine: only a fleet or cluster counts named resources"#);
    insta::assert_snapshot!(pod(&local, "affinity", json!({"nodeAffinity": {}, "podAffinity": {}})), @"
    warning[ignored] spec.steps[0].template.spec.template.spec.affinity.nodeAffinity: `nodeAffinity` is ignored by a container engine: it picks a machine of a fleet or cluster
    warning[ignored] spec.steps[0].template.spec.template.spec.affinity.podAffinity: `podAffinity` is ignored by a container engine
    ");
    let fleet = Target::fleet(Runtime::Docker);
    assert_eq!(pod(&fleet, "nodeSelector", json!({"zone": "a"})), "");
    assert_eq!(pod(&fleet, resources.0, resources.1), "");
    assert_eq!(pod(&fleet, "tolerations", json!([{"key": "gpu"}])), "");
}

#[test]
fn job_fields_off_kubernetes() {
    let docker = Target::local(Runtime::Docker);
    for (field, value) in [
        ("completions", json!(3)),
        ("parallelism", json!(2)),
        ("completionMode", json!("Indexed")),
        ("activeDeadlineSeconds", json!(9)),
        ("backoffLimit", json!(1)),
        ("ttlSecondsAfterFinished", json!(1)),
        ("suspend", json!(false)),
        (
            "podFailurePolicy",
            json!({"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]}),
        ),
    ] {
        assert_eq!(job(&docker, field, value), "", "{field}");
    }
    insta::assert_snapshot!(job(&docker, "suspend", json!(true)), @"warning[ignored] spec.steps[0].template.spec.suspend: `suspend` is ignored by a container engine: nothing would resume the Job");
    insta::assert_snapshot!(job(&docker, "podReplacementPolicy", json!("Failed")), @"warning[ignored] spec.steps[0].template.spec.podReplacementPolicy: `podReplacementPolicy` is ignored by a container engine: a pod is always replaced after it is gone");
    insta::assert_snapshot!(job(&docker, "podFailurePolicy", json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]})), @"warning[ignored] spec.steps[0].template.spec.podFailurePolicy.rules[0].onPodConditions: `onPodConditions` is ignored by a container engine: there are no pod conditions");
    for (field, value) in [
        ("successPolicy", json!({"rules": []})),
        ("backoffLimitPerIndex", json!(1)),
        ("maxFailedIndexes", json!(1)),
        ("managedBy", json!("x/y")),
    ] {
        let text = job(&docker, field, value);
        assert!(text.starts_with("error[unsupported]"), "{field}: {text}");
    }
    insta::assert_snapshot!(job(&docker, "managedBy", json!("x/y")), @"error[unsupported] spec.steps[0].template.spec.managedBy: `managedBy` is not possible with a container engine: there is no other controller (remove it, or run the flow on Kubernetes)");
}

#[test]
fn kubernetes_takes_every_field() {
    let text = says_under(
        &Limits::kubernetes(),
        [(&format!("{POD}.hostNetwork"), json!(true)), (&format!("{POD}.dnsPolicy"), json!("Default"))],
    );
    assert_eq!(text, lines(&Violations::new()));
}

#[test]
fn a_fleet_freezes_no_jobs_and_mounts_no_folders_of_workers() {
    let fleet = Target::fleet(Runtime::ByImage);
    insta::assert_snapshot!(says_under(&Limits::at(fleet.clone()), [("spec.suspendMode", json!("Suspend"))]), @"warning[unsupported] spec.suspendMode: jobs of a fleet cannot be frozen: what runs finishes when the flow is suspended (write Drain, or leave it out)");
    assert_eq!(says_under(&Limits::at(fleet.clone()), [("spec.suspendMode", json!("Drain"))]), "");
    assert_eq!(says_under(&Limits::at(Target::local(Runtime::ByImage)), [("spec.suspendMode", json!("Suspend"))]), "");
    let volumes = json!([{"name": "c", "hostPath": {"path": "/data/x"}}]);
    let mounted = pod(&fleet, "volumes", volumes);
    assert!(
        mounted.contains("steps of a fleet mount no folders of workers: hand files over as artifacts"),
        "{mounted}"
    );
}
