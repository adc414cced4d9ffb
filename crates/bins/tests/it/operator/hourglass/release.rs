//! What the chart does before the operator is removed, as a process with the rights of its hook.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::fixture::{Fixture, example};
use crate::deploy_kubernetes::{hook_arguments, rules};

const ACCOUNT: &str = "system:serviceaccount:orlop-system:orlop-operator-release";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The rights of the hook, and no others.
fn rights(fixture: &Fixture) {
    let subject = json!([{"kind": "ServiceAccount", "name": "orlop-operator-release", "namespace": "orlop-system"}]);
    let everywhere: Vec<Value> = ["release.performer", "release.executor"].into_iter().flat_map(rules).collect();
    for (kind, namespace, rules) in
        [("ClusterRole", "", everywhere), ("Role", "orlop-system", rules("release.operator"))]
    {
        let (plural, name) = (kind.to_lowercase(), "orlop-operator-release");
        let role =
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": name}, "rules": rules});
        fixture.create(RBAC, &format!("{plural}s"), namespace, &role);
        let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": format!("{kind}Binding"),
            "metadata": {"name": name}, "subjects": subject,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name}});
        fixture.create(RBAC, &format!("{plural}bindings"), namespace, &binding);
    }
}

/// The Deployment of the chart, with pods that the double plays.
fn deployment(fixture: &Fixture) {
    let labels = json!({"app.kubernetes.io/name": "orlop-operator", "app.kubernetes.io/instance": "orlop-operator"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "operator", "image": "i"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "orlop-operator"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}});
    fixture.create("apps", "deployments", "orlop-system", &deployment);
}

fn pods_of_operator(fixture: &Fixture) -> usize {
    fixture.names("pods").iter().filter(|name| name.starts_with("orlop-operator-")).count()
}

#[test]
fn after_the_hook_nothing_is_held_and_nothing_is_gone() {
    let fixture = Fixture::everywhere();
    rights(&fixture);
    deployment(&fixture);
    let mut operator = fixture.start("operator", &[]);
    fixture.submit(&example("performer-minimal"));
    fixture.submit(&example("executor-basic"));
    let (performer, executor) = (fixture.names("performers.hourglass.eigenlayer.io"), "basic");
    let performer = performer[0].as_str();
    fixture.comes_to("Performer", performer, "Running");
    fixture.comes_to("HourglassExecutor", executor, "Running");
    fixture.waits("pods of the operator", || pods_of_operator(&fixture) == 2);
    let kubeconfig = fixture.kubeconfig_of(ACCOUNT);
    // The process plays no part in the cluster: it ends when its Deployment would end it.
    operator.signal(Signal::SIGTERM);
    assert_eq!(operator.end(), Some(0));
    let release = || {
        let mut command = crate::role::command("operator");
        for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("ORLOP_")) {
            command.env_remove(variable);
        }
        command.arg("release-finalizers").args(hook_arguments()).arg("--kubeconfig").arg(&kubeconfig);
        let done = command.output().unwrap();
        (done.status.code(), String::from_utf8([done.stdout, done.stderr].concat()).unwrap())
    };
    let objects = |fixture: &Fixture| {
        let kinds = ["pods", "services", "configmaps", "deployments.apps"];
        let all = kinds.iter().flat_map(|kind| fixture.names(kind)).filter(|name| !name.starts_with("orlop-operator-"));
        all.collect::<Vec<_>>()
    };
    let before = objects(&fixture);
    let (code, said) = release();
    assert_eq!(code, Some(0), "{said}");
    insta::assert_snapshot!(said.trim(), @"2 finalizers were removed; the operator holds no objects any more");
    assert_eq!(pods_of_operator(&fixture), 0, "the operator has ended before");
    assert_eq!(objects(&fixture), before, "all that was made is there");
    assert_eq!(fixture.denied_to(ACCOUNT), Vec::<String>::new());
    let (code, said) = release();
    assert_eq!(code, Some(0), "{said}");
    insta::assert_snapshot!(said.trim(), @"0 finalizers were removed; the operator holds no objects any more");
    // Without anybody who works on them, they go when they are deleted.
    fixture.delete("Performer", performer);
    fixture.delete("HourglassExecutor", executor);
    assert!(!fixture.is_there("Performer", performer) && !fixture.is_there("HourglassExecutor", executor));
}
