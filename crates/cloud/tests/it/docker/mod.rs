//! Pods as containers, against a real engine. Without one every test prints `skipped: …` and passes.

mod bench;
mod inside;
mod sequence;
