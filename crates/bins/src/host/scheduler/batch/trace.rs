//! The spans that the loop knows of: how long a job waited, how long its assignment took, how long its result was on its way.

use std::collections::HashMap;

use orlop_core::task::TaskRef;
use orlop_core::time::Time;

use super::Core;
use crate::telemetry::trace::{Context, Span, Tracer};
use crate::wire::attempt::JobResult;

/// The most attempts that are remembered; further ones have no span of their assignment.
const MOST: usize = 65_536;

/// Spans under way.
#[derive(Debug, Default)]
pub(super) struct Traces {
    pub(super) tracer: Tracer,
    /// Attempts that were assigned and have not started, with the contexts of their jobs and when that was.
    assigned: HashMap<TaskRef, (Context, Time)>,
}

impl Traces {
    pub(super) fn new(tracer: Tracer) -> Self {
        Self { tracer, assigned: HashMap::new() }
    }
}

impl Core {
    /// The context of the job of an attempt, if its trace is kept.
    fn trace_of(&self, attempt: TaskRef) -> Option<Context> {
        if !self.traces.tracer.is_on() {
            return None;
        }
        let client = self.registry.jobs.get(attempt.job)?.client.as_deref()?;
        self.traces.tracer.kept(client.traceparent.as_deref())
    }

    /// An attempt is assigned: its job waits no more. Gives what the agent is to carry on in place of the job's own context.
    pub(super) fn trace_assigned(&mut self, attempt: TaskRef) -> Option<String> {
        let job = self.trace_of(attempt)?;
        let name = attempt.to_string();
        if attempt.attempt == 1 {
            let element = self.registry.jobs.get(attempt.job).is_some_and(|live| live.array).then_some(attempt.index);
            let from = self.scheduler.job(attempt.job, element).map_or(self.now, |view| view.submitted);
            let (context, from) = (job.named("queue", &name), self.wall_of(from));
            self.end_span(context, job, "queue", from, self.wall, attempt);
        }
        if self.traces.assigned.len() < MOST {
            self.traces.assigned.insert(attempt, (job, self.wall));
        }
        Some(job.named("assign", &name).to_string())
    }

    /// An attempt has started, or will not.
    pub(super) fn trace_started(&mut self, attempt: TaskRef) {
        // Of most attempts nothing is remembered: not even their number is worked out then.
        if !self.traces.assigned.is_empty()
            && let Some((job, from)) = self.traces.assigned.remove(&attempt)
        {
            let context = job.named("assign", &attempt.to_string());
            self.end_span(context, job, "assign", from, self.wall, attempt);
        }
    }

    /// A result came and counts.
    pub(super) fn trace_result(&mut self, result: &JobResult) {
        let attempt = result.attempt();
        self.trace_started(attempt);
        if let Some(job) = self.trace_of(attempt) {
            let name = attempt.to_string();
            let (context, run) = (job.named("result", &name), job.named("run", &name));
            let from = result.finished().unwrap_or(self.wall).min(self.wall);
            self.end_span(context, run, "result", from, self.wall, attempt);
        }
    }

    fn end_span(
        &self,
        context: Context,
        above: Context,
        name: &'static str,
        from: Time,
        until: Time,
        attempt: TaskRef,
    ) {
        let mut attributes = vec![("orlop.job", attempt.job.to_string()), ("orlop.attempt", attempt.to_string())];
        if let Some(live) = self.registry.jobs.get(attempt.job) {
            attributes.push(("orlop.tenant", live.spec.demand().tenant.to_string()));
            let correlation = live.client.as_deref().and_then(|client| client.correlation_id.as_deref());
            attributes.extend(correlation.map(|id| ("orlop.correlation_id", id.to_owned())));
        }
        self.traces.tracer.end(Span { context, parent: Some(above), name, from, until, attributes, error: None });
    }
}
