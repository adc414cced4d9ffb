//! What every call ends with: free slots, the end of a part, the end of the flow.

use orlop_core::attempt::Address;
use orlop_core::spec::policy::ToleratedOutcome;

use super::{Model, St};

impl Model<'_> {
    pub(super) fn close(&mut self) {
        self.settle_all();
        self.timers();
        while self.over.is_none() {
            self.settle_all();
            self.fill();
            if !self.advance() {
                break;
            }
        }
    }

    /// Begins waits for decisions and starts what slots allow.
    fn fill(&mut self) {
        if self.admitted.is_none() || self.resources_asked || self.paused_now() {
            return;
        }
        let now = self.now;
        for at in self.units() {
            let manual = self.case.steps.get(at.step.0 as usize).is_some_and(|step| step.manual);
            if manual && self.st(at) == St::Queued {
                let limit = self.timeout(at);
                if let Some(unit) = self.unit_mut(at) {
                    unit.started = Some(now);
                    unit.due = limit.map(|limit| now.plus(limit));
                }
                self.set(at, St::Awaiting);
            }
        }
        while self.live(|_| true) < self.case.parallelism.map_or(usize::MAX, |limit| limit as usize) {
            let Some(at) = self.units().into_iter().find(|at| self.may_start(*at)) else { break };
            self.set(at, St::Starting);
            let Some(unit) = self.unit_mut(at) else { break };
            unit.asked = true;
            let attempt = unit.attempt();
            self.expected.starts.push((at, attempt));
        }
    }

    fn live(&self, which: impl Fn(&Address) -> bool) -> usize {
        self.units().iter().filter(|at| which(at) && self.st(**at).live()).count()
    }

    fn may_start(&self, at: Address) -> bool {
        let Some(case) = self.case.steps.get(at.step.0 as usize) else { return false };
        let limit = case.parallelism.map_or(usize::MAX, |limit| limit as usize);
        let own = case.items.is_none() || (at.item.is_some() && self.live(|other| other.step == at.step) < limit);
        self.st(at) == St::Queued && !case.manual && own
    }

    /// Whether something may now start that could not before.
    fn advance(&mut self) -> bool {
        let settled = |finally: bool| {
            self.all().into_iter().filter(|at| self.is_finally(*at) == finally).all(|at| self.st(at).settled())
        };
        let has_finally = self.case.main() < self.steps.len();
        if self.finally {
            if settled(true) {
                self.finish();
            }
            return false;
        }
        if !settled(false) || (self.admitted.is_none() && self.halt.is_none()) {
            return false;
        }
        self.fixed = Some(self.verdict());
        if has_finally && self.admitted.is_some() && self.final_halt.is_none() {
            self.finally = true;
            self.deadline = None;
            return true;
        }
        if let Some(cause) = self.halt.clone() {
            self.skip_rest(true, &cause);
        }
        self.finish();
        false
    }

    /// What makes the flow fail: the first cause; an order only if it cut something off or skipped it.
    fn verdict(&self) -> Option<String> {
        let counts = |cause: &&String| {
            let order = matches!(cause.as_str(), "Stopped" | "Terminated" | "Replaced");
            let left_a_trace = || {
                self.all()
                    .into_iter()
                    .filter_map(|at| self.unit(at))
                    .any(|unit| matches!(unit.st, St::Skipped | St::Failed) && unit.reason == **cause)
            };
            !order || self.cut.contains(*cause) || left_a_trace()
        };
        let tolerated = self.tolerated_steps().next().is_some() && self.case.tolerated == ToleratedOutcome::Failed;
        let first = self.causes.iter().find(counts).cloned();
        first.or_else(|| tolerated.then(|| "FlowFailed".to_owned()))
    }

    /// Steps with a tolerated failure.
    pub(super) fn tolerated_steps(&self) -> impl Iterator<Item = u32> {
        (0..u32::try_from(self.steps.len()).unwrap_or(u32::MAX)).filter(|step| {
            let mut units = self.units().into_iter().filter(|at| at.step.0 == *step);
            units.any(|at| {
                let failed = self.unit(at).filter(|unit| unit.st == St::Failed && !unit.cancelled);
                failed.is_some() && self.tolerated(at)
            })
        })
    }

    fn finish(&mut self) {
        let cause = match self.fixed.take().flatten() {
            Some(cause) => Some(cause),
            None => self.verdict(),
        };
        self.admitted.get_or_insert(self.now);
        self.end_pause();
        self.good = cause.is_none();
        self.fixed = Some(cause);
        self.over = Some(self.now);
    }
}
