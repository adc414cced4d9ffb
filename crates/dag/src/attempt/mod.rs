//! One attempt, whatever runs it: from a step to the Job of one attempt, its bindings, deliveries and collections, and from
//! an attempt's end to the event that says so. Owns what is the same on every substrate; starts and reads nothing.

mod answer;
mod artifacts;
mod bind;
mod collect;
mod items;
mod resource;
mod spec;
mod template;

pub use answer::{patience, resources_failed, shortage, start_failed};
pub use artifacts::{ArtifactError, collections, deliveries, imported_name};
pub use bind::{Binding, Unresolved, bind};
pub use collect::event;
pub use items::items;
pub use resource::{config_map_template, resource_name, rewrite_claim, rewrite_config_map, rewrite_job};
pub use spec::{Refusal, address, adoption_spec, grace, key, start_spec};
pub use template::{Subject, TemplateError, disown, indexed};
