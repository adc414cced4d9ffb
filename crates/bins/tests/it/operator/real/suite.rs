//! The suite of flows on a real control plane, the operator under its own service account.

use std::sync::Arc;

use orlop::host::flow::SystemClock;
use serde_json::json;

use super::super::cluster::{Cluster, client};
use super::super::suite::run_all;
use super::{HOME, install};

#[test]
fn every_case_conforms_on_a_real_control_plane() {
    let Some(cluster) = Cluster::find("every_case_conforms_on_a_real_control_plane") else { return };
    let dir = tempfile::tempdir().unwrap();
    install(&cluster);
    let namespace = format!("suite-{}", std::process::id());
    cluster.create("", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    let account = cluster.account(dir.path(), HOME, "orlop-operator");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let differences = runtime.block_on(async {
        let (user, operator) = (client(&cluster.kubeconfig).await, client(&account).await);
        run_all(user, operator, Arc::new(SystemClock), &namespace).await
    });
    cluster.kubectl(&["delete", "namespace", &namespace, "--wait=false"]);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
