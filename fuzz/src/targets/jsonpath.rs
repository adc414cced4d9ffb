//! JSONPath: a path in the first line, a JSON document after it. Answers are bounded and repeatable.

use orlop_core::machine::step::StepPhase;
use orlop_dag::params::{Document, JsonPathRef, Path};
use serde_json::{Value, json};

use super::{first_line, text};

/// A path or reference, then a document.
pub fn jsonpath(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let (path, document) = first_line(text);
    if let Ok(reference) = JsonPathRef::parse(path) {
        let again = JsonPathRef::parse(&reference.to_string());
        assert_eq!(again.as_ref(), Ok(&reference));
    }
    let Ok(path) = Path::parse(path) else { return };
    assert_eq!(Path::parse(path.as_str()).as_ref(), Ok(&path));
    let document = serde_json::from_str(document).unwrap_or_else(|_| job());
    let found = path.select(&document).map(|found| found.len());
    let answer = path.query(&document);
    assert_eq!(answer, path.query(&document));
    match (found, &answer) {
        (Ok(found), Ok(_)) => assert!(found > 0, "{path:?} answers without a result"),
        (Err(error), answer) => assert_eq!(answer, &Err(error)),
        (Ok(_), Err(_)) => {}
    }
    let _: Result<String, _> = Document::of_attempt(StepPhase::Succeeded, document).query(&path);
}

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "a", "labels": {"x.y/z": "1"}},
        "status": {"succeeded": 1, "ratio": 0.7, "conditions": [{"type": "Complete", "status": "True"}, {"type": "Failed"}]},
        "list": [[1, 2], [3], [], null, true, "é\"\n"],
    })
}
