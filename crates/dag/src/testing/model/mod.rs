//! A naive model of a flow, written from the tables of the flow contract: it keeps plain records, skips eagerly what the
//! engine derives, and looks at everything again after every change. Slow on purpose.

mod decide;
mod end;
mod events;
mod show;
mod time;
mod waits;

use std::collections::BTreeSet;

use orlop_core::attempt::Address;
use orlop_core::spec::flow::SuspendMode;
use orlop_core::spec::status::{Decision, WaitsOn};
use orlop_core::time::Time;

use super::case::Case;

pub(super) use decide::is_halt;
pub use show::{Row, Shown};

/// Where a unit (a step or an instance) stands: the internal states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum St {
    #[default]
    Waiting,
    Queued,
    Starting,
    Active,
    Cancelling,
    Backoff,
    Awaiting,
    Succeeded,
    Failed,
    Skipped,
}

impl St {
    pub(super) fn settled(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Skipped)
    }

    pub(super) fn live(self) -> bool {
        matches!(self, Self::Starting | Self::Active | Self::Cancelling)
    }
}

/// A step or an instance.
#[derive(Clone, Debug, Default)]
pub(super) struct ModelStep {
    pub(super) st: St,
    /// Settled: its reason. Cancelling: the cause. Backoff: the last reason. Starting: why it is delayed.
    pub(super) reason: String,
    pub(super) retries: u32,
    pub(super) lost: u32,
    pub(super) counted: u32,
    pub(super) asked: bool,
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) due: Option<Time>,
    pub(super) frozen: Option<Time>,
    /// What it waits for, since when, and the reason.
    pub(super) waits: Option<(WaitsOn, Time, String)>,
    /// How long its clock stood still, in milliseconds.
    pub(super) stood: i64,
    /// Whether it should be gone and is not.
    pub(super) blocked: bool,
    pub(super) approval: Option<Decision>,
    pub(super) output: Option<String>,
    /// Whether a halt has ended its attempt.
    pub(super) cancelled: bool,
    /// When it was settled, as a number.
    pub(super) seq: u64,
    /// Whether it has ever left Pending.
    pub(super) left: bool,
}

impl ModelStep {
    pub(super) fn attempt(&self) -> u32 {
        1 + self.retries + self.lost
    }
}

/// What the engine should have told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedEffects {
    /// Attempts to start, in order.
    pub starts: Vec<(Address, u32)>,
    /// Attempts to end, with causes.
    pub cancels: BTreeSet<(Address, u32, String)>,
    /// Attempts to suspend.
    pub suspends: BTreeSet<(Address, u32)>,
    /// Attempts to resume.
    pub resumes: BTreeSet<(Address, u32)>,
    /// Fan-outs to read.
    pub items: BTreeSet<u32>,
    /// Whether to create resources.
    pub resources: bool,
    /// Whether to delete the flow.
    pub delete: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Model<'a> {
    pub(super) case: &'a Case,
    pub(super) uid: String,
    pub(super) now: Time,
    pub(super) steps: Vec<ModelStep>,
    pub(super) instances: Vec<Option<Vec<ModelStep>>>,
    pub(super) admitted: Option<Time>,
    pub(super) over: Option<Time>,
    pub(super) good: bool,
    pub(super) finally: bool,
    /// How the steps came out, once `finally` begins: good, or the cause.
    pub(super) fixed: Option<Option<String>>,
    pub(super) resources_asked: bool,
    pub(super) suspended: bool,
    pub(super) mode: SuspendMode,
    pub(super) held: bool,
    pub(super) paused_since: Option<Time>,
    pub(super) paused: i64,
    pub(super) deadline: Option<Time>,
    pub(super) halt: Option<String>,
    pub(super) cancel: Option<String>,
    pub(super) final_halt: Option<String>,
    pub(super) causes: Vec<String>,
    pub(super) cut: BTreeSet<String>,
    pub(super) retries: u32,
    pub(super) written: bool,
    pub(super) deleted: bool,
    pub(super) fenced: u64,
    pub(super) settled: u64,
    /// Instances that are imported, whose fan-out has not begun.
    pub(super) imports: BTreeSet<Address>,
    /// Halts that wait for the skips of the failure they come from.
    pub(super) pending: Vec<(String, bool)>,
    pub(super) expected: ExpectedEffects,
}

impl<'a> Model<'a> {
    /// A flow at its beginning.
    #[must_use]
    pub fn new(case: &'a Case, uid: &str, now: Time) -> Self {
        Self {
            case,
            uid: uid.to_owned(),
            now,
            steps: vec![ModelStep::default(); case.steps.len()],
            instances: vec![None; case.steps.len()],
            admitted: None,
            over: None,
            good: false,
            finally: false,
            fixed: None,
            resources_asked: false,
            suspended: case.suspended,
            mode: case.mode,
            held: false,
            paused_since: case.suspended.then_some(now),
            paused: 0,
            deadline: None,
            halt: None,
            cancel: None,
            final_halt: None,
            causes: Vec::new(),
            cut: BTreeSet::new(),
            retries: 0,
            written: false,
            deleted: false,
            fenced: 0,
            settled: 0,
            imports: BTreeSet::new(),
            pending: Vec::new(),
            expected: ExpectedEffects::default(),
        }
    }

    /// Events that were refused.
    #[must_use]
    pub fn fenced(&self) -> u64 {
        self.fenced
    }

    pub(super) fn unit(&self, at: Address) -> Option<&ModelStep> {
        match at.item {
            None => self.steps.get(at.step.0 as usize),
            Some(item) => self.instances.get(at.step.0 as usize)?.as_ref()?.get(item as usize),
        }
    }

    pub(super) fn unit_mut(&mut self, at: Address) -> Option<&mut ModelStep> {
        match at.item {
            None => self.steps.get_mut(at.step.0 as usize),
            Some(item) => self.instances.get_mut(at.step.0 as usize)?.as_mut()?.get_mut(item as usize),
        }
    }

    /// All units, instances after their step.
    pub(super) fn all(&self) -> Vec<Address> {
        let mut all = Vec::new();
        for (step, instances) in (0_u32..).zip(&self.instances) {
            all.push(Address::step(step));
            let count = instances.as_ref().map_or(0, Vec::len);
            all.extend((0_u32..).take(count).map(|item| Address::instance(step, item)));
        }
        all
    }

    /// Units that run by themselves: all but steps whose instances are known.
    pub(super) fn units(&self) -> Vec<Address> {
        let grouped = |at: &Address| at.item.is_none() && self.instances_of(at.step.0).is_some();
        self.all().into_iter().filter(|at| !grouped(at)).collect()
    }

    pub(super) fn instances_of(&self, step: u32) -> Option<&Vec<ModelStep>> {
        self.instances.get(step as usize)?.as_ref()
    }

    pub(super) fn is_finally(&self, at: Address) -> bool {
        at.step.0 as usize >= self.case.main()
    }

    pub(super) fn st(&self, at: Address) -> St {
        self.unit(at).map_or(St::Waiting, |unit| unit.st)
    }

    pub(super) fn paused_now(&self) -> bool {
        self.suspended || self.held
    }

    /// Why nothing more starts in a part.
    pub(super) fn halted(&self, finally: bool) -> Option<String> {
        if finally { self.final_halt.clone() } else { self.halt.clone() }
    }

    pub(super) fn tolerated(&self, at: Address) -> bool {
        self.case.tolerates(at.step.0 as usize)
    }

    pub(super) fn set(&mut self, at: Address, st: St) {
        if let Some(unit) = self.unit_mut(at) {
            unit.st = st;
            unit.left |= !matches!(st, St::Waiting | St::Queued | St::Starting);
        }
    }
}
