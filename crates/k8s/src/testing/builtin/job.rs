//! Jobs: defaults, the selector and labels that tie pods to them, and what may not change.

use serde_json::{Value, json};

use super::super::object::{Object, at, child, integer, list, meta, text};
use super::super::refusal::Cause;
use super::{immutable, pod};

pub(super) fn complete(old: Option<&Object>, object: &mut Object) {
    defaults(child(object, "spec"));
    pod::complete_spec(child(child(child(object, "spec"), "template"), "spec"), None);
    if old.is_none() {
        object.insert("status".to_owned(), json!({}));
        select(object);
    } else if let Some(old) = old {
        keep_selector(old, object);
    }
    // A Job without labels has those of its pods.
    if at(object, &["metadata", "labels"]).and_then(Value::as_object).is_none_or(Object::is_empty)
        && let Some(labels) = at(object, &["spec", "template", "metadata", "labels"]).cloned()
    {
        child(object, "metadata").insert("labels".to_owned(), labels);
    }
}

fn defaults(spec: &mut Object) {
    if !spec.contains_key("completions") && !spec.contains_key("parallelism") {
        spec.insert("completions".to_owned(), 1.into());
        spec.insert("parallelism".to_owned(), 1.into());
    }
    spec.entry("parallelism").or_insert_with(|| 1.into());
    let per_index = spec.contains_key("backoffLimitPerIndex");
    spec.entry("backoffLimit").or_insert_with(|| if per_index { i32::MAX } else { 6 }.into());
    spec.entry("completionMode").or_insert_with(|| "NonIndexed".into());
    spec.entry("suspend").or_insert(Value::Bool(false));
    spec.entry("manualSelector").or_insert(Value::Bool(false));
    let policy = if spec.contains_key("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    spec.entry("podReplacementPolicy").or_insert_with(|| policy.into());
    let rules = spec
        .get_mut("podFailurePolicy")
        .and_then(|policy| policy.get_mut("rules"))
        .and_then(Value::as_array_mut)
        .map(Vec::as_mut_slice)
        .unwrap_or_default();
    for pattern in
        rules.iter_mut().filter_map(|rule| rule.get_mut("onPodConditions")).filter_map(Value::as_array_mut).flatten()
    {
        if let Some(pattern) = pattern.as_object_mut() {
            pattern.entry("status").or_insert_with(|| "True".into());
        }
    }
}

/// The labels by which pods are known to be of this Job, and the selector of them.
fn select(object: &mut Object) {
    if at(object, &["spec", "manualSelector"]) == Some(&Value::Bool(true)) {
        return;
    }
    let (uid, name) = (meta(object, "uid").to_owned(), meta(object, "name").to_owned());
    let spec = child(object, "spec");
    let labels = child(child(child(spec, "template"), "metadata"), "labels");
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels.insert(key.to_owned(), value.as_str().into());
    }
    if !spec.contains_key("selector") {
        spec.insert("selector".to_owned(), json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}));
    }
}

/// An update that leaves the selector out leaves it as it is.
fn keep_selector(old: &Object, object: &mut Object) {
    for path in [&["selector"][..], &["completions"], &["completionMode"], &["manualSelector"]] {
        let Some(name) = path.first() else { continue };
        let Some(value) = at(old, &["spec", name]) else { continue };
        if *name == "selector" {
            let value = value.clone();
            child(object, "spec").entry(*name).or_insert(value);
        }
    }
}

pub(super) fn check(old: Option<&Object>, object: &Object) -> Vec<Cause> {
    let mut causes = numbers(object);
    let template = &["spec", "template", "spec"];
    if old.is_none() {
        causes.extend(pod::check_spec(object, template));
    }
    if !matches!(text(object, &["spec", "template", "spec", "restartPolicy"]), "Never" | "OnFailure") {
        causes.push(Cause::required("spec.template.spec.restartPolicy", "valid values: \"OnFailure\", \"Never\""));
    }
    modes(object, &mut causes);
    if let Some(old) = old {
        unchanged(old, object, &mut causes);
    }
    causes
}

fn numbers(object: &Object) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        if let Some(value) = integer(object, &["spec", field]).filter(|value| *value < 0) {
            causes.push(Cause::invalid(
                format!("spec.{field}"),
                &Value::from(value),
                "must be greater than or equal to 0",
            ));
        }
    }
    causes
}

fn modes(object: &Object, causes: &mut Vec<Cause>) {
    let mode = text(object, &["spec", "completionMode"]);
    let indexed = mode == "Indexed";
    if !indexed && mode != "NonIndexed" {
        let allowed = ["\"Indexed\"".to_owned(), "\"NonIndexed\"".to_owned()];
        causes.push(Cause::unsupported("spec.completionMode", &Value::from(mode), &allowed));
    }
    if indexed && at(object, &["spec", "completions"]).is_none() {
        causes.push(Cause::required("spec.completions", "when completion mode is Indexed"));
    }
    let restart = text(object, &["spec", "template", "spec", "restartPolicy"]);
    if at(object, &["spec", "podFailurePolicy"]).is_some() && restart != "Never" {
        let why = "only \"Never\" is supported when podFailurePolicy is specified";
        causes.push(Cause::invalid("spec.template.spec.restartPolicy", &Value::from(restart), why));
    }
    for (index, rule) in list(object, &["spec", "podFailurePolicy", "rules"]).iter().enumerate() {
        let action = rule.get("action").and_then(Value::as_str).unwrap_or_default();
        if !matches!(action, "FailJob" | "FailIndex" | "Ignore" | "Count") {
            let allowed = ["\"Count\"", "\"FailIndex\"", "\"FailJob\"", "\"Ignore\""].map(str::to_owned);
            let place = format!("spec.podFailurePolicy.rules[{index}].action");
            causes.push(if action.is_empty() {
                Cause::required(place, "valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"")
            } else {
                Cause::unsupported(place, &Value::from(action), &allowed)
            });
        }
    }
    if at(object, &["spec", "backoffLimitPerIndex"]).is_some() && !indexed {
        let value = at(object, &["spec", "backoffLimitPerIndex"]).cloned().unwrap_or(Value::Null);
        causes.push(Cause::invalid("spec.backoffLimitPerIndex", &value, "requires indexed completion mode"));
    }
}

fn unchanged(old: &Object, object: &Object, causes: &mut Vec<Cause>) {
    for field in
        ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        immutable(old, object, &["spec", field], causes);
    }
    // Indexed Jobs can grow and shrink together with their parallelism.
    let elastic = text(object, &["spec", "completionMode"]) == "Indexed"
        && integer(object, &["spec", "completions"]) == integer(object, &["spec", "parallelism"]);
    if !elastic {
        immutable(old, object, &["spec", "completions"], causes);
    }
    // While a Job is suspended and has never started, where and how its pods run can still change.
    let open = at(old, &["spec", "suspend"]) == Some(&Value::Bool(true)) && at(old, &["status", "startTime"]).is_none();
    if !open {
        immutable(old, object, &["spec", "template"], causes);
    } else if placeless(old) != placeless(object) {
        let value = at(object, &["spec", "template", "spec"]).cloned().unwrap_or(Value::Null);
        causes.push(Cause::invalid("spec.template.spec", &value, "field is immutable"));
    }
}

/// The pod spec of the template without where and how its pods run.
fn placeless(object: &Object) -> Value {
    let mut spec = at(object, &["spec", "template", "spec"]).cloned().unwrap_or(Value::Null);
    if let Some(members) = spec.as_object_mut() {
        for name in ["nodeSelector", "affinity", "tolerations", "schedulingGates", "schedulerName"] {
            members.remove(name);
        }
        for container in members.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten() {
            container.as_object_mut().map(|container| container.remove("resources"));
        }
    }
    spec
}
