//! Identities that are counters: attempts, incarnations, epochs. Owns their ranges; never wraps around.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::{IdError, IdFault};

const FROM_ONE: &str = "a whole number from 1 to 4294967295";

/// Declares a counter that starts at 1 and is a plain number in JSON.
macro_rules! counted_from_one {
    ($(#[$meta:meta])* pub struct $name:ident($what:literal);) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "u32", into = "u32")]
        pub struct $name(NonZeroU32);

        impl $name {
            /// Number 1.
            pub const FIRST: Self = Self(NonZeroU32::MIN);

            /// The number, if it is not 0.
            ///
            /// # Errors
            /// `number` is 0.
            pub fn new(number: u32) -> Result<Self, IdError> {
                let zero = || IdError::new($what, "0", IdFault::Range { allowed: FROM_ONE });
                NonZeroU32::new(number).map(Self).ok_or_else(zero)
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> u32 {
                self.0.get()
            }

            /// The following number. At the very end (after 4294967295) it stays there; `checked_next` tells.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }

            /// The following number, or none at the very end.
            #[must_use]
            pub fn checked_next(self) -> Option<Self> {
                self.0.checked_add(1).map(Self)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::FIRST
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let wrong = |_| IdError::new($what, text, IdFault::Range { allowed: FROM_ONE });
                text.parse().map(Self).map_err(wrong)
            }
        }

        impl TryFrom<u32> for $name {
            type Error = IdError;

            fn try_from(number: u32) -> Result<Self, IdError> {
                Self::new(number)
            }
        }

        impl From<$name> for u32 {
            fn from(number: $name) -> u32 {
                number.get()
            }
        }
    };
}

counted_from_one! {
    /// The number of an attempt of a step, job or element, from 1 without gaps.
    pub struct Attempt("attempt number");
}

counted_from_one! {
    /// Number of an incarnation, from 1: a worker id that registers again after its end, or a performer that gets a new pod, is the
    /// next incarnation.
    pub struct Incarnation("incarnation");
}

/// The epoch of a scheduler server: grows by one whenever a server takes leadership, never reused. 0 = none yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The following epoch. At the very end it stays there; `checked_next` tells.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The following epoch, or none at the very end.
    #[must_use]
    pub fn checked_next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Epoch {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = |_| {
            IdError::new("epoch", text, IdFault::Range { allowed: "a whole number from 0 to 18446744073709551615" })
        };
        text.parse().map(Self).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_count_from_one_without_gaps() {
        assert_eq!(Attempt::FIRST.get(), 1);
        assert_eq!(Attempt::FIRST.next(), Attempt::new(2).unwrap());
        assert_eq!("7".parse::<Attempt>().unwrap().next().to_string(), "8");
        assert!(Attempt::new(0).is_err());
        insta::assert_snapshot!("0".parse::<Attempt>().unwrap_err(), @"attempt number `0` is not valid: it is out of range; use a whole number from 1 to 4294967295");
        insta::assert_snapshot!("x".parse::<Incarnation>().unwrap_err(), @"incarnation `x` is not valid: it is out of range; use a whole number from 1 to 4294967295");
    }

    #[test]
    fn counters_never_wrap_around() {
        let last = Attempt::new(u32::MAX).unwrap();
        assert_eq!((last.next(), last.checked_next()), (last, None));
        let last = Epoch(u64::MAX);
        assert_eq!((last.next(), last.checked_next()), (last, None));
        assert_eq!(Epoch(1).checked_next(), Some(Epoch(2)));
    }

    #[test]
    fn json_is_the_plain_number_and_is_checked_on_the_way_in() {
        assert_eq!(serde_json::to_string(&Attempt::FIRST).unwrap(), "1");
        assert_eq!(serde_json::from_str::<Incarnation>("3").unwrap().get(), 3);
        assert!(serde_json::from_str::<Attempt>("0").is_err());
        assert!(serde_json::from_str::<Attempt>("4294967296").is_err());
        assert_eq!(serde_json::from_str::<Epoch>("9").unwrap(), "9".parse().unwrap());
        assert!("-1".parse::<Epoch>().is_err());
    }
}
