//! Why a step stands where it stands: what it waits for, or what has decided it, down to the first failure behind a chain
//! of skips. Owns the reasons and their sentences; changes nothing and is asked by people, so it may look at every edge.

mod sentence;

use orlop_core::attempt::{Address, StepIndex};
use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::time::Time;
use serde::Serialize;

use super::facts::effective;
use super::state::{Resources, Stage, State};
use super::view::step_status;
use super::{phrase, reason};
use crate::plan::Plan;

/// Steps named in one explanation.
const NAMED: usize = 20;

/// Why a step or instance stands where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Name of the step or instance.
    pub name: String,
    /// What it shows.
    pub phase: StepPhase,
    /// Its reason, empty where it has none.
    pub reason: String,
    /// Everything that holds it now, or what decided it; the first is the nearest.
    pub because: Vec<Because>,
}

/// A step that another waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub phase: StepPhase,
    /// Whether it must be satisfied, not only settled.
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
    /// `finally` begins when all steps are settled.
    MainSteps {
        /// Steps that are not.
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
        /// Units that come before it.
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
    /// It was told to end.
    Ends {
        /// Why.
        cause: String,
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
    /// A step further up is why: the nearest one that was not itself skipped for another.
    Root {
        /// Its name.
        name: String,
        /// What it shows.
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

/// Explains a step or instance; nothing where there is none. Costs O(steps + edges).
#[must_use]
pub fn explain(plan: &Plan, state: &State, at: Address) -> Option<Explanation> {
    state.node(at)?;
    let status = step_status(plan, state, at);
    let asked = Asked { plan, state, at, status: &status };
    let because = if effective(plan, state, at).state.is_settled() { asked.decided() } else { asked.holds() };
    Some(Explanation { name: status.name.clone(), phase: status.phase, reason: status.reason.clone(), because })
}

struct Asked<'a> {
    plan: &'a Plan,
    state: &'a State,
    at: Address,
    status: &'a orlop_core::spec::status::StepStatus,
}

impl Asked<'_> {
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
                because.push(Because::Runs { since: node.started, until: node.due });
            }
            StepState::Cancelling => {
                because.push(Because::Ends { cause: node.reason.as_deref().unwrap_or_default().to_owned() });
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
        let open: Vec<(u32, bool)> = self.before().filter(|(step, _)| !self.is_settled(*step)).collect();
        let name = |(step, needed): &(u32, bool)| {
            let status = step_status(self.plan, self.state, Address::step(*step));
            Waited { name: status.name, phase: status.phase, satisfied: *needed }
        };
        let waits: Vec<_> = open.iter().take(NAMED).map(name).collect();
        (!waits.is_empty()).then(|| Because::Steps { more: open.len() - waits.len(), waits })
    }

    /// Steps with an edge to this one, each with whether it must be satisfied.
    fn before(&self) -> impl Iterator<Item = (u32, bool)> {
        let target = self.at.step.0;
        let steps = u32::try_from(self.plan.len()).unwrap_or(u32::MAX);
        (0..steps).flat_map(move |step| {
            let edges = self.plan.graph().successors(step).iter().filter(move |edge| edge.target() == target);
            edges.map(move |edge| (step, !edge.is_reference()))
        })
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
            (Some(item), Some(counts)) => counts.queue.range(..item).count(),
            _ => 0,
        };
        let ahead = ahead.saturating_add(index.ready.range(..Address::step(step)).count());
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

    /// What decided a settled unit.
    fn decided(&self) -> Vec<Because> {
        let status = self.status;
        let by_halt = status.phase == StepPhase::Skipped || status.message == phrase::CANCELLED;
        if by_halt && reason::is_halt(&status.reason) {
            return vec![Because::Halted { cause: status.reason.clone() }];
        }
        let mut because = vec![Because::Settled { message: status.message.clone() }];
        because.extend(self.root());
        because
    }

    /// Follows skips upwards to the first step that was not skipped for another.
    fn root(&self) -> Option<Because> {
        let for_another = |reason: &str| {
            matches!(reason, reason::DEPENDENCY_FAILED | reason::DEPENDENCY_SKIPPED | reason::DEPENDS_FALSE)
        };
        let mut step = self.at.step.0;
        let mut status = self.status.clone();
        // A graph without cycles: every turn goes one step up.
        for _ in 0..self.plan.len() {
            if !for_another(&status.reason) {
                break;
            }
            let asked = Asked { plan: self.plan, state: self.state, at: Address::step(step), status: &status };
            let failure = status.reason == reason::DEPENDENCY_FAILED;
            let unsatisfied = |step: &u32| !self.state.is_satisfied(self.plan, Address::step(*step));
            let shown = |step: u32| (step, step_status(self.plan, self.state, Address::step(step)));
            let by = |status: &orlop_core::spec::status::StepStatus| {
                status.phase == StepPhase::Failed || status.reason == reason::DEPENDENCY_FAILED
            };
            let candidates = asked.before().filter(|(_, needed)| *needed).map(|(step, _)| step).filter(unsatisfied);
            let next = candidates.map(shown).find(|(_, status)| by(status) == failure);
            let Some(next) = next else { break };
            (step, status) = next;
        }
        (step != self.at.step.0).then(|| Because::Root {
            name: self.plan.name(StepIndex(step)).to_owned(),
            phase: status.phase,
            reason: status.reason.clone(),
            message: status.message.clone(),
        })
    }
}
