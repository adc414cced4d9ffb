//! One target a file. A target takes any bytes, and checks more than that nothing panics.

mod depends;
mod engine_events;
mod job_spec;
mod journal;
mod jsonpath;
mod manifest;
mod packing;
mod parameters;
mod quantity;
mod scheduler_events;
mod when;

pub use depends::depends;
pub use engine_events::engine_events;
pub use job_spec::job_spec;
pub use journal::journal;
pub use jsonpath::jsonpath;
pub use manifest::{jobflow_yaml, pipeline};
pub use packing::packing;
pub use parameters::parameters;
pub use quantity::quantity;
pub use scheduler_events::scheduler_events;
pub use when::when;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets by the name of their corpus.
pub const ALL: &[(&str, Target)] = &[
    ("depends", depends),
    ("engine_events", engine_events),
    ("job_spec", job_spec),
    ("jobflow_yaml", jobflow_yaml),
    ("journal", journal),
    ("jsonpath", jsonpath),
    ("packing", packing),
    ("parameters", parameters),
    ("pipeline", pipeline),
    ("quantity", quantity),
    ("scheduler_events", scheduler_events),
    ("when", when),
];

/// The steps that conditions and joins may name.
const STEPS: [(&str, &[&str]); 6] = [
    ("build", &["digest", "count"]),
    ("build-image", &["digest"]),
    ("build-image.v2", &[]),
    ("test", &["report"]),
    ("shards", &["sum"]),
    ("phase", &["outputs"]),
];

/// The text of an input, if it is text.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The first line and the rest.
fn first_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}
