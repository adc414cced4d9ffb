//! Which worker a class of jobs gets: ranking by policy over the worker table. Owns the scores and the scan
//! that skips whole blocks; changes nothing.

pub(crate) mod rank;
pub(crate) mod scan;
#[cfg(test)]
mod tests;
