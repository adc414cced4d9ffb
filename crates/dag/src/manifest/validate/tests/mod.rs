//! Every cell of the field tables and every rule that needs the object alone, with the text each refusal has.

mod fields;
mod names;
mod policy;
mod references;
mod resources;
mod template;
mod update;
