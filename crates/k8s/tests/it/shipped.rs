//! Roles as the chart ships them, on a double: accounts that have them, and which of their rights are used.

use std::collections::BTreeSet;

use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

/// The account of the operator.
pub(crate) const ACCOUNT: &str = "system:serviceaccount:orlop-system:orlop-operator";

const RBAC: &str = "rbac.authorization.k8s.io";

/// The rules of a part of the chart: of a controller, or of `hardware`.
pub(crate) fn rules(part: &str) -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/helm/orlop-operator/templates/_names.tpl");
    let text = std::fs::read_to_string(path).expect("the chart");
    let opening = format!("define \"orlop.rules.{part}\" -}}}}\n");
    let rules = text.split(&opening).nth(1).expect("rules of that name").split("{{-").next().expect("their text");
    serde_saphyr::from_str(rules).expect("a list of rules")
}

/// Each right of rules by itself, as in `get jobs.batch`.
pub(crate) fn rights(rules: &[Value]) -> BTreeSet<String> {
    let words = |rule: &Value, name: &str| -> Vec<String> {
        let list = rule[name].as_array().expect("a list").iter();
        list.map(|word| word.as_str().expect("a word").to_owned()).collect()
    };
    let mut rights = BTreeSet::new();
    for rule in rules {
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                let (plural, sub) = resource.split_once('/').unwrap_or((&resource, ""));
                let group = if group.is_empty() { String::new() } else { format!(".{group}") };
                let sub = if sub.is_empty() { String::new() } else { format!("/{sub}") };
                rights.extend(words(rule, "verbs").iter().map(|verb| format!("{verb} {plural}{group}{sub}")));
            }
        }
    }
    rights
}

/// Gives the operator's account these rules, everywhere, beside those it has.
pub(crate) fn grant(server: &ApiServer, rules: &[Value]) {
    let name = format!("operator-{}", server.look_all("clusterroles.rbac.authorization.k8s.io").len());
    let role =
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "namespace": "orlop-system", "name": "orlop-operator"}]});
    server.create(RBAC, "clusterroles", "", &role).expect("a role");
    server.create(RBAC, "clusterrolebindings", "", &binding).expect("a binding");
}

/// The rules without one right.
pub(crate) fn without(rules: &[Value], right: &str) -> Vec<Value> {
    let all = rights(rules);
    assert!(all.contains(right), "{right} is none of {all:?}");
    let left = all.iter().filter(|known| *known != right).map(|right| {
        let (verb, resource) = right.split_once(' ').expect("a verb and a resource");
        let (resource, sub) =
            resource.split_once('/').map_or((resource, String::new()), |(of, sub)| (of, format!("/{sub}")));
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        json!({"apiGroups": [group], "resources": [format!("{plural}{sub}")], "verbs": [verb]})
    });
    left.collect()
}

/// What the account has asked for, whatever the answer; refused for want of a right, it is no use of one.
pub(crate) fn used(server: &ApiServer) -> BTreeSet<String> {
    let asked = server.requests().into_iter().filter(|asked| asked.client == ACCOUNT && asked.code != 403);
    asked.map(|asked| format!("{} {}", asked.verb.as_str(), asked.resource)).collect()
}

/// What the account has asked for without a right to it.
pub(crate) fn denied(server: &ApiServer) -> BTreeSet<String> {
    let asked = server.requests().into_iter().filter(|asked| asked.client == ACCOUNT && asked.code == 403);
    asked.map(|asked| format!("{} {}", asked.verb.as_str(), asked.resource)).collect()
}
