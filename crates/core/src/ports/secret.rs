//! Reading the values of secrets when an attempt needs them. Owns the contract; a value is never part of a spec, an event or a
//! log.

use std::fmt;

use async_trait::async_trait;

use crate::error::{Class, Problem};
use crate::id::TenantName;

/// The longest value, in bytes.
pub const MAX_SECRET: usize = 64 << 10;

/// The value of a secret. Its debug form hides it.
///
/// ```
/// use orlop_core::ports::secret::SecretValue;
/// let value = SecretValue::new(*b"hunter2");
/// assert_eq!((format!("{value:?}").as_str(), value.expose()), ("SecretValue(***)", b"hunter2".as_slice()));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Box<[u8]>);

impl SecretValue {
    /// The value with these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, to be handed to the attempt and nothing else.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(***)")
    }
}

/// Values of secrets by tenant and name.
#[async_trait]
pub trait SecretStore: Send + Sync {
    /// The newest value of a secret.
    ///
    /// # Errors
    /// NotFound when there is none of that name; Invalid when the text is not a name; Denied when it cannot be decrypted; Transient
    /// when it cannot be read now.
    async fn resolve(&self, tenant: &TenantName, name: &str) -> Result<SecretValue, Problem>;

    /// Names of the secrets of a tenant, in order.
    ///
    /// # Errors
    /// Transient when they cannot be read now.
    async fn names(&self, tenant: &TenantName) -> Result<Vec<String>, Problem>;
}

/// Checks the name of a secret: 1 to 128 letters, digits, `-`, `_` and `.`, with a letter or digit first.
///
/// # Errors
/// Invalid when it is not such a name.
pub fn check_secret_name(name: &str) -> Result<(), Problem> {
    let plain = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '-' | '_' | '.');
    if name.len() <= 128 && name.starts_with(|ch: char| ch.is_ascii_alphanumeric()) && name.chars().all(plain) {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    let message = format!(
        "`{shown}` is not a valid secret name; use up to 128 letters, digits, `-`, `_` and `.`, starting with a \
         letter or digit"
    );
    Err(Problem::new(Class::Invalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_do_not_show() {
        assert_eq!(format!("{:?}", SecretValue::new(*b"hush")), "SecretValue(***)");
    }

    #[test]
    fn names_stay_inside_a_folder() {
        for good in ["a", "db.password", "A-1_x", &"x".repeat(128)] {
            check_secret_name(good).unwrap();
        }
        for bad in ["", ".", "..", "a/b", "a b", "-a", "\u{e9}", &"x".repeat(129)] {
            assert_eq!(check_secret_name(bad).unwrap_err().class, Class::Invalid, "{bad:?}");
        }
    }
}
