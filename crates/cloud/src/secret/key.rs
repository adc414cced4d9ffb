//! The key that secrets are sealed with. Owns where it comes from and the sealing itself (ChaCha20-Poly1305).

use std::fmt;
use std::path::Path;

use orlop_core::error::{Class, Problem};
use orlop_core::ports::secret::SecretValue;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

/// Bytes of a key.
const KEY: usize = 32;

/// A key that seals secrets. Its debug form shows only its id.
pub struct SealingKey {
    id: String,
    key: LessSafeKey,
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SealingKey {
    /// The key with these 32 bytes, which come from a cryptographic source.
    ///
    /// # Errors
    /// Invalid when there are more or fewer.
    pub fn new(bytes: &[u8]) -> Result<Self, Problem> {
        let unbound = UnboundKey::new(&CHACHA20_POLY1305, bytes);
        let key = unbound.map_err(|_| {
            let message = format!("the key of secrets has {} bytes; it must have {KEY}", bytes.len());
            Problem::new(Class::Invalid, message)
        })?;
        // Names the key without saying anything about it.
        let digest = Sha256::new().chain_update(b"orlop secret key").chain_update(bytes).finalize();
        let id = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { id, key: LessSafeKey::new(key) })
    }

    /// The key of a text, as a file or a variable of the environment holds it: 64 hexadecimal digits, blanks around them.
    ///
    /// # Errors
    /// Invalid when it is no such text, which the message does not repeat.
    pub fn from_text(text: &str) -> Result<Self, Problem> {
        let digits: Option<Vec<u32>> = text.trim().chars().map(|digit| digit.to_digit(16)).collect();
        let bytes: Option<Vec<u8>> = digits.filter(|digits| digits.len() == KEY * 2).and_then(|digits| {
            digits
                .chunks_exact(2)
                .map(|pair| u8::try_from(pair.iter().fold(0, |byte, digit| byte * 16 + digit)).ok())
                .collect()
        });
        let wrong = "the key of secrets must be 64 hexadecimal digits; make one with `openssl rand -hex 32`";
        Self::new(&bytes.ok_or_else(|| Problem::new(Class::Invalid, wrong))?)
    }

    /// The key in a file; makes it, for its owner only, when there is no such file.
    ///
    /// # Errors
    /// Denied when others than its owner can read the file, or it cannot be read; Invalid when it holds no key.
    pub fn from_file(path: &Path) -> Result<Self, Problem> {
        use std::os::unix::fs::PermissionsExt as _;
        let failed = |error: std::io::Error| {
            let class = Problem::from(std::io::Error::from(error.kind())).class;
            Problem::new(class, format!("the key of secrets in {} cannot be read", path.display())).because(error)
        };
        match std::fs::metadata(path) {
            Ok(meta) if meta.permissions().mode() & 0o077 != 0 => {
                let message = format!(
                    "other users can read the key of secrets in {}; `chmod 600` it, and renew the secrets",
                    path.display()
                );
                Err(Problem::new(Class::Denied, message))
            }
            Ok(_) => Self::from_text(&std::fs::read_to_string(path).map_err(failed)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::make(path),
            Err(error) => Err(failed(error)),
        }
    }

    fn make(path: &Path) -> Result<Self, Problem> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let mut bytes = [0; KEY];
        SystemRandom::new().fill(&mut bytes).map_err(|_| no_randomness())?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let failed = |error: std::io::Error| {
            let class = Problem::from(std::io::Error::from(error.kind())).class;
            Problem::new(class, format!("the key of secrets cannot be written to {}", path.display())).because(error)
        };
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        Self::new(&bytes)
    }

    /// Names the key.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Seals a value so that it opens only for the same `purpose`. Gives the nonce and the sealed bytes.
    pub(super) fn seal(&self, purpose: &str, value: &SecretValue) -> Result<(Vec<u8>, Vec<u8>), Problem> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| no_randomness())?;
        let mut sealed = value.expose().to_vec();
        let once = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(once, Aad::from(purpose.as_bytes()), &mut sealed)
            .map_err(|_| Problem::new(Class::Invalid, "the value is too long to be sealed"))?;
        Ok((nonce.to_vec(), sealed))
    }

    /// Opens what was sealed for this purpose; none when the key, the purpose or the bytes are others.
    pub(super) fn open(&self, purpose: &str, nonce: &[u8], sealed: &[u8]) -> Option<SecretValue> {
        let once = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = sealed.to_vec();
        let value = self.key.open_in_place(once, Aad::from(purpose.as_bytes()), &mut bytes).ok()?;
        Some(SecretValue::new(&*value))
    }
}

fn no_randomness() -> Problem {
    Problem::new(Class::Transient, "the system provides no random bytes; try again")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_value_opens_with_its_key_for_its_purpose_only() {
        let key = SealingKey::new(&[7; 32]).unwrap();
        let value = SecretValue::new(*b"hush");
        let (nonce, sealed) = key.seal("t/n/1", &value).unwrap();
        assert!(!sealed.windows(4).any(|part| part == b"hush"));
        assert_eq!(key.open("t/n/1", &nonce, &sealed), Some(value.clone()));
        assert_eq!(key.open("t/n/2", &nonce, &sealed), None);
        assert_eq!(SealingKey::new(&[8; 32]).unwrap().open("t/n/1", &nonce, &sealed), None);
        let mut touched = sealed.clone();
        touched[0] ^= 1;
        assert_eq!(key.open("t/n/1", &nonce, &touched), None);
        assert_eq!(key.open("t/n/1", &[1], &sealed), None);
        assert_ne!(key.seal("t/n/1", &value).unwrap().1, sealed, "each sealing is its own");
    }

    #[test]
    fn a_key_is_made_once_and_guarded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.key");
        let key = SealingKey::from_file(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(SealingKey::from_file(&path).unwrap().id(), key.id());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(SealingKey::from_file(&path).unwrap_err().class, Class::Denied);
        insta::assert_snapshot!(SealingKey::from_text("abc").unwrap_err(), @"the key of secrets must be 64 hexadecimal digits; make one with `openssl rand -hex 32`");
        assert!(SealingKey::from_text(&format!(" {}\n", "aB".repeat(32))).is_ok());
        assert!(!format!("{key:?}").contains(&std::fs::read_to_string(&path).unwrap()));
    }
}
