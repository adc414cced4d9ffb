//! Documents of access: tokens, hashed, and secrets, sealed. Owns their fields; neither hashes nor seals.

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
