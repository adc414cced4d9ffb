//! The items of a `withParam` fan-out. Owns where they are read; creates no instance.

use orlop_core::attempt::Address;
use serde_json::Value;

use crate::engine::{State, read_path};
use crate::params::{ITEMS_MAX, ItemsSource, Lookup, Scope, items_of};
use crate::plan::Plan;

/// Reads the items of a `withParam` fan-out step; `scope` has the parameters of the step.
///
/// # Errors
/// A sentence for people: the source cannot be read, or is no JSON array of an allowed length.
pub fn items(plan: &Plan, state: &State, at: Address, scope: &Scope) -> Result<Vec<Value>, String> {
    let source = plan.step(at.step).and_then(|step| step.with_param.as_deref()).unwrap_or_default();
    let text = match ItemsSource::parse(source).map_err(|error| error.to_string())? {
        ItemsSource::Path(path) => {
            read_path(plan, state, &path.to_string()).map_err(|error| format!("withParam: {error}"))?
        }
        ItemsSource::Parameter(name) => match scope.lookup(&name) {
            Lookup::Plain(text) => text.into_owned(),
            Lookup::Secret(_) => return Err(format!("withParam: parameter `{name}` is a secret; use another one")),
            Lookup::Unresolved => return Err(format!("withParam: parameter `{name}` has no value")),
        },
    };
    items_of(&text, ITEMS_MAX).map_err(|error| format!("withParam: {error}"))
}
