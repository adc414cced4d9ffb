//! The run of a case: engine and model side by side, laws after every event, then a fair world to the end.

use std::collections::BTreeSet;

use orlop_core::effect::FlowEffect;
use orlop_core::event::FlowEvent;
use orlop_core::time::Time;

use super::case::Case;
use super::decode::{What, decode};
use super::laws::{Broken, Laws, same};
use super::model::{ExpectedEffects, Model, Shown};
use super::world::World;
use crate::engine::{FlowMeta, State, apply, init, next_deadline, restore, snapshot, view};
use crate::plan::Plan;

/// When every run begins.
pub(super) const BEGIN: Time = Time::from_millis(1_000_000_000);
/// Events a fair world needs at most.
const FAIR_EVENTS: usize = 300;

/// Decodes bytes and holds the engine to its laws; answers what the run has seen, for a look at how blind the bytes are.
///
/// # Errors
/// The first law that is broken, with everything that led to it.
pub fn check(bytes: &[u8]) -> Result<BTreeSet<String>, Broken> {
    let (case, ops) = decode(bytes);
    let plan = plan(&case)?;
    let mut run = Run::new(&case, &plan);
    let outcome = (|| {
        run.begin()?;
        for op in &ops {
            let seconds = std::time::Duration::from_secs(u64::from(op.wait));
            run.now = run.now.plus(seconds);
            if let (What::Deadline, Some(due)) = (op.what, next_deadline(&run.state)) {
                run.now = run.now.max(due);
            }
            if let Some(event) = run.world.event(&case, &run.state, op, run.now) {
                run.tell(&event)?;
            }
        }
        run.finish()
    })();
    match outcome {
        Ok(()) => Ok(run.laws.seen),
        Err(law) => Err(Broken { law, case: case.text(), trace: run.trace.iter().flat_map(reported).collect() }),
    }
}

/// An event and what the engine told, as lines.
fn reported((now, event, effects): &(Time, FlowEvent, Vec<FlowEffect>)) -> Vec<String> {
    let event = format!("{now} {}", serde_json::to_string(event).unwrap_or_default());
    let effects = effects.iter().filter(|effect| !matches!(effect, FlowEffect::RecordEvent(_)));
    std::iter::once(event).chain(effects.map(|effect| format!("    {}", effect.key()))).collect()
}

/// Plans a case.
pub(super) fn plan(case: &Case) -> Result<Plan, Broken> {
    let broken = |law: String| Broken { law, case: case.text(), trace: Vec::new() };
    let spec = case.spec().map_err(|error| broken(format!("the case fits the API: {error}")))?;
    Plan::build(std::sync::Arc::new(spec)).map_err(|errors| broken(format!("the case plans: {errors:?}")))
}

/// What a flow is submitted with.
pub(super) fn meta() -> FlowMeta {
    FlowMeta { uid: "uid-1".into(), name: "flow".into(), namespace: "default".into(), ..FlowMeta::default() }
}

struct Run<'a> {
    case: &'a Case,
    plan: &'a Plan,
    state: State,
    model: Model<'a>,
    world: World,
    laws: Laws<'a>,
    now: Time,
    effects: Vec<FlowEffect>,
    trace: Trace,
}

/// Events with their times, and what the engine told.
type Trace = Vec<(Time, FlowEvent, Vec<FlowEffect>)>;

impl<'a> Run<'a> {
    fn new(case: &'a Case, plan: &'a Plan) -> Self {
        let mut effects = Vec::new();
        let state = init(plan, &meta(), BEGIN, &mut effects);
        let model = Model::new(case, &meta().uid, BEGIN);
        let laws = Laws::new(case, plan);
        Self { case, plan, state, model, world: World::new(case), laws, now: BEGIN, effects, trace: Vec::new() }
    }

    fn begin(&mut self) -> Result<(), String> {
        self.compare()?;
        self.laws.after(None, &self.state, &self.effects, self.now)?;
        if !self.case.gated {
            self.tell(&FlowEvent::Admit)?;
        }
        Ok(())
    }

    /// One event for engine, model and laws.
    fn tell(&mut self, event: &FlowEvent) -> Result<(), String> {
        self.world.said(event);
        let before = snapshot(&self.state);
        self.effects.clear();
        apply(self.plan, &mut self.state, event, self.now, &mut self.effects);
        self.world.hear(&self.effects);
        self.trace.push((self.now, event.clone(), self.effects.clone()));
        self.check_twin(&before, event)?;
        let reported = self.model.apply(event, self.now);
        same("effects", &effects_of(&self.effects), &reported)?;
        self.compare()?;
        self.laws.after(Some(event), &self.state, &self.effects, self.now)
    }

    /// A flow that was written down and read back before the event goes the same way.
    fn check_twin(&self, before: &[u8], event: &FlowEvent) -> Result<(), String> {
        let mut twin = restore(self.plan, before).map_err(|error| format!("a snapshot restores: {error}"))?;
        let mut effects = Vec::new();
        apply(self.plan, &mut twin, event, self.now, &mut effects);
        same("effects after a restart", &effects, &self.effects)?;
        let (twin_bytes, bytes) = (snapshot(&twin), snapshot(&self.state));
        if twin_bytes != bytes {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            same("state after a restart", &text(&twin_bytes), &text(&bytes))?;
        }
        same("deadline after a restart", &next_deadline(&twin), &next_deadline(&self.state))
    }

    fn compare(&self) -> Result<(), String> {
        let shown = Shown::from(&view(self.plan, &self.state, 0..usize::MAX).status);
        same("what is shown", &shown, &self.model.show())?;
        same("refused events", &self.state.fenced(), &self.model.fenced())?;
        same("the next deadline", &next_deadline(&self.state), &self.model.next_deadline())?;
        self.state.sanity_check(self.plan)
    }

    /// In a fair world every flow ends, and nothing follows but its deletion.
    fn finish(&mut self) -> Result<(), String> {
        for _ in 0..FAIR_EVENTS {
            if self.state.phase().is_terminal() {
                break;
            }
            let event = match self.world.fair(self.case, self.plan, &self.state, self.now) {
                Some(event) => event,
                None => {
                    let due = next_deadline(&self.state).ok_or("in a fair world a flow never waits for nothing")?;
                    self.now = self.now.max(due);
                    FlowEvent::Tick
                }
            };
            self.tell(&event)?;
        }
        if !self.state.phase().is_terminal() {
            return Err(format!("in a fair world every flow ends, this one is {}", self.state.phase()));
        }
        self.tell(&FlowEvent::FinalStatusWritten)?;
        self.now = self.now.plus(std::time::Duration::from_secs(u64::from(self.case.ttl)));
        self.tell(&FlowEvent::Tick)?;
        self.tell(&FlowEvent::Tick)?;
        same("deadlines after the deletion", &next_deadline(&self.state), &None)
    }
}

/// Effects as the model tells them.
fn effects_of(effects: &[FlowEffect]) -> ExpectedEffects {
    let mut reported = ExpectedEffects::default();
    for effect in effects {
        match effect {
            FlowEffect::EnsureResources => reported.resources = true,
            FlowEffect::StartAttempt { at, attempt, .. } => reported.starts.push((*at, *attempt)),
            FlowEffect::CancelAttempt { at, attempt, cause, .. } => {
                reported.cancels.insert((*at, *attempt, cause.clone()));
            }
            FlowEffect::SuspendAttempt { at, attempt, .. } => {
                reported.suspends.insert((*at, *attempt));
            }
            FlowEffect::ResumeAttempt { at, attempt, .. } => {
                reported.resumes.insert((*at, *attempt));
            }
            FlowEffect::ResolveItems { step } => {
                reported.items.insert(step.0);
            }
            FlowEffect::DeleteFlow => reported.delete = true,
            _ => {}
        }
    }
    reported
}
