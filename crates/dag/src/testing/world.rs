//! A hostile world: what happens is chosen by bytes among everything that could be said to the engine, the false, the late
//! and the repeated included. Afterwards a fair one, in which every attempt is answered and succeeds.

use orlop_core::attempt::{Address, ContainerEnd, PodEnd};
use orlop_core::effect::FlowEffect;
use orlop_core::event::{AttemptResult, FlowEvent};
use orlop_core::machine::step::{StepPhase, StepState};
use orlop_core::spec::flow::{StopMode, SuspendMode};
use orlop_core::spec::meta::ObjectReference;
use orlop_core::spec::status::{Decision, StepOutputs, WaitsOn};
use orlop_core::time::Time;
use serde_json::json;

use super::case::{Case, Items};
use super::decode::{Op, What};
use crate::engine::{State, step_status};
use crate::plan::Plan;

/// What the world remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    /// Everything that was said.
    pub(super) history: Vec<FlowEvent>,
    /// Whether resources were asked for and nobody has answered.
    resources: bool,
    /// What people want now.
    pub(super) suspended: bool,
    pub(super) held: bool,
    pub(super) mode: SuspendMode,
    pub(super) gated: bool,
}

/// Picks one of a list.
fn pick<T: Clone>(list: &[T], at: usize) -> Option<T> {
    list.get(at.checked_rem(list.len())?).cloned()
}

impl World {
    pub(super) fn new(case: &Case) -> Self {
        Self { suspended: case.suspended, mode: case.mode, ..Self::default() }
    }

    /// Takes note of effects.
    pub(super) fn hear(&mut self, effects: &[FlowEffect]) {
        self.resources |= effects.contains(&FlowEffect::EnsureResources);
    }

    /// Remembers what was said.
    pub(super) fn said(&mut self, event: &FlowEvent) {
        match event {
            FlowEvent::ResourcesReady { .. } | FlowEvent::ResourcesFailed { .. } => self.resources = false,
            FlowEvent::SetSuspend { on, mode } => (self.suspended, self.mode) = (*on, *mode),
            FlowEvent::Hold { on } => self.held = *on,
            FlowEvent::Admit => self.gated = true,
            _ => {}
        }
        self.history.push(event.clone());
    }

    /// What happens by one choice; nothing where nothing of the kind can.
    pub(super) fn event(&self, case: &Case, state: &State, op: &Op, now: Time) -> Option<FlowEvent> {
        let live: Vec<(Address, u32, StepState)> =
            state.live().filter_map(|(at, attempt)| Some((at, attempt, state.attempt(at)?.0))).collect();
        let steps: Vec<u32> = (0..u32::try_from(case.steps.len()).unwrap_or(0)).collect();
        match op.what {
            What::Answer => {
                let asked: Vec<_> = live.iter().filter(|(_, _, st)| *st == StepState::Starting).copied().collect();
                pick(&asked, op.pick).map(|(at, attempt, _)| answer(at, attempt, op.arg, now))
            }
            What::End => pick(&live, op.pick).map(|(at, attempt, _)| end(at, attempt, op.arg, now)),
            What::Tick | What::Deadline => Some(FlowEvent::Tick),
            What::Items => {
                let reads = |step: &u32| {
                    case.steps.get(*step as usize).is_some_and(|step| matches!(step.items, Some(Items::Read(_))))
                };
                let reads: Vec<u32> = steps.into_iter().filter(reads).collect();
                let items = if op.arg > 230 { Err("no list".to_owned()) } else { Ok(items(op.arg & 3)) };
                pick(&reads, op.pick).map(|step| FlowEvent::ItemsResolved { at: Address::step(step), items })
            }
            What::Suspend => {
                let mode = if op.arg & 2 == 2 { SuspendMode::Suspend } else { SuspendMode::Drain };
                Some(FlowEvent::SetSuspend { on: op.arg & 1 == 1, mode })
            }
            What::Hold => Some(FlowEvent::Hold { on: op.arg & 1 == 1 }),
            What::Stop => {
                let mode = if op.arg & 1 == 1 { StopMode::Terminate } else { StopMode::Graceful };
                Some(FlowEvent::Stop { mode, replaced: op.arg & 6 == 6 })
            }
            What::Decide => pick(&steps, op.pick).map(|step| decision(step, op.arg, now)),
            What::Replay => pick(&self.history, op.pick),
            What::Stray => Some(stray(case, op, now)),
            What::Gate if op.arg & 3 == 0 => {
                Some(FlowEvent::Blocked { reason: "ConcurrencyBlocked".into(), message: "x holds the key".into() })
            }
            What::Gate => Some(FlowEvent::Admit),
            What::Resources if op.arg & 3 == 0 => {
                Some(FlowEvent::ResourcesFailed { reason: "ResourceConflict".into(), message: "taken".into() })
            }
            What::Resources => Some(FlowEvent::ResourcesReady { refs: vec![reference("r")] }),
            What::Import => pick(&steps, op.pick).map(|step| {
                let fans_out = case.steps.get(step as usize).is_some_and(|step| step.items.is_some());
                let item = (fans_out && op.arg & 3 > 0).then_some(u32::from(op.arg >> 2 & 3));
                let at = item.map_or(Address::step(step), |item| Address::instance(step, item));
                FlowEvent::Import { at, outputs: Box::new(StepOutputs::default()) }
            }),
            What::Written => Some(FlowEvent::FinalStatusWritten),
        }
    }

    /// What a fair world says next; nothing where only time helps.
    pub(super) fn fair(&self, case: &Case, plan: &Plan, state: &State, now: Time) -> Option<FlowEvent> {
        if self.suspended {
            return Some(FlowEvent::SetSuspend { on: false, mode: self.mode });
        }
        if self.held {
            return Some(FlowEvent::Hold { on: false });
        }
        if !self.gated {
            return Some(FlowEvent::Admit);
        }
        if self.resources {
            return Some(FlowEvent::ResourcesReady { refs: vec![reference("r")] });
        }
        if let Some((at, attempt)) = state.live().next() {
            let ended_at = now;
            return Some(match state.attempt(at).map(|(state, _)| state) {
                Some(StepState::Starting) => FlowEvent::AttemptAccepted { at, attempt, reference: reference("job") },
                Some(StepState::Cancelling) => FlowEvent::CancelConfirmed { at, attempt, ended_at },
                _ => FlowEvent::AttemptSucceeded { at, attempt, result: Box::new(result(0)), ended_at },
            });
        }
        (0_u32..).zip(&case.steps).find_map(|(number, step)| {
            let at = Address::step(number);
            let shown = step_status(plan, state, at);
            let reads = matches!(step.items, Some(Items::Read(_))) && !state.knows_items(at);
            match shown.phase {
                StepPhase::PendingApproval => Some(decision(number, 1, now)),
                StepPhase::Pending | StepPhase::Running if reads && !shown.reason.is_empty() => {
                    Some(FlowEvent::ItemsResolved { at, items: Ok(items(2)) })
                }
                _ => None,
            }
        })
    }
}

fn items(count: u8) -> Vec<serde_json::Value> {
    (0..count).map(|item| json!(item)).collect()
}

pub(super) fn reference(name: &str) -> ObjectReference {
    ObjectReference { kind: "Process".into(), name: name.into(), ..ObjectReference::default() }
}

fn answer(at: Address, attempt: u32, arg: u8, now: Time) -> FlowEvent {
    let message = "so it is".to_owned();
    match arg % 16 {
        0 | 1 | 8 | 9 => {
            let reason =
                ["Throttled", "QuotaExceeded"].get(usize::from(arg % 2)).copied().unwrap_or_default().to_owned();
            let retry_at = now.plus(std::time::Duration::from_secs(u64::from(arg >> 4)));
            FlowEvent::AttemptDelayed { at, attempt, reason, message, retry_at }
        }
        2 => FlowEvent::AttemptRefused { at, attempt, reason: "Forbidden".into(), message, retryable: false },
        3 => FlowEvent::AttemptRefused { at, attempt, reason: "ParameterUnresolved".into(), message, retryable: true },
        _ => FlowEvent::AttemptAccepted { at, attempt, reference: reference("job") },
    }
}

fn result(arg: u8) -> AttemptResult {
    let mut result = AttemptResult::default();
    if arg % 8 != 7 {
        result.outputs.insert("o".into(), format!("v{}", arg % 2));
    }
    if arg % 32 == 6 {
        result.trouble = Some(("OutputTooLarge".into(), "too much".into()));
    }
    result
}

fn end(at: Address, attempt: u32, arg: u8, now: Time) -> FlowEvent {
    let early = [0, 0, 1000, 3000].get(usize::from(arg >> 6)).copied().unwrap_or(0);
    let ended_at = Time::from_millis(now.millis() - early);
    let message = "as it went".to_owned();
    match arg % 16 {
        0..=5 => FlowEvent::AttemptSucceeded { at, attempt, result: Box::new(result(arg >> 3)), ended_at },
        6..=11 => {
            let exit_code = [1, 1, 4, 3, 4, 5].get(usize::from(arg % 16 - 6)).copied().unwrap_or(1);
            let pods = vec![PodEnd { containers: vec![ContainerEnd { name: "main".into(), exit_code }] }];
            let result = Box::new(result(arg >> 3));
            // The reason of a Job may be the word of a halt.
            let reason = if arg >> 4 & 3 == 3 { "BackoffLimitExceeded" } else { "NonZeroExit" }.to_owned();
            FlowEvent::AttemptFailed { at, attempt, reason, message, pods, result, ended_at }
        }
        12 => FlowEvent::AttemptGone { at, attempt, ended_at },
        13 => FlowEvent::AttemptLost { at, attempt, message, ended_at },
        14 => waiting(at, attempt, arg >> 4, ended_at),
        _ => FlowEvent::CancelConfirmed { at, attempt, ended_at },
    }
}

/// Why an attempt does not run.
fn waiting(at: Address, attempt: u32, kind: u8, since: Time) -> FlowEvent {
    let waits = |on, reason: &str| {
        let (reason, message) = (reason.to_owned(), String::new());
        FlowEvent::AttemptWaiting { at, attempt, on, reason, message, since }
    };
    match kind {
        0..=2 => FlowEvent::CancelBlocked { at, attempt, left: format!("pod p{}", kind % 2) },
        3..=5 => FlowEvent::GoneConfirmed { at, attempt, by: None, reason: None, ended_at: since },
        6 | 7 => waits(None, ""),
        8..=10 => waits(Some(WaitsOn::Suspended), "Queued"),
        11 => waits(Some(WaitsOn::FirstPod), ""),
        12 => waits(Some(WaitsOn::Runtime), "RuntimeUnavailable"),
        13 => waits(Some(WaitsOn::NextPod), "PodFailed"),
        _ => waits(Some(WaitsOn::FirstPod), "Unschedulable"),
    }
}

fn decision(step: u32, arg: u8, now: Time) -> FlowEvent {
    let decision = match arg % 8 {
        0 => Decision::TimedOut,
        1..=5 => Decision::Approved,
        _ => Decision::Rejected,
    };
    let (by, reason) = (Some("ann".to_owned()), None);
    FlowEvent::Approval { at: Address::step(step), decision, by, verified: true, decided_at: now, reason }
}

/// An event about a unit or attempt that may not exist.
fn stray(case: &Case, op: &Op, now: Time) -> FlowEvent {
    let step = u32::try_from(op.pick % (case.steps.len() + 2)).unwrap_or(0);
    let at = if op.pick & 64 == 64 { Address::instance(step, u32::from(op.arg & 3)) } else { Address::step(step) };
    let attempt = u32::from(op.arg >> 2 & 3);
    if op.arg & 1 == 1 { end(at, attempt, op.arg, now) } else { answer(at, attempt, op.arg | 4, now) }
}
