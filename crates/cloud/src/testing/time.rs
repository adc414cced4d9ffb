//! The time of programs under test, set off from outside. Owns the name of the variable; only programs built for tests look at it.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::Duration;

fn place() -> Option<&'static OsString> {
    static PLACE: OnceLock<Option<OsString>> = OnceLock::new();
    PLACE.get_or_init(|| std::env::var_os("ORLOP_TESTING_CLOCK")).as_ref()
}

/// How far the time of day is set off, in milliseconds: what the file holds that `ORLOP_TESTING_CLOCK` names.
#[must_use]
pub fn shift() -> i64 {
    let text = place().and_then(|place| std::fs::read_to_string(place).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// How long to sleep before the next look at a clock that may be set off meanwhile.
#[must_use]
pub fn nap(left: Duration) -> Duration {
    if place().is_some() { left.min(Duration::from_millis(50)) } else { left }
}
