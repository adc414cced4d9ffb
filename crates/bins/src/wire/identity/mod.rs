//! Who is who between workers and their server: join tokens, the fleet's own authority, and certificates that are checked
//! against them. Never stores one and never opens a socket.

mod authority;
mod join;
mod peer;
mod pin;
mod serve;
#[cfg(test)]
mod tests;

use std::fmt;

pub use authority::{Authority, Csr, SERVER_NAME, ServerIdentity, WORKER_DAYS, expiry, renewal};
pub use join::{JoinToken, JoinTokenError};
pub use peer::PeerCertificate;
pub(super) use pin::{Trust, client_config};
pub use serve::http_config;

/// Why an identity cannot be made or read. Never shows a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct IdentityError {
    /// What was to be done.
    pub what: &'static str,
    /// Why it cannot.
    pub why: String,
}

impl IdentityError {
    pub(super) fn new(what: &'static str) -> impl Fn(&dyn fmt::Display) -> Self {
        move |why| Self { what, why: why.to_string() }
    }
}

/// SHA-256, as it stands in join tokens and lists of revoked certificates.
#[must_use]
pub fn fingerprint(der: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, der);
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    bytes
}

/// Lower case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The 32 bytes of 64 lower case hexadecimal digits.
pub(super) fn unhex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}
