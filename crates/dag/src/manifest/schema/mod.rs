//! What fields manifests have and what their types are, as data: the flow and pipeline forms, and the Kubernetes objects
//! that templates hold. Owns the tables and the walk that compares a document with them; never knows the rules between
//! fields.

mod suggest;
mod table;
mod walk;

pub(crate) use suggest::nearest;
#[cfg(test)]
pub(crate) use table::{Base, Outer, table};
pub(crate) use walk::{Expected, Walk};
