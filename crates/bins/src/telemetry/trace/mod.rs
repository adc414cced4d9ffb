//! Traces of jobs: submit, queue, assign, run, result as spans of one trace whose context travels in `traceparent`. Never
//! waits for it.

mod context;
mod export;
#[cfg(feature = "otel")]
mod message;
#[cfg(all(feature = "otel", feature = "testing"))]
pub mod receiver;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use orlop_core::time::Time;
use tokio::sync::mpsc;

pub use context::Context;
pub use export::{ExportPlan, Exporting, export};

/// Spans that wait to be exported; what comes beyond is given up.
const WAITING: usize = 8192;
/// What is random of a trace's number, in bits.
const BITS: u32 = 56;
/// The share of traces kept of those that begin here.
pub const RATIO: f64 = 0.01;

/// A part of the life of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Where it stands.
    pub context: Context,
    /// The span above it; none = it is the first of its trace.
    pub parent: Option<Context>,
    /// What it is: submit, queue, assign, run or result.
    pub name: &'static str,
    /// When it began.
    pub from: Time,
    /// When it ended.
    pub until: Time,
    /// What is known of it.
    pub attributes: Vec<(&'static str, String)>,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// Takes spans of traces that are kept. Cheap to clone; off unless somebody exports.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Inner>>);

struct Inner {
    /// Traces whose number is below are kept.
    below: u64,
    sender: mpsc::Sender<Span>,
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tracer").field(&self.is_on()).finish()
    }
}

/// A request that makes jobs.
#[derive(Clone, Debug)]
pub struct Requested {
    tracer: Tracer,
    given: Option<Context>,
    context: Option<Context>,
    text: Option<String>,
    from: Time,
}

impl Tracer {
    /// A tracer, and the spans it takes. Of traces that begin here this share is kept, 0 to 1.
    #[must_use]
    pub fn channel(ratio: f64) -> (Self, mpsc::Receiver<Span>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let below = (ratio.clamp(0.0, 1.0) * (1_u64 << BITS) as f64) as u64;
        (Self(Some(Arc::new(Inner { below, sender }))), receiver)
    }

    /// Whether anybody takes spans.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A request begins; `given` is the `traceparent` it came with. Whether its trace is kept its caller has decided, and
    /// without one chance does.
    #[must_use]
    pub fn request(&self, given: Option<&str>, from: Time) -> Requested {
        let above = given.and_then(Context::parse);
        let context = self.0.as_ref().map(|inner| match above {
            Some(above) => above.child(),
            None => Context::new(|chance| chance < inner.below),
        });
        // Of a trace that nobody keeps and that begins here there is nothing to tell.
        let context = context.filter(|context| context.sampled || above.is_some());
        let text = match (context, above) {
            (Some(context), _) => Some(context.to_string()),
            (None, Some(above)) => Some(above.to_string()),
            // What is no context is not carried on.
            (None, None) => None,
        };
        Requested { tracer: self.clone(), given: above, context, text, from }
    }

    /// The context of a job whose trace is kept.
    #[must_use]
    pub fn kept(&self, traceparent: Option<&str>) -> Option<Context> {
        self.0.as_ref()?;
        traceparent.and_then(Context::parse).filter(|context| context.sampled)
    }

    /// Takes a span. It is given up when those who export do not keep up.
    pub fn end(&self, span: Span) {
        if let Some(inner) = &self.0 {
            // Nobody waits for traces.
            drop(inner.sender.try_send(span));
        }
    }
}

impl Requested {
    /// What the jobs of this request carry on.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The request is answered.
    pub fn end(self, name: &'static str, until: Time, attributes: Vec<(&'static str, String)>) {
        let Some(context) = self.context.filter(|context| context.sampled) else { return };
        let (parent, from) = (self.given, self.from);
        self.tracer.end(Span { context, parent, name, from, until, attributes, error: None });
    }
}
