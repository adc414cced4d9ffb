//! Resource templates.

use std::fs;

use orlop_core::error::Class;
use orlop_core::ports::substrate::{FlowOwner, Substrate};
use orlop_core::spec::flow::ResourceTemplates;
use serde_json::{Value, json};

use super::{Bench, spec};

fn owner(uid: &str) -> FlowOwner {
    FlowOwner { uid: uid.into(), name: "etl".into(), namespace: "default".into() }
}

fn map(fields: Value) -> ResourceTemplates {
    let mut template = fields;
    template["metadata"] = json!({"name": "settings"});
    ResourceTemplates { volume_claim_templates: Vec::new(), config_map_templates: vec![template] }
}

fn claim() -> ResourceTemplates {
    let template = json!({"metadata": {"name": "scratch"}});
    ResourceTemplates { volume_claim_templates: vec![template], config_map_templates: Vec::new() }
}

#[tokio::test]
async fn templates_become_directories_steps_can_use() {
    let bench = Bench::new();
    let substrate = bench.open();
    let templates =
        map(json!({"data": {"mode": "fast", "both": "text"}, "binaryData": {"raw": "AAH/", "both": "AAA="}}));
    let refs = substrate.ensure_resources(&owner("u1"), &templates).await.unwrap();
    assert_eq!((refs[0].kind.as_str(), refs[0].name.as_str()), ("ConfigMap", "etl-settings"));
    let directory = bench.options.run_dir.join("configmaps/etl-settings");
    assert_eq!(fs::read(directory.join("raw")).unwrap(), [0, 1, 255]);
    assert_eq!(fs::read_to_string(directory.join("both")).unwrap(), "text");
    substrate.ensure_resources(&owner("u1"), &claim()).await.unwrap();
    let env = json!([{"name": "M", "valueFrom": {"configMapKeyRef": {"name": "etl-settings", "key": "mode"}}}]);
    let mut wanted =
        spec("s", json!({"command": ["run"], "env": env, "volumeMounts": [{"name": "c", "mountPath": "/c"}]}));
    bench.set_volumes(&mut wanted, json!([{"name": "c", "persistentVolumeClaim": {"claimName": "etl-scratch"}}]));
    substrate.start(wanted).await.unwrap();
    let plan = bench.running("s").await;
    assert_eq!(plan.main.env[0].1.value, "fast");
    assert!(plan.main.mounts[0].source.ends_with("volumes/etl-scratch"));
}

#[tokio::test]
async fn they_are_created_once_and_kept() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.ensure_resources(&owner("u1"), &claim()).await.unwrap();
    let file = bench.options.run_dir.join("volumes/etl-scratch/file");
    fs::write(&file, "x").unwrap();
    substrate.ensure_resources(&owner("u1"), &claim()).await.unwrap();
    assert!(file.exists());
    // A host killed between the owner's record and the directory.
    fs::remove_dir_all(bench.options.run_dir.join("volumes/etl-scratch")).unwrap();
    fs::create_dir_all(bench.options.run_dir.join("volumes/..half-etl-scratch/old")).unwrap();
    substrate.ensure_resources(&owner("u1"), &claim()).await.unwrap();
    let directory = bench.options.run_dir.join("volumes/etl-scratch");
    assert!(directory.is_dir() && fs::read_dir(directory).unwrap().next().is_none());
}

#[tokio::test]
async fn what_is_somebody_elses_is_a_conflict() {
    let bench = Bench::new();
    let substrate = bench.open();
    substrate.ensure_resources(&owner("u1"), &claim()).await.unwrap();
    let error = substrate.ensure_resources(&owner("u2"), &claim()).await.unwrap_err();
    assert_eq!((error.class, error.reason), (Class::Exists, Some("ResourceConflict")));
    insta::assert_snapshot!(error, @"PersistentVolumeClaim etl-scratch exists and belongs to etl; name the flow otherwise");
    fs::create_dir(bench.options.run_dir.join("configmaps/etl-settings")).unwrap();
    let error = substrate.ensure_resources(&owner("u1"), &map(json!({}))).await.unwrap_err();
    assert_eq!(error.reason, Some("ResourceConflict"), "nobody wrote down whose it is");
}

#[tokio::test]
async fn templates_that_cannot_be_directories_are_refused() {
    let bench = Bench::new();
    let substrate = bench.open();
    for bad in [
        json!({"data": {"../x": "y"}}),
        json!({"data": {"a/b": "y"}}),
        json!({"data": {"a": 1}}),
        json!({"binaryData": {"a": "%"}}),
    ] {
        let error = substrate.ensure_resources(&owner("u1"), &map(bad.clone())).await.unwrap_err();
        assert_eq!((error.class, error.reason), (Class::Invalid, Some("TemplateInvalid")), "{bad}");
    }
    let nameless = ResourceTemplates { volume_claim_templates: vec![json!({})], config_map_templates: Vec::new() };
    assert_eq!(substrate.ensure_resources(&owner("u1"), &nameless).await.unwrap_err().class, Class::Invalid);
    let mut outside = claim();
    outside.volume_claim_templates[0]["metadata"]["name"] = json!("../../x");
    assert_eq!(substrate.ensure_resources(&owner("u1"), &outside).await.unwrap_err().class, Class::Invalid);
}
