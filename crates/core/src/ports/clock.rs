//! What time it is. The program gives engines and adapters a clock; tests give one that they move.

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

    /// Somebody has seen this time: it is not earlier now. The default suits a clock that never goes back.
    fn no_earlier_than(&self, time: Time) {
        let _ = time;
    }
}
