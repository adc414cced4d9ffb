//! Manifests: the YAML or JSON that users write, read into typed objects and checked by every rule that needs no running flow, with
//! the line and column of each error. Owns this way and all messages on it; never reads a file, a clock or a store itself.

pub(crate) mod data;
mod decode;
mod graph;
#[cfg(test)]
mod hostile;
mod jobflow;
mod path;
pub mod pipeline;
mod read;
mod report;
mod schema;
mod source;
pub mod substrate;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod validate;
mod violation;

pub use crate::code::Code;
pub use graph::checked;
pub use jobflow::read_object;
pub use path::{FieldPath, ParsePathError, Path, Segment};
pub use read::{Form, Manifest, Options, ParsedFile, read};
pub use report::Report;
pub use source::{Node, Source, TextLimits};
pub use validate::{Limits, validate, validate_resources, validate_update};
pub use violation::{Excerpt, FieldPart, KEPT, Location, Note, Severity, Violation, Violations};
