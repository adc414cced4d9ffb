//! A flow of functions as it is written: steps and what they take. Owns the way to the spec that the engine runs; starts
//! nothing.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orlop_core::spec::flow::{FlowParameter, FlowSpec};
use orlop_core::spec::policy::{ExecutionPolicy, RetryPolicy};
use orlop_core::spec::step::Step as StepSpec;

use super::functions::{Function, Functions};
use super::value::{FlowTag, Form, INPUT, Origin, Source};

/// A step as it is written.
struct StepDraft {
    spec: StepSpec,
    function: Option<Function>,
    grace: Duration,
    finally: bool,
}

/// What a flow is made of.
#[derive(Default)]
pub(super) struct Draft {
    steps: Vec<StepDraft>,
    pub(super) takes_input: bool,
    pub(super) parallelism: Option<i32>,
    pub(super) deadline: Option<Duration>,
    pub(super) crashes: Option<u32>,
    /// Steps that take what another flow gives.
    foreign: Vec<String>,
}

/// A draft that its steps can still change.
#[derive(Clone, Default)]
pub(super) struct Shared {
    draft: Arc<Mutex<Draft>>,
    tag: FlowTag,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Draft> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What tells this flow from every other one.
    pub(super) fn tag(&self) -> FlowTag {
        self.tag.clone()
    }

    /// Adds a step.
    pub(super) fn add<O>(&self, flow: &Arc<str>, spec: StepSpec, function: Option<Function>) -> Step<O> {
        let form = match &function {
            None => Form::Nothing,
            Some(_) if spec.is_fan_out() => Form::List,
            Some(_) => Form::Value,
        };
        let name = Arc::from(spec.name.as_str());
        self.lock().steps.push(StepDraft { spec, function, grace: Duration::ZERO, finally: false });
        let (draft, flow) = (self.clone(), Arc::clone(flow));
        Step { draft, flow, name, form, optional: false, value: PhantomData }
    }

    /// Notes where a step takes what another flow gives: such a flow is refused when it is started.
    pub(super) fn check<'a>(&self, step: &str, flows: impl IntoIterator<Item = &'a FlowTag>) {
        if flows.into_iter().any(|flow| !flow.is(&self.tag)) {
            self.lock().foreign.push(step.to_owned());
        }
    }
}

/// Attempts of one step that may be lost with a program that ended.
const CRASHES: u32 = 100;

impl Draft {
    /// The first step that takes what another flow gives.
    pub(super) fn foreign(&self) -> Option<&str> {
        self.foreign.first().map(String::as_str)
    }

    /// The spec that the engine runs.
    pub(super) fn spec(&self) -> FlowSpec {
        let main: BTreeSet<&str> =
            self.steps.iter().filter(|step| !step.finally).map(|step| step.spec.name.as_str()).collect();
        let steps = |finally: bool| {
            let chosen = self.steps.iter().filter(move |step| step.finally == finally);
            chosen.map(|step| step.spec.clone()).collect::<Vec<_>>()
        };
        let mut finally = steps(true);
        for step in &mut finally {
            // All others are settled by then.
            step.dependencies.retain(|name| !main.contains(name.as_str()));
        }
        let input = FlowParameter { name: INPUT.to_owned(), ..FlowParameter::default() };
        let parameters = if self.takes_input { vec![input] } else { Vec::new() };
        FlowSpec {
            steps: steps(false),
            finally,
            parameters,
            execution_policy: Some(self.policy()),
            ..FlowSpec::default()
        }
    }

    fn policy(&self) -> ExecutionPolicy {
        let whole = |span: Duration| i64::try_from(span.as_millis().div_ceil(1000)).unwrap_or(i64::MAX).max(1);
        ExecutionPolicy {
            // Retries are counted by step.
            backoff_limit: Some(i32::MAX),
            lost_limit: Some(i32::try_from(self.crashes.unwrap_or(CRASHES)).unwrap_or(i32::MAX)),
            parallelism: self.parallelism,
            active_deadline_seconds: self.deadline.map(whole),
            ..ExecutionPolicy::default()
        }
    }

    /// The functions of all steps.
    pub(super) fn functions(&self) -> Functions {
        let mut functions = Functions::new();
        for step in &self.steps {
            if let Some(function) = step.function.clone() {
                functions.insert(step.spec.name.clone(), step.grace, function);
            }
        }
        functions
    }
}

/// A step of a flow of functions. Pass it to other steps as an input, which then get its value, and to
/// [`Running::output`](super::Running::output) to get its value from a started flow.
pub struct Step<O> {
    pub(super) draft: Shared,
    /// The name of its flow.
    pub(super) flow: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) form: Form,
    pub(super) optional: bool,
    value: PhantomData<fn() -> O>,
}

impl<O> Clone for Step<O> {
    fn clone(&self) -> Self {
        self.retyped(self.optional)
    }
}

impl<O> std::fmt::Debug for Step<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Step").field(&self.name).finish()
    }
}

impl<O> Step<O> {
    fn retyped<P>(&self, optional: bool) -> Step<P> {
        let (draft, flow, name) = (self.draft.clone(), Arc::clone(&self.flow), Arc::clone(&self.name));
        Step { draft, flow, name, form: self.form, optional, value: PhantomData }
    }

    fn drafted(self, change: impl FnOnce(&mut StepDraft)) -> Self {
        let mut draft = self.draft.lock();
        // The first of two of one name: such a flow is refused when it is started.
        if let Some(step) = draft.steps.iter_mut().find(|step| step.spec.name == *self.name) {
            change(step);
        }
        drop(draft);
        self
    }

    fn change(self, change: impl FnOnce(StepSpec) -> StepSpec) -> Self {
        self.drafted(|step| step.spec = change(std::mem::take(&mut step.spec)))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for another step without taking its value, such as an approval.
    #[must_use]
    pub fn after<P>(self, step: &Step<P>) -> Self {
        let name = step.name.to_string();
        self.draft.check(&self.name, [&step.draft.tag]);
        self.change(|spec| spec.after([name]))
    }

    /// Tries it again when it fails, by this policy; delays are at most 30 days.
    #[must_use]
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.change(|spec| spec.retry(policy))
    }

    /// Limits the time of one attempt, at most 30 days; of an approval the time it may take. An attempt that takes longer has
    /// failed.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        self.change(|spec| spec.timeout(limit))
    }

    /// Gives an attempt this time to end after [`StepContext::cancelled`](super::StepContext::cancelled); without it its future is dropped at once.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        self.drafted(|step| step.grace = grace)
    }

    /// Limits the items of [`Flow::each`](super::Flow::each) that run at once; without it all of them do.
    #[must_use]
    pub fn parallelism(self, items: u32) -> Self {
        self.change(|spec| StepSpec { parallelism: Some(i32::try_from(items).unwrap_or(i32::MAX)), ..spec })
    }

    /// Runs only where this condition is true when the step becomes ready; what it gives is `None` otherwise. The values of steps
    /// stand in it as JSON texts: `steps.count.outputs.value == '7'` for a number, `== '"large"'` for a text, and
    /// `int(steps.count.outputs.value) > 5` to compare numbers. Where a condition reads the item of [`Flow::each`](super::Flow::each), items for
    /// which it is false are left out of the list.
    #[must_use]
    pub fn when(self, condition: &str) -> Step<Option<O>> {
        self.change(|spec| spec.when(condition)).optional()
    }

    /// Its failure fails neither the flow nor what takes its value, which is `None` then.
    #[must_use]
    pub fn tolerate(self) -> Step<Option<O>> {
        self.change(StepSpec::tolerate).optional()
    }

    /// Runs after all other steps, also after a failure or past the deadline; not in a flow that was
    /// [stopped](super::Running::stop). A value it takes may be missing then: see [`Step::optional`].
    #[must_use]
    pub fn finally(self) -> Self {
        self.drafted(|step| step.finally = true)
    }

    /// The same step as an input that may be missing: `None` where it failed or did not run.
    #[must_use]
    pub fn optional(&self) -> Step<Option<O>> {
        self.retyped(true)
    }
}

impl<T> Source for Step<T> {
    type Value = T;

    fn origin(&self) -> Origin {
        let (flow, name) = (self.draft.tag(), Arc::clone(&self.name));
        Origin::Step { flow, name, form: self.form, optional: self.optional }
    }
}
