//! The laws of time and of counts: gates, expiry, delays between attempts, silence of workers, and how
//! often something may happen again. Owns when what is due; everything is told by effects and the model.

use std::collections::{BTreeMap, BTreeSet};

use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;

use super::law::{Broken, Law};
use super::model::{Model, UnitId, span};
use crate::config::Config;
use crate::effect::{Effect, Reason, WorkerReason};
use crate::job::{Demand, Overlap};

/// What is due when, and what was counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Deadlines {
    /// Between which times a delay may end.
    delays: BTreeMap<UnitId, (u64, u64)>,
    retries: BTreeMap<UnitId, u32>,
    infra: BTreeMap<UnitId, u32>,
    /// Units that started once: these cannot expire.
    started: BTreeSet<UnitId>,
}

/// Between which waits the next retry comes, in milliseconds: a delay that grows, and what jitter may add to it.
fn delay(spec: &Demand, retries: u32) -> (u64, u64) {
    let retry = &spec.retry;
    let factor = f64::from(retry.factor_milli) / 1000.0;
    let plain =
        (retry.backoff_ms as f64 * factor.powi(i32::try_from(retries).unwrap_or(i32::MAX))).min(retry.max_ms as f64);
    let most = plain * (1.0 + f64::from(retry.jitter_milli) / 1000.0);
    (plain as u64, most as u64 + 1)
}

/// Between which waits a task comes back after an infrastructure loss, in milliseconds: a fifth more or less.
fn infra_delay(losses: u32) -> (u64, u64) {
    let plain = 1000_u64.saturating_mul(1 << losses.saturating_sub(1).min(16)).min(60_000);
    (plain * 4 / 5, plain * 6 / 5 + 1)
}

impl Deadlines {
    /// Takes an effect in, by what was known before it.
    pub(super) fn take(&mut self, model: &Model, effect: &Effect, now: u64, config: &Config) -> Result<(), Broken> {
        match effect {
            Effect::JobChanged { job, part, from, to, reason, .. } => {
                let (first, last) = span(*part);
                let units: Vec<UnitId> = model.units.range((*job, first)..=(*job, last)).map(|(id, _)| *id).collect();
                units.into_iter().try_for_each(|id| self.change(model, id, (*from, *to, *reason), (now, config)))
            }
            Effect::WorkerChanged { worker, to: WorkerState::Unhealthy, reason: WorkerReason::Silent, .. } => {
                let heard = model.machines.get(worker).map_or(0, |machine| machine.heard);
                let silent = heard.saturating_add(config.heartbeat_timeout) <= now;
                Law::Deadlines.demand(silent, || format!("{worker} is silent at {now} though it was heard at {heard}"))
            }
            Effect::Lost { attempt, .. } => {
                let Some(live) = model.live.get(attempt).filter(|live| live.charged) else { return Ok(()) };
                let forbids = model.spec(attempt.job).is_some_and(|spec| spec.overlap == Overlap::Forbid);
                let heard = model.machines.get(&live.worker).map_or(0, |machine| machine.heard);
                let over = !forbids || heard.saturating_add(config.reassign_after) <= now;
                Law::Deadlines
                    .demand(over, || format!("{attempt} is given up at {now}, its worker was heard at {heard}"))
            }
            _ => Ok(()),
        }
    }

    fn change(
        &mut self,
        model: &Model,
        id: UnitId,
        (from, to, reason): (JobState, JobState, Reason),
        (now, config): (u64, &Config),
    ) -> Result<(), Broken> {
        let Some(job) = model.jobs.get(&id.0) else { return Ok(()) };
        if from == JobState::Pending && to == JobState::Queued {
            let open = job.not_before <= now;
            Law::Deadlines.demand(open, || format!("{id:?} may start at {now} and not at {}", job.not_before))?;
        }
        if reason == Reason::Expired {
            let due = job.expires <= now && !self.started.contains(&id);
            Law::Deadlines.demand(due, || format!("{id:?} expires at {now}, due at {}", job.expires))?;
        }
        if from == JobState::Backoff
            && let Some((least, _)) = self.delays.remove(&id)
            && to == JobState::Queued
        {
            Law::Deadlines.demand(least <= now, || format!("{id:?} is tried again at {now}, not at {least}"))?;
        }
        let counts = match reason {
            Reason::Rejected | Reason::StartFailed => true,
            Reason::WorkerLost => from == JobState::Running,
            _ => false,
        };
        if to == JobState::Backoff && !counts {
            let retries = self.retries.entry(id).or_default();
            let (least, most) = delay(&job.spec, *retries);
            self.delays.insert(id, (now.saturating_add(least), now.saturating_add(most)));
            *retries += 1;
            let retries = *retries;
            Law::Deadlines
                .demand(retries <= job.spec.retries, || format!("{id:?} is tried again for the {retries}th time"))?;
        }
        if matches!(to, JobState::Queued | JobState::Backoff) && counts {
            let infra = self.infra.entry(id).or_default();
            *infra += 1;
            let infra = *infra;
            Law::Deadlines.demand(infra <= config.max_infra, || format!("{id:?} survives {infra} losses"))?;
            let at_once = infra == 1 && reason == Reason::WorkerLost;
            Law::Deadlines.demand(at_once == (to == JobState::Queued), || {
                format!("{id:?} is {to} after loss {infra}, {reason:?}")
            })?;
            let (least, most) = infra_delay(infra);
            if to == JobState::Backoff {
                self.delays.insert(id, (now.saturating_add(least), now.saturating_add(most)));
            }
        }
        if to == JobState::Running {
            self.started.insert(id);
        }
        Ok(())
    }

    /// After timers have fired nothing is overdue.
    pub(super) fn fired(&self, model: &Model, now: u64, config: &Config) -> Result<(), Broken> {
        let waits = |state| matches!(state, JobState::Pending | JobState::Queued | JobState::Backoff);
        for (id, unit) in model.units.iter().filter(|(_, unit)| waits(unit.state)) {
            let Some(job) = model.jobs.get(&id.0) else { continue };
            let gate = unit.state == JobState::Pending && job.not_before <= now;
            Law::Deadlines.demand(!gate, || format!("{id:?} is Pending at {now}, its gate was {}", job.not_before))?;
            let expired = job.expires <= now && !self.started.contains(id);
            Law::Deadlines
                .demand(!expired, || format!("{id:?} waits at {now}, it should have expired at {}", job.expires))?;
            let delay = self.delays.get(id).filter(|(_, most)| unit.state == JobState::Backoff && *most <= now);
            Law::Deadlines.demand(delay.is_none(), || format!("{id:?} still waits at {now}: {delay:?}"))?;
        }
        for (key, machine) in &model.machines {
            let on = matches!(machine.state, WorkerState::Available | WorkerState::Running | WorkerState::Draining);
            let silent = on && machine.heard.saturating_add(config.heartbeat_timeout) <= now;
            Law::Deadlines.demand(!silent, || format!("{key} is {machine:?} at {now}"))?;
        }
        Ok(())
    }

    /// Past `max_failures` nothing of an array waits any more.
    pub(super) fn failures(model: &Model) -> Result<(), Broken> {
        for (id, job) in model.jobs.iter().filter(|(_, job)| job.max_failures != u64::MAX) {
            let states = || model.units.range((*id, 0)..=(*id, u32::MAX)).map(|(_, unit)| unit.state);
            let failed = states().filter(|state| matches!(state, JobState::Failed | JobState::TimedOut)).count() as u64;
            let waits = states().any(|state| matches!(state, JobState::Pending | JobState::Queued | JobState::Backoff));
            Law::Deadlines.demand(failed <= job.max_failures || !waits, || {
                format!("{id} goes on after {failed} failures of at most {}", job.max_failures)
            })?;
        }
        Ok(())
    }
}
