//! Specs as they are read: defaults, and nothing that the schema declares is lost.

use serde_json::{Value, json};

use super::*;

#[test]
fn defaults_of_a_performer() {
    let spec: PerformerSpec = serde_json::from_value(json!({"avsAddress": "0x1", "image": "i"})).unwrap();
    assert_eq!(
        (spec.config.grpc_port, spec.config.probe, spec.image_pull_policy),
        (9090, Probe::Grpc, PullPolicy::IfNotPresent)
    );
    let upgrade = serde_json::to_value(&spec.upgrade).unwrap();
    insta::assert_snapshot!(upgrade, @r#"{"autoRollback":true,"drainSeconds":30,"minReadySeconds":5,"progressDeadlineSeconds":600,"strategy":"Auto","surgeWaitSeconds":60}"#);
    let empty: PerformerSpec =
        serde_json::from_value(json!({"avsAddress": "0x1", "image": "i", "config": {}, "upgrade": {}})).unwrap();
    assert_eq!(empty, spec);
}

#[cfg(feature = "client")]
#[test]
fn all_fields_of_a_performer_are_listed() {
    let schema = serde_json::to_value(schemars::schema_for!(PerformerSpec)).unwrap();
    let mut names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, PerformerSpec::FIELDS);
}

#[test]
fn defaults_of_an_executor() {
    let config = json!({"aggregatorEndpoint": "a", "chains": [], "kubernetes": {}});
    let spec: ExecutorSpec = serde_json::from_value(json!({"image": "i", "config": config})).unwrap();
    assert_eq!((spec.replicas, spec.service_account_name.as_str()), (1, "hourglass-executor"));
    assert_eq!((spec.config.performer_mode, spec.config.log_level.as_str()), (PerformerMode::Kubernetes, "info"));
    assert_eq!(spec.config.kubernetes.unwrap().namespace, "default");
}

#[test]
fn a_config_is_not_printed_with_its_secrets() {
    let config = json!({"aggregatorEndpoint": "https://u:p@a", "operatorKeys": {"k": "KEY"}, "chains": [
        {"name": "c", "rpc": "https://secret", "chainId": 1, "taskMailboxAddress": "0x1"}]});
    let config: ExecutorConfig = serde_json::from_value(config).unwrap();
    insta::assert_snapshot!(format!("{config:?}"), @r#"ExecutorConfig { chains: ["c"], .. }"#);
}

#[test]
fn statuses_that_cannot_be_read_are_begun_anew() {
    let read: PerformerStatus = serde_json::from_value(Value::Null).unwrap_or_default();
    assert_eq!(read, PerformerStatus::default());
}
