//! Requests as the first spans of traces.

use super::Handle;
use super::command::Submitted;
use crate::telemetry::trace::Requested;

impl Handle {
    /// A request that makes jobs begins, with the `traceparent` that it came with.
    #[must_use]
    pub fn traced(&self, traceparent: Option<&str>) -> Requested {
        self.shared.options.tracer.request(traceparent, self.shared.clock.wall())
    }

    /// It has made these jobs. One that was made before under the same key has its span already.
    pub fn submitted(&self, request: Requested, made: &Submitted, request_id: &str) {
        if made.replay {
            return;
        }
        let mut attributes = vec![("orlop.jobs", made.jobs.len().to_string())];
        attributes.extend(made.jobs.first().map(|job| ("orlop.job", job.to_string())));
        attributes.push(("orlop.request_id", request_id.to_owned()));
        request.end("submit", self.shared.clock.wall(), attributes);
    }
}
