//! The document of a step: what paths of outputs, inputs and `withParam` read. Owns its members and
//! the rule for first members; never fetches anything.

use orlop_core::machine::step::StepPhase;
use serde_json::{Map, Value};

use super::fan_out::Counters;
use super::path::{Path, QueryError};

/// What an attempt leaves that a document takes over as it is.
const JOB_MEMBERS: [&str; 4] = ["status", "metadata", "spec", "termination"];

/// The document of a step: `status`, `metadata`, `spec` and `termination` of its attempt, `phase` and `outputs`.
///
/// ```
/// use orlop_core::machine::step::StepPhase;
/// use orlop_dag::params::{Document, Path};
/// use serde_json::json;
/// let document = Document::of_attempt(StepPhase::Succeeded, json!({"status": {"succeeded": 1}}))
///     .with_outputs([("digest", "sha256:abc")]);
/// let text = |path: &str| document.query(&Path::parse(path).unwrap()).unwrap();
/// assert_eq!(text("$.succeeded"), "1");
/// assert_eq!(text("$.status.succeeded"), "1");
/// assert_eq!(text("$.outputs.digest"), "sha256:abc");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Document(Value);

impl Document {
    /// From what an attempt left: a `batch/v1` Job, or the part of one that a driver built, with `termination` beside its
    /// `status`. Other members are dropped.
    #[must_use]
    pub fn of_attempt(phase: StepPhase, job: Value) -> Self {
        let mut members = Map::new();
        if let Value::Object(mut job) = job {
            for name in JOB_MEMBERS {
                if let Some(member) = job.remove(name) {
                    members.insert(name.to_owned(), member);
                }
            }
        }
        members.insert("phase".to_owned(), Value::from(phase.to_string()));
        Self(Value::Object(members))
    }

    /// Of a fan-out step: its phase, the summed counters of its instances as `status`, and its outputs as arrays in item
    /// order (see [`gather`](super::gather)).
    #[must_use]
    pub fn of_fan_out<N: Into<String>>(
        phase: StepPhase,
        counters: Counters,
        outputs: impl IntoIterator<Item = (N, Value)>,
    ) -> Self {
        let mut members = Map::new();
        members.insert("status".to_owned(), counters.status());
        members.insert("phase".to_owned(), Value::from(phase.to_string()));
        let outputs = outputs.into_iter().map(|(name, values)| (name.into(), values)).collect();
        members.insert("outputs".to_owned(), Value::Object(outputs));
        Self(Value::Object(members))
    }

    /// The same document with recorded outputs, by name.
    #[must_use]
    pub fn with_outputs<N: Into<String>, T: Into<String>>(mut self, outputs: impl IntoIterator<Item = (N, T)>) -> Self {
        let outputs = outputs.into_iter().map(|(name, text)| (name.into(), Value::from(text.into()))).collect();
        if let Value::Object(members) = &mut self.0 {
            members.insert("outputs".to_owned(), Value::Object(outputs));
        }
        self
    }

    /// The text a path selects; members come in the order of their names. A first member other than `status`, `metadata`,
    /// `spec`, `phase`, `outputs` and `termination` is looked up in `status`, also in filters.
    ///
    /// # Errors
    /// When the path selects nothing, takes too many steps, or the text would be too large.
    pub fn query(&self, path: &Path) -> Result<String, QueryError> {
        path.query_document(&self.0)
    }

    /// The document as JSON.
    #[must_use]
    pub const fn as_value(&self) -> &Value {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Document {
        Document::of_attempt(
            StepPhase::Succeeded,
            json!({
                "apiVersion": "batch/v1",
                "metadata": {"name": "f-build", "labels": {"jobflow": "f"}},
                "spec": {"completions": 3},
                "status": {
                    "succeeded": 3, "failed": 0.7, "phase": "not this", "status": "inner",
                    "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}],
                },
                "termination": {"exitCode": 0, "message": "[1]", "json": [1]},
            }),
        )
        .with_outputs([("digest", "sha256:1"), ("list", "[1,2]")])
    }

    fn text(path: &str) -> Option<String> {
        match document().query(&Path::parse(path).unwrap()) {
            Ok(text) => Some(text),
            Err(error) => {
                assert_eq!(error, QueryError::Missing, "{path}");
                None
            }
        }
    }

    #[test]
    fn first_members_of_the_document_are_its_own() {
        for (path, want) in [
            ("$.status.succeeded", Some("3")),
            ("$.metadata.labels.jobflow", Some("f")),
            ("$.spec.completions", Some("3")),
            ("$.phase", Some("Succeeded")),
            ("$.outputs.digest", Some("sha256:1")),
            ("$.outputs.list", Some("[1,2]")),
            ("$.outputs.list[0]", None),
            ("$.termination.exitCode", Some("0")),
            ("$.termination.json[0]", Some("1")),
            ("$['phase']", Some("Succeeded")),
            ("$.apiVersion", None),
        ] {
            assert_eq!(text(path).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn other_first_members_are_looked_up_in_status() {
        for (path, want) in [
            ("$.succeeded", Some("3")),
            ("$['succeeded']", Some("3")),
            ("$.failed", Some("0.7")),
            ("$.conditions[-1].type", Some("Complete")),
            ("$.conditions[?@.type == 'Complete'].status", Some("True")),
            ("$['phase','succeeded']", Some(r#"["Succeeded",3]"#)),
            ("$.absent", None),
            ("$..succeeded", Some("3")),
            ("$..exitCode", Some("0")),
        ] {
            assert_eq!(text(path).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn the_rule_holds_for_paths_in_filters_too() {
        assert_eq!(
            text("$.conditions[?$.succeeded == 3].type").as_deref(),
            Some(r#"["SuccessCriteriaMet","Complete"]"#)
        );
        assert_eq!(text("$.conditions[?$.succeeded == $.status.succeeded][0]"), None);
        assert_eq!(text("$.conditions[?$.conditions[2]].type"), None);
        assert_eq!(
            text("$.conditions[?count($.conditions[*]) == 2 && @.type == 'Complete'].type").as_deref(),
            Some("Complete")
        );
        assert_eq!(
            text("$.conditions[?$.phase == 'Succeeded' && @.type == 'Complete'].type").as_deref(),
            Some("Complete")
        );
    }

    #[test]
    fn the_whole_document_and_its_members() {
        let keys: Vec<_> = document().as_value().as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["metadata", "outputs", "phase", "spec", "status", "termination"]);
        assert!(text("$").unwrap().starts_with(r#"{"metadata":{"labels":{"jobflow":"f"},"name":"f-build"},"outputs""#));
        assert!(text("$.*").unwrap().starts_with(r#"[{"labels":{"jobflow":"f"},"name":"f-build"},{"digest""#));
    }

    #[test]
    fn a_document_without_status_has_no_other_members() {
        let bare = Document::of_attempt(StepPhase::Failed, json!("no object"));
        assert_eq!(bare.as_value(), &json!({"phase": "Failed"}));
        assert_eq!(bare.query(&Path::parse("$.succeeded").unwrap()), Err(QueryError::Missing));
    }

    #[test]
    fn a_fan_out_offers_outputs_phase_and_summed_counters() {
        let mut counters = Counters::default();
        counters += Counters::of_job(&json!({"status": {"succeeded": 2}}));
        counters += Counters::of_job(&json!({"status": {"failed": 1, "succeeded": 1}}));
        let group =
            Document::of_fan_out(StepPhase::Succeeded, counters, [("digest", super::super::gather([Some("a"), None]))]);
        let text = |path: &str| group.query(&Path::parse(path).unwrap()).unwrap();
        assert_eq!(text("$.succeeded"), "3");
        assert_eq!(text("$.status.failed"), "1");
        assert_eq!(text("$.active"), "0");
        assert_eq!(text("$.phase"), "Succeeded");
        assert_eq!(text("$.outputs.digest"), r#"["a",null]"#);
        assert_eq!(text("$.outputs.digest[0]"), "a");
    }
}
