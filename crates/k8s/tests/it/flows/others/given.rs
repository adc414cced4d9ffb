//! What a flow makes for its steps, and what steps are given: claims, ConfigMaps, values.

use serde_json::{Value, json};

use super::{apply, jobs, object};
use crate::flows::test_env::TestEnv;

#[tokio::test]
async fn claims_and_config_maps_are_made_first_and_values_arrive() {
    let mut env = TestEnv::new();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "site"}, "data": {"owner": "us"}});
    env.server.create("", "configmaps", "default", &map).expect("a ConfigMap");
    apply(&env, &object("supplies")).await;
    env.run().await;
    insta::assert_snapshot!(env.outcome("supplies"), @r#"
    Succeeded 2/2
    measure Succeeded/- 1 [{"name":"count","value":"3"}]
    use Succeeded/- 1
    "#);
    let made: Vec<String> = env
        .writes()
        .into_iter()
        .filter(|write| write.verb.as_str() == "create" && !write.resource.starts_with("events"))
        .map(|write| format!("{} {}", write.resource, write.name))
        .collect();
    assert_eq!(made[..2], ["persistentvolumeclaims supplies-scratch", "configmaps supplies-settings"]);
    let pod = |step: &str| -> Value { jobs(&env, step).remove(0)["spec"]["template"]["spec"].clone() };
    let measure = pod("measure");
    assert_eq!(measure["volumes"][0]["persistentVolumeClaim"]["claimName"], "supplies-scratch");
    assert_eq!(measure["containers"][0]["envFrom"][0]["configMapRef"]["name"], "supplies-settings");
    let uses = &pod("use")["containers"][0];
    assert_eq!(uses["command"], json!(["echo", "fast"]));
    assert_eq!(uses["args"], json!(["north", "us", "3", "{{ untouched }}"]));
    assert_eq!(
        uses["env"],
        json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "vault", "key": "token"}}}])
    );
    let refs = env.status("supplies")["resourceRefs"].as_array().map(Vec::len);
    assert_eq!(refs, Some(2));
}
