//! A `batch/v1` Job off Kubernetes, as pure rules over the records of its pods. Owns how many pods a Job has, when the
//! next one starts and what their ends mean; never starts anything and reads no clock.
//!
//! The state of a Job is what is written down of its pods, nothing else: [`decide`](decide::decide) gives the same
//! answer after a crash as before it. Ends are read in the order of time and the first of them that settles the Job does
//! so for good, whatever the pods still running come to.

pub mod backoff;
pub mod clock;
pub mod decide;
pub mod document;
mod policy;
pub mod rules;
#[cfg(test)]
mod tests;
