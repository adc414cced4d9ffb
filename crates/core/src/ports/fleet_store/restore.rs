//! What a server that has just taken leadership reads. Owns its shape.

use super::array::Spans;
use super::attempt::AttemptRow;
use super::job::{JobRow, NewSpec};
use crate::id::JobId;

/// A job that is not final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredJob {
    /// The job.
    pub row: JobRow,
    /// Its elements, if it is an array.
    pub elements: Spans,
    /// Its attempts that have not ended or are only lost from sight, in order; of an array those of `elements.live`.
    pub attempts: Vec<AttemptRow>,
}

/// Some of the jobs that are not final.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestorePage {
    /// The jobs, in order of their ids.
    pub jobs: Vec<RestoredJob>,
    /// Each spec of these jobs once, in order of their hashes.
    pub specs: Vec<NewSpec>,
    /// Where the next page begins, if there is one.
    pub next: Option<JobId>,
}
