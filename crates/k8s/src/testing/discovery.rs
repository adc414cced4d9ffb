//! The documents by which clients learn what is served: versions, groups, resources, health.

use serde_json::{Value, json};

use super::state::State;

/// The document at a path, if there is one.
pub(crate) fn document(state: &State, path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["version"] => {
            Some(json!({"major": "1", "minor": "34", "gitVersion": "v1.34.0", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "linux/amd64"}))
        }
        ["healthz" | "livez" | "readyz", ..] => Some(Value::from("ok")),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["apis"] => Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups(state)})),
        ["api", version] => resources(state, "", version),
        ["apis", group] => groups(state)
            .into_iter()
            .find(|found| found.get("name").and_then(Value::as_str) == Some(group))
            .map(|mut found| {
                if let Some(members) = found.as_object_mut() {
                    members.insert("kind".to_owned(), "APIGroup".into());
                    members.insert("apiVersion".to_owned(), "v1".into());
                }
                found
            }),
        ["apis", group, version] => resources(state, group, version),
        _ => None,
    }
}

fn groups(state: &State) -> Vec<Value> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for table in state.tables.iter().filter(|table| !table.kind.group.is_empty() && !table.kind.version.is_empty()) {
        let (group, version) = (&table.kind.group, &table.kind.version);
        match groups.iter_mut().find(|(name, _)| name == group) {
            Some((_, versions)) if versions.contains(version) => {}
            Some((_, versions)) => versions.push(version.clone()),
            None => groups.push((group.clone(), vec![version.clone()])),
        }
    }
    let entry =
        |group: &str, version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    groups
        .iter()
        .map(|(group, versions)| {
            let list: Vec<Value> = versions.iter().map(|version| entry(group, version)).collect();
            let preferred = list.first().cloned();
            json!({"name": group, "versions": list, "preferredVersion": preferred})
        })
        .collect()
}

fn resources(state: &State, group: &str, version: &str) -> Option<Value> {
    let list: Vec<Value> = state
        .tables
        .iter()
        .filter(|table| table.kind.group == group && table.kind.version == version)
        .flat_map(|table| table.kind.discovery())
        .collect();
    let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!list.is_empty())
        .then(|| json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": list}))
}
