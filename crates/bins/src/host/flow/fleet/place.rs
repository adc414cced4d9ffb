//! Where a step may run, from the words of a pod to those of a job: node selector, node affinity, priority class. Refuses what it
//! cannot keep.

use orlop_core::error::{Class, Problem};
use orlop_core::hardware::placement::{LabelExpr, Operator};
use orlop_core::spec::job::{DEFAULT_PRIORITY, Requires};
use serde_json::Value;

/// Path of the node affinity that must hold.
const TERMS: &str = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

/// The conditions of a pod on its node, as conditions on the labels of a worker.
pub(super) fn requires(pod: &Value) -> Result<Requires, Problem> {
    let mut requires = Requires::default();
    for (key, value) in pod.get("nodeSelector").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().ok_or_else(|| invalid(format!("nodeSelector.{key} must be a text")))?;
        requires.labels.push(LabelExpr::equal(key.clone(), value));
    }
    let terms = pod.pointer(TERMS).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match terms {
        [] => {}
        [term] => term_needs(term, &mut requires)?,
        _ => {
            let text = "alternatives in nodeSelectorTerms are not supported on the fleet; keep one term";
            return Err(invalid(text.to_owned()));
        }
    }
    Ok(requires)
}

fn term_needs(term: &Value, requires: &mut Requires) -> Result<(), Problem> {
    if term.get("matchFields").is_some() {
        return Err(invalid(
            "matchFields of a node affinity are not supported on the fleet; use matchExpressions".to_owned(),
        ));
    }
    for expression in term.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
        let text = |member: &str| expression.get(member).and_then(Value::as_str);
        let key = text("key").ok_or_else(|| invalid("a node affinity without key".to_owned()))?;
        let op: Operator = text("operator")
            .unwrap_or_default()
            .parse()
            .map_err(|error| invalid(format!("node affinity on `{key}`: {error}")))?;
        let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
        requires.labels.push(LabelExpr::new(key, op, values.filter_map(Value::as_str)));
    }
    Ok(())
}

/// The priority of a priority class: a digit as it is, `high`, `normal` and `low` as the middle of their bands.
pub(super) fn priority(pod: &Value) -> Result<u8, Problem> {
    match pod.get("priorityClassName").and_then(Value::as_str) {
        None | Some("" | "normal") => Ok(DEFAULT_PRIORITY),
        Some("high") => Ok(2),
        Some("low") => Ok(8),
        Some(name) => {
            let digit = name.parse().ok().filter(|priority| *priority <= 9);
            digit.ok_or_else(|| {
                invalid(format!("priority class `{name}` is not known here; use high, normal, low, or 0 (urgent) to 9"))
            })
        }
    }
}

/// What is wrong with the template of a step.
pub(super) fn invalid(message: String) -> Problem {
    Problem::new(Class::Invalid, message).with_reason("TemplateInvalid")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_and_affinity_are_conditions_on_labels() {
        let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": [{ "key": "zone", "operator": "NotIn", "values": ["b"] }, { "key": "ssd", "operator": "Exists" }] }] } } });
        let found = requires(&json!({ "nodeSelector": { "arch": "arm64" }, "affinity": affinity })).unwrap();
        let shown: Vec<String> = found.labels.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["arch = arm64", "zone not in {b}", "ssd is set"]);
        let two = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{}, {}] } } } });
        assert!(requires(&two).is_err());
    }

    #[test]
    fn priority_classes_are_numbers() {
        let of = |name: &str| priority(&json!({ "priorityClassName": name }));
        assert_eq!((of("high").unwrap(), of("7").unwrap(), priority(&json!({})).unwrap()), (2, 7, 5));
        insta::assert_snapshot!(of("gold").unwrap_err(), @"priority class `gold` is not known here; use high, normal, low, or 0 (urgent) to 9");
    }
}
