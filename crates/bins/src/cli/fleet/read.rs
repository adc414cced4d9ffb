//! Fields of answers as cells of tables.

use orlop_core::time::Time;
use serde_json::Value;

use crate::host::flow::{Clock as _, SystemClock};
use crate::view::text::{age, harmless};

/// A text, on one line.
pub(super) fn text(value: &Value, field: &str) -> String {
    match &value[field] {
        Value::Null => String::new(),
        Value::String(text) => harmless(text).replace('\n', " "),
        other => other.to_string(),
    }
}

/// A number.
pub(super) fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_default()
}

/// A share from 0 to 1, in percent.
pub(super) fn percent(value: &Value, field: &str) -> String {
    format!("{:.0}%", value[field].as_f64().unwrap_or_default() * 100.0)
}

/// A time.
pub(super) fn time(value: &Value, field: &str) -> Option<Time> {
    value[field].as_str()?.parse().ok()
}

/// How long ago a time is.
pub(super) fn ago(value: &Value, field: &str) -> String {
    time(value, field).map(|at| age(SystemClock.now().since(at))).unwrap_or_default()
}

/// How long something has run, or ran.
pub(super) fn took(value: &Value) -> String {
    let took = time(value, "started_at").map(|began| {
        let end = time(value, "finished_at").unwrap_or_else(|| SystemClock.now());
        age(end.since(began))
    });
    took.unwrap_or_default()
}

/// The items of a list.
pub(super) fn items(value: &Value) -> &[Value] {
    value["items"].as_array().map_or(&[], Vec::as_slice)
}

/// The texts of a field of all items.
pub(super) fn each(value: &Value, field: &str) -> Vec<String> {
    items(value).iter().map(|item| text(item, field)).collect()
}
