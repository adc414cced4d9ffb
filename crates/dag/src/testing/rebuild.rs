//! Laws of rebuilt flows: a state made from the status and what exists shows the same, goes the same way, and ends; also
//! from a status that is some events old, when it never runs two attempts of a unit at once and loses no step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use orlop_core::attempt::Address;
use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::machine::step::StepPhase;
use orlop_core::spec::flow::StopMode;
use orlop_core::spec::status::FlowStatus;
use orlop_core::time::Time;

use super::case::Case;
use super::decode::{What, decode};
use super::laws::{Broken, same};
use super::model::is_halt;
use super::run::{BEGIN, meta, plan};
use super::world::{World, reference};
use crate::engine::{ObservedAttempt, State, apply, init, next_deadline, reconstruct, view};
use crate::plan::Plan;

/// Events a rebuilt flow needs at most in a fair world.
const FAIR_EVENTS: usize = 300;

/// An execution in the world, and how it ended.
type Jobs = BTreeMap<(Address, u32), Option<FlowEvent>>;

/// A moment of a run.
#[derive(Clone)]
struct Moment {
    now: Time,
    status: FlowStatus,
    due: Option<Time>,
    jobs: Jobs,
    world: World,
    items: BTreeMap<Address, FlowEvent>,
}

/// Decodes bytes and holds rebuilt states to their laws.
///
/// # Errors
/// The first law that is broken, with everything that led to it.
pub fn check_rebuild(bytes: &[u8]) -> Result<(), Broken> {
    let (mut case, ops) = decode(bytes);
    for step in &mut case.steps {
        // Whole seconds are all that a status shows.
        step.retry = step.retry.map(|retry| super::case::Retry { jitter: false, ..retry });
    }
    let plan = plan(&case)?;
    let mut run = Run::new(&case, &plan);
    let outcome = (|| {
        if !case.gated {
            run.tell(FlowEvent::Admit)?;
        }
        for op in &ops {
            run.now = run.now.plus(Duration::from_secs(u64::from(op.wait)));
            if let (What::Deadline, Some(due)) = (op.what, next_deadline(&run.state)) {
                run.now = run.now.max(due);
            }
            if let Some(event) = run.world.event(&case, &run.state, op, run.now) {
                run.tell(event)?;
            }
        }
        run.finish()?;
        for pick in [3, 7, 12] {
            run.continues(pick)?;
            run.catches_up(pick)?;
        }
        Ok(())
    })();
    let lines = |reported: &(Time, FlowEvent)| {
        format!("{} {}", reported.0, serde_json::to_string(&reported.1).unwrap_or_default())
    };
    outcome.map_err(|law| Broken { law, case: case.text(), trace: run.reported.iter().map(lines).collect() })
}

struct Run<'a> {
    case: &'a Case,
    plan: &'a Plan,
    state: State,
    world: World,
    jobs: Jobs,
    items: BTreeMap<Address, FlowEvent>,
    now: Time,
    reported: Vec<(Time, FlowEvent)>,
    moments: Vec<Moment>,
}

/// What the API holds: whole seconds, without the estimate, which moves with the clock.
fn written(plan: &Plan, state: &State) -> Result<FlowStatus, String> {
    let mut status = view(plan, state, 0..usize::MAX).status;
    status.estimated_completion_time = None;
    let text = serde_json::to_string(&status).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

impl<'a> Run<'a> {
    fn new(case: &'a Case, plan: &'a Plan) -> Self {
        let state = init(plan, &meta(), BEGIN, &mut Vec::new());
        let world = World::new(case);
        let (jobs, items) = (BTreeMap::new(), BTreeMap::new());
        Self { case, plan, state, world, jobs, items, now: BEGIN, reported: Vec::new(), moments: Vec::new() }
    }

    fn tell(&mut self, event: FlowEvent) -> Result<(), String> {
        self.world.said(&event);
        let fenced = self.state.fenced();
        let mut effects = Vec::new();
        apply(self.plan, &mut self.state, &event, self.now, &mut effects);
        self.world.hear(&effects);
        if self.state.fenced() == fenced {
            note_job(&mut self.jobs, &event);
        }
        if let FlowEvent::ItemsResolved { at, .. } = &event
            && !self.items.contains_key(at)
            && self.state.knows_items(*at)
        {
            self.items.insert(*at, event.clone());
        }
        self.reported.push((self.now, event));
        let status = written(self.plan, &self.state)?;
        let moment = Moment {
            now: self.now,
            due: next_deadline(&self.state),
            status,
            jobs: self.jobs.clone(),
            world: self.world.clone(),
            items: self.items.clone(),
        };
        self.shows_the_same(&moment)?;
        self.moments.push(moment);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        for _ in 0..FAIR_EVENTS {
            if self.state.phase().is_terminal() {
                break;
            }
            let event = self.world.fair(self.case, self.plan, &self.state, self.now).unwrap_or(FlowEvent::Tick);
            if event == FlowEvent::Tick {
                self.now = self.now.max(next_deadline(&self.state).unwrap_or(self.now));
            }
            self.tell(event)?;
        }
        Ok(())
    }

    /// A flow rebuilt at any moment shows what the status showed, and waits for the same time.
    fn shows_the_same(&self, moment: &Moment) -> Result<(), String> {
        let state = self.rebuild(&moment.status, moment, &mut Vec::new());
        same("what a rebuilt flow shows", &written(self.plan, &state)?, &moment.status)?;
        same("deadline of a rebuilt flow", &next_deadline(&state), &moment.due)
    }

    /// Rebuilds a flow and tells it again what people want and what fan-outs consist of.
    fn rebuild(&self, status: &FlowStatus, moment: &Moment, effects: &mut Vec<FlowEffect>) -> State {
        let exists = |((at, attempt), _): (&(Address, u32), &Option<FlowEvent>)| ObservedAttempt {
            at: *at,
            attempt: *attempt,
            reference: reference("job"),
        };
        let observed: Vec<ObservedAttempt> = moment.jobs.iter().map(exists).collect();
        let mut state = reconstruct(self.plan, &meta(), status, &observed, moment.now, effects);
        let world = &moment.world;
        let orders = world.history.iter().filter(|event| {
            matches!(event, FlowEvent::Import { .. } | FlowEvent::Stop { .. } | FlowEvent::Approval { .. })
        });
        let wanted =
            [FlowEvent::SetSuspend { on: world.suspended, mode: world.mode }, FlowEvent::Hold { on: world.held }];
        for event in orders.chain(&wanted).chain(moment.items.values()) {
            apply(self.plan, &mut state, event, moment.now, effects);
        }
        state
    }

    fn moment(&self, pick: usize) -> Option<(usize, &Moment)> {
        let at = self.moments.len().checked_mul(pick)?.checked_div(16)?;
        Some((at, self.moments.get(at)?))
    }

    /// A flow rebuilt from its latest status comes out as if nothing had happened.
    fn continues(&self, pick: usize) -> Result<(), String> {
        let Some((at, moment)) = self.moment(pick) else { return Ok(()) };
        // An order that has cut nothing off yet leaves no trace, so that a later cause becomes the first.
        let mut orders = moment.world.history.iter().filter_map(|event| match event {
            FlowEvent::Stop { replaced: true, .. } => Some("Replaced"),
            FlowEvent::Stop { mode: StopMode::Graceful, .. } => Some("Stopped"),
            FlowEvent::Stop { .. } => Some("Terminated"),
            _ => None,
        });
        if !orders.all(|order| moment.status.message.starts_with(order)) {
            return Ok(());
        }
        if self.paused_after_the_deadline(at, &moment.status) {
            return Ok(());
        }
        let mut state = self.rebuild(&moment.status, moment, &mut Vec::new());
        for (now, event) in self.reported.iter().skip(at + 1) {
            apply(self.plan, &mut state, event, *now, &mut Vec::new());
        }
        let right = self.moments.last().map(|moment| outcome(&moment.status));
        let rebuilt = Some(outcome(&written(self.plan, &state)?));
        same(&format!("outcome of the flow rebuilt after event {at}"), &rebuilt, &right)
    }

    /// Whether the flow was paused when its deadline was due already: a status does not tell which came first.
    fn paused_after_the_deadline(&self, at: usize, status: &FlowStatus) -> bool {
        let limit = self.case.deadline.map(|deadline| u64::from(deadline) + status.suspended_seconds);
        let due = status.start_time.zip(limit).map(|(start, limit)| start.plus(Duration::from_secs(limit)));
        let pauses =
            |event: &FlowEvent| matches!(event, FlowEvent::SetSuspend { on: true, .. } | FlowEvent::Hold { on: true });
        self.reported.iter().take(at + 1).any(|(now, event)| due.is_some_and(|due| *now >= due) && pauses(event))
    }

    /// A flow rebuilt from a status some events old catches up with the world and ends.
    fn catches_up(&self, pick: usize) -> Result<(), String> {
        let Some((at, moment)) = self.moment(pick) else { return Ok(()) };
        let Some(old) = self.moments.get(at.saturating_sub(pick)).map(|moment| &moment.status) else { return Ok(()) };
        let mut effects = Vec::new();
        let state = self.rebuild(old, moment, &mut effects);
        let mut late =
            Late { run: self, state, jobs: moment.jobs.clone(), world: moment.world.clone(), now: moment.now };
        let settled = |status: &FlowStatus| -> BTreeSet<String> {
            let done = |phase| matches!(phase, StepPhase::Succeeded | StepPhase::Failed | StepPhase::Skipped);
            let settled = status.steps.iter().filter(|step| done(step.phase) && step.reason != "RetryScheduled");
            settled.map(|step| format!("{} {}/{}", step.name, step.phase, step.reason)).collect()
        };
        late.world.gated = old.start_time.is_some();
        let before = settled(old);
        late.catch_up(effects)
            .map_err(|law| format!("after event {at}, from the status {pick} events before: {law}"))?;
        let after = settled(&written(self.plan, &late.state)?);
        same("what was settled in an old status", &before.difference(&after).next(), &None)
    }
}

/// What came out: phase, cause, and every step. Which of two halts came first to cancel a live attempt is not recorded
/// before the attempt has ended.
fn outcome(status: &FlowStatus) -> Vec<String> {
    let cause = status.conditions.iter().find(|condition| condition.kind == "Failed");
    let flow = format!("{} {}", status.phase, cause.map_or("", |cause| cause.reason.as_str()));
    let step = |step: &orlop_core::spec::status::StepStatus| {
        let cancelled = step.message == "its attempt was cancelled" || step.instances.is_some();
        let halted = step.phase == StepPhase::Failed && is_halt(&step.reason) && cancelled;
        let reason = if halted { "cancelled" } else { step.reason.as_str() };
        format!("{} {}/{reason} {}", step.name, step.phase, step.attempt)
    };
    std::iter::once(flow).chain(status.steps.iter().map(step)).collect()
}

/// Notes what an event tells of an execution.
fn note_job(jobs: &mut Jobs, event: &FlowEvent) {
    let Some(key) = event.attempt() else { return };
    match event {
        FlowEvent::AttemptDelayed { .. }
        | FlowEvent::AttemptRefused { .. }
        | FlowEvent::AttemptWaiting { .. }
        | FlowEvent::CancelBlocked { .. } => {}
        // Whoever takes over may not know yet that the cancellation is blocked.
        FlowEvent::GoneConfirmed { at, attempt, ended_at, .. } => {
            let (at, attempt, ended_at) = (*at, *attempt, *ended_at);
            jobs.insert(key, Some(FlowEvent::CancelConfirmed { at, attempt, ended_at }));
        }
        FlowEvent::AttemptAccepted { .. } => {
            jobs.entry(key).or_default();
        }
        end => {
            jobs.insert(key, Some(end.clone()));
        }
    }
}

/// A flow whose host was down, in a world that has gone on.
struct Late<'a> {
    run: &'a Run<'a>,
    state: State,
    jobs: Jobs,
    world: World,
    now: Time,
}

impl Late<'_> {
    fn catch_up(&mut self, effects: Vec<FlowEffect>) -> Result<(), String> {
        let mut events: Vec<FlowEvent> = self.jobs.values().flatten().cloned().collect();
        self.world.hear(&effects);
        self.answer(&effects, &mut events)?;
        for _ in 0..FAIR_EVENTS {
            if self.state.phase().is_terminal() {
                return Ok(());
            }
            let event = match events.is_empty() {
                false => events.remove(0),
                true => self.fair(),
            };
            self.world.said(&event);
            note_job(&mut self.jobs, &event);
            let mut effects = Vec::new();
            apply(self.run.plan, &mut self.state, &event, self.now, &mut effects);
            self.world.hear(&effects);
            self.answer(&effects, &mut events)?;
        }
        Err(format!("it never ends and is {}", self.state.phase()))
    }

    fn fair(&mut self) -> FlowEvent {
        let event = self.world.fair(self.run.case, self.run.plan, &self.state, self.now).unwrap_or(FlowEvent::Tick);
        if event == FlowEvent::Tick {
            self.now = self.now.max(next_deadline(&self.state).unwrap_or(self.now));
        }
        match event {
            FlowEvent::ItemsResolved { at, .. } => self.run.items.get(&at).cloned().unwrap_or(event),
            event => event,
        }
    }

    /// An execution that exists already is not created again: its end, if it has ended, is told.
    fn answer(&self, effects: &[FlowEffect], events: &mut Vec<FlowEvent>) -> Result<(), String> {
        for effect in effects {
            let FlowEffect::StartAttempt { at, attempt, .. } = effect else { continue };
            let mut others = self.jobs.iter().filter(|((unit, number), _)| unit == at && number != attempt);
            if let Some(((_, number), _)) = others.find(|(_, end)| end.is_none()) {
                return Err(format!("attempt {attempt} of {at:?} starts while attempt {number} runs"));
            }
            if let Some(end) = self.jobs.get(&(*at, *attempt)) {
                let reference = reference("job");
                events.push(FlowEvent::AttemptAccepted { at: *at, attempt: *attempt, reference });
                events.extend(end.clone());
            }
        }
        Ok(())
    }
}
