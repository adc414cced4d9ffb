//! What ships for clusters: the chart and the kustomize base say the same, their arguments are those of the program, and the
//! rights are those of the contract.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn deploy(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(part)
}

pub(crate) fn text(part: &str) -> String {
    let path = deploy(part);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML file.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let parts =
        text.split("\n---\n").filter(|part| part.lines().any(|line| !line.starts_with('#') && !line.is_empty()));
    parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

pub(crate) fn base(file: &str) -> Vec<Value> {
    documents(&text(&format!("kustomize/base/{file}")))
}

fn templates() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(deploy("helm/orlop-operator/templates")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), text(&format!("helm/orlop-operator/templates/{name}")))).collect()
}

/// Rules as they come from a template of the chart, in a release that is called as the operator.
pub(crate) fn rules(name: &str) -> Vec<Value> {
    let names = text("helm/orlop-operator/templates/_names.tpl").replace("{{ .Release.Name }}", "orlop-operator");
    let opening = format!("define \"orlop.rules.{name}\" -}}}}\n");
    let rules = names.split(&opening).nth(1).unwrap().split("{{-").next().unwrap();
    serde_saphyr::from_str(rules).unwrap()
}

/// Flow contract, section 5.3, row "RBAC, complete": what each resource may be asked for at most.
const MOST_OF_FLOWS: [(&str, &str); 9] = [
    ("workflow.kube-zen.io/jobflows", "get list watch delete"),
    ("workflow.kube-zen.io/jobflows/status", "get patch"),
    ("workflow.kube-zen.io/jobflows/finalizers", "update"),
    ("batch/jobs", "get list watch create patch delete"),
    ("/pods", "get list"),
    ("/configmaps", "get create update delete"),
    ("/persistentvolumeclaims", "get create"),
    ("/nodes", "get"),
    ("events.k8s.io/events", "list create patch"),
];

/// Operator contract, chapter 6: what each resource may be asked for at most, by group and name.
const MOST: [(&str, &str); 22] = [
    ("hourglass.eigenlayer.io/performers", "get list watch patch"),
    ("hourglass.eigenlayer.io/hourglassexecutors", "get list watch patch"),
    ("hourglass.eigenlayer.io/performers/status", "patch"),
    ("hourglass.eigenlayer.io/hourglassexecutors/status", "patch"),
    ("hourglass.eigenlayer.io/performers/finalizers", "update"),
    ("hourglass.eigenlayer.io/hourglassexecutors/finalizers", "update"),
    ("/pods", "get list watch create patch delete"),
    ("/services", "get list watch create patch delete"),
    ("apps/deployments", "get list watch create patch delete"),
    ("policy/poddisruptionbudgets", "get list watch create patch delete"),
    ("/configmaps", "get create patch delete"),
    ("/secrets", "get create patch delete"),
    ("apps/controllerrevisions", "get list create delete"),
    ("resource.k8s.io/resourceclaimtemplates", "get list create delete"),
    ("/serviceaccounts", "get create"),
    ("/events", "create patch"),
    ("events.k8s.io/events", "create patch"),
    ("coordination.k8s.io/leases", "get create update"),
    ("/nodes", "get list watch"),
    ("node.k8s.io/runtimeclasses", "get list watch"),
    ("resource.k8s.io/deviceclasses", "get list watch"),
    ("resource.k8s.io/resourceslices", "get list watch"),
];

/// No rule of a controller allows more than that. That all of it is used is shown where the controllers are.
fn at_most(name: &str, most: &[(&str, &str)]) {
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    for rule in rules(name) {
        for resource in words(&rule["resources"]) {
            let name = format!("{}/{resource}", rule["apiGroups"][0].as_str().unwrap());
            let most = most.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}"));
            let most: Vec<&str> = most.1.split(' ').collect();
            assert!(words(&rule["verbs"]).iter().all(|verb| most.contains(&verb.as_str())), "{rule}");
        }
    }
}

#[test]
fn rights_are_within_the_contract_and_the_same_in_chart_and_base() {
    at_most("jobflow", &MOST_OF_FLOWS);
    at_most("nodes", &MOST_OF_FLOWS);
    let all = |parts: &[&str]| -> Vec<Value> { parts.iter().flat_map(|part| rules(part)).collect() };
    let everywhere = all(&["jobflow", "nodes", "performer", "executor"]);
    assert_eq!(base("cluster-role.yaml")[0]["rules"], json!(everywhere), "what the chart renders by default");
    // A Role gives no right on nodes.
    let within = all(&["jobflow", "performer", "executor"]);
    assert_eq!(documents(&text("kustomize/namespaced/role.yaml"))[0]["rules"], json!(within));
    assert_eq!(base("cluster-role.yaml")[2]["rules"], json!(rules("hardware")));
    let leases =
        json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]);
    assert_eq!(base("role.yaml")[0]["rules"], leases);
    let rights = text("helm/orlop-operator/templates/rights.yaml");
    assert!(rights.contains("resources: [leases]\n    verbs: [get, create, update]"), "{rights}");
}

#[test]
fn no_controller_of_performers_or_executors_may_more_than_the_contract_says() {
    for name in ["performer", "executor", "hardware"] {
        at_most(name, &MOST);
    }
    let secrets = |name| rules(name).iter().any(|rule| rule["resources"].to_string().contains("secrets"));
    assert!(secrets("executor") && secrets("performer") && !secrets("jobflow"), "who needs no Secret reads none");
}

#[test]
fn the_chart_carries_what_stands_beside_it() {
    let same = |one: &str, other: &str| {
        assert_eq!(text(one), text(other), "copy deploy/{one} to deploy/{other}");
    };
    for entry in std::fs::read_dir(deploy("crds")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "kustomization.yaml" {
            same(&format!("crds/{name}"), &format!("helm/orlop-operator/crds/{name}"));
        }
    }
    same("grafana/orlop-operator.json", "helm/orlop-operator/files/orlop-operator.json");
    same("prometheus/orlop-operator.rules.yaml", "helm/orlop-operator/files/orlop-operator.rules.yaml");
}

/// What the program answers to these arguments and `--print-config`.
pub(crate) fn printed(arguments: &[String]) -> Value {
    let mut command = crate::role::command("operator");
    for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("ORLOP_")) {
        command.env_remove(variable);
    }
    let done = command.args(arguments).arg("--print-config").output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_saphyr::from_str(&String::from_utf8(done.stdout).unwrap()).unwrap()
}

#[test]
fn the_program_takes_the_arguments_that_ship() {
    let deployment = base("deployment.yaml").remove(0);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(words(&container["command"]), ["orlop", "operator"]);
    let config = printed(&words(&container["args"]));
    assert_eq!((&config["metrics_addr"], &config["health_addr"]), (&json!(":8080"), &json!(":8081")));
    // The chart's arguments with the values that ship in the place of their names.
    let values: Value = serde_saphyr::from_str(&text("helm/orlop-operator/values.yaml")).unwrap();
    let template = text("helm/orlop-operator/templates/deployment.yaml");
    let mut arguments = Vec::new();
    for line in template.lines().map(str::trim).filter_map(|line| line.strip_prefix("- --")) {
        let (flag, value) = line.split_once('=').unwrap();
        let Some(name) = value.split(".Values.").nth(1) else {
            arguments.push(format!("--{flag}={value}").replace("{{ join \",\" . }}", "a,b"));
            continue;
        };
        let path: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
        let found =
            values.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or_else(|| panic!("values.yaml has {path}"));
        let found = match found {
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().map(|item| item.as_str().unwrap()).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        };
        arguments.push(format!("--{flag}={found}"));
    }
    assert!(arguments.len() >= 10, "{arguments:?}");
    let config = printed(&arguments);
    assert_eq!((&config["max_live_jobs"], &config["namespaces"]), (&json!(2000), &json!(["a", "b"])));
}

/// The hook before a deletion: with rights of its own and no others, beside pods that it does not wait for itself, with
/// arguments of the program.
#[test]
fn before_it_is_deleted_the_chart_lets_go_of_its_objects() {
    let hook = text("helm/orlop-operator/templates/release.yaml");
    let documents: Vec<&str> = hook.split("\n---\n").collect();
    let hooked = documents.iter().filter(|text| text.contains("annotations: {{- include \"orlop.hook\" ")).count();
    assert_eq!((hooked, documents.len()), (9, 9), "nothing of it is left, or there before");
    let names = text("helm/orlop-operator/templates/_names.tpl");
    assert!(names.contains("helm.sh/hook: pre-delete\n") && names.contains("before-hook-creation,hook-succeeded\n"));
    let kinds =
        |name| rules(name).iter().map(|rule| (rule["resources"].clone(), rule["verbs"].clone())).collect::<Vec<_>>();
    assert_eq!(kinds("release.performer"), [(json!(["performers"]), json!(["list", "patch"]))]);
    assert_eq!(kinds("release.executor"), [(json!(["hourglassexecutors"]), json!(["list", "patch"]))]);
    let operator = [(json!(["deployments"]), json!(["patch"])), (json!(["pods"]), json!(["list"]))];
    assert_eq!(kinds("release.operator"), operator);
    assert_eq!(rules("release.operator")[0]["resourceNames"], json!(["orlop-operator"]));
    let job = documents.last().unwrap();
    assert!(job.contains("kind: Job") && job.contains("app.kubernetes.io/name: orlop-operator-release"), "{job}");
    assert!(!job.contains("orlop.selector") && job.contains("command: [orlop, operator, release-finalizers]"), "{job}");
    // A cluster that denies what is not allowed lets it ask the API server, through the ports of the operator's own policy.
    let policy = hook.split("\n---\n").find(|part| part.contains("kind: NetworkPolicy")).unwrap();
    let around = text("helm/orlop-operator/templates/around.yaml");
    let own = around.split("\n---\n").find(|part| part.contains("kind: NetworkPolicy")).unwrap();
    let ports = |policy: &str| {
        policy.split("  egress:\n").nth(1).unwrap().split("{{- end }}\n{{- end }}").next().unwrap().to_owned()
    };
    assert_eq!(ports(policy), ports(own));
    assert!(policy.contains("app.kubernetes.io/name: orlop-operator-release"), "{policy}");
    assert!(policy.contains("include \"orlop.hook\" \"-10\""), "it is there before the Job: {policy}");
    for line in ["runAsNonRoot: true", "allowPrivilegeEscalation: false", "drop: [ALL]", "readOnlyRootFilesystem: true"]
    {
        assert!(job.contains(line), "the hook says {line}");
    }
    let arguments = hook_arguments();
    assert_eq!(arguments.len(), 4, "{arguments:?}");
    let mut command = crate::role::command("operator");
    command.arg("release-finalizers").args(arguments).arg("--kubeconfig=/nothing/like/this");
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(2) && said.contains("cannot find a Kubernetes API server"), "{said}");
}

/// Arguments of the hook in a release that is called as the operator.
pub(crate) fn hook_arguments() -> Vec<String> {
    let hook = text("helm/orlop-operator/templates/release.yaml");
    let lines = hook.lines().map(str::trim).filter_map(|line| line.strip_prefix("- --"));
    let filled = lines.map(|line| {
        let line = line.replace("{{ .Release.Name }}", "orlop-operator");
        let line = line.replace("{{ .Release.Namespace }}", "orlop-system");
        let line = line.replace("{{ join \",\" .Values.controllers }}", "jobflow,performer,executor");
        format!("--{}", line.replace("{{ join \",\" . }}", "default,orlop-system"))
    });
    filled.collect()
}

#[test]
fn every_value_the_chart_reads_is_in_its_values_and_its_schema() {
    let values: Value = serde_saphyr::from_str(&text("helm/orlop-operator/values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&text("helm/orlop-operator/values.schema.json")).unwrap();
    let mut read = BTreeSet::new();
    for (name, template) in templates() {
        for rest in template.split(".Values.").skip(1) {
            let path: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '.').collect();
            let pointer = format!("/{}", path.trim_end_matches('.').replace('.', "/"));
            assert!(values.pointer(&pointer).is_some(), "{name}: values.yaml has no {path}");
            read.insert(pointer);
        }
        let count = |word: &str| template.matches(word).count();
        let opened = ["{{- if ", "{{- range ", "{{- with ", "{{- define "].into_iter().map(count).sum::<usize>();
        assert_eq!(opened, count("{{- end }}"), "{name}: what is opened is closed");
        assert_eq!(count("{{"), count(" }}") + count("-}}"), "{name}");
    }
    let mut all = Vec::new();
    leaves(&values, String::new(), &mut all);
    for leaf in all {
        assert!(read.iter().any(|path| leaf == *path || leaf.starts_with(&format!("{path}/"))), "nobody reads {leaf}");
        let first = leaf.split('/').nth(1).unwrap();
        assert!(schema["properties"].get(first).is_some(), "the schema has no {first}");
    }
}

/// A chart holds what it installs, since a link out of it is lost when it is packed.
#[test]
fn definitions_dashboard_and_alerts_of_the_chart_are_those_that_ship() {
    let mut found = BTreeSet::new();
    for folder in ["crds", "files"] {
        for entry in std::fs::read_dir(deploy("helm/orlop-operator").join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let origin = ["crds", "grafana", "prometheus"].map(|origin| deploy(origin).join(&name));
            let origin =
                origin.into_iter().find(|path| path.is_file()).unwrap_or_else(|| panic!("nothing like {name}"));
            let copy = text(&format!("helm/orlop-operator/{folder}/{name}"));
            assert!(copy == std::fs::read_to_string(&origin).unwrap(), "copy {} again", origin.display());
            found.insert(name);
        }
    }
    for name in ["jobflows.workflow.kube-zen.io.yaml", "orlop-operator.json", "orlop-operator.rules.yaml"] {
        assert!(found.contains(name), "the chart has no {name}");
    }
}

/// Paths of what is no object, or an empty one.
fn leaves(value: &Value, at: String, all: &mut Vec<String>) {
    match value.as_object().filter(|members| !members.is_empty()) {
        Some(members) => members.iter().for_each(|(name, member)| leaves(member, format!("{at}/{name}"), all)),
        None => all.push(at),
    }
}

#[test]
fn the_operator_keeps_to_the_restricted_profile() {
    let deployment = base("deployment.yaml").remove(0);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!((&pod["securityContext"]["runAsNonRoot"], &pod["hostNetwork"]), (&json!(true), &Value::Null));
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0]["securityContext"];
    let wanted =
        json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}});
    assert_eq!(container, &wanted);
    let chart = text("helm/orlop-operator/templates/deployment.yaml");
    for line in [
        "runAsNonRoot: true",
        "seccompProfile: {type: RuntimeDefault}",
        "allowPrivilegeEscalation: false",
        "drop: [ALL]",
    ] {
        assert!(chart.contains(line), "the chart says {line}");
    }
}

#[test]
fn the_overlay_for_some_namespaces_leaves_no_right_in_others() {
    let name = |object: &Value| (object["kind"].clone(), object["metadata"]["name"].clone());
    let files = |folder: &str| -> Vec<Value> {
        let listed = documents(&text(&format!("{folder}/kustomization.yaml"))).remove(0)["resources"].clone();
        let files = listed.as_array().unwrap().iter().map(|file| file.as_str().unwrap().to_owned());
        let own = files.filter(|file| !file.starts_with(".."));
        own.flat_map(|file| documents(&text(&format!("{folder}/{file}")))).collect()
    };
    let all = [files("kustomize/base"), files("crds")].concat();
    let wide = ["ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"];
    let wide: BTreeSet<String> = all
        .iter()
        .filter(|object| wide.iter().any(|kind| object["kind"] == *kind))
        .map(|object| format!("{:?}", name(object)))
        .collect();
    assert!(wide.len() >= 7, "{wide:?}");
    let overlay = documents(&text("kustomize/namespaced/kustomization.yaml")).remove(0);
    assert_eq!(overlay["resources"], json!(["../base", "role.yaml"]));
    let (mut gone, mut added) = (BTreeSet::new(), Vec::new());
    for patch in overlay["patches"].as_array().unwrap() {
        let said: Value = serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap();
        match said["$patch"].as_str() {
            Some("delete") => drop(gone.insert(format!("{:?}", name(&said)))),
            _ => added.push((patch["target"].clone(), said)),
        }
    }
    assert_eq!(gone, wide, "what is deleted is what is of the whole cluster");
    // It works in the one namespace in which it has a role.
    let [(target, said)] = <[_; 1]>::try_from(added).unwrap();
    assert_eq!(target, json!({"kind": "Deployment", "name": "orlop-operator"}));
    let at = "/spec/template/spec/containers/0/args";
    assert_eq!(said, json!([{"op": "add", "path": format!("{at}/-"), "value": "--namespaces=default"}]));
    assert!(base("deployment.yaml")[0].pointer(at).is_some_and(Value::is_array));
    for object in documents(&text("kustomize/namespaced/role.yaml")) {
        assert_eq!(object["metadata"], json!({"name": "orlop-operator", "namespace": "default"}));
    }
    let binding = documents(&text("kustomize/namespaced/role.yaml")).remove(1);
    let account = base("service-account.yaml").remove(0)["metadata"]["name"].clone();
    assert_eq!((&binding["subjects"][0]["name"], &binding["roleRef"]["kind"]), (&account, &json!("Role")));
}

#[test]
fn the_overlay_for_flows_alone_has_the_rights_of_flows_and_no_others() {
    let overlay = documents(&text("kustomize/flows/kustomization.yaml")).remove(0);
    let patches = overlay["patches"].as_array().unwrap();
    let said = |patch: &Value| -> Value { serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap() };
    let of = |kind: &str, name: &str| {
        let target = json!({"kind": kind, "name": name});
        patches.iter().find(|patch| patch["target"] == target).map(said).unwrap_or_else(|| panic!("{kind} {name}"))
    };
    let rules: Vec<Value> = ["jobflow", "nodes"].iter().flat_map(|part| rules(part)).collect();
    let replaced = json!([{"op": "replace", "path": "/rules", "value": rules}]);
    assert_eq!(of("ClusterRole", "orlop-operator"), replaced);
    assert!(!replaced.to_string().contains("secrets"));
    let (args, roles) = (of("Deployment", "orlop-operator"), of("ClusterRole", "orlop-operator-(view|edit)"));
    assert_eq!(args[0]["value"], "--controllers=jobflow");
    assert_eq!(roles, json!([{"op": "remove", "path": "/rules/1"}]));
    for role in base("user-roles.yaml") {
        assert_eq!(role["rules"][1]["apiGroups"], json!(["hourglass.eigenlayer.io"]), "what is removed");
    }
    let gone: Vec<String> = patches
        .iter()
        .filter(|patch| patch["target"].is_null())
        .map(|patch| said(patch)["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    insta::assert_snapshot!(gone.join(" "), @"orlop-operator-hardware orlop-operator-hardware performers.hourglass.eigenlayer.io hourglassexecutors.hourglass.eigenlayer.io");
}

#[test]
fn charts_and_bases_can_be_rendered() {
    let run = |program: &str, arguments: &[&str]| {
        let Ok(done) = Command::new(program).args(arguments).output() else {
            println!("skipped: charts_and_bases_can_be_rendered: {program} is not here");
            return None;
        };
        assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        Some(String::from_utf8(done.stdout).unwrap())
    };
    let render = |program: &str, arguments: &[&str]| run(program, arguments).map(|text| documents(&text));
    let kinds = |documents: &[Value]| -> BTreeSet<String> {
        documents.iter().map(|document| document["kind"].as_str().unwrap().to_owned()).collect()
    };
    let path = |part: &str| deploy(part).to_str().unwrap().to_owned();
    if let Some(rendered) = render("kubectl", &["kustomize", &path("kustomize/base")]) {
        for kind in
            ["ClusterRole", "CustomResourceDefinition", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"]
        {
            assert!(kinds(&rendered).contains(kind), "the base has a {kind}");
        }
        let services = rendered.iter().filter(|document| document["kind"] == "Service");
        assert_eq!(services.count(), 2, "of metrics and of artifacts");
    }
    if let Some(rendered) = render("kubectl", &["kustomize", &path("kustomize/webhook")]) {
        for kind in ["Certificate", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            assert!(kinds(&rendered).contains(kind), "the overlay has a {kind}");
        }
    }
    if let Some(rendered) = render("kubectl", &["kustomize", &path("kustomize/namespaced")]) {
        assert!(!kinds(&rendered).contains("ClusterRole"), "{:?}", kinds(&rendered));
    }
    if let Some(rendered) = render("kubectl", &["kustomize", &path("kustomize/flows")]) {
        let definitions = rendered.iter().filter(|document| document["kind"] == "CustomResourceDefinition");
        assert_eq!(definitions.count(), 1, "of flows");
    }
    let chart = path("helm/orlop-operator");
    drop(run("helm", &["lint", "--strict", &chart]));
    let template = ["template", "orlop-operator", &chart, "--namespace", "orlop-system", "--kube-version", "1.29.0"];
    if let Some(rendered) = render("helm", &template) {
        assert!(
            kinds(&rendered).contains("Deployment") && !kinds(&rendered).contains("ValidatingWebhookConfiguration")
        );
    }
    if let Some(rendered) = render("helm", &[template.as_slice(), &["--set", "webhook.enabled=true"]].concat()) {
        assert!(kinds(&rendered).contains("ValidatingWebhookConfiguration") && kinds(&rendered).contains("Issuer"));
    }
}
