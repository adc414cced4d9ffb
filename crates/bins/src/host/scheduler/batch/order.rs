//! Orders of people: cancels, workers' administration, tenants, questions.

use std::sync::Arc;

use orlop_core::error::{Code, Problem};
use orlop_core::id::{JobId, TenantName, WorkerId};
use orlop_core::machine::tenant::TenantState;
use orlop_core::ports::fleet_store::{Record, Tenant};
use orlop_scheduler::error::EventError;
use orlop_scheduler::event::{Departure, Event, Quota, TenantSettings, TenantStatus};
use orlop_scheduler::token::WorkerKey;

use super::super::command::{Cancelled, Reply, WorkerOrder};
use super::super::commit::Release;
use super::super::error;
use super::super::explain::Explained;
use super::Core;
use super::effects::ReportFields;
use crate::host::flow::fleet::WORKER;
use crate::wire::frame::{Directive, DirectiveKind};

impl Core {
    /// Why a job is where it is, with the names of workers.
    pub(super) fn explained(&self, job: JobId) -> Option<Box<Explained>> {
        let explanation = self.scheduler.explain(job)?;
        let name = |key| self.registry.workers.get(key).map_or_else(String::new, |live| live.id.to_string());
        let names = explanation.workers.iter().map(|fit| name(fit.worker)).collect();
        Some(Box::new(Explained { explanation, names }))
    }

    /// Cancels a job, or elements of it. One that has ended stays as it is.
    pub(super) fn cancel(&mut self, job: JobId, elements: &[(u32, u32)], reply: Reply<Cancelled>) {
        let mut answer = Ok(Cancelled::Taken);
        let parts: Vec<Option<(u32, u32)>> =
            if elements.is_empty() { vec![None] } else { elements.iter().copied().map(Some).collect() };
        for elements in parts {
            match self.try_call(Event::Cancel { job, elements }) {
                Ok(()) => self.absorb(&ReportFields::default()),
                // Its state takes no cancel: it has ended, or is being cancelled.
                Err(EventError::Job { .. }) => answer = answer.map(|_| Cancelled::Ended),
                Err(problem) => answer = Err(error::event(&problem)),
            }
        }
        self.writes.release(Release::reply(reply, answer));
    }

    pub(super) fn worker_order(&mut self, worker: &WorkerId, order: WorkerOrder, reply: Reply<()>) {
        let answer = match self.scheduler.worker_key(worker) {
            Some(key) => self.ordered(key, order),
            None => Err(error::not_found(format_args!("worker `{worker}`"))),
        };
        self.writes.release(Release::reply(reply, answer));
    }

    fn ordered(&mut self, key: WorkerKey, order: WorkerOrder) -> Result<(), Problem> {
        let view = self.scheduler.worker_view(key);
        let attempts = view.as_ref().map_or(0, |view| view.attempts);
        let is_gone = view.as_ref().is_some_and(|view| view.state.is_terminal());
        let barred = match &order {
            WorkerOrder::Drain(..) | WorkerOrder::Cordon => Some(true),
            WorkerOrder::Undrain | WorkerOrder::Uncordon | WorkerOrder::Remove { .. } => Some(false),
            WorkerOrder::Name => None,
        };
        // Of one that is away only what is wanted of its id changes.
        if let (true, Some(barred), Some(live)) = (is_gone, barred, self.registry.workers.get_mut(key))
            && (barred || live.barred)
        {
            live.barred = barred;
            if let WorkerOrder::Drain(_, reason) = &order {
                live.drain_reason.clone_from(reason);
            }
            self.writes.workers.push(key);
            return Ok(());
        }
        let draining = self.scheduler.worker_row(key).is_some_and(|row| row.drain.is_some());
        // One that came back after its drain is not drained again: it gets nothing new.
        let returned = self.registry.workers.get(key).is_some_and(|live| live.barred) && !draining;
        let event = match &order {
            WorkerOrder::Drain(order, _) => Event::Drain { worker: key, order: *order },
            WorkerOrder::Undrain if returned => Event::Uncordon { worker: key },
            WorkerOrder::Undrain => Event::Undrain { worker: key },
            WorkerOrder::Cordon => Event::Cordon { worker: key },
            WorkerOrder::Uncordon => Event::Uncordon { worker: key },
            WorkerOrder::Name => self.named(key)?,
            WorkerOrder::Remove { .. } if is_gone => return Err(error::not_found("the worker, which has left,")),
            WorkerOrder::Remove { force: false } if attempts > 0 => {
                let text = format!("the worker has {attempts} attempts; drain it first, or remove it by force");
                return Err(Problem::coded(Code::Conflict, text));
            }
            WorkerOrder::Remove { .. } => Event::Remove { worker: key, why: Departure::Removed },
        };
        self.call_or(event)?;
        self.writes.workers.push(key);
        if let Some(live) = self.registry.workers.get_mut(key) {
            live.barred = barred.unwrap_or(live.barred);
            match &order {
                WorkerOrder::Drain(_, reason) => live.drain_reason.clone_from(reason),
                WorkerOrder::Undrain => live.drain_reason.clear(),
                _ => {}
            }
        }
        if let WorkerOrder::Drain(order, reason) = order {
            let left = order.deadline.map_or(0, |at| at.saturating_sub(self.now).max(1));
            // One with nothing to do has ended with the order: it is asked to shut down, not to drain, or it would come back.
            if let Some(out) = self.out(key)
                && out.directive.as_ref().is_none_or(|directive| directive.kind() != DirectiveKind::Shutdown)
            {
                let given = |reason: String| format!("an operator drains this worker: {reason}");
                let reason = Some(reason).filter(|reason| !reason.is_empty());
                let reason = reason.map_or_else(|| "an operator drains this worker".to_owned(), given);
                out.directive = Some(Directive { kind: DirectiveKind::Drain.into(), reason, deadline_ms: left });
            }
        }
        Ok(())
    }

    /// The event by which a worker has a label with its id.
    fn named(&mut self, key: WorkerKey) -> Result<Event, Problem> {
        let known = self.registry.workers.get_mut(key).zip(self.scheduler.worker_row(key));
        let (live, row) = known.ok_or_else(|| error::not_found("the worker"))?;
        let mut capabilities = (*row.capabilities).clone();
        capabilities.labels.insert(WORKER.to_owned(), live.id.to_string());
        live.labels.clone_from(&capabilities.labels);
        Ok(Event::Updated { worker: key, capabilities: Arc::new(capabilities) })
    }

    /// Creates or changes a tenant.
    pub(super) fn tenant(
        &mut self,
        name: TenantName,
        settings: Option<TenantSettings>,
        quota: Option<Quota>,
        reply: Reply<()>,
    ) {
        let answer = self.changed_tenant(&name, settings, quota);
        self.writes.release(Release::reply(reply, answer));
    }

    fn changed_tenant(
        &mut self,
        name: &TenantName,
        settings: Option<TenantSettings>,
        quota: Option<Quota>,
    ) -> Result<(), Problem> {
        if let Some(settings) = settings {
            self.call_or(Event::TenantChanged { tenant: name.clone(), settings })?;
        }
        if let Some(quota) = quota {
            self.call_or(Event::QuotaChanged { tenant: name.clone(), quota })?;
        }
        let Some(view) = self.scheduler.tenant(name) else {
            return Err(error::not_found(format_args!("tenant `{name}`")));
        };
        let document = Tenant {
            weight: view.settings.weight,
            state: match view.settings.status {
                TenantStatus::Active => TenantState::Active,
                TenantStatus::Paused => TenantState::Paused,
                TenantStatus::Closing => TenantState::Closing,
            },
            priority_best: view.settings.priority_best,
            quota: serde_json::to_value(&view.quota)
                .map_err(|error| Problem::coded(Code::Internal, error.to_string()))?,
            revision: self.revision,
            ..Tenant::new(name.clone())
        };
        let record = Record::put(&document)?;
        self.writes.records.push(record);
        self.publish_tenant("quota.changed", name);
        Ok(())
    }
}
