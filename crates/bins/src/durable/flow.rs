//! How a flow of functions is written: its input, its steps, its limits.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use orlop_core::spec::step::{OutputParameter, Step as StepSpec};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::draft::Step;
use super::error::StepError;
use super::functions::{Function, FunctionOutputs, StepContext};
use super::store::Flow;
use super::value::{Input, Inputs, Origin, Source, VALUE, Values};

impl Flow {
    /// Declares that the flow takes an input: it is given to [`Flow::start_with`], and steps take it like the value of a step.
    #[must_use]
    pub fn input<T: DeserializeOwned>(&self) -> Input<T> {
        self.draft.lock().takes_input = true;
        Input { flow: self.draft.tag(), value: PhantomData }
    }

    /// Adds a step: a function with the values it takes. It runs when all steps among `inputs` have succeeded.
    ///
    /// Its value is stored as JSON of at most 256 KiB and read back from it. So values that are the same in JSON, such as `Some(None)` and
    /// `None`, or `NaN` and `None`, are the same to the next step. The function is called again under the same [`StepContext::key`] when it
    /// failed and may be retried, or when the program ended while it ran.
    pub fn step<I, O, F, R>(&self, name: &str, inputs: I, function: F) -> Step<O>
    where
        I: Inputs,
        O: Serialize + 'static,
        F: Fn(StepContext, I::Value) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, StepError>> + Send + 'static,
    {
        let mut origins = Vec::new();
        inputs.origins(&mut origins);
        self.draft.check(name, origins.iter().map(Origin::flow));
        let spec = taking(StepSpec::new(name), &origins).output(OutputParameter::file(VALUE, "/value"));
        let function: Function = Arc::new(move |context, given| {
            let work = I::read(&mut Values::new(&origins, &given)).map(|values| function(context, values));
            run(work).boxed()
        });
        self.draft.add(&self.name, spec, Some(function))
    }

    /// Adds a step that runs once for each item of a list, at most 100,000, and gives the list of what each of them gave, in the
    /// order of the items. All values of a flow together have at most 8 MiB.
    pub fn each<S, T, O, F, R>(&self, name: &str, list: &S, function: F) -> Step<Vec<O>>
    where
        S: Source<Value = Vec<T>>,
        T: DeserializeOwned,
        O: Serialize + 'static,
        F: Fn(StepContext, T) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, StepError>> + Send + 'static,
    {
        let origin = list.origin();
        self.draft.check(name, [origin.flow()]);
        let spec = StepSpec::new(name).for_each(origin.list()).output(OutputParameter::file(VALUE, "/value"));
        let spec = if let Origin::Step { name, .. } = &origin { spec.after([name.to_string()]) } else { spec };
        let function: Function = Arc::new(move |context, given| {
            let work = origin.read_item(given.item.unwrap_or_default()).map(|item| function(context, item));
            run(work).boxed()
        });
        self.draft.add(&self.name, spec, Some(function))
    }

    /// Adds a step that waits for a person: [`Running::approve`](super::Running::approve) or
    /// [`Running::reject`](super::Running::reject). What is to wait for it comes [`after`](Step::after) it.
    pub fn approval(&self, name: &str, message: &str) -> Step<()> {
        self.draft.add(&self.name, StepSpec::manual(name, message), None)
    }

    /// Limits the attempts that run at once; without it all steps and items that are ready do.
    #[must_use]
    pub fn parallelism(self, attempts: u32) -> Self {
        self.draft.lock().parallelism = Some(i32::try_from(attempts).unwrap_or(i32::MAX));
        self
    }

    /// Limits the time of the whole flow from its start, rounded up to whole seconds; time while no program runs it counts too.
    #[must_use]
    pub fn deadline(self, limit: Duration) -> Self {
        self.draft.lock().deadline = Some(limit);
        self
    }

    /// How often a step may be interrupted by the end of its program before it counts as failed; 100 without this.
    #[must_use]
    pub fn crash_limit(self, losses: u32) -> Self {
        self.draft.lock().crashes = Some(losses);
        self
    }
}

/// A step with the inputs and dependencies of these values.
fn taking(spec: StepSpec, origins: &[Origin]) -> StepSpec {
    origins.iter().enumerate().fold(spec, |spec, (number, origin)| {
        let spec = origin.parameters(number).into_iter().fold(spec, StepSpec::input);
        match origin {
            Origin::Step { name: step, .. } if !spec.dependencies.iter().any(|name| **name == **step) => {
                spec.after([step.to_string()])
            }
            _ => spec,
        }
    })
}

/// Runs a function whose values could be read, and writes what it gives.
async fn run<O: Serialize>(
    work: Result<impl Future<Output = Result<O, StepError>>, serde_json::Error>,
) -> Result<FunctionOutputs, StepError> {
    let mistaken = |error: serde_json::Error| StepError::permanent(format!("a value is of another type: {error}"));
    let value = work.map_err(mistaken)?.await?;
    let text = serde_json::to_string(&value);
    let text = text.map_err(|error| StepError::permanent(format!("the value cannot be written as JSON: {error}")))?;
    Ok(FunctionOutputs::from([(VALUE.to_owned(), text)]))
}
