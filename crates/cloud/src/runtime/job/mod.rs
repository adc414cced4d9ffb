//! A `batch/v1` Job off Kubernetes, as pure rules over the records of its pods. Owns how many pods a Job has, when the
//! next one starts and what their ends mean; never starts anything and reads no clock.

pub mod backoff;
