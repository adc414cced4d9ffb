//! A job as it is handed in: its id, what it asks, when it may start, and its elements if it is an array. Owns the values and
//! how they are built; admits nothing.

use std::sync::Arc;

use orlop_core::id::JobId;
use serde::{Deserialize, Serialize};

use crate::job::Demand;

/// When a job may start, and how long it may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StartWindow {
    /// Earliest start, in monotonic milliseconds of the host.
    pub not_before: Option<u64>,
    /// How long it may wait for its first start, in milliseconds from the submit.
    pub queue_timeout: Option<u64>,
}

/// Which elements an array has, and how they run beside each other.
///
/// ```
/// use orlop_scheduler::event::ArraySpec;
///
/// let array = ArraySpec::range(0, 99).max_parallel(10);
/// assert_eq!((array.indices, array.max_parallel), (vec![(0, 99)], Some(10)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ArraySpec {
    /// Inclusive ranges of indices, in any order; they may touch but not overlap.
    pub indices: Vec<(u32, u32)>,
    /// The most elements that hold capacity at once, 1 or more.
    pub max_parallel: Option<u32>,
    /// Past this many unsuccessful elements the rest is cancelled.
    pub max_failures: Option<u32>,
}

impl ArraySpec {
    /// The elements from `first` to `last`, both included.
    #[must_use]
    pub fn range(first: u32, last: u32) -> Self {
        Self { indices: vec![(first, last)], ..Self::default() }
    }

    /// With at most `most` elements at once, 1 or more.
    #[must_use]
    pub fn max_parallel(mut self, most: u32) -> Self {
        self.max_parallel = Some(most);
        self
    }

    /// Cancelled once more than `most` elements were unsuccessful.
    #[must_use]
    pub fn max_failures(mut self, most: u32) -> Self {
        self.max_failures = Some(most);
        self
    }
}

/// A job that is handed in by [`Scheduler::submit`](crate::engine::Scheduler::submit): a single one, a gang if its demand
/// says so, or an array.
///
/// ```
/// use orlop_scheduler::prelude::*;
///
/// let mut demand = Demand::new("physics".parse()?);
/// demand.resources.cpu_m = 500;
/// let job = Submission::new(JobId::from_u64(7), demand).queue_timeout(60_000).array(ArraySpec::range(0, 9));
/// assert!(matches!(Event::from(job), Event::SubmitArray { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// Its id, unique; jobs of equal priority start in the order of their ids.
    pub job: JobId,
    /// What it asks; of an array what each element asks. Jobs that ask the same may share one.
    pub demand: Arc<Demand>,
    /// When it may start.
    pub window: StartWindow,
    /// Its elements, if it is an array.
    pub array: Option<ArraySpec>,
}

impl Submission {
    /// A job that may start at once and may wait without limit.
    #[must_use]
    pub fn new(job: JobId, demand: impl Into<Arc<Demand>>) -> Self {
        Self { job, demand: demand.into(), window: StartWindow::default(), array: None }
    }

    /// Starting at this time at the earliest, in monotonic milliseconds of the host.
    #[must_use]
    pub fn not_before(mut self, at: u64) -> Self {
        self.window.not_before = Some(at);
        self
    }

    /// Failing unless it starts within `millis` milliseconds of its submission.
    #[must_use]
    pub fn queue_timeout(mut self, millis: u64) -> Self {
        self.window.queue_timeout = Some(millis);
        self
    }

    /// As an array of these elements.
    #[must_use]
    pub fn array(mut self, array: ArraySpec) -> Self {
        self.array = Some(array);
        self
    }
}
