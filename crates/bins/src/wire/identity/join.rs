//! Join tokens: what an operator gives to a new worker.

use std::fmt;
use std::str::FromStr;

use super::{fingerprint, hex, unhex};

const PREFIX: &str = "orlopj";

/// A token with which a worker joins: which one, its secret, and by what the server is known.
///
/// Its text is `orlopj.<id>.<secret>.<fingerprint>`: 1 to 32 lower case letters and digits, then twice 64 hexadecimal
/// digits. `Debug` never shows the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    id: String,
    secret: [u8; 32],
    authority: [u8; 32],
}

/// A text that is no join token. Never shows the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed join token, expected orlopj.<id>.<secret>.<fingerprint> as printed by `orlop workers token create`")]
pub struct JoinTokenError;

impl JoinToken {
    /// The token `id` of a fleet whose authority's certificate has this fingerprint. The secret must come from a
    /// cryptographic source.
    ///
    /// # Errors
    /// The id is not 1 to 32 lower case letters and digits.
    pub fn new(id: impl Into<String>, secret: [u8; 32], authority: [u8; 32]) -> Result<Self, JoinTokenError> {
        let id = id.into();
        let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if id.is_empty() || id.len() > 32 || !id.bytes().all(known) {
            return Err(JoinTokenError);
        }
        Ok(Self { id, secret, authority })
    }

    /// Which token it is; no secret.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// SHA-256 of the authority's certificate, which the server must show.
    #[must_use]
    pub fn authority(&self) -> [u8; 32] {
        self.authority
    }

    /// What is stored of the secret: its SHA-256.
    #[must_use]
    pub fn stored(&self) -> [u8; 32] {
        fingerprint(&self.secret)
    }

    /// Whether the secret is the one that was stored; takes equally long for any secret.
    #[must_use]
    pub fn matches(&self, stored: &[u8; 32]) -> bool {
        self.stored().iter().zip(stored).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    /// The text, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}.{}.{}.{}", self.id, hex(&self.secret), hex(&self.authority))
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken")
            .field("id", &self.id)
            .field("authority", &hex(&self.authority))
            .finish_non_exhaustive()
    }
}

impl FromStr for JoinToken {
    type Err = JoinTokenError;

    fn from_str(text: &str) -> Result<Self, JoinTokenError> {
        let mut parts = text.trim().split('.');
        match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(PREFIX), Some(id), Some(secret), Some(authority), None) => {
                let secret = unhex(secret).ok_or(JoinTokenError)?;
                Self::new(id, secret, unhex(authority).ok_or(JoinTokenError)?)
            }
            _ => Err(JoinTokenError),
        }
    }
}
