//! Fuzz targets of Orlop as plain functions: bytes in, a broken law is a panic. Owns what each target checks; never links
//! a fuzzer, so that a plain test can replay every committed input.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod targets;
