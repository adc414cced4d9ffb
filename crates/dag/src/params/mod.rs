//! Parameters: placeholders such as `${parameters.tag}` and their substitution ([`Scope`]), JSONPath into the results of steps
//! ([`Path`], [`Document`]), secrets in Job templates, and lists of fan-outs ([`items_of`]).
//!
//! All of it is pure and bounded in time and memory, since texts, paths and documents may come from an attacker. Planner, engine and
//! hosts share it, so that a manifest means the same everywhere.

mod config_map;
mod document;
mod expansion;
mod fan_out;
mod given;
mod job_status;
mod name;
mod path;
mod placeholder;
mod scope;
mod secret;
mod source;
mod substitute;
mod text;
mod tree;

pub use self::config_map::{ConfigMapFault, config_map_value};
pub use self::document::Document;
pub use self::fan_out::{Counters, ITEMS_MAX, ItemsError, ItemsSource, gather, items_of};
pub use self::given::{check_choice, check_given, wrong_parameter};
pub use self::job_status::{JobOutcome, JobStatus, MESSAGE_JSON_MAX, Termination};
pub use self::name::{INDEX, ITEM, NAME_MAX, NameFault, check_name, is_reserved};
pub use self::path::{
    FUNCTIONS_MAX, JsonPathRef, NESTING_MAX, PATH_MAX, Path, PathError, QueryError, STEPS_MAX, TypeFault,
};
pub use self::placeholder::{Notation, Placeholder, scan, sole};
pub(crate) use self::scope::member_of;
pub use self::scope::{Lookup, Scope};
pub use self::secret::{VARIABLE_PREFIX, misplaced_secrets};
pub use self::source::{
    FlowSource, InputSource, NO_STEP_WARNING, OutputSource, SourceFault, flow_source, input_source, output_source,
};
pub(crate) use self::substitute::texts_with;
pub use self::substitute::{Fault, INSERTED_MAX, SubstituteError, Use, names_in, names_in_text, uses_in};
pub use self::text::{TEXT_MAX, TextTooLarge, text_of};
