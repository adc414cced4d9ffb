//! Unit tests of the engine: one small flow per rule. The laws over random flows are in `tests/`.

mod support;

mod control;
mod explain;
mod failures;
mod flow_rows;
mod order;
mod rebuild;
mod rules;
mod status;
mod step_rows;
