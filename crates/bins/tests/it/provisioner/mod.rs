//! The real program `orlop-provisioner`, from outside: results, exit codes, settings, advice, and that nothing leaks.

mod advice;
mod bench;
mod verbs;
