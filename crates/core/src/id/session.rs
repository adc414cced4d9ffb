//! Session ids of worker registrations. Owns the text form; the 128 random bits come from the caller.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::{IdError, IdFault};

const DIGITS: usize = 32;
const ALLOWED: &str = "32 hexadecimal digits in lower case";

/// One registration of an agent: 128 random bits, 32 lower case hexadecimal digits as text and in JSON.
///
/// It is a credential: who has it can speak for the worker. So `Debug` shows only its first 8 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// The id made of these bits, which must come from a cryptographic source.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bits, most significant byte first.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({:08x}…)", u128::from_be_bytes(self.0) >> 96)
    }
}

impl FromStr for SessionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        // The text is a credential: errors never repeat it.
        let wrong = |fault| IdError::new("session id", "…", fault);
        if text.len() != DIGITS {
            return Err(wrong(IdFault::Length { len: text.len(), wanted: DIGITS, allowed: ALLOWED }));
        }
        if let Some((ch, at)) = text.chars().zip(1..).find(|(ch, _)| !matches!(ch, '0'..='9' | 'a'..='f')) {
            return Err(wrong(IdFault::Character { ch, at, allowed: ALLOWED }));
        }
        let bits = u128::from_str_radix(text, 16).map_err(|_| wrong(IdFault::Range { allowed: ALLOWED }))?;
        Ok(Self(bits.to_be_bytes()))
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_text_is_32_hexadecimal_digits() {
        let mut bytes = [0; 16];
        bytes[0] = 0x0a;
        bytes[15] = 0xff;
        let id = SessionId::from_bytes(bytes);
        assert_eq!(id.to_string(), "0a0000000000000000000000000000ff");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.as_bytes(), &bytes);
    }

    #[test]
    fn debug_and_errors_do_not_give_the_credential_away() {
        let text = "0123456789abcdef0123456789abcdef";
        assert_eq!(format!("{:?}", text.parse::<SessionId>().unwrap()), "SessionId(01234567…)");
        insta::assert_snapshot!("0123456789ABCDEF0123456789abcdef".parse::<SessionId>().unwrap_err(), @"session id `…` is not valid: character 'A' at position 11 is not allowed; use 32 hexadecimal digits in lower case");
        insta::assert_snapshot!("+123".parse::<SessionId>().unwrap_err(), @"session id `…` is not valid: it is 4 bytes long, exactly 32 are needed: 32 hexadecimal digits in lower case");
        assert!("+123456789abcdef0123456789abcdef".parse::<SessionId>().is_err());
    }

    proptest! {
        #[test]
        fn text_and_json_read_back(bytes: [u8; 16]) {
            let id = SessionId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            let json = serde_json::to_string(&id).unwrap();
            prop_assert_eq!(serde_json::from_str::<SessionId>(&json).unwrap(), id);
        }
    }
}
