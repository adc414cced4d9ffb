//! Pods as containers, against a real engine. Without one every test prints `skipped: …` and passes.

pub(crate) mod bench;
mod crash;
mod ending;
mod inside;
mod logs;
mod names;
pub(crate) mod outage;
mod outputs;
