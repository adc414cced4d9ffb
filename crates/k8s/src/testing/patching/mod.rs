//! The patch formats, as changes of JSON values. Knows no store.

pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;
