//! The time. A program gives engines and adapters a clock; tests give one that they set.

use crate::time::Time;

/// A clock.
///
/// ```
/// use orlop_core::ports::clock::Clock;
/// use orlop_core::time::Time;
///
/// struct Noon;
/// impl Clock for Noon {
///     fn now(&self) -> Time {
///         Time::from_millis(1_763_726_400_000)
///     }
/// }
/// assert_eq!(Noon.now().to_string(), "2025-11-21T12:00:00Z");
/// ```
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Time;

    /// Tells the clock of a time that was already used, for example one read from a journal: [`Clock::now`] must not give an earlier
    /// one from now on. The default does nothing, which suits a clock that never goes back.
    fn no_earlier_than(&self, time: Time) {
        let _ = time;
    }
}
