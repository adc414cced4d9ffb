//! What a condition reads: one [`Reference`] per mention, and [`References`], their summary for the engine, which
//! adds ordering edges and decides about evaluation per instance. Never reads a value itself.

use super::error::{SourceError, Span};
use super::names::shortened;
use super::suggest::did_you_mean;
use super::types::Type;
use std::collections::BTreeSet;

/// One value that a condition reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A field of a declared step.
    Step { step: Box<str>, field: StepField },
    /// A declared parameter.
    Parameter(Box<str>),
    /// `item`, `item.<field>` or `index`.
    Instance(Box<str>),
    /// A field of the flow.
    Flow(FlowField),
    /// A label of the flow.
    Label(Box<str>),
    /// An annotation of the flow.
    Annotation(Box<str>),
}

/// The readable fields of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepField {
    Phase,
    Reason,
    Message,
    RetryCount,
    Output(Box<str>),
}

/// The readable fields of the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FlowField {
    /// `flow.name`, `.JobFlow.Name`
    Name,
    /// `flow.namespace`, `.JobFlow.Namespace`
    Namespace,
    /// `flow.uid`, `.JobFlow.UID`
    Uid,
    /// `flow.outcome`, only in `finally`
    Outcome,
    /// `.JobFlow.Status.Phase`
    Phase,
}

impl Reference {
    /// Outputs, parameters and words are strings; only the retry count is a number.
    pub(crate) fn ty(&self) -> Type {
        match self {
            Self::Step { field: StepField::RetryCount, .. } => Type::Int,
            _ => Type::String,
        }
    }
}

impl Reference {
    /// The words it can be, where these are few.
    fn words(&self) -> &'static [&'static str] {
        match self {
            Self::Step { field: StepField::Phase, .. } => {
                &["Succeeded", "Failed", "Skipped", "Pending", "Running", "PendingApproval"]
            }
            Self::Flow(FlowField::Outcome) => &["Succeeded", "Failed"],
            _ => &[],
        }
    }

    /// Refuses to compare it with a word that it can never be: the comparison would always come out the same.
    pub(crate) fn check_word(&self, word: &str, span: Span) -> Result<(), SourceError> {
        let words = self.words();
        if words.is_empty() || words.contains(&word) {
            return Ok(());
        }
        let what = if matches!(self, Self::Flow(_)) { "outcome" } else { "phase" };
        let help = did_you_mean(word, words.iter().copied());
        let message = format!("there is no {what} `{}`", shortened(word));
        Err(SourceError::new(span, message)
            .with_help(help.unwrap_or_else(|| format!("use one of {}", words.join(", ")))))
    }
}

/// Everything a condition reads, each once and in name order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    steps: BTreeSet<Box<str>>,
    outputs: BTreeSet<(Box<str>, Box<str>)>,
    parameters: BTreeSet<Box<str>>,
    instance: BTreeSet<Box<str>>,
    flow: BTreeSet<FlowField>,
    labels: BTreeSet<Box<str>>,
    annotations: BTreeSet<Box<str>>,
}

impl References {
    /// The steps whose fields are read: each must be settled before the condition is evaluated.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(AsRef::as_ref)
    }

    /// The outputs that are read, as (step, output).
    pub fn outputs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.outputs.iter().map(|(step, output)| (step.as_ref(), output.as_ref()))
    }

    /// The declared parameters that are read, without item and index.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(AsRef::as_ref)
    }

    /// The names `item`, `item.<field>` and `index` that are read. If there are any, the condition belongs to the
    /// instances of the fan-out and is evaluated for each of them.
    pub fn instance(&self) -> impl Iterator<Item = &str> {
        self.instance.iter().map(AsRef::as_ref)
    }

    /// Whether the condition is evaluated per fan-out instance.
    pub fn is_per_instance(&self) -> bool {
        !self.instance.is_empty()
    }

    /// The fields of the flow that are read.
    pub fn flow(&self) -> impl Iterator<Item = FlowField> {
        self.flow.iter().copied()
    }

    /// The keys of the flow's labels that are read.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(AsRef::as_ref)
    }

    /// The keys of the flow's annotations that are read.
    pub fn annotations(&self) -> impl Iterator<Item = &str> {
        self.annotations.iter().map(AsRef::as_ref)
    }

    pub(crate) fn add(&mut self, reference: &Reference) {
        match reference {
            Reference::Step { step, field } => {
                self.steps.insert(step.clone());
                if let StepField::Output(output) = field {
                    self.outputs.insert((step.clone(), output.clone()));
                }
            }
            Reference::Parameter(name) => {
                self.parameters.insert(name.clone());
            }
            Reference::Instance(name) => {
                self.instance.insert(name.clone());
            }
            Reference::Flow(field) => {
                self.flow.insert(*field);
            }
            Reference::Label(key) => {
                self.labels.insert(key.clone());
            }
            Reference::Annotation(key) => {
                self.annotations.insert(key.clone());
            }
        }
    }
}
