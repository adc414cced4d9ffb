//! Documents of access: tokens and browser sessions, hashed, and secrets, sealed. Owns their fields; neither hashes nor seals.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Document, Kind, hex, part};
use crate::id::TenantName;
use crate::time::Time;

/// An access or join token. Its key is its id.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// Public part of its text.
    pub id: String,
    /// SHA-256 of its secret part.
    #[serde(with = "hex")]
    pub hash: Vec<u8>,
    /// `access` or `join`.
    pub kind: String,
    /// Role of its holder.
    pub role: String,
    /// Tenants its holder sees; `*` = all.
    #[serde(default)]
    pub tenants: Vec<String>,
    /// Labels a worker may bring that joins with it.
    #[serde(default)]
    pub labels: Vec<String>,
    /// What it is for, in its maker's words.
    #[serde(default)]
    pub note: String,
    /// When it was made.
    pub created_at: Time,
    /// When it expires.
    #[serde(default)]
    pub expires_at: Option<Time>,
    /// How often it can still be used.
    #[serde(default)]
    pub uses_left: Option<u32>,
    /// When it was revoked.
    #[serde(default)]
    pub revoked_at: Option<Time>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("id", &self.id).field("role", &self.role).finish_non_exhaustive()
    }
}

impl Document for Token {
    const KIND: Kind = Kind::Token;

    fn key(&self) -> String {
        part(&self.id)
    }

    fn ended_at(&self) -> Option<Time> {
        self.revoked_at.or(self.expires_at)
    }
}

/// Whom a browser session acts for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionGrant {
    /// Id of the access token behind it; absent = the client token of the server's machine.
    #[serde(default)]
    pub token: Option<String>,
    /// Role, which is that of the token or a lower one.
    pub role: String,
    /// Tenants it sees; `*` = all.
    pub tenants: Vec<String>,
    /// When the token expires.
    #[serde(default)]
    pub token_expires_at: Option<Time>,
}

/// A session of a browser. Its key is its id.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Public part of its cookie.
    pub id: String,
    /// SHA-256 of the secret part of its cookie.
    #[serde(with = "hex")]
    pub cookie: Vec<u8>,
    /// SHA-256 of what its page sends beside the cookie.
    #[serde(with = "hex")]
    pub proof: Vec<u8>,
    /// Whom it acts for.
    pub grant: SessionGrant,
    /// When it began.
    pub created_at: Time,
    /// When it was used last, to the minute.
    pub used_at: Time,
    /// When it ends, however much it is used.
    pub expires_at: Time,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).field("grant", &self.grant).finish_non_exhaustive()
    }
}

impl Document for Session {
    const KIND: Kind = Kind::Session;

    fn key(&self) -> String {
        part(&self.id)
    }

    fn ended_at(&self) -> Option<Time> {
        Some(self.expires_at)
    }
}

/// A link that opens one session. Its key is the hash of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionLink {
    /// SHA-256 of the key in the link.
    #[serde(with = "hex")]
    pub hash: Vec<u8>,
    /// Whom the session acts for.
    pub grant: SessionGrant,
    /// Until when the link can be used.
    pub expires_at: Time,
}

impl Document for SessionLink {
    const KIND: Kind = Kind::SessionLink;

    fn key(&self) -> String {
        hex::text(&self.hash)
    }

    fn ended_at(&self) -> Option<Time> {
        Some(self.expires_at)
    }
}

/// A version of a sealed secret.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Secret {
    /// The tenant it belongs to.
    pub tenant: TenantName,
    /// Its name.
    pub name: String,
    /// Number of its version, from 1.
    pub version: u32,
    /// Names the key it is sealed with.
    pub key_id: String,
    /// Used once with that key.
    #[serde(with = "hex")]
    pub nonce: Vec<u8>,
    /// The sealed value.
    #[serde(with = "hex")]
    pub ciphertext: Vec<u8>,
    /// When it was stored.
    pub created_at: Time,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("tenant", &self.tenant)
            .field("name", &self.name)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Secret {
    /// What the keys of all versions of a secret begin with.
    #[must_use]
    pub fn prefix(tenant: &TenantName, name: &str) -> String {
        format!("{tenant}/{}/", part(name))
    }
}

impl Document for Secret {
    const KIND: Kind = Kind::Secret;

    fn key(&self) -> String {
        format!("{}{:010}", Self::prefix(&self.tenant, &self.name), self.version)
    }

    fn tenant(&self) -> Option<&TenantName> {
        Some(&self.tenant)
    }
}
