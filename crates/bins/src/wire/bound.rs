//! What a received message may hold: the error of one that holds more, and the checks all messages share. Never repairs
//! anything.

use std::collections::BTreeMap;

use orlop_core::error::Problem;
use orlop_core::id::{SessionId, WorkerId};
use orlop_core::time::Time;

/// Entries of one frame.
pub const FRAME_ENTRIES: usize = 1024;
/// Bytes of one frame.
pub const FRAME_BYTES: usize = 1 << 20;
/// Bytes of one chunk of a log.
pub const CHUNK_MAX: usize = 64 << 10;
/// Bytes of a log's tail in a result.
pub const TAIL_MAX: usize = 8 << 10;
/// Bytes of a result's outputs, names included: those of a step of a flow.
pub const OUTPUTS_MAX: usize = 512 << 10;
/// Bytes of logs a worker may send before any is stored.
pub const LOG_CREDIT: u64 = 1 << 20;
/// Specifications an agent keeps.
pub const SPECS: usize = 4096;

/// Bytes of a reason or detail.
pub(super) const TEXT_MAX: usize = 4096;
/// Bytes of a name, id or version.
pub(crate) const NAME_MAX: usize = 256;
/// Items of a list beside attempts.
pub(super) const LIST_MAX: usize = 1024;
/// Attempts one worker can have: `max_jobs` and what it holds to start next.
pub(super) const ATTEMPTS_MAX: usize = 65_536;

/// A received message that breaks a bound or lacks what it must have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {what}")]
pub struct WireError {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it, and what is allowed.
    pub what: String,
}

impl WireError {
    pub(super) fn new(field: &'static str, what: impl Into<String>) -> Self {
        Self { field, what: what.into() }
    }

    pub(super) fn missing(field: &'static str) -> Self {
        Self::new(field, "is missing")
    }

    /// For a number of an enumeration that is of a later version.
    pub(super) fn unknown(field: &'static str, number: i32) -> Self {
        Self::new(field, format!("is {number}, which this version does not know"))
    }

    /// For errors of values that say themselves what is wrong.
    pub(super) fn of(field: &'static str) -> impl Fn(&dyn std::fmt::Display) -> Self {
        move |error| Self::new(field, format!("is refused: {error}"))
    }
}

impl From<WireError> for Problem {
    fn from(error: WireError) -> Self {
        Self::field(error.field, error.what)
    }
}

/// A generated message that is used as it is.
pub(super) trait Check {
    /// What is wrong with it, of what may not be.
    fn check(&self) -> Result<(), WireError>;
}

/// The message, if nothing is wrong with it.
pub(super) fn checked<M: Check>(message: M) -> Result<M, WireError> {
    message.check().map(|()| message)
}

/// Refuses more than `max` of something.
pub(super) fn at_most(field: &'static str, given: usize, max: usize) -> Result<(), WireError> {
    if given > max { Err(WireError::new(field, format!("is {given} long; use at most {max}"))) } else { Ok(()) }
}

/// A text of at most `max` bytes.
pub(super) fn text(field: &'static str, text: String, max: usize) -> Result<String, WireError> {
    at_most(field, text.len(), max)?;
    Ok(text)
}

/// The bytes of a map's keys and values together.
pub(super) fn weight(map: &BTreeMap<String, String>) -> usize {
    map.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// A time, unless it is 0.
pub(crate) fn time(millis: i64) -> Option<Time> {
    (millis != 0).then(|| Time::from_millis(millis))
}

/// The number of a time on the wire; 0 = none.
pub(crate) fn millis(time: Option<Time>) -> i64 {
    time.map_or(0, Time::millis)
}

/// The worker a message names.
pub(super) fn worker_id(text: String) -> Result<WorkerId, WireError> {
    WorkerId::new(text).map_err(|error| WireError::of("worker_id")(&error))
}

/// The session a message names.
pub(super) fn session(bytes: &[u8]) -> Result<SessionId, WireError> {
    let bits = <[u8; 16]>::try_from(bytes);
    bits.map(SessionId::from_bytes).map_err(|_| WireError::new("session_id", "has not 16 bytes"))
}

/// Converts every item, or says what is wrong with the first that cannot be.
pub(super) fn each<A, B>(list: Vec<A>) -> Result<Vec<B>, WireError>
where
    B: TryFrom<A, Error = WireError>,
{
    list.into_iter().map(B::try_from).collect()
}

/// Converts an enumeration to and from its numbers on the wire.
macro_rules! same_values {
    ($name:ty = $wire:path, $field:literal { $($value:ident),+ $(,)? }) => {
        impl $crate::wire::bound::OnWire for $name {
            fn number(self) -> i32 {
                use $wire as Wire;
                match self {
                    $(Self::$value => Wire::$value as i32),+
                }
            }

            fn read(number: i32) -> Result<Self, $crate::wire::bound::WireError> {
                use $wire as Wire;
                match Wire::try_from(number) {
                    $(Ok(Wire::$value) => Ok(Self::$value),)+
                    Ok(Wire::Unspecified) => Err($crate::wire::bound::WireError::missing($field)),
                    Err(_) => Err($crate::wire::bound::WireError::unknown($field, number)),
                }
            }
        }
    };
}
pub(super) use same_values;

/// An enumeration with numbers on the wire.
pub(crate) trait OnWire: Sized {
    /// Its number.
    fn number(self) -> i32;
    /// The value of a number.
    fn read(number: i32) -> Result<Self, WireError>;
}
