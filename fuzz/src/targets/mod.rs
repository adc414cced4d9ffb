//! One target a file. A target takes any bytes, and checks more than that nothing panics.

mod admission;
mod advice;
mod catalog;
mod cloud;
mod depends;
mod engine_events;
mod hardware;
mod hourglass;
mod job_spec;
mod journal;
mod jsonpath;
mod layout;
mod manifest;
mod packing;
mod parameters;
mod quantity;
mod repository;
mod scheduler_events;
mod when;

pub use admission::admission;
pub use advice::model_answers;
pub use catalog::site_answers;
pub use cloud::{cloud_answers, cloud_settings, deployment_journal};
pub use depends::depends;
pub use engine_events::engine_events;
pub use hardware::{gpu_type, hardware_merge, hardware_tables, tee_type};
pub use hourglass::hourglass_objects;
pub use job_spec::job_spec;
pub use journal::journal;
pub use jsonpath::jsonpath;
pub use layout::layout;
pub use manifest::{jobflow_yaml, pipeline};
pub use packing::packing;
pub use parameters::parameters;
pub use quantity::quantity;
pub use repository::{repository_address, repository_file};
pub use scheduler_events::scheduler_events;
pub use when::when;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets by the name of their corpus.
pub const ALL: &[(&str, Target)] = &[
    ("admission", admission),
    ("cloud_answers", cloud_answers),
    ("cloud_settings", cloud_settings),
    ("depends", depends),
    ("deployment_journal", deployment_journal),
    ("engine_events", engine_events),
    ("gpu_type", gpu_type),
    ("hardware_merge", hardware_merge),
    ("hardware_tables", hardware_tables),
    ("hourglass_objects", hourglass_objects),
    ("job_spec", job_spec),
    ("jobflow_yaml", jobflow_yaml),
    ("journal", journal),
    ("jsonpath", jsonpath),
    ("layout", layout),
    ("model_answers", model_answers),
    ("packing", packing),
    ("parameters", parameters),
    ("pipeline", pipeline),
    ("quantity", quantity),
    ("repository_address", repository_address),
    ("repository_file", repository_file),
    ("scheduler_events", scheduler_events),
    ("site_answers", site_answers),
    ("tee_type", tee_type),
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
