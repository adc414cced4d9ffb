//! The spans of attempts that run here.

use std::collections::BTreeMap;

use orlop_cloud::runtime::worker::AttemptEnd;
use orlop_core::task::{TaskEnd, TaskRef};

use crate::telemetry::trace::{Context, Span, Tracer};

/// Attempts whose traces are kept.
#[derive(Debug, Default)]
pub(super) struct Traced {
    tracer: Tracer,
    /// The contexts of their assignments, and their correlation ids.
    known: BTreeMap<TaskRef, (Context, String)>,
}

impl Traced {
    pub(super) fn by(&mut self, tracer: Tracer) {
        self.tracer = tracer;
    }

    /// An attempt is taken on, or gone on with. Whether its trace is kept.
    pub(super) fn take_on(&mut self, id: TaskRef, traceparent: &str, correlation_id: &str) -> bool {
        let context = self.tracer.kept(Some(traceparent));
        context.is_some_and(|context| {
            self.known.insert(id, (context, correlation_id.to_owned()));
            true
        })
    }

    /// An attempt has not been started, and will not be.
    pub(super) fn forget(&mut self, id: TaskRef) {
        self.known.remove(&id);
    }

    /// An attempt ended.
    pub(super) fn ended(&mut self, id: TaskRef, end: &AttemptEnd) {
        let Some((above, correlation)) = self.known.remove(&id) else { return };
        let attempt = id;
        let mut attributes = vec![
            ("orlop.job", attempt.job.to_string()),
            ("orlop.attempt", attempt.to_string()),
            ("orlop.correlation_id", correlation),
            ("orlop.outcome", format!("{:?}", end.outcome)),
        ];
        attributes.extend(end.exit_code.map(|code| ("orlop.exit_code", code.to_string())));
        let failed = end.outcome != TaskEnd::Succeeded;
        let reason = || if end.reason.is_empty() { format!("{:?}", end.outcome) } else { end.reason.clone() };
        self.tracer.end(Span {
            context: above.named("run", &attempt.to_string()),
            parent: Some(above),
            name: "run",
            from: end.started_at.unwrap_or(end.finished_at),
            until: end.finished_at,
            attributes,
            error: failed.then(reason),
        });
    }
}
