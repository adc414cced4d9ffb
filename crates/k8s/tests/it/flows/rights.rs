//! The controller works with the rights of section 5.3 and no others.

use orlop_k8s::testing::ApiServer;
use serde_json::{Value, json};

use super::bed::Bed;
use super::life::spec;

const USER: &str = "system:serviceaccount:orlop:operator";

/// Rights as section 5.3 lists them: resources of a group, and verbs.
const RULES: [(&str, &str, &[&str]); 8] = [
    ("workflow.kube-zen.io", "jobflows", &["get", "list", "watch", "delete"]),
    ("workflow.kube-zen.io", "jobflows/status", &["get", "patch"]),
    ("workflow.kube-zen.io", "jobflows/finalizers", &["update"]),
    ("batch", "jobs", &["get", "list", "watch", "create", "patch", "delete"]),
    ("", "pods", &["get", "list"]),
    ("", "configmaps", &["get", "create", "update", "delete"]),
    ("", "persistentvolumeclaims", &["get", "create"]),
    ("events.k8s.io", "events", &["create", "patch"]),
];

fn server(without: &str) -> ApiServer {
    let server = ApiServer::new();
    let rules = RULES.iter().filter(|(_, resource, _)| *resource != without);
    let rules: Vec<Value> = rules
        .map(|(group, resource, verbs)| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs}))
        .collect();
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "operator"}, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "operator"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "orlop", "name": "operator"}]});
    server.create("rbac.authorization.k8s.io", "clusterroles", "", &role).expect("a role");
    server.create("rbac.authorization.k8s.io", "clusterrolebindings", "", &binding).expect("a binding");
    server
}

#[tokio::test]
async fn the_rights_of_the_contract_are_enough() {
    let mut bed = Bed::of(server(""), Some(USER));
    bed.submit("etl", spec());
    bed.run().await;
    assert_eq!(bed.status("etl")["phase"], "Succeeded", "{}", bed.status("etl"));
    assert!(bed.server.requests().iter().all(|asked| asked.code != 403), "{:?}", bed.server.requests());
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_missed() {
    for resource in ["jobs", "persistentvolumeclaims"] {
        let mut bed = Bed::of(server(resource), Some(USER));
        bed.submit("etl", spec());
        bed.run().await;
        assert_eq!(bed.status("etl")["phase"], "Failed", "without {resource}");
        assert!(bed.server.requests().iter().any(|asked| asked.code == 403));
    }
}
