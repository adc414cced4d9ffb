//! Servers that refuse, and backoff that outlives the controller.

use serde_json::{Value, json};

use super::{TestEnv, env, place, running, spec};
use crate::api::Kind;
use crate::hourglass::tests::{host, quota};
use crate::shell::fake::{Fault, refused};

fn refused_by(fault: Fault) -> TestEnv {
    let mut env = TestEnv::with_faults(vec![fault]);
    env.add(Kind::Node, host("node-1", json!({}), json!({})));
    env.submit("exec", spec());
    env
}

#[test]
fn a_refusal_is_kept_in_the_status_and_waited_for_by_another_controller() {
    let mut env = refused_by(Fault::Refuse("create", Kind::Secret, 6, quota()));
    while env.status("exec")["retry"]["count"] != 6 {
        env.wait(1);
    }
    let status = env.status("exec");
    assert_eq!(place(&env), "Failed/Failed True/QuotaExceeded");
    assert_eq!(status["retry"]["reason"], "QuotaExceeded");
    let before = env.writes().len();
    for _ in 0..3 {
        env.restart();
        env.wait(4);
        assert_eq!((env.status("exec"), env.writes().len()), (status.clone(), before), "it waits, and says the same");
    }
    env.wait(60);
    assert_eq!(
        (place(&env).as_str(), env.status("exec")["retry"].clone()),
        ("Running/Running False/AsExpected", Value::Null)
    );
    env.writes_nothing_more();
}

#[test]
fn another_spec_is_tried_at_once() {
    let mut env = refused_by(Fault::Refuse("create", Kind::Deployment, u32::MAX, refused(403, "Forbidden")));
    env.wait(1000);
    assert_eq!(place(&env), "Failed/Failed True/Forbidden");
    env.restart();
    env.server.store().faults.clear();
    env.change("exec", |spec| spec["image"] = json!("executor:2"));
    env.wait(10);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
}

#[test]
fn what_may_not_be_read_is_said_and_what_serves_goes_on() {
    let mut env = env();
    env.refuse("get", Kind::Deployment, 6, refused(403, "Forbidden"));
    env.submit("exec", spec());
    env.wait(10);
    assert_eq!(place(&env), "Failed/Failed True/Forbidden");
    env.wait(301);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    let mut env = running(spec());
    env.refuse("get", Kind::ServiceAccount, 9, refused(403, "Forbidden"));
    env.wait(302);
    assert_eq!(place(&env), "Running/Running True/Forbidden");
    assert!(env.events().contains(&"Forbidden".to_owned()));
    env.wait(601);
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.writes_nothing_more();
}

#[test]
fn a_new_restart_annotation_rolls_the_pods() {
    let mut env = running(spec());
    let template =
        |env: &TestEnv| env.server.list(Kind::Deployment)[0]["spec"]["template"]["metadata"]["annotations"].clone();
    env.server.edit(Kind::Executor, "exec", |executor| {
        executor["metadata"]["annotations"]["hourglass.eigenlayer.io/restarted-at"] = json!("now");
    });
    env.wait(60);
    assert_eq!(template(&env)["hourglass.eigenlayer.io/restarted-at"], "now");
    assert_eq!(place(&env), "Running/Running False/AsExpected");
    env.writes_nothing_more();
}
