//! Manifests nobody means well with: whatever the text or object, reading ends with a flow or a report.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::testing::{flow, set, step_with};
use super::*;

/// A flow that uses most fields of the API.
fn rich() -> Value {
    let mut object = flow();
    let members = json!({
        "message": "m ${parameters.env}", "when": "parameters.env == 'prod'", "continueOnFailure": true, "timeoutSeconds": 5, "rerun": "Always",
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "retryPolicy": {"limit": 2, "backoff": {"type": "Linear", "duration": "1s", "factor": 1.5, "maxDuration": "5s", "jitter": 0.5}},
        "inputs": {"parameters": [{"name": "p", "value": ""}], "artifacts": [{"name": "x", "http": {"url": "https://h/", "headers": {"A": "b"}}, "path": "/x"}]},
        "outputs": {"parameters": [{"name": "o", "valueFrom": {"jsonPath": "$.succeeded"}, "default": "0"}], "artifacts": [{"name": "y", "path": "/y", "archive": {"format": "tar"}}]},
        "withItems": [1, {"a": 2}], "parallelism": 2,
    });
    set(&mut object, "spec.steps.0", step_with("a", members));
    set(&mut object, "spec.steps.-", json!({"name": "b", "type": "Manual", "depends": "a.Failed || a"}));
    set(&mut object, "spec.finally", json!([step_with("f", json!({"when": "flow.outcome == 'Failed'"}))]));
    set(&mut object, "spec.parameters", json!([{"name": "env", "value": "prod", "enum": ["prod", "dev"]}]));
    set(
        &mut object,
        "spec.executionPolicy",
        json!({"backoffLimit": 3, "podFailurePolicy": {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]}}),
    );
    set(
        &mut object,
        "spec.resourceTemplates",
        json!({"configMapTemplates": [{"metadata": {"name": "m"}, "data": {"k": "v"}}]}),
    );
    set(&mut object, "spec.artifactStore", json!({"persistentVolumeClaim": {"claimName": "c"}}));
    object
}

/// Every place of an object, as JSON pointers.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => {
            map.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
        }
        Value::Array(list) => list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        pointers(child, &format!("{at}/{key}"), all);
    }
}

fn odd_values() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        Just(json!(-1)),
        Just(json!(1.5)),
        Just(json!(true)),
        Just(json!("")),
        Just(json!("a")),
        Just(json!("${parameters.item.x}{{.parameters.env}}")),
        Just(json!([null, {"name": "a"}, ["a"]])),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

fn limits() -> [Limits; 3] {
    let process = substrate::Target::local(substrate::Runtime::Process);
    [Limits::kubernetes(), Limits::elsewhere().strict(), Limits::at(process)]
}

#[test]
fn the_rich_flow_breaks_no_rule() {
    for limits in &limits()[..2] {
        let found = read_object(&rich(), limits).map(|(_, warnings)| testing::lines(&warnings));
        assert_eq!(found.as_deref().map_err(testing::lines), Ok(""));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn objects_with_odd_values_are_read_or_refused(places in proptest::collection::vec(any::<prop::sample::Index>(), 1..4), values in proptest::collection::vec(odd_values(), 3)) {
        let mut object = rich();
        for (place, value) in places.iter().zip(values) {
            let mut all = Vec::new();
            pointers(&object, "", &mut all);
            let at: &String = place.get(&all);
            if let Some(spot) = object.pointer_mut(at) {
                *spot = value;
            }
        }
        for limits in limits() {
            let wire = read_object(&object, &limits);
            let file = read("f.json", object.to_string(), &Options::new(limits.clone()));
            if let Ok((typed, _)) = &wire {
                let again = serde_json::to_value(typed).unwrap();
                prop_assert!(read_object(&again, &limits).is_ok(), "what was accepted is accepted again");
            }
            // A file ignores its own status, and documents that are no flows are told apart before.
            if object.get("kind") == Some(&json!("JobFlow")) && object.get("status").is_none() {
                prop_assert_eq!(wire.is_ok(), file.is_ok(), "{:?}", file.map(|_| ()).map_err(|report| report.to_string()));
            }
        }
    }

    #[test]
    fn damaged_texts_are_read_or_refused_with_places(cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[\\PC\\n\\t]{0,3}"), 1..5)) {
        let mut text = serde_json::to_string_pretty(&rich()).unwrap().replace("\"spec\":", "spec:");
        for (from, length, insert) in cuts {
            let mut from = from.index(text.len().max(1)).min(text.len());
            let mut to = (from + length.index(8)).min(text.len());
            while !text.is_char_boundary(from) { from -= 1; }
            while !text.is_char_boundary(to) { to += 1; }
            text.replace_range(from..to, &insert);
        }
        if let Err(report) = read("f.yaml", text.as_str(), &Options::new(Limits::kubernetes())) {
            let mut out = String::new();
            write!(out, "{report}").unwrap();
            for violation in &report.violations {
                if let Some(at) = &violation.at {
                    prop_assert!((at.line as usize) <= text.split('\n').count() && at.column > 0, "{}", out);
                }
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}:,&*!|>'\"%@`#?\\- \\n\\ta<0.]{0,60}") {
        let _ = read("f.yaml", text.as_str(), &Options::default());
    }
}
