//! What ships for clusters: the chart and the kustomize base say the same, their arguments are those of the program, and the
//! rights are those of the contract.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

fn deploy(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(part)
}

fn text(part: &str) -> String {
    let path = deploy(part);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML file.
fn documents(text: &str) -> Vec<Value> {
    let parts =
        text.split("\n---\n").filter(|part| part.lines().any(|line| !line.starts_with('#') && !line.is_empty()));
    parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

fn base(file: &str) -> Vec<Value> {
    documents(&text(&format!("kustomize/base/{file}")))
}

fn templates() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(deploy("helm/orlop-operator/templates")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.into_iter().map(|name| (name.clone(), text(&format!("helm/orlop-operator/templates/{name}")))).collect()
}

/// Section 5.3, row "RBAC, complete".
fn contract() -> Value {
    json!([
        {"apiGroups": ["workflow.kube-zen.io"], "resources": ["jobflows"], "verbs": ["get", "list", "watch", "delete"]},
        {"apiGroups": ["workflow.kube-zen.io"], "resources": ["jobflows/status"], "verbs": ["get", "patch"]},
        {"apiGroups": ["workflow.kube-zen.io"], "resources": ["jobflows/finalizers"], "verbs": ["update"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "delete"]},
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "create"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ])
}

#[test]
fn s5_3_rights_are_those_of_the_contract_in_chart_and_base() {
    assert_eq!(base("cluster-role.yaml")[0]["rules"], contract());
    let names = text("helm/orlop-operator/templates/_names.tpl");
    let rules = names.split("define \"orlop.rules\" -}}\n").nth(1).unwrap().split("{{-").next().unwrap();
    assert_eq!(serde_saphyr::from_str::<Value>(rules).unwrap(), contract());
    let leases =
        json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}]);
    assert_eq!(base("role.yaml")[0]["rules"], leases);
    let rights = text("helm/orlop-operator/templates/rights.yaml");
    assert!(rights.contains("resources: [leases]\n    verbs: [get, create, update]"), "{rights}");
}

/// What the program answers to these arguments and `--print-config`.
fn printed(arguments: &[String]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orlop-operator"));
    for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("ORLOP_")) {
        command.env_remove(variable);
    }
    let done = command.args(arguments).arg("--print-config").output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_saphyr::from_str(&String::from_utf8(done.stdout).unwrap()).unwrap()
}

#[test]
fn h7_the_program_takes_the_arguments_that_ship() {
    let deployment = base("deployment.yaml").remove(0);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(words(&container["command"]), ["orlop-operator"]);
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

/// Paths of what is no object, or an empty one.
fn leaves(value: &Value, at: String, all: &mut Vec<String>) {
    match value.as_object().filter(|members| !members.is_empty()) {
        Some(members) => members.iter().for_each(|(name, member)| leaves(member, format!("{at}/{name}"), all)),
        None => all.push(at),
    }
}

#[test]
fn h6_the_operator_keeps_to_the_restricted_profile() {
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
fn charts_and_bases_can_be_rendered() {
    let render = |program: &str, arguments: &[&str]| {
        let Ok(done) = Command::new(program).args(arguments).output() else {
            println!("skipped: charts_and_bases_can_be_rendered: {program} is not here");
            return None;
        };
        assert!(done.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        Some(documents(&String::from_utf8(done.stdout).unwrap()))
    };
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
    }
    if let Some(rendered) = render("kubectl", &["kustomize", &path("kustomize/namespaced")]) {
        assert!(!kinds(&rendered).contains("ClusterRole"), "{:?}", kinds(&rendered));
    }
    let chart = path("helm/orlop-operator");
    render("helm", &["lint", "--strict", &chart]);
    if let Some(rendered) = render("helm", &["template", "orlop-operator", &chart, "--namespace", "orlop-system"]) {
        assert!(kinds(&rendered).contains("Deployment"));
    }
}
