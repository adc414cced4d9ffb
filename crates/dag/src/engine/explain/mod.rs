//! Why a step waits, or how it was decided, down to the first failure behind a chain of skips. Owns the reasons and their
//! sentences; changes nothing. It is meant for people who ask, so it may look at every edge of the graph.

mod sentence;

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::spec::status::{StepStatus, WaitsOn};
use orlop_core::time::Time;
use serde::Serialize;

use super::facts::effective;
use super::state::{Resources, Stage, State};
use super::view::step_status;
use super::{phrase, reason};
use crate::plan::Plan;

/// Steps named in one explanation.
const NAMED: usize = 20;
/// Units ahead are counted to here: people only want to know whether it is long.
const AHEAD: usize = 1000;
/// No step.
const NONE: u32 = u32::MAX;

/// Why a step or instance waits, or how it was decided. Its `Display` form is a text for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Name of the step or instance.
    pub name: String,
    /// Its phase, as the API shows it.
    pub phase: StepPhase,
    /// Its reason, empty where it has none.
    pub reason: String,
    /// Everything it waits for, or what decided it; the most direct reason first.
    pub because: Vec<Because>,
}

/// A step that another waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// Its name.
    pub name: String,
    /// Its phase, as the API shows it.
    pub phase: StepPhase,
    /// Whether it must succeed or be tolerated; otherwise it is enough that it has ended or was skipped.
    pub satisfied: bool,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Because {
    /// The flow waits to be admitted.
    Unadmitted {
        /// Why, where the gate has said so.
        message: Option<String>,
    },
    /// The objects of the flow are being created.
    Resources,
    /// The flow is suspended, or held because its spec was changed.
    Paused {
        /// Whether a changed spec holds it.
        held: bool,
    },
    /// It is a step of `finally`, which begins when all other steps are settled.
    MainSteps {
        /// Number of steps that are not settled.
        open: u32,
    },
    /// It waits for other steps.
    Steps {
        /// The first of them.
        waits: Vec<Waited>,
        /// How many more there are.
        more: usize,
    },
    /// Its items are being read.
    Items,
    /// No slot is free.
    Slots {
        /// Live attempts.
        live: usize,
        /// Live attempts allowed.
        limit: usize,
        /// Units that come before it, counted to 1000.
        ahead: usize,
        /// Whether the limit is that of the fan-out.
        own: bool,
    },
    /// The substrate was asked to start it, or asks to wait.
    Substrate {
        /// What it says.
        message: String,
        /// When it is asked again.
        again: Option<Time>,
    },
    /// It runs.
    Runs {
        /// Since when.
        since: Option<Time>,
        /// When its time is over.
        until: Option<Time>,
    },
    /// It is accepted and does not run yet, or what runs it cannot be reached.
    Waits {
        /// What it waits for.
        on: WaitsOn,
        /// Why, in the words of what runs it; empty where it says nothing.
        message: String,
        /// Since when.
        since: Time,
    },
    /// It is being cancelled.
    Ends {
        /// Why.
        cause: String,
        /// What is left of it, where it should be gone.
        left: Option<String>,
    },
    /// It is tried again.
    Retry {
        /// When.
        due: Option<Time>,
        /// What failed.
        failed: String,
    },
    /// A person must decide.
    Decision {
        /// Until when.
        until: Option<Time>,
    },
    /// It is decided.
    Settled {
        /// What happened.
        message: String,
    },
    /// The cause is an earlier step: the nearest one that was not skipped itself because of another.
    Root {
        /// Its name.
        name: String,
        /// Its phase, as the API shows it.
        phase: StepPhase,
        /// Its reason.
        reason: String,
        /// What happened there.
        message: String,
    },
    /// The flow was halted.
    Halted {
        /// The cause.
        cause: String,
    },
}

/// Explains why a step or instance waits, or how it was decided; none where there is no such step. Costs O(steps + edges): for many
/// steps make one [`Explainer`].
///
/// ```
/// use orlop_core::attempt::Address;
/// use orlop_dag::engine::{Because, explain};
/// use orlop_dag::prelude::*;
/// let plan = Plan::build(FlowSpec::new([Step::manual("approve", "Release it?"), Step::new("publish").after(["approve"])]).into())?;
/// let (mut effects, now) = (Vec::new(), Time::EPOCH);
/// let mut state = init(&plan, &FlowMeta::default(), now, &mut effects);
/// apply(&plan, &mut state, &FlowEvent::Admit, now, &mut effects);
/// let publish = explain(&plan, &state, Address::step(1)).ok_or("it is a step")?;
/// assert!(matches!(publish.because[..], [Because::Steps { .. }]));
/// assert!(publish.to_string().contains("approve"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn explain(plan: &Plan, state: &State, at: Address) -> Option<Explanation> {
    Explainer::new(plan, state).explain(at)
}

/// Explains several steps of one state. Making it costs O(steps + edges). Each explanation costs the number of edges into the step;
/// finding the causes of skips costs O(steps + edges) for all explanations together.
#[derive(Debug)]
pub struct Explainer<'a> {
    plan: &'a Plan,
    state: &'a State,
    /// Where the edges into each step begin in `before`; one more at the end.
    offsets: Vec<u32>,
    /// Steps with an edge into another, each with whether it must be satisfied, by that other and in spec order.
    before: Vec<(u32, bool)>,
    /// Where the skips of a step began, as far as it is known; the step itself where it was not skipped for another.
    roots: Vec<u32>,
}

impl<'a> Explainer<'a> {
    /// Prepares the explanations of one state.
    #[must_use]
    pub fn new(plan: &'a Plan, state: &'a State) -> Self {
        let steps = u32::try_from(plan.len()).unwrap_or(u32::MAX);
        let graph = plan.graph();
        let mut offsets = vec![0; plan.len().saturating_add(1)];
        let mut edges: Vec<(u32, u32, bool)> = (0..steps)
            .flat_map(|step| graph.successors(step).iter().map(move |edge| (edge.target(), step, !edge.is_reference())))
            .collect();
        // Stable: sources stay in spec order.
        edges.sort_by_key(|(target, ..)| *target);
        for (target, ..) in &edges {
            if let Some(offset) = offsets.get_mut(*target as usize + 1) {
                *offset += 1;
            }
        }
        let mut sum = 0;
        for offset in &mut offsets {
            sum += *offset;
            *offset = sum;
        }
        let before = edges.into_iter().map(|(_, step, needed)| (step, needed)).collect();
        Self { plan, state, offsets, before, roots: vec![NONE; plan.len()] }
    }

    /// Explains a step or instance; none where there is no such step.
    #[must_use]
    pub fn explain(&mut self, at: Address) -> Option<Explanation> {
        self.state.node(at)?;
        let status = step_status(self.plan, self.state, at);
        let because = if effective(self.plan, self.state, at).state.is_settled() {
            self.decided(at, &status)
        } else {
            Unsettled { explainer: self, plan: self.plan, state: self.state, at, status: &status }.holds()
        };
        Some(Explanation { name: status.name, phase: status.phase, reason: status.reason, because })
    }

    /// Steps with an edge into this one, each with whether it must be satisfied.
    fn before(&self, step: u32) -> &[(u32, bool)] {
        let (from, to) = (self.offsets.get(step as usize), self.offsets.get(step as usize + 1));
        from.zip(to).and_then(|(from, to)| self.before.get(*from as usize..*to as usize)).unwrap_or_default()
    }

    /// What decided a settled unit.
    fn decided(&mut self, at: Address, status: &StepStatus) -> Vec<Because> {
        let by_halt = status.phase == StepPhase::Skipped || status.message == phrase::CANCELLED;
        if by_halt && reason::is_halt(&status.reason) {
            return vec![Because::Halted { cause: status.reason.clone() }];
        }
        let mut because = vec![Because::Settled { message: status.message.clone() }];
        // Instances are never skipped for other steps.
        let root = if at.item.is_none() { self.root(at.step.0) } else { at.step.0 };
        if root != at.step.0 {
            let status = step_status(self.plan, self.state, Address::step(root));
            because.push(Because::Root {
                name: status.name,
                phase: status.phase,
                reason: status.reason,
                message: status.message,
            });
        }
        because
    }

    /// Follows skips upwards to the first step that was not skipped for another, and remembers it for all on the way.
    fn root(&mut self, step: u32) -> u32 {
        let mut way = Vec::new();
        let mut at = step;
        // A graph without cycles: every turn goes one step up.
        let root = loop {
            match self.roots.get(at as usize) {
                Some(root) if *root != NONE => break *root,
                _ => way.push(at),
            }
            match self.cause(at) {
                Some(next) => at = next,
                None => break at,
            }
        };
        for step in way {
            if let Some(place) = self.roots.get_mut(step as usize) {
                *place = root;
            }
        }
        root
    }

    /// The step for which a step was skipped.
    fn cause(&self, step: u32) -> Option<u32> {
        let for_another = [reason::DEPENDENCY_FAILED, reason::DEPENDENCY_SKIPPED, reason::DEPENDS_FALSE];
        let skipped =
            effective(self.plan, self.state, Address::step(step)).reason.filter(|why| for_another.contains(why))?;
        let failure = skipped == reason::DEPENDENCY_FAILED;
        let by_failure = |step: u32| {
            let unit = effective(self.plan, self.state, Address::step(step));
            let untolerated = !self.plan.failure(StepIndex(step)).tolerated;
            (unit.state.phase() == StepPhase::Failed && untolerated) || unit.reason == Some(reason::DEPENDENCY_FAILED)
        };
        let needed = self.before(step).iter().filter(|(_, needed)| *needed).map(|(step, _)| *step);
        needed
            .filter(|step| !self.state.is_satisfied(self.plan, Address::step(*step)))
            .find(|step| by_failure(*step) == failure)
    }
}

/// A unit that is not settled.
struct Unsettled<'a> {
    explainer: &'a Explainer<'a>,
    plan: &'a Plan,
    state: &'a State,
    at: Address,
    status: &'a StepStatus,
}

impl Unsettled<'_> {
    /// What holds a unit that is not settled.
    fn holds(&self) -> Vec<Because> {
        let Some(node) = self.state.node(self.at) else { return Vec::new() };
        let mut because = Vec::new();
        let starts = matches!(node.state, StepState::Waiting | StepState::Queued | StepState::Backoff);
        if starts {
            self.flow_holds(&mut because);
        }
        match node.state {
            StepState::Waiting => because.extend(self.steps()),
            StepState::Queued => because.extend(self.queued()),
            StepState::Starting => {
                let message = node.message.as_deref().unwrap_or_default().to_owned();
                because.push(Because::Substrate { message, again: node.due });
            }
            StepState::Active => {
                because.extend(node.frozen.map(|_| Because::Paused { held: self.state.flow.held }));
                because.extend(node.waits.as_deref().map(|w| Because::Waits {
                    on: w.on,
                    message: w.why(),
                    since: w.since,
                }));
                because.push(Because::Runs { since: node.started, until: node.due });
            }
            StepState::Cancelling => {
                let cause = node.reason.as_deref().unwrap_or_default().to_owned();
                because.push(Because::Ends { cause, left: node.left.as_deref().map(str::to_owned) });
            }
            StepState::Backoff => {
                let failed = node.reason.as_deref().unwrap_or_default().to_owned();
                because.push(Because::Retry { due: node.due, failed });
            }
            StepState::Awaiting => because.push(Because::Decision { until: node.due }),
            StepState::Done(_) => {}
        }
        because
    }

    /// What holds the flow as a whole.
    fn flow_holds(&self, because: &mut Vec<Because>) {
        let flow = &self.state.flow;
        if flow.started.is_none() {
            let message = flow.blocked.as_ref().map(|(_, message)| message.clone());
            because.push(Because::Unadmitted { message });
        }
        if flow.resources == Resources::Asked {
            because.push(Because::Resources);
        }
        if self.state.is_paused() {
            because.push(Because::Paused { held: flow.held });
        }
        let finally = self.plan.get(self.at.step.0).is_some_and(|step| step.finally);
        if finally && flow.stage == Stage::Main {
            because.push(Because::MainSteps { open: self.state.index.part_of(false).open });
        }
    }

    /// The steps a waiting step waits for.
    fn steps(&self) -> Option<Because> {
        let open: Vec<(u32, bool)> =
            self.explainer.before(self.at.step.0).iter().copied().filter(|(step, _)| !self.is_settled(*step)).collect();
        // A join is decided over settled steps, whatever became of them.
        let joined = self.plan.get(self.at.step.0).is_some_and(|step| step.join.is_some());
        let name = |(step, needed): &(u32, bool)| {
            let status = step_status(self.plan, self.state, Address::step(*step));
            Waited { name: status.name, phase: status.phase, satisfied: *needed && !joined }
        };
        let waits: Vec<_> = open.iter().take(NAMED).map(name).collect();
        (!waits.is_empty()).then(|| Because::Steps { more: open.len() - waits.len(), waits })
    }

    fn is_settled(&self, step: u32) -> bool {
        effective(self.plan, self.state, Address::step(step)).state.is_settled()
    }

    fn queued(&self) -> Vec<Because> {
        let index = &self.state.index;
        let step = self.at.step.0;
        let counts = index.groups.get(&step);
        let fan_out = self.plan.get(step).and_then(|step| step.fan_out.as_ref());
        let unread = counts.map_or(fan_out.is_some_and(|fan_out| fan_out.listed.is_none()), |counts| counts.unread);
        if unread {
            return vec![Because::Items];
        }
        if self.at.item.is_none() && counts.is_some() {
            let (since, until) = (self.status.start_time, None);
            return vec![Because::Runs { since, until }];
        }
        let ahead = match (self.at.item, counts) {
            (Some(item), Some(counts)) => counts.queue.range(..item).take(AHEAD).count(),
            _ => 0,
        };
        let ahead = AHEAD.min(ahead + index.ready.range(..Address::step(step)).take(AHEAD).count());
        let mut because = Vec::new();
        let own = fan_out.and_then(|fan_out| fan_out.parallelism).map(|limit| limit as usize);
        if let (Some(limit), Some(counts)) = (own, counts) {
            let live = counts.live as usize;
            if live >= limit {
                because.push(Because::Slots { live, limit, ahead, own: true });
            }
        }
        let (live, limit) = (index.live.len(), self.limit());
        if live >= limit {
            because.push(Because::Slots { live, limit, ahead, own: false });
        }
        because
    }

    fn limit(&self) -> usize {
        let own = self.plan.policy().parallelism;
        own.into_iter().chain(self.state.flow.meta.max_live).min().map_or(usize::MAX, |limit| limit as usize)
    }
}
