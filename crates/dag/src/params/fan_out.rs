//! Fan-out values: where items come from, the items of a text, outputs as arrays in item order, and summed
//! counters. Owns these conversions; never starts instances.

use std::ops::AddAssign;

use orlop_core::exact;
use serde_json::{Value, json};

use super::path::{JsonPathRef, PathError};
use super::placeholder::sole;

/// The most items a fan-out may have anywhere.
pub const ITEMS_MAX: usize = 100_000;

/// Where `withParam` takes its items from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemsSource {
    /// The document of another step.
    Path(JsonPathRef),
    /// A parameter.
    Parameter(String),
}

/// Why a `withParam` gives no items.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ItemsError {
    /// Neither a path into another step nor one placeholder.
    #[error("withParam is neither one placeholder such as `${{parameters.list}}` nor `<step>:$.path`: {0}")]
    Source(#[from] PathError),
    /// A path without a step.
    #[error("withParam `{0}` names no step; write `<step>:{0}`")]
    NoStep(String),
    /// Not JSON, or deeper than 128 levels.
    #[error("the items are not JSON: {0}")]
    Syntax(String),
    /// JSON, but no array.
    #[error("the items are {0}; a JSON array is needed")]
    NoArray(&'static str),
    /// More items than allowed.
    #[error("there are {found} items; at most {limit} are allowed")]
    TooMany {
        /// Items found.
        found: usize,
        /// Items allowed.
        limit: usize,
    },
}

impl ItemsSource {
    /// Reads a `withParam`: `<step>:$.path`, or exactly one placeholder.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Self, ItemsError> {
        if let Some(placeholder) = sole(text.trim()) {
            return Ok(Self::Parameter(placeholder.name.to_owned()));
        }
        let reference = JsonPathRef::parse(text)?;
        if reference.step.is_none() {
            return Err(ItemsError::NoStep(reference.path.to_string()));
        }
        Ok(Self::Path(reference))
    }
}

/// The items of a text that is a JSON array, at most `limit` (and never more than [`ITEMS_MAX`]).
///
/// # Errors
/// When the text is not JSON, not an array, or has too many items.
pub fn items_of(text: &str, limit: usize) -> Result<Vec<Value>, ItemsError> {
    let limit = limit.min(ITEMS_MAX);
    let items = match exact::from_str(text) {
        Ok(Value::Array(items)) => items,
        Ok(other) => return Err(ItemsError::NoArray(kind(&other))),
        Err(error) => return Err(ItemsError::Syntax(error.to_string())),
    };
    if items.len() > limit {
        return Err(ItemsError::TooMany { found: items.len(), limit });
    }
    Ok(items)
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// An output of a fan-out step: the values of its instances in item order, null where an instance gave none. The recorded
/// value is its compact JSON ([`text_of`](super::text_of)).
///
/// ```
/// use orlop_dag::params::{gather, text_of};
/// assert_eq!(text_of(&gather([Some("a"), None, Some("3")])).unwrap(), r#"["a",null,"3"]"#);
/// ```
#[must_use]
pub fn gather<'v>(values: impl IntoIterator<Item = Option<&'v str>>) -> Value {
    values.into_iter().map(|value| value.map_or(Value::Null, Value::from)).collect()
}

/// Pods of Jobs, by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pods that run.
    pub active: u64,
    /// Pods that succeeded.
    pub succeeded: u64,
    /// Pods that failed.
    pub failed: u64,
}

impl Counters {
    /// The counters in the `status` of a Job; absent ones are zero.
    #[must_use]
    pub fn of_job(job: &Value) -> Self {
        let count = |name: &str| job.get("status").and_then(|status| status.get(name)?.as_u64()).unwrap_or(0);
        Self { active: count("active"), succeeded: count("succeeded"), failed: count("failed") }
    }

    /// The counters as a status, zeros included: a sum is known also when it is zero.
    pub(super) fn status(self) -> Value {
        json!({"active": self.active, "succeeded": self.succeeded, "failed": self.failed})
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.active = self.active.saturating_add(other.active);
        self.succeeded = self.succeeded.saturating_add(other.succeeded);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::text_of;

    #[test]
    fn items_come_from_a_step_or_one_placeholder() {
        let path = ItemsSource::parse("list: $.outputs.files").unwrap();
        assert_eq!(path, ItemsSource::Path(JsonPathRef::parse("list:$.outputs.files").unwrap()));
        for text in ["${parameters.list}", "{{.parameters.list}}", " {{parameters.list}}\n"] {
            assert_eq!(ItemsSource::parse(text).unwrap(), ItemsSource::Parameter("list".into()), "{text}");
        }
        let text = |text: &str| ItemsSource::parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(text("$.outputs.files"), @"withParam `$.outputs.files` names no step; write `<step>:$.outputs.files`");
        insta::assert_snapshot!(text("[1,2]"), @"withParam is neither one placeholder such as `${parameters.list}` nor `<step>:$.path`: `[1,2]` does not start with `$`; write `$.member`, or `<step>:$.member` to read another step");
        insta::assert_snapshot!(text("x${parameters.list}"), @"withParam is neither one placeholder such as `${parameters.list}` nor `<step>:$.path`: `x${parameters.list}` does not start with `$`; write `$.member`, or `<step>:$.member` to read another step");
        insta::assert_snapshot!(text(""), @"withParam is neither one placeholder such as `${parameters.list}` nor `<step>:$.path`: the path is empty; write one like `$.succeeded` or `build:$.outputs.digest`");
    }

    #[test]
    fn items_are_a_json_array_of_limited_length() {
        assert_eq!(
            items_of(r#" [1, 0.7, "a", null, {"b": [2]}] "#, 5).unwrap(),
            [json!(1), json!(0.7), json!("a"), json!(null), json!({"b": [2]})]
        );
        assert!(items_of("[]", 0).unwrap().is_empty());
        let text = |text: &str| items_of(text, 2).unwrap_err().to_string();
        insta::assert_snapshot!(text("a,b"), @"the items are not JSON: expected value at line 1 column 1");
        insta::assert_snapshot!(text(""), @"the items are not JSON: EOF while parsing a value at line 1 column 0");
        insta::assert_snapshot!(text("{\"a\": 1}"), @"the items are an object; a JSON array is needed");
        insta::assert_snapshot!(text("\"a\""), @"the items are a text; a JSON array is needed");
        insta::assert_snapshot!(text("[1,2,3]"), @"there are 3 items; at most 2 are allowed");
        insta::assert_snapshot!(text(&"[".repeat(100_000)), @"the items are not JSON: recursion limit exceeded at line 1 column 128");
        let many = format!("[{}0]", "0,".repeat(ITEMS_MAX));
        assert_eq!(items_of(&many, usize::MAX), Err(ItemsError::TooMany { found: ITEMS_MAX + 1, limit: ITEMS_MAX }));
    }

    #[test]
    fn outputs_are_arrays_in_item_order() {
        assert_eq!(text_of(&gather([Some("b"), Some("a\"\n"), None, Some("")])).unwrap(), r#"["b","a\"\n",null,""]"#);
        assert_eq!(text_of(&gather([])).unwrap(), "[]");
        let text = text_of(&gather([Some("1"), Some("2")])).unwrap().into_owned();
        assert_eq!(items_of(&text, 10).unwrap(), [json!("1"), json!("2")]);
    }

    #[test]
    fn counters_are_summed_and_absent_ones_are_zero() {
        let mut sum = Counters::default();
        for job in [
            json!({"status": {"succeeded": 2}}),
            json!({"status": {"failed": 3, "active": 1}}),
            json!({"status": {"failed": -1, "active": "x"}}),
            json!(1),
        ] {
            sum += Counters::of_job(&job);
        }
        assert_eq!(sum, Counters { active: 1, succeeded: 2, failed: 3 });
        sum += Counters { active: u64::MAX, ..Counters::default() };
        assert_eq!(sum.active, u64::MAX);
    }
}
