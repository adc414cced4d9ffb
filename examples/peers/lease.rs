//! How long work of a program that is gone stays with it, for the libraries that have such a lease. Owns no default: that is the
//! library's.

use std::time::Duration;

/// `LEASE` in seconds; none where the library's own is to be used.
pub fn from_environment() -> Option<Duration> {
    let text = std::env::var("LEASE").ok()?;
    Some(Duration::from_secs(text.parse().expect("LEASE is a number of seconds")))
}
