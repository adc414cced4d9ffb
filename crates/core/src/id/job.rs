//! Job ids: server epoch and counter in one number that sorts in order of submission, with a text form of fixed length.
//! Owns both forms; never draws a number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::{IdError, IdFault};
use super::number::Epoch;

const COUNTER_BITS: u32 = 40;
const EPOCH_BITS: u32 = 24;
const DIGITS: usize = 13;
/// Crockford's base 32: no `i`, `l`, `o`, `u`, so that no digit is taken for another.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ALLOWED: &str = "`j` and 13 digits of Crockford's base 32 (`0`–`9`, `a`–`z` without `i`, `l`, `o`, `u`)";

/// The id of a job: the server's epoch (24 bits) and a counter (40 bits), so ids grow in order of submission.
///
/// Its text is `j` and 13 Crockford base-32 digits, in lower case, and sorts like the number. Reading takes either
/// case and the usual mistakes (`o` for 0, `i` and `l` for 1). In JSON it is always this text, never a number, which
/// some readers would round. In binary forms it is the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl JobId {
    /// The greatest counter of one epoch.
    pub const MAX_COUNTER: u64 = (1 << COUNTER_BITS) - 1;
    /// The greatest epoch an id can carry.
    pub const MAX_EPOCH: Epoch = Epoch((1 << EPOCH_BITS) - 1);

    /// The id of job number `counter` of a server in `epoch`; none if either does not fit its bits.
    #[must_use]
    pub fn new(epoch: Epoch, counter: u64) -> Option<Self> {
        (epoch <= Self::MAX_EPOCH && counter <= Self::MAX_COUNTER).then_some(Self((epoch.0 << COUNTER_BITS) | counter))
    }

    /// The id with this number, as it travels in the protocol.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The number, as it travels in the protocol.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The epoch of the server that took the job.
    #[must_use]
    pub const fn epoch(self) -> Epoch {
        Epoch(self.0 >> COUNTER_BITS)
    }

    /// The counter within that epoch.
    #[must_use]
    pub const fn counter(self) -> u64 {
        self.0 & Self::MAX_COUNTER
    }

    /// The following id of the same epoch, or none when its counter is used up.
    #[must_use]
    pub fn checked_next(self) -> Option<Self> {
        Self::new(self.epoch(), self.counter() + 1)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(1 + DIGITS);
        text.push('j');
        for place in (0..DIGITS).rev() {
            let digit = (self.0 >> (5 * place)) & 31;
            text.extend(ALPHABET.iter().skip(digit as usize).take(1).map(|&byte| char::from(byte)));
        }
        f.pad(&text)
    }
}

/// The value of a digit, mistakes forgiven.
fn digit(ch: char) -> Option<u64> {
    let byte = match ch.to_ascii_lowercase() {
        'o' => b'0',
        'i' | 'l' => b'1',
        other => u8::try_from(other).ok()?,
    };
    ALPHABET.iter().zip(0..).find_map(|(&known, value)| (known == byte).then_some(value))
}

impl FromStr for JobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = |fault| IdError::new("job id", text, fault);
        if text.len() != 1 + DIGITS {
            return Err(wrong(IdFault::Length { len: text.len(), wanted: 1 + DIGITS, allowed: ALLOWED }));
        }
        let mut number = 0_u128;
        for (ch, at) in text.chars().zip(1..) {
            let value = if at == 1 { matches!(ch, 'j' | 'J').then_some(0) } else { digit(ch) };
            let value = value.ok_or_else(|| wrong(IdFault::Character { ch, at, allowed: ALLOWED }))?;
            number = number * 32 + u128::from(value);
        }
        // 13 digits hold 65 bits: a text above `jfzzzzzzzzzzzz` has no number.
        u64::try_from(number).map(Self).map_err(|_| wrong(IdFault::Range { allowed: "at most jfzzzzzzzzzzzz" }))
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(self) } else { serializer.serialize_u64(self.0) }
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Self);
        }
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_text_is_j_and_thirteen_crockford_digits() {
        assert_eq!(JobId::from_u64(0).to_string(), "j0000000000000");
        assert_eq!(JobId::from_u64(u64::MAX).to_string(), "jfzzzzzzzzzzzz");
        assert_eq!(JobId::new(Epoch(1), 31).unwrap().to_string(), "j000010000000z");
    }

    #[test]
    fn epoch_and_counter_share_the_number() {
        let id = JobId::new(Epoch(7), 41).unwrap();
        assert_eq!((id.epoch(), id.counter()), (Epoch(7), 41));
        assert_eq!(id.as_u64(), (7 << 40) + 41);
        assert_eq!(id.checked_next(), JobId::new(Epoch(7), 42));
        assert_eq!(JobId::new(JobId::MAX_EPOCH, JobId::MAX_COUNTER).unwrap().checked_next(), None);
        assert_eq!(JobId::new(Epoch(1 << 24), 0), None);
        assert_eq!(JobId::new(Epoch(0), 1 << 40), None);
    }

    #[test]
    fn reading_forgives_case_and_lookalikes() {
        let id: JobId = "jOOOO1oOOOOOiL".parse().unwrap();
        assert_eq!(id.to_string(), "j0000100000011");
        assert_eq!("J000010000000Z".parse::<JobId>().unwrap().counter(), 31);
    }

    #[test]
    fn errors_say_what_where_and_what_is_allowed() {
        let error = |text: &str| text.parse::<JobId>().unwrap_err();
        insta::assert_snapshot!(error("j1"), @"job id `j1` is not valid: it is 2 bytes long, exactly 14 are needed: `j` and 13 digits of Crockford's base 32 (`0`–`9`, `a`–`z` without `i`, `l`, `o`, `u`)");
        insta::assert_snapshot!(error("k0000000000000"), @"job id `k0000000000000` is not valid: character 'k' at position 1 is not allowed; use `j` and 13 digits of Crockford's base 32 (`0`–`9`, `a`–`z` without `i`, `l`, `o`, `u`)");
        insta::assert_snapshot!(error("j000000000000u"), @"job id `j000000000000u` is not valid: character 'u' at position 14 is not allowed; use `j` and 13 digits of Crockford's base 32 (`0`–`9`, `a`–`z` without `i`, `l`, `o`, `u`)");
        insta::assert_snapshot!(error("jg000000000000"), @"job id `jg000000000000` is not valid: it is out of range; use at most jfzzzzzzzzzzzz");
        assert!("jä00000000000".parse::<JobId>().is_err());
    }

    #[test]
    fn json_is_always_a_string() {
        let id = JobId::from_u64(42);
        assert_eq!(serde_json::to_string(&id).unwrap(), r#""j000000000001a""#);
        assert!(serde_json::from_str::<JobId>("42").is_err());
    }

    proptest! {
        #[test]
        fn the_text_reads_back_and_sorts_like_the_number(a: u64, b: u64) {
            let (a, b) = (JobId::from_u64(a), JobId::from_u64(b));
            prop_assert_eq!(a.to_string().parse(), Ok(a));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
            let json = serde_json::to_string(&a).unwrap();
            prop_assert_eq!(serde_json::from_str::<JobId>(&json).unwrap(), a);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}|j[0-9a-zA-Z]{13}") {
            if let Ok(id) = text.parse::<JobId>() {
                prop_assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
    }
}
