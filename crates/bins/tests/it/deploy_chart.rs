//! What the chart renders, by Helm itself where it is installed: the same objects as the kustomize base, and for other values
//! the rules and accounts that they ask for, no others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::deploy_kubernetes::{base, documents, printed, rules, text};

/// What the chart renders with these settings; none where there is no Helm, which is said.
fn rendered(test: &str, settings: &[&str]) -> Option<Vec<Value>> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/orlop-operator");
    let mut command = Command::new("helm");
    command.args(["template", "orlop-operator"]).arg(chart).args(["--namespace", "orlop-system"]);
    // The oldest one that is served.
    command.args(["--kube-version", "1.29.0"]);
    for setting in settings {
        command.args(["--set", setting]);
    }
    let Ok(done) = command.output() else {
        println!("skipped: {test}: helm is not here");
        return None;
    };
    assert!(done.status.success(), "{settings:?}: {}", String::from_utf8_lossy(&done.stderr));
    Some(documents(&String::from_utf8(done.stdout).unwrap()))
}

fn id(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    format!("{} {}/{}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// Labels differ between both, wherever they stand.
fn without_labels(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !["labels", "matchLabels", "selector"].contains(&name.as_str()));
            members.values_mut().for_each(without_labels);
        }
        Value::Array(items) => items.iter_mut().for_each(without_labels),
        _ => {}
    }
}

/// The objects that stay in a cluster, by name, without labels, and with what their arguments mean in place of them.
fn installed(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let stays = |object: &Value| object.pointer("/metadata/annotations/helm.sh~1hook").is_none();
    let mut all = BTreeMap::new();
    for mut object in objects.into_iter().filter(stays) {
        if let Some(arguments) = object.pointer_mut("/spec/template/spec/containers/0/args") {
            let words = arguments.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned());
            *arguments = printed(&words.collect::<Vec<_>>());
        }
        without_labels(&mut object);
        all.insert(id(&object), object);
    }
    all
}

#[test]
fn the_chart_renders_what_the_base_says_for_every_object() {
    let Some(chart) = rendered("the_chart_renders_what_the_base_says_for_every_object", &[]) else { return };
    let chart = installed(chart);
    let kustomization = base("kustomization.yaml").remove(0);
    let files = kustomization["resources"].as_array().unwrap().iter().filter_map(Value::as_str);
    // A release is put into a namespace that is there; definitions are compared file by file elsewhere.
    let files = files.filter(|file| !["../../crds", "namespace.yaml"].contains(file));
    let base = installed(files.flat_map(base).collect());
    let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&chart), names(&base));
    assert!(chart.len() >= 10, "{:?}", names(&chart));
    for (name, object) in &chart {
        assert_eq!(object, &base[name], "{name}");
    }
}

/// All rules of roles that are rendered, with the names of their roles.
fn rights(objects: &[Value]) -> Vec<(String, Value)> {
    let roles = objects.iter().filter(|object| ["Role", "ClusterRole"].contains(&object["kind"].as_str().unwrap()));
    let stays = roles.filter(|role| role.pointer("/metadata/annotations/helm.sh~1hook").is_none());
    stays
        .flat_map(|role| {
            role["rules"].as_array().into_iter().flatten().map(|rule| (id(role), rule.clone())).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn rules_of_a_disabled_controller_are_not_rendered() {
    let test = "rules_of_a_disabled_controller_are_not_rendered";
    for enabled in ["jobflow", "performer", "executor"] {
        let Some(objects) = rendered(test, &[&format!("controllers={{{enabled}}}")]) else { return };
        let all = rights(&objects);
        let own: Vec<Value> = all
            .iter()
            .filter(|(role, _)| role == "ClusterRole /orlop-operator")
            .map(|(_, rule)| rule.clone())
            .collect();
        assert_eq!(own, rules(enabled), "{enabled}");
        let hardware = all.iter().any(|(role, _)| role == "ClusterRole /orlop-operator-hardware");
        assert_eq!(hardware, enabled == "performer", "who needs no nodes reads none");
    }
    let Some(blind) = rendered(test, &["hardware.nodeAccess=false"]) else { return };
    assert!(!rights(&blind).iter().any(|(_, rule)| rule["resources"].to_string().contains("nodes")));
    let Some(narrow) = rendered(test, &["namespaces={a,b}", "hardware.nodeAccess=false"]) else { return };
    assert!(!narrow.iter().any(|object| object["kind"] == "ClusterRole"), "in namespaces alone");
    let roles: BTreeSet<String> = rights(&narrow).into_iter().map(|(role, _)| role).collect();
    let wanted = ["Role a/orlop-operator", "Role b/orlop-operator", "Role orlop-system/orlop-operator-election"];
    assert_eq!(roles, wanted.map(str::to_owned).into());
}

#[test]
fn namespaces_of_executors_get_an_account_that_may_make_performers_there() {
    let test = "namespaces_of_executors_get_an_account_that_may_make_performers_there";
    let Some(objects) = rendered(test, &["executorNamespaces={team-a,team-b}"]) else { return };
    let own = |kind: &str| -> Vec<&Value> {
        let found = objects.iter().filter(|object| object["kind"] == kind);
        found.filter(|object| object["metadata"]["name"] == "hourglass-executor").collect()
    };
    let namespaces = |kind| own(kind).iter().map(|object| object["metadata"]["namespace"].clone()).collect::<Vec<_>>();
    for kind in ["ServiceAccount", "Role", "RoleBinding"] {
        assert_eq!(namespaces(kind), [json!("team-a"), json!("team-b")], "{kind}");
    }
    for role in own("Role") {
        let rules = role["rules"].as_array().unwrap();
        assert_eq!((rules.len(), &rules[0]["resources"]), (1, &json!(["performers"])));
    }
    for binding in own("RoleBinding") {
        let namespace = &binding["metadata"]["namespace"];
        let subject = json!({"kind": "ServiceAccount", "name": "hourglass-executor", "namespace": namespace});
        assert_eq!(
            (&binding["subjects"], &binding["roleRef"]["name"]),
            (&json!([subject]), &json!("hourglass-executor"))
        );
    }
}

/// Without Helm: the templates make rules of controllers for those alone that are switched on.
#[test]
fn rules_of_controllers_are_made_in_no_other_way_than_by_the_list_of_them() {
    let rights = text("helm/orlop-operator/templates/rights.yaml");
    let lines: Vec<&str> = rights.lines().map(str::trim).collect();
    let mut by_list = 0;
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains("orlop.rules.")) {
        let above = lines[..at].iter().rev().find(|line| line.starts_with("{{- range") || line.starts_with("{{- if"));
        let above = *above.unwrap();
        let wanted = match line {
            line if line.contains("\"orlop.rules.%s\" .") => {
                by_list += 1;
                above.ends_with("Values.controllers }}") && above.starts_with("{{- range")
            }
            line if line.contains("orlop.rules.nodes") => above == "{{- if eq . \"jobflow\" }}",
            line if line.contains("orlop.rules.secrets") => above.contains("(has \"jobflow\" "),
            line if line.contains("orlop.rules.hardware") => {
                above.contains("hardware.nodeAccess") && above.contains("(has \"performer\" .Values.controllers)")
            }
            _ => false,
        };
        assert!(wanted, "{line} below {above}");
    }
    assert_eq!(by_list, 2, "of a cluster, and of a namespace");
}

#[test]
fn the_program_prints_the_definitions_that_ship() {
    let done = crate::role::command("operator").arg("crds").output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = documents(&format!("\n{}", String::from_utf8(done.stdout).unwrap()));
    let by_name =
        |objects: Vec<Value>| objects.into_iter().map(|object| (id(&object), object)).collect::<BTreeMap<_, _>>();
    let listed = documents(&text("crds/kustomization.yaml")).remove(0);
    let files = listed["resources"].as_array().unwrap().iter().map(|file| format!("crds/{}", file.as_str().unwrap()));
    let shipped = by_name(files.flat_map(|file| documents(&text(&file))).collect());
    assert_eq!((by_name(printed), shipped.len()), (shipped.clone(), 3));
}
