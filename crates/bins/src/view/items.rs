//! The items of fan-outs, shown beside the names of their instances: `tests-i3 (3.9)` is the instance for the item `3.9`.

use std::collections::BTreeMap;

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::spec::flow::FlowSpec;
use orlop_dag::attempt::{bind, items};
use orlop_dag::engine::State;
use orlop_dag::plan::Plan;
use serde_json::Value;

use super::text::one_line;

/// The longest item that is shown, in characters.
const WIDTH: usize = 24;

/// Items by the name of their instance.
#[derive(Clone, Debug, Default)]
pub struct Items(BTreeMap<String, String>);

impl Items {
    /// Those that a flow's text lists itself; others are known as the flow runs.
    #[must_use]
    pub fn of_spec(spec: &FlowSpec) -> Self {
        let lists =
            spec.steps.iter().chain(&spec.finally).filter_map(|step| Some((&step.name, step.with_items.as_ref()?)));
        let named = |(step, items): (&String, &Vec<Value>)| {
            let step = step.clone();
            let items: Vec<String> = items.iter().map(short).collect();
            items.into_iter().enumerate().map(move |(number, item)| (format!("{step}-i{number}"), item))
        };
        Self(lists.flat_map(named).collect())
    }

    /// Those of a run, of the steps that are given.
    #[must_use]
    pub fn of_run<'n>(plan: &Plan, state: &State, steps: impl IntoIterator<Item = &'n str>) -> Self {
        let mut lists = BTreeMap::new();
        let named = |step: &str| {
            let at = plan.address_of(step)?;
            let number = at.item?;
            if let Some(item) = state.item(plan, at) {
                return Some((step.to_owned(), short(item)));
            }
            let read = lists.entry(at.step.0).or_insert_with(|| read(plan, state, at.step));
            Some((step.to_owned(), short(read.get(number as usize)?)))
        };
        Self(steps.into_iter().filter_map(named).collect())
    }

    /// The name of a step or instance, with its item.
    #[must_use]
    pub fn name(&self, step: &str) -> String {
        match self.0.get(step) {
            Some(item) => format!("{step} ({item})"),
            None => step.to_owned(),
        }
    }
}

/// The items of a fan-out that a status does not tell, from what its list was made of; none where that is not known here.
fn read(plan: &Plan, state: &State, step: StepIndex) -> Vec<Value> {
    let at = Address { step, item: None };
    let binding = bind(plan, state, at, None);
    binding.ok().and_then(|binding| items(plan, state, at, &binding.scope).ok()).unwrap_or_default()
}

/// An item in few words: of an object its `name`, where that is a text.
fn short(item: &Value) -> String {
    let text = match item.get("name").unwrap_or(item) {
        Value::String(text) => text.clone(),
        Value::Object(_) | Value::Array(_) => item.to_string(),
        other => other.to_string(),
    };
    one_line(&text, WIDTH)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instances_are_named_with_their_items() {
        let step =
            json!({"name": "t", "withItems": ["3.9", 4, {"name": "gut", "n": 1}, {"n": [1, 2]}, "x".repeat(40)]});
        let spec: FlowSpec = serde_json::from_value(json!({"steps": [step]})).unwrap();
        let items = Items::of_spec(&spec);
        let names = ["t", "t-i0", "t-i1", "t-i2", "t-i3", "t-i4", "t-i5"].map(|name| items.name(name));
        let long = format!("t-i4 ({}\u{2026})", "x".repeat(23));
        assert_eq!(names, ["t", "t-i0 (3.9)", "t-i1 (4)", "t-i2 (gut)", "t-i3 ({\"n\":[1,2]})", &long, "t-i5"]);
    }
}
