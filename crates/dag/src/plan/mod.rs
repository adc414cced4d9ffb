//! The plan of a flow: the spec with its graph, conditions and defaults resolved once, so that the engine need not. A plan is
//! immutable, can be shared between threads, and has nothing that changes while a flow runs.

mod build;
mod graph;
mod rank;
mod step;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::name;
use orlop_core::spec::flow::FlowSpec;
use orlop_core::spec::policy::{
    DEFAULT_BACKOFF_LIMIT, DEFAULT_LOST_LIMIT, DEFAULT_TTL_SECONDS, ExecutionPolicy, FailurePolicy, JobRetention,
    PodFailureRule, SkipPolicy, ToleratedOutcome,
};
use orlop_core::spec::step::Step;

pub(crate) use build::input_secrecy;
pub use build::{PlanError, PlanErrors};
pub(crate) use graph::{Edge, Graph};
pub use rank::Ranks;
pub(crate) use step::{FailureMeaning, FanOut, StepPlan};

/// A planned flow. Made by [`Plan::build`], or by [`manifest::checked`](crate::manifest::checked), which checks all rules.
#[derive(Debug)]
pub struct Plan {
    spec: Arc<FlowSpec>,
    steps: Vec<StepPlan>,
    graph: Graph,
    index: BTreeMap<Arc<str>, u32>,
    heights: Vec<u32>,
    policy: Policy,
}

/// Flow-wide behaviour with defaults filled in.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) ttl: Duration,
    pub(crate) backoff_limit: u32,
    pub(crate) deadline: Option<Duration>,
    pub(crate) rules: Vec<PodFailureRule>,
    pub(crate) failure: FailurePolicy,
    pub(crate) skip: SkipPolicy,
    pub(crate) tolerated: ToleratedOutcome,
    pub(crate) parallelism: Option<u32>,
    pub(crate) lost_limit: u32,
    pub(crate) retention: JobRetention,
}

impl Policy {
    fn new(spec: Option<&ExecutionPolicy>) -> Self {
        let absent = ExecutionPolicy::default();
        let spec = spec.unwrap_or(&absent);
        let count = |value: Option<i32>, default: i32| u32::try_from(value.unwrap_or(default)).unwrap_or(0);
        Self {
            ttl: Duration::from_secs(u64::from(count(spec.ttl_seconds_after_finished, DEFAULT_TTL_SECONDS))),
            backoff_limit: count(spec.backoff_limit, DEFAULT_BACKOFF_LIMIT),
            deadline: spec.active_deadline_seconds.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs),
            rules: spec.pod_failure_policy.as_ref().map(|policy| policy.rules.clone()).unwrap_or_default(),
            failure: spec.failure_policy.unwrap_or_default(),
            skip: spec.skip_policy.unwrap_or_default(),
            tolerated: spec.tolerated_outcome.unwrap_or_default(),
            parallelism: spec.parallelism.and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0),
            lost_limit: count(spec.lost_limit, DEFAULT_LOST_LIMIT),
            retention: spec.job_retention.unwrap_or_default(),
        }
    }
}

impl Plan {
    /// Plans a spec: resolves defaults, compiles conditions, checks the graph. Costs O(steps + edges).
    ///
    /// This checks what the engine depends on; `manifest::checked` also applies every rule of the API.
    ///
    /// ```
    /// use orlop_core::spec::flow::FlowSpec;
    /// use orlop_core::spec::step::Step;
    /// use orlop_dag::plan::Plan;
    /// let spec = FlowSpec::new([Step::new("test").after(["build"]), Step::new("build")]);
    /// assert_eq!(Plan::build(spec.into())?.order(), [1, 0]);
    /// let unknown = Plan::build(FlowSpec::new([Step::new("test").after(["biuld"])]).into()).unwrap_err();
    /// assert_eq!(unknown[0].path, "spec.steps[0].dependencies[0]");
    /// # Ok::<(), orlop_dag::plan::PlanErrors>(())
    /// ```
    ///
    /// # Errors
    /// Every step name that is used twice or not declared, every condition that does not compile, and one cycle.
    pub fn build(spec: Arc<FlowSpec>) -> Result<Self, PlanErrors> {
        build::build(spec)
    }

    /// The spec.
    #[must_use]
    pub fn spec(&self) -> &Arc<FlowSpec> {
        &self.spec
    }

    /// Number of steps, `finally` included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Number of steps that are not `finally` steps; these come after them.
    #[must_use]
    pub fn main_len(&self) -> usize {
        self.spec.steps.len()
    }

    /// Index of a step by name.
    #[must_use]
    pub fn index_of(&self, name: &str) -> Option<StepIndex> {
        self.index.get(name).copied().map(StepIndex)
    }

    /// Whether there is a step of this name and it fans out.
    #[must_use]
    pub fn is_fan_out(&self, name: &str) -> bool {
        self.index_of(name).and_then(|step| self.step(step)).is_some_and(Step::is_fan_out)
    }

    /// Name of a step.
    #[must_use]
    pub fn name(&self, step: StepIndex) -> &str {
        self.steps.get(step.0 as usize).map_or("", |step| &step.name)
    }

    /// Name of a step or, of an instance, `<step>-i<k>`.
    #[must_use]
    pub fn instance_name(&self, at: Address) -> String {
        let step = self.name(at.step);
        at.item.map_or_else(|| step.to_owned(), |item| name::instance(step, item))
    }

    /// A step as the spec has it.
    #[must_use]
    pub fn step(&self, step: StepIndex) -> Option<&Step> {
        let index = step.0 as usize;
        self.spec.steps.get(index).or_else(|| self.spec.finally.get(index.checked_sub(self.spec.steps.len())?))
    }

    /// How long an attempt of a step may take: as its spec says, else the default of `finally`; none without a limit.
    #[must_use]
    pub fn timeout(&self, step: StepIndex) -> Option<Duration> {
        self.get(step.0)?.timeout
    }

    /// Address of a step, or of an instance `<step>-i<k>`, by name.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<Address> {
        if let Some(step) = self.index_of(name) {
            return Some(Address { step, item: None });
        }
        let (step, item) = name.rsplit_once("-i")?;
        let step = self.index_of(step)?;
        self.get(step.0)?.fan_out.as_ref()?;
        Some(Address { step, item: Some(item.parse().ok()?) })
    }

    /// Steps in an order that respects every edge.
    #[must_use]
    pub fn order(&self) -> &[u32] {
        &self.graph.order
    }

    /// Steps that wait for `step`, each with whether `step` must succeed or be tolerated for it; otherwise it is enough that `step` has
    /// ended or was skipped.
    pub fn dependents(&self, step: StepIndex) -> impl Iterator<Item = (StepIndex, bool)> {
        self.graph.successors(step.0).iter().map(|edge| (StepIndex(edge.target()), !edge.is_reference()))
    }

    /// The conditions in the `depends` of `step` on a step that it waits for, as
    /// [`Depends::asked`](crate::depends::Depends::asked) gives them; empty where it has `dependencies`.
    #[must_use]
    pub fn asked(&self, step: StepIndex, of: StepIndex) -> Vec<String> {
        let join = self.get(step.0).and_then(|plan| plan.join.as_deref());
        join.map(|join| join.asked(self.name(of))).unwrap_or_default()
    }

    /// The steps that a step waits for: its dependencies, or those its expression names.
    pub fn awaited(&self, step: StepIndex) -> Vec<StepIndex> {
        let Some(plan) = self.get(step.0) else { return Vec::new() };
        let named = self.step(step).into_iter().flat_map(|step| step.dependencies.iter().map(String::as_str));
        let joined = plan.join.iter().flat_map(|join| join.references());
        named.chain(joined).filter_map(|name| self.index_of(name)).collect()
    }

    /// Number of edges.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.graph.edges()
    }

    /// Waves, longest paths and the critical path. They count steps, not time.
    ///
    /// ```
    /// use orlop_dag::prelude::*;
    /// let steps = [Step::new("a"), Step::new("b").after(["a"]), Step::new("c").after(["a"]), Step::new("d").after(["b"])];
    /// let ranks = Plan::build(FlowSpec::new(steps).into())?.ranks();
    /// assert_eq!(ranks.waves(), [vec![0], vec![1, 2], vec![3]]);
    /// assert_eq!(ranks.critical_path, [0, 1, 3]);
    /// # Ok::<(), PlanErrors>(())
    /// ```
    #[must_use]
    pub fn ranks(&self) -> Ranks {
        Ranks::new(&self.graph, self.main_len())
    }

    /// JSONPaths by which other steps read results of `step`. Their values are extracted once, when its attempt ends.
    #[must_use]
    pub fn projections(&self, step: StepIndex) -> &[String] {
        self.get(step.0).map_or(&[], |step| &step.projections)
    }

    /// What the failure of a step means to its dependents and to the flow.
    pub(crate) fn failure(&self, step: StepIndex) -> FailureMeaning {
        self.get(step.0).map(|step| step.failure).unwrap_or_default()
    }

    pub(crate) fn get(&self, step: u32) -> Option<&StepPlan> {
        self.steps.get(step as usize)
    }

    /// Steps on the longest path from a step to the end, itself included.
    pub(crate) fn height(&self, step: u32) -> Option<u32> {
        self.heights.get(step as usize).copied()
    }

    pub(crate) fn steps(&self) -> &[StepPlan] {
        &self.steps
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }
}

#[cfg(test)]
mod tests;
