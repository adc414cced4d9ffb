//! A flow as tests make it: few kinds of everything, written twice, as the spec the engine plans and as plain values the
//! model reads.

use std::fmt::Write as _;

use orlop_core::spec::flow::{FlowSpec, SuspendMode};
use orlop_core::spec::policy::{FailurePolicy, SkipPolicy, ToleratedOutcome};
use serde_json::{Value, json};

/// A flow.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Steps in spec order, `finally` last.
    pub steps: Vec<StepCase>,
    /// What an untolerated failure does.
    pub failure: FailurePolicy,
    /// Whether skips satisfy.
    pub skip: SkipPolicy,
    /// Final phase when all failures are tolerated.
    pub tolerated: ToleratedOutcome,
    /// Retries of the flow.
    pub budget: u32,
    /// Re-runs of lost attempts.
    pub lost_limit: u32,
    /// Live attempts of the flow.
    pub parallelism: Option<u32>,
    /// Deadline in seconds.
    pub deadline: Option<u32>,
    /// Time to live in seconds.
    pub ttl: u32,
    /// Whether it must wait for admission.
    pub gated: bool,
    /// Whether it begins suspended.
    pub suspended: bool,
    /// What suspension does.
    pub mode: SuspendMode,
    /// Whether it has resource templates.
    pub resources: bool,
}

/// A step.
#[derive(Clone, Debug, Default)]
pub struct StepCase {
    /// Whether it belongs to `finally`.
    pub finally: bool,
    /// Whether a person decides it.
    pub manual: bool,
    /// Steps that must be satisfied.
    pub needs: Vec<usize>,
    /// A boolean join instead.
    pub join: Option<Join>,
    /// Its condition.
    pub when: Option<Condition>,
    /// Steps an input refers to.
    pub reads: Vec<usize>,
    /// Whether it has `continueOnFailure`.
    pub continues: bool,
    /// How it is tried again.
    pub retry: Option<Retry>,
    /// Limit of an attempt or approval, in seconds.
    pub timeout: Option<u32>,
    /// Limit until a first pod of an attempt runs, in seconds.
    pub pending: Option<u32>,
    /// How it fans out.
    pub items: Option<Items>,
    /// Live instances.
    pub parallelism: Option<u32>,
    /// Whether it promises the output `o`.
    pub output: bool,
}

/// How a step is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Retries.
    pub limit: u32,
    /// Delay in seconds before the first.
    pub base: u32,
    /// Whether it doubles.
    pub doubles: bool,
    /// Whether jitter may add up to its half.
    pub jitter: bool,
}

/// How a step fans out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Items {
    /// Over so many items of the spec.
    Listed(u32),
    /// Over what the driver reads from another step.
    Read(usize),
}

/// A join.
#[derive(Clone, Debug)]
pub enum Join {
    /// One step.
    Term(usize, Ask),
    /// Not.
    Not(Box<Join>),
    /// Both.
    And(Box<Join>, Box<Join>),
    /// One of the two.
    Or(Box<Join>, Box<Join>),
}

/// What a join asks of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Satisfied.
    Satisfied,
    /// Succeeded.
    Succeeded,
    /// Failed.
    Failed,
    /// Skipped by its condition.
    Skipped,
    /// Skipped otherwise.
    Omitted,
    /// Settled with an attempt.
    Completed,
    /// An instance succeeded.
    AnySucceeded,
    /// All instances failed.
    AllFailed,
}

impl Ask {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Satisfied,
        Self::Succeeded,
        Self::Failed,
        Self::Skipped,
        Self::Omitted,
        Self::Completed,
        Self::AnySucceeded,
        Self::AllFailed,
    ];
}

/// A condition.
#[derive(Clone, Debug)]
pub enum Condition {
    /// False.
    Never,
    /// A step has a phase.
    Phase(usize, &'static str),
    /// A step has a reason.
    Reason(usize, &'static str),
    /// The output of a step has a value; without an output this cannot be evaluated.
    Output(usize, &'static str),
    /// A step was retried.
    Retried(usize),
    /// The instance has this index.
    Index(u32),
    /// The steps came out well or badly.
    Outcome(bool),
}

/// Name of a step.
pub(super) fn name(step: usize) -> String {
    format!("s{step}")
}

impl Join {
    /// Named steps.
    pub fn steps(&self, into: &mut Vec<usize>) {
        match self {
            Self::Term(step, _) => into.push(*step),
            Self::Not(inner) => inner.steps(into),
            Self::And(a, b) | Self::Or(a, b) => {
                a.steps(into);
                b.steps(into);
            }
        }
    }

    /// Whether it names the failure of a step.
    #[must_use]
    pub fn names_failure(&self, of: usize) -> bool {
        match self {
            Self::Term(step, ask) => *step == of && matches!(ask, Ask::Failed | Ask::Completed | Ask::AllFailed),
            Self::Not(inner) => inner.names_failure(of),
            Self::And(a, b) | Self::Or(a, b) => a.names_failure(of) || b.names_failure(of),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Term(step, Ask::Satisfied) => name(*step),
            Self::Term(step, ask) => format!("{}.{ask:?}", name(*step)),
            Self::Not(inner) => format!("!({})", inner.text()),
            Self::And(a, b) => format!("({} && {})", a.text(), b.text()),
            Self::Or(a, b) => format!("({} || {})", a.text(), b.text()),
        }
    }
}

impl Condition {
    /// The step it reads.
    #[must_use]
    pub fn step(&self) -> Option<usize> {
        match self {
            Self::Phase(step, _) | Self::Reason(step, _) | Self::Output(step, _) | Self::Retried(step) => Some(*step),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Never => "never".to_owned(),
            Self::Phase(step, phase) => format!("steps.{}.phase == '{phase}'", name(*step)),
            Self::Reason(step, reason) => format!("steps.{}.reason == '{reason}'", name(*step)),
            Self::Output(step, value) => format!("steps.{}.outputs.o == '{value}'", name(*step)),
            Self::Retried(step) => format!("steps.{}.retryCount > 0", name(*step)),
            Self::Index(index) => format!("parameters.index == '{index}'"),
            Self::Outcome(good) => format!("flow.outcome == '{}'", if *good { "Succeeded" } else { "Failed" }),
        }
    }
}

impl StepCase {
    fn spec(&self, number: usize) -> Value {
        let mut step = json!({"name": name(number)});
        let mut set = |key: &str, value: Value| {
            step[key] = value;
        };
        if self.manual {
            set("type", json!("Manual"));
        } else {
            set("template", json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {}}));
        }
        if let Some(join) = &self.join {
            set("depends", json!(join.text()));
        } else {
            set("dependencies", self.needs.iter().map(|step| name(*step)).collect());
        }
        if let Some(when) = &self.when {
            set("when", json!(when.text()));
        }
        set("continueOnFailure", json!(self.continues));
        if let Some(retry) = self.retry {
            let kind = if retry.doubles { "Exponential" } else { "Linear" };
            let jitter = if retry.jitter { 0.5 } else { 0.0 };
            let backoff = json!({"type": kind, "duration": format!("{}s", retry.base), "jitter": jitter});
            set("retryPolicy", json!({"limit": retry.limit, "backoff": backoff}));
        }
        if let Some(timeout) = self.timeout {
            set("timeoutSeconds", json!(timeout));
        }
        if let Some(pending) = self.pending {
            set("pendingTimeoutSeconds", json!(pending));
        }
        match self.items {
            Some(Items::Listed(count)) => set("withItems", (0..count).collect()),
            Some(Items::Read(step)) => set("withParam", json!(format!("{}:$.outputs.o", name(step)))),
            None => {}
        }
        if let Some(parallelism) = self.parallelism {
            set("parallelism", json!(parallelism));
        }
        let reads = self.reads.iter().enumerate();
        let input = |(at, step): (usize, &usize)| json!({"name": format!("p{at}"), "valueFrom": {"jsonPath": format!("{}:$.phase", name(*step))}});
        set("inputs", json!({"parameters": reads.map(input).collect::<Vec<_>>()}));
        if self.output {
            set("outputs", json!({"parameters": [{"name": "o", "valueFrom": {"path": "/o"}}]}));
        }
        step
    }
}

impl Case {
    /// Number of steps that are not `finally` steps.
    #[must_use]
    pub fn main(&self) -> usize {
        self.steps.iter().filter(|step| !step.finally).count()
    }

    /// For every dependent of a step, whether its join names the failure.
    fn dependents(&self, of: usize) -> impl Iterator<Item = bool> {
        self.steps.iter().filter_map(move |step| match &step.join {
            Some(join) => {
                let mut steps = Vec::new();
                join.steps(&mut steps);
                steps.contains(&of).then(|| join.names_failure(of))
            }
            None => step.needs.contains(&of).then_some(false),
        })
    }

    /// Whether a join names the failure of a step.
    #[must_use]
    pub fn is_named(&self, step: usize) -> bool {
        self.dependents(step).any(|names| names)
    }

    /// Whether the failure of a step is tolerated.
    #[must_use]
    pub fn tolerates(&self, step: usize) -> bool {
        let continues = self.steps.get(step).is_some_and(|step| step.continues);
        continues || (self.is_named(step) && self.dependents(step).all(|names| names))
    }

    /// The spec.
    ///
    /// # Errors
    /// When the case does not fit the types of the API, which would be a fault of the generator.
    pub fn spec(&self) -> Result<FlowSpec, serde_json::Error> {
        let all: Vec<(bool, Value)> =
            self.steps.iter().enumerate().map(|(at, step)| (step.finally, step.spec(at))).collect();
        let part = |finally: bool| -> Vec<&Value> {
            all.iter().filter(|(part, _)| *part == finally).map(|(_, step)| step).collect()
        };
        let mut policy = json!({
            "failurePolicy": self.failure, "skipPolicy": self.skip, "toleratedOutcome": self.tolerated,
            "backoffLimit": self.budget, "lostLimit": self.lost_limit, "ttlSecondsAfterFinished": self.ttl,
            "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}},
                {"action": "Count", "onExitCodes": {"operator": "In", "values": [4]}},
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5]}}]},
        });
        if let Some(parallelism) = self.parallelism {
            policy["parallelism"] = json!(parallelism);
        }
        if let Some(deadline) = self.deadline {
            policy["activeDeadlineSeconds"] = json!(deadline);
        }
        let mut spec = json!({
            "steps": part(false), "finally": part(true), "executionPolicy": policy,
            "suspend": self.suspended, "suspendMode": self.mode,
        });
        if self.resources {
            spec["resourceTemplates"] = json!({"configMapTemplates": [{"metadata": {"name": "r"}}]});
        }
        serde_json::from_value(spec)
    }

    /// The spec as text, for people who look at a failing case.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        match self.spec().map(|spec| serde_json::to_string_pretty(&spec)) {
            Ok(Ok(spec)) => text.push_str(&spec),
            other => drop(write!(text, "{other:?}")),
        }
        text
    }
}
