//! Blocks of the documents that are no whole flow: jobs, settings, hardware, and parts of flows, containers and performers. Each is put
//! into the smallest whole that it belongs to and read as the programs read that.

use std::fs;

use orlop_core::hardware::{HardwareInput, Tables, TablesFile, resolve};
use orlop_core::spec::job::JobSpec;
use orlop_dag::manifest::{Limits, TextLimits};
use orlop_k8s::hourglass::spec::PerformerSpec;
use serde_json::{Value, json};

use super::examples::{Block, blocks, root};
use crate::host::flow::definitions;

/// How files of other programs begin.
const FOREIGN: [&str; 3] = ["# prometheus.yml", "# kustomization.yaml", "# cronjob.yaml"];

fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

fn job_template() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "spec": { "template": { "spec": { "containers": [{ "name": "main", "image": "busybox", "command": ["true"] }] } } },
    })
}

/// A flow with this `spec`; steps that say nothing of what they run get a command.
fn flow(place: &str, mut spec: Value) -> Result<(), String> {
    if spec.get("steps").is_none() {
        spec["steps"] = json!([{ "name": "a" }]);
    }
    for step in spec["steps"].as_array_mut().into_iter().flatten() {
        if step.get("template").is_none() && step.get("type").is_none() {
            step["template"] = job_template();
        }
    }
    let metadata = json!({ "name": "shown" });
    let whole =
        json!({ "apiVersion": "workflow.kube-zen.io/v1alpha1", "kind": "JobFlow", "metadata": metadata, "spec": spec });
    let limits = Limits::elsewhere().images_optional().strict();
    let read = definitions(place, &whole.to_string(), limits, TextLimits::large());
    read.map(|_| ()).map_err(|report| report.to_string())
}

/// Whether all of a document is in another one.
fn within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|whole| within(value, whole)))
        }
        _ => part == whole,
    }
}

/// A performer with these members; each must be one that it has.
fn performer(part: &Value) -> Result<(), String> {
    let text =
        fs::read_to_string(root().join("deploy/examples/performer-minimal.yaml")).map_err(|error| error.to_string())?;
    let mut spec = yaml(&text)?["spec"].take();
    spec.as_object_mut().into_iter().for_each(|spec| spec.extend(part.as_object().cloned().unwrap_or_default()));
    let read: PerformerSpec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
    let read = serde_json::to_value(&read).map_err(|error| error.to_string())?;
    if within(part, &read) { Ok(()) } else { Err(format!("read as {read}")) }
}

/// Reads what a block shows; `before` is the text of the block above it on the page.
fn check(block: &Block, before: &str) -> Result<(), String> {
    let first = block.text.lines().next().unwrap_or_default();
    if FOREIGN.iter().any(|head| first.starts_with(head)) {
        return block.text.split("\n---\n").try_for_each(|document| yaml(document).map(|_| ()));
    }
    if first.starts_with("    - ") {
        let text = format!("{before}{}", block.text);
        return flow(&block.place, yaml(&text)?["spec"].take());
    }
    let value = yaml(&block.text)?;
    let has = |name: &str| value.get(name).is_some();
    if first.starts_with("# job.yaml") {
        let spec = JobSpec::from_json(&value).map_err(|error| error.to_string())?;
        return spec.check().map_err(|error| error.to_string());
    }
    if first.starts_with("# scheduler.yaml") || has("console") {
        return crate::host::scheduler::program::takes(&block.text);
    }
    if has("executionPolicy") {
        return flow(&block.place, value);
    }
    if has("gpuType") {
        let input: HardwareInput = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let tables = Tables::default();
        let resolved = input.requirements(&tables).and_then(|requirements| resolve(&requirements, &tables));
        return resolved.map(|_| ()).map_err(|error| error.to_string());
    }
    if has("confidentialGpu") {
        return serde_json::from_value::<TablesFile>(value).map(|_| ()).map_err(|error| error.to_string());
    }
    if has("spec") {
        return performer(&value["spec"]);
    }
    if has("env") || has("resources") {
        let mut template = job_template();
        let container = &mut template["spec"]["template"]["spec"]["containers"][0];
        container
            .as_object_mut()
            .into_iter()
            .for_each(|all| all.extend(value.as_object().cloned().unwrap_or_default()));
        return flow(&block.place, json!({ "steps": [{ "name": "a", "template": template }] }));
    }
    Err("it is not known what this is a part of; add that to this test".to_owned())
}

#[test]
fn every_part_that_the_documents_show_is_taken_where_it_belongs() {
    let (mut findings, mut count, mut before) = (Vec::new(), 0, String::new());
    for block in blocks().into_iter().filter(|block| block.language == "yaml") {
        let is_flow = block.text.lines().any(|line| line == "kind: JobFlow" || line.starts_with("steps:"));
        if !is_flow {
            count += 1;
            findings.extend(check(&block, &before).err().map(|error| format!("{}: {error}", block.place)));
        }
        before = block.text;
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert!(count > 10, "the documents show parts: {count}");
}

#[test]
fn what_is_no_part_of_anything_is_noticed() {
    let shown = |text: &str| {
        let block = Block { place: "a page:1".to_owned(), language: "yaml".to_owned(), text: text.to_owned() };
        check(&block, "").expect_err(text)
    };
    assert!(shown("# job.yaml\ncomand: [true]\n").contains("comand"), "{}", shown("# job.yaml\ncomand: [true]\n"));
    for text in [
        "console: { sesion: 12h }\n",
        "executionPolicy: { backofLimit: 1 }\n",
        "gpuType: a100\ngpuCount: 5000\n",
        "confidentialGpu: { x: y }\n",
        "spec: { config: { probes: { startup: { failures: 9 } } } }\n",
        "env: { name: A }\n",
        "other: 1\n",
    ] {
        shown(text);
    }
}
