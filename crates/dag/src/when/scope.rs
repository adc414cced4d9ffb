//! What a condition may name: the declared steps with their outputs, the parameters of the flow and of the step, and
//! whether item, index and `flow.outcome` exist. Only names, never values: those come from [`Facts`](super::Facts).

use super::suggest;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

/// Above this many declared names only the alphabetical neighbours of a misspelt one are offered.
const ALL_COMPARED: usize = 256;
/// Neighbours on each side.
const NEIGHBOURS: usize = 32;

/// The steps that conditions may name, each with the names of its declared output parameters.
///
/// Built once for a flow and shared by all its conditions.
#[derive(Debug, Clone, Default)]
pub struct Steps<'a> {
    outputs: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Steps<'a> {
    /// No steps yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step and its declared outputs; a step declared twice keeps the later outputs.
    pub fn declare(&mut self, name: &'a str, outputs: impl IntoIterator<Item = &'a str>) {
        let mut outputs: Vec<&'a str> = outputs.into_iter().collect();
        outputs.sort_unstable();
        outputs.dedup();
        self.outputs.insert(name, outputs);
    }

    /// Whether a step of this name is declared.
    pub fn contains(&self, name: &str) -> bool {
        self.outputs.contains_key(name)
    }

    /// Whether a step declares this output.
    pub fn has_output(&self, name: &str, output: &str) -> bool {
        self.outputs(name).binary_search(&output).is_ok()
    }

    /// The declared outputs of a step in alphabetical order; empty for an unknown step.
    pub fn outputs(&self, name: &str) -> &[&'a str] {
        self.outputs.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn suggestion(&self, word: &str) -> Option<String> {
        suggest::did_you_mean(word, neighbours(&self.outputs, word))
    }
}

impl<'a, O: IntoIterator<Item = &'a str>> FromIterator<(&'a str, O)> for Steps<'a> {
    fn from_iter<T: IntoIterator<Item = (&'a str, O)>>(steps: T) -> Self {
        let mut all = Self::new();
        for (name, outputs) in steps {
            all.declare(name, outputs);
        }
        all
    }
}

/// Whether a condition may read a parameter. Secret ones are refused, and those whose value is read only when an
/// attempt starts: a condition is decided before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// May be read by conditions.
    Plain,
    /// Comes from `secretKeyRef`.
    Secret,
    /// An input from `configMapKeyRef`, which each attempt reads when it starts: too late for a condition.
    Late,
}

/// Declared parameters, of a flow or of one step.
#[derive(Debug, Clone, Default)]
pub struct Parameters<'a> {
    names: BTreeMap<&'a str, Secrecy>,
}

impl<'a> Parameters<'a> {
    /// No parameters yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter; one declared twice keeps the later secrecy.
    pub fn declare(&mut self, name: &'a str, secrecy: Secrecy) {
        self.names.insert(name, secrecy);
    }
}

impl<'a> FromIterator<(&'a str, Secrecy)> for Parameters<'a> {
    fn from_iter<T: IntoIterator<Item = (&'a str, Secrecy)>>(names: T) -> Self {
        Self { names: names.into_iter().collect() }
    }
}

/// Everything one condition may name.
///
/// ```
/// use orlop_dag::when::{Parameters, Scope, Secrecy, Steps};
/// let steps: Steps<'_> = [("build-image", ["digest"])].into_iter().collect();
/// let flow: Parameters<'_> = [("env", Secrecy::Plain)].into_iter().collect();
/// let scope = Scope::new(&steps).flow_parameters(&flow);
/// assert!(orlop_dag::when::compile("steps.build-image.phase == 'Failed'", &scope).is_ok());
/// ```
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Scope<'a> {
    pub(crate) steps: &'a Steps<'a>,
    flow: Option<&'a Parameters<'a>>,
    inputs: Option<&'a Parameters<'a>>,
    pub(crate) fan_out: bool,
    pub(crate) finally: bool,
}

impl<'a> Scope<'a> {
    /// A scope with these steps and no parameters.
    pub fn new(steps: &'a Steps<'a>) -> Self {
        Self { steps, flow: None, inputs: None, fan_out: false, finally: false }
    }

    /// Adds the flow's parameters.
    pub fn flow_parameters(mut self, parameters: &'a Parameters<'a>) -> Self {
        self.flow = Some(parameters);
        self
    }

    /// Adds the step's input parameters, which win over the flow's.
    pub fn inputs(mut self, parameters: &'a Parameters<'a>) -> Self {
        self.inputs = Some(parameters);
        self
    }

    /// Adds `item`, `item.<field>` and `index`, for steps that fan out.
    pub fn in_fan_out(mut self) -> Self {
        self.fan_out = true;
        self
    }

    /// Adds `flow.outcome`, for steps of `finally`.
    pub fn in_finally(mut self) -> Self {
        self.finally = true;
        self
    }

    /// The secrecy of a declared parameter, `None` if there is none of that name.
    pub(crate) fn parameter(&self, name: &str) -> Option<Secrecy> {
        let find = |from: Option<&Parameters<'a>>| from.and_then(|all| all.names.get(name)).copied();
        find(self.inputs).or_else(|| find(self.flow))
    }

    pub(crate) fn parameter_suggestion(&self, word: &str) -> Option<String> {
        let near = |from: Option<&'a Parameters<'a>>| from.map(|all| neighbours(&all.names, word)).unwrap_or_default();
        let instance: &[&str] = if self.fan_out { &["item", "index"] } else { &[] };
        let names = near(self.inputs).into_iter().chain(near(self.flow)).chain(instance.iter().copied());
        suggest::did_you_mean(word, names)
    }
}

/// The names worth comparing with a misspelt one: all of a small table, the neighbours in a large one.
fn neighbours<'n, V>(names: &BTreeMap<&'n str, V>, word: &str) -> Vec<&'n str> {
    if names.len() <= ALL_COMPARED {
        return names.keys().copied().collect();
    }
    let below = names.range::<str, _>((Unbounded, Excluded(word))).rev().take(NEIGHBOURS).map(|(name, _)| *name);
    let above = names.range::<str, _>((Included(word), Unbounded)).take(NEIGHBOURS).map(|(name, _)| *name);
    below.chain(above).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_many_steps_still_offers_the_neighbour() {
        let names: Vec<String> = (0..5000).map(|n| format!("step-{n:05}")).collect();
        let steps: Steps<'_> = names.iter().map(|name| (name.as_str(), [])).collect();
        assert_eq!(steps.suggestion("step-0123").as_deref(), Some("did you mean `step-01223`?"));
    }

    #[test]
    fn a_step_input_wins_over_a_flow_parameter_of_the_same_name() {
        let steps = Steps::new();
        let flow: Parameters<'_> = [("token", Secrecy::Secret), ("env", Secrecy::Plain)].into_iter().collect();
        let inputs: Parameters<'_> = [("token", Secrecy::Plain)].into_iter().collect();
        let scope = Scope::new(&steps).flow_parameters(&flow).inputs(&inputs);
        assert_eq!(scope.parameter("token"), Some(Secrecy::Plain));
        assert_eq!(scope.parameter("env"), Some(Secrecy::Plain));
        assert_eq!(scope.parameter("other"), None);
    }
}
