//! Every reason of the tables is said once somewhere, and no other: conditions and events of executors.

use serde_json::{Value, json};

use super::{TestEnv, env, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::reasons::{Reasons, rows};
use crate::hourglass::tests::{host, quota};
use crate::shell::fake::{Fault, refused};
use crate::value::word;

/// What goes wrong before its pods serve.
fn beginnings(reasons: &mut Reasons) {
    let mut full = TestEnv::new();
    full.add(Kind::Node, host("node-1", json!({}), json!({"cpu": "0"})));
    let mut large = spec();
    large["resources"] = json!({"requests": {"cpu": "1"}});
    full.submit("exec", large);
    full.rest();
    reasons.collect(&full);
    let mut invalid = env();
    invalid.submit("exec", json!({"image": 5}));
    invalid.rest();
    reasons.collect(&invalid);
    let mut foreign = env();
    foreign.server.put(Kind::Service, json!({"metadata": {"name": "executor-exec"}}));
    foreign.submit("exec", spec());
    foreign.rest();
    reasons.collect(&foreign);
    for (times, error) in [
        (1, quota()),
        (1, refused(403, "Forbidden")),
        (1, refused(422, "Invalid")),
        (u32::MAX, refused(500, "InternalError")),
    ] {
        let mut env = TestEnv::with_faults(vec![Fault::Refuse("create", Kind::Secret, times, error)]);
        env.add(Kind::Node, host("node-1", json!({}), json!({})));
        env.submit("exec", spec());
        env.wait(1200);
        reasons.collect(&env);
    }
}

fn deployment_says(env: &mut TestEnv, condition: &Value) {
    env.server.edit(Kind::Deployment, "exec", |deployment| {
        deployment["status"]["conditions"] = json!([condition]);
    });
    env.settle();
}

/// What happens while they do.
fn middles(reasons: &mut Reasons) {
    let mut env = running(spec());
    env.change("exec", |spec| spec["replicas"] = json!(2));
    env.few_steps(1);
    env.rest();
    env.change("exec", |spec| spec["config"]["logLevel"] = json!("debug"));
    env.rest();
    env.server.edit(Kind::Service, "executor-exec", |service| service["metadata"]["finalizers"] = json!(["theirs"]));
    env.server.request_deletion(Kind::Executor, "exec");
    env.rest();
    env.server.remove(Kind::Service, "executor-exec");
    env.rest();
    reasons.collect(&env);
    let mut failing = running(spec());
    failing.change("exec", |spec| spec["image"] = json!("executor:2"));
    failing.settle();
    deployment_says(&mut failing, &json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}));
    reasons.collect(&failing);
    reasons.collect(&overdue());
    let mut contended = running(spec());
    for _ in 0..40 {
        contended.server.edit(Kind::Service, "executor-exec", |service| service["spec"]["ports"][0]["port"] = json!(1));
        contended.wait(10);
    }
    reasons.collect(&contended);
    let mut unready = running(spec());
    for pod in unready.server.list(Kind::Pod) {
        unready.server.edit(Kind::Pod, word(&pod, "/metadata/name"), |pod| {
            pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
            pod["status"]["conditions"] = json!([]);
        });
    }
    unready.wait(70);
    reasons.collect(&unready);
}

/// New pods do not come up in time.
fn overdue() -> TestEnv {
    let mut env = running(spec());
    env.images.insert("executor:2".into(), "never");
    env.change("exec", |spec| spec["image"] = json!("executor:2"));
    env.rest();
    assert_eq!(env.status("exec")["state"], "RollingUpdate");
    deployment_says(&mut env, &json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}));
    env
}

#[test]
fn old_replicas_serve_while_a_rollout_fails() {
    let env = overdue();
    assert_eq!(super::place(&env), "Failed/Failed True/ProgressDeadlineExceeded");
    assert_eq!(
        (env.condition("exec", "Available").as_str(), env.status("exec")["readyReplicas"].clone()),
        ("True/DeploymentAvailable", json!(1))
    );
}

#[test]
fn every_reason_of_the_tables_is_said_and_no_other() {
    let mut reasons = Reasons::default();
    beginnings(&mut reasons);
    middles(&mut reasons);
    let conditions = [
        rows("Available True", "DeploymentAvailable"),
        rows("Available False", "ReplicasUnavailable"),
        rows("Progressing True", STATES),
        rows("Progressing False", "UpToDate BackOff WaitingForChange"),
        rows("Degraded True", DEGRADED),
        rows("Degraded False", "AsExpected"),
        rows("Contended True", "FieldRewritten"),
        rows("Contended False", "AsExpected"),
    ];
    reasons.assert_are(
        &conditions,
        &[
            rows("Normal", "Created Ready ConfigUpdated Scaled Deleting"),
            rows("Warning", DEGRADED),
            rows("Warning", "Contended"),
        ],
    );
}

/// States of what comes up, changes and goes.
const STATES: &str = "Creating ConfigMapCreation DeploymentCreation PodScheduling PodCreation Updating ConfigMapUpdate \
    RollingUpdate Scaling Terminating Cleanup";
const DEGRADED: &str = "InvalidSpec Conflict QuotaExceeded AdmissionRefused Forbidden RetriesExhausted ReplicaFailure \
    ProgressDeadlineExceeded ReplicasUnavailable";
