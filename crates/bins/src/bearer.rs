//! Bearer tokens `orlop_<id>_<secret>`: 256 bits that are shown once and stored hashed.

use std::fmt;

use ring::digest::{SHA256, digest};
use ring::rand::SecureRandom;

/// What stands before the id, so that scanners for leaked secrets find one.
const PREFIX: &str = "orlop_";
const ID_CHARS: usize = 16;
const SECRET_CHARS: usize = 52;
/// Crockford's base 32, lower case: no letter looks like another, and none is `_`.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The public half of a token: names it in lists, logs and audit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(String);

impl TokenId {
    /// The id that a stored document names.
    #[must_use]
    pub fn of(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What is stored of a secret: its SHA-256. A secret has 256 bits of entropy, so no slow hash is needed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHash([u8; 32]);

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

impl SecretHash {
    /// Of a secret.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        let found = digest(&SHA256, secret.as_bytes());
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(found.as_ref()) {
            *to = *from;
        }
        Self(bytes)
    }

    /// For the store.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From what [`SecretHash::as_bytes`] gave.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Whether both are of the same secret, in a time that does not depend on where they differ.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
    }
}

/// A whole token, as its bearer holds it. Its debug form shows its id only.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer {
    id: TokenId,
    secret: String,
}

/// A text that is no token. What it is stays unsaid: it may be half of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Its form is wrong.
    #[error("malformed token, expected orlop_<id>_<secret>")]
    Form,
    /// The system gives no random numbers.
    #[error("the system provides no random numbers; cannot create a token")]
    Random,
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bearer").field(&self.id).finish_non_exhaustive()
    }
}

/// A random text of so many characters, five bits each.
///
/// # Errors
/// The system gives no random numbers.
pub(crate) fn random(source: &dyn SecureRandom, chars: usize) -> Result<String, TokenError> {
    let mut bytes = vec![0; chars];
    source.fill(&mut bytes).map_err(|_| TokenError::Random)?;
    // 256 is a multiple of 32: the low 5 bits of a byte are even.
    Ok(bytes.iter().filter_map(|byte| ALPHABET.get(usize::from(byte & 31))).map(|byte| char::from(*byte)).collect())
}

impl Bearer {
    /// A new token.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate(source: &dyn SecureRandom) -> Result<Self, TokenError> {
        Ok(Self { id: TokenId(random(source, ID_CHARS)?), secret: random(source, SECRET_CHARS)? })
    }

    /// Reads a token.
    ///
    /// # Errors
    /// Its form is wrong.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let rest = text.strip_prefix(PREFIX).ok_or(TokenError::Form)?;
        let (id, secret) = rest.split_once('_').ok_or(TokenError::Form)?;
        let good = |part: &str, chars| part.len() == chars && part.bytes().all(|byte| ALPHABET.contains(&byte));
        if !good(id, ID_CHARS) || !good(secret, SECRET_CHARS) {
            return Err(TokenError::Form);
        }
        Ok(Self { id: TokenId(id.to_owned()), secret: secret.to_owned() })
    }

    /// Its public half.
    #[must_use]
    pub fn id(&self) -> &TokenId {
        &self.id
    }

    /// What is stored of its secret half.
    #[must_use]
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.secret)
    }

    /// The whole text, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;

    use super::*;

    #[test]
    fn a_token_has_256_bits_and_is_stored_hashed() {
        let token = Bearer::generate(&SystemRandom::new()).unwrap();
        let text = token.reveal();
        assert_eq!(text.len(), "orlop_".len() + 16 + 1 + 52);
        assert_eq!(Bearer::parse(&text), Ok(token.clone()));
        let stored = SecretHash::from_bytes(token.hash().as_bytes()).unwrap();
        assert!(stored.matches(&token.hash()));
        let other = Bearer::generate(&SystemRandom::new()).unwrap();
        assert!(!stored.matches(&other.hash()) && other.id() != token.id());
    }

    #[test]
    fn a_token_is_not_shown_by_debug_or_errors() {
        let token = Bearer::generate(&SystemRandom::new()).unwrap();
        let secret = token.reveal().rsplit_once('_').unwrap().1.to_owned();
        assert!(!format!("{token:?} {:?}", token.hash()).contains(&secret));
        assert_eq!(format!("{:?}", token.hash()), "SecretHash(…)");
        insta::assert_snapshot!(Bearer::parse(&secret).unwrap_err(), @"malformed token, expected orlop_<id>_<secret>");
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let good = Bearer::generate(&SystemRandom::new()).unwrap().reveal();
        let upper = good.to_uppercase();
        for bad in [
            "",
            "orlop_",
            "orlop__",
            &good[1..],
            &good[..good.len() - 1],
            &upper,
            &format!("{good} "),
            &good.replace('_', "-"),
        ] {
            assert_eq!(Bearer::parse(bad), Err(TokenError::Form), "{bad:?}");
        }
        assert_eq!(SecretHash::from_bytes(&[0; 31]), None);
        assert_eq!(SecretHash::from_bytes(&[0; 33]), None);
    }
}
