//! Events of the bus: what the core's effects and the loop's inputs are called outside.

use orlop_core::id::{JobId, TenantName};
use orlop_core::machine::job::JobState;
use orlop_core::machine::worker::WorkerState;
use orlop_core::ports::bus::{BusEvent, EventBody, SUBJECT_ROOT};
use orlop_core::ports::fleet_store::{OutboxEvent, Record};
use orlop_scheduler::effect::{Effect, JobPart, Reason};
use orlop_scheduler::token::WorkerKey;

use super::super::commit::Release;
use super::Core;

/// How many events of one epoch have numbers of their own.
const EVENT_BITS: u32 = 40;

impl Core {
    /// Whether events are worth making.
    fn is_heard(&self) -> bool {
        self.outbox || self.bus.listeners() > 0
    }

    /// Publishes what an effect means outside, if anything.
    pub(super) fn publish(&mut self, effect: &Effect) {
        if !self.is_heard() {
            return;
        }
        let body = match effect {
            Effect::Admitted { job, elements } => {
                let data = serde_json::json!({ "elements": elements });
                EventBody { data, ..self.about_job("job.created", *job, JobPart::Whole) }
            }
            Effect::JobChanged { job, part, from, to, reason, .. } => {
                let Some(verb) = verb(*to, *reason) else { return };
                let data = serde_json::json!({ "from": from, "to": to, "reason": reason.word() });
                let data = with_range(data, *part);
                EventBody { data, ..self.about_job(verb, *job, *part) }
            }
            Effect::WorkerChanged { worker, to, reason, .. } => {
                let Some(verb) = worker_verb(*to) else { return };
                let data = serde_json::json!({ "reason": reason.word() });
                EventBody { data, ..self.about_worker(verb, *worker) }
            }
            Effect::Quota { tenant, stopped: true, .. } => {
                EventBody { tenant: Some(tenant.to_string()), ..self.event("quota.exceeded") }
            }
            _ => return,
        };
        self.publish_body(body);
    }

    /// Publishes that a worker's stream opened or broke.
    pub(super) fn publish_worker(&mut self, kind: &'static str, worker: WorkerKey) {
        if self.is_heard() {
            let body = self.about_worker(kind, worker);
            self.publish_body(body);
        }
    }

    /// Publishes that a worker was heard, where that is wanted.
    pub(super) fn publish_heartbeat(&mut self, worker: WorkerKey) {
        if self.heartbeats {
            self.publish_worker("worker.heartbeat", worker);
        }
    }

    /// Publishes something of a tenant itself.
    pub(super) fn publish_tenant(&mut self, kind: &'static str, tenant: &TenantName) {
        if self.is_heard() {
            let body = EventBody { tenant: Some(tenant.to_string()), ..self.event(kind) };
            self.publish_body(body);
        }
    }

    /// Publishes something of the server itself.
    pub(super) fn publish_plain(&mut self, kind: &'static str) {
        if self.is_heard() {
            let body = self.event(kind);
            self.publish_body(body);
        }
    }

    /// Publishes that this server gives leadership up in good order.
    pub(in super::super) fn publish_end(&mut self) {
        self.read_clock();
        self.publish_plain("leader.resigned");
    }

    /// Publishes what another part of the server tells, such as what happens to flows.
    pub(super) fn publish_requested(&mut self, mut body: EventBody) {
        if !self.is_heard() {
            return;
        }
        // Who tells of a job need not know whose it is.
        let job = body.job.as_deref().filter(|_| body.tenant.is_none()).and_then(|job| job.parse::<JobId>().ok());
        if let Some(live) = job.and_then(|job| self.registry.jobs.get(job)) {
            body.tenant = Some(live.spec.demand().tenant.to_string());
            let client = live.client.as_deref();
            body.correlation_id = client.and_then(|client| client.correlation_id.as_deref()).map(str::to_owned);
        }
        self.publish_body(body);
    }

    fn event(&self, kind: &str) -> EventBody {
        EventBody { kind: kind.to_owned(), time: self.wall.to_string(), ..EventBody::default() }
    }

    fn about_job(&self, kind: &str, job: JobId, part: JobPart) -> EventBody {
        let index = match part {
            JobPart::Elements(first, last) if first == last => Some(first),
            _ => None,
        };
        let live = self.registry.jobs.get(job);
        let client = live.and_then(|live| live.client.as_deref());
        let view = self.scheduler.task_row(job, index);
        EventBody {
            tenant: live.map(|live| live.spec.demand().tenant.to_string()),
            job: Some(job.to_string()),
            index,
            attempt: view.as_ref().map(|view| view.attempt).filter(|attempt| *attempt > 0),
            epoch: view.as_ref().filter(|view| view.attempt > 0).map(|view| view.epoch.0),
            correlation_id: client.and_then(|client| client.correlation_id.as_deref()).map(str::to_owned),
            traceparent: client.and_then(|client| client.traceparent.as_deref()).map(str::to_owned),
            ..self.event(kind)
        }
    }

    fn about_worker(&self, kind: &str, worker: WorkerKey) -> EventBody {
        let id = self.scheduler.worker_view(worker).map(|view| view.id.to_string());
        EventBody { worker: id, ..self.event(kind) }
    }

    fn publish_body(&mut self, mut body: EventBody) {
        self.events += 1;
        let id = (self.epoch.0 << EVENT_BITS) + self.events;
        let subject = format!("{SUBJECT_ROOT}{}", body.kind);
        body.id = Some(id.to_string());
        let text: Box<str> = match serde_json::to_string(&body) {
            Ok(text) => text.into(),
            Err(error) => {
                tracing::error!(target: "orlop::scheduler", %error, subject, "an event cannot be written");
                return;
            }
        };
        if self.outbox {
            let event = OutboxEvent { subject: subject.clone().into(), body: text.clone() };
            self.writes.records.push(Record::Event(Box::new(event)));
        }
        let event = BusEvent { id, subject: subject.into(), body: text };
        match self.writes.releases.last_mut() {
            Some(Release::Events(_, events)) => events.push(event),
            _ => self.writes.releases.push(Release::Events(std::sync::Arc::clone(&self.bus), vec![event])),
        }
    }
}

fn verb(to: JobState, reason: Reason) -> Option<&'static str> {
    Some(match to {
        JobState::Queued if reason == Reason::Preempted => "job.preempted",
        JobState::Queued => "job.queued",
        JobState::Assigned => "job.assigned",
        JobState::Running => "job.started",
        JobState::Backoff => "job.retrying",
        JobState::Completed => "job.completed",
        JobState::Failed => "job.failed",
        JobState::TimedOut => "job.timedout",
        JobState::Cancelled => "job.cancelled",
        JobState::Pending | JobState::Cancelling => return None,
    })
}

fn worker_verb(to: WorkerState) -> Option<&'static str> {
    Some(match to {
        WorkerState::Registering => "worker.registered",
        WorkerState::Available => "worker.available",
        WorkerState::Unhealthy => "worker.unhealthy",
        WorkerState::Draining => "worker.draining",
        WorkerState::Terminated => "worker.terminated",
        WorkerState::Failed => "worker.failed",
        WorkerState::Creating | WorkerState::Running => return None,
    })
}

/// Says which elements an event is about, if they are several.
fn with_range(mut data: serde_json::Value, part: JobPart) -> serde_json::Value {
    if let JobPart::Elements(first, last) = part
        && first != last
        && let Some(fields) = data.as_object_mut()
    {
        fields.insert("first".to_owned(), first.into());
        fields.insert("last".to_owned(), last.into());
    }
    data
}
