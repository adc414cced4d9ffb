//! A pair of keys for one server: ed25519, made here, the private half in the form of OpenSSH.
//! Owns that form and that the file is new and readable by nobody else; the private half is never sent.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::fcntl::OFlag;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

/// Bytes of a key that are read.
const MAX_KEY: u64 = 64 << 10;
const KIND: &[u8] = b"ssh-ed25519";

/// A pair of keys.
pub struct KeyPair {
    /// The public half, as `authorized_keys` has it.
    pub public_key: String,
    private: SecretString,
}

impl std::fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyPair({})", self.public_key)
    }
}

/// A public key as a file of keys has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// Its kind, its bytes and its comment.
    pub line: String,
    /// Whether options stood before it, which are for the machine that has the file.
    pub has_options: bool,
}

impl PublicKey {
    /// The first key of a text, which may begin with a byte-order mark, and have comments and empty lines before it.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let line = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#'))?;
        let is_key = |line: &str| {
            let kinds = ["ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"];
            kinds.iter().any(|kind| line.starts_with(kind)) && line.split_whitespace().nth(1).is_some()
        };
        if is_key(line) {
            return Some(Self { line: line.to_owned(), has_options: false });
        }
        // Blanks within quotes are part of an option.
        let (mut is_quoted, mut before) = (false, ' ');
        let end = line.find(|ch: char| {
            is_quoted ^= ch == '"' && before != '\\';
            before = ch;
            ch.is_whitespace() && !is_quoted
        })?;
        let rest = line.get(end..)?.trim_start();
        is_key(rest).then(|| Self { line: rest.to_owned(), has_options: true })
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Removes a private key that was made here, unless another file has taken its place. Blocks.
///
/// # Errors
/// What the file system says.
pub fn remove_made(path: &Path, expected: &str) -> io::Result<bool> {
    use io::Read as _;
    let mut bytes = Vec::new();
    let mut options = OpenOptions::new();
    match options.read(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path) {
        Ok(file) => file.take(MAX_KEY).read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    // A write that was cut short leaves the beginning of it, or nothing.
    let is_ours = digest(&bytes) == expected || bytes.is_empty();
    if is_ours {
        std::fs::remove_file(path)?;
    }
    Ok(is_ours)
}

fn put(to: &mut Vec<u8>, part: &[u8]) {
    to.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend_from_slice(part);
}

impl KeyPair {
    /// The digest of the private half as it is kept, by which its file is known again.
    #[must_use]
    pub fn digest(&self) -> String {
        digest(self.private.expose_secret().as_bytes())
    }

    /// Makes a pair; the comment names it.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn make(comment: &str) -> io::Result<Self> {
        let no_randomness = || io::Error::other("the system provides no random numbers");
        let (mut seed, mut check) = ([0_u8; 32], [0_u8; 4]);
        let random = SystemRandom::new();
        random.fill(&mut seed).and_then(|()| random.fill(&mut check)).map_err(|_| no_randomness())?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| no_randomness())?;
        let public = pair.public_key().as_ref();
        let mut blob = Vec::new();
        put(&mut blob, KIND);
        put(&mut blob, public);
        let mut secret = [check, check].concat();
        put(&mut secret, KIND);
        put(&mut secret, public);
        put(&mut secret, &[seed.as_slice(), public].concat());
        put(&mut secret, comment.as_bytes());
        let padding = (8 - secret.len() % 8) % 8;
        secret.extend((1..=padding).filter_map(|number| u8::try_from(number).ok()));
        let mut whole = b"openssh-key-v1\0".to_vec();
        for part in [b"none".as_slice(), b"none", b""] {
            put(&mut whole, part);
        }
        whole.extend_from_slice(&1_u32.to_be_bytes());
        put(&mut whole, &blob);
        put(&mut whole, &secret);
        let encoded = STANDARD.encode(&whole);
        let mut text = String::from("-----BEGIN OPENSSH PRIVATE KEY-----\n");
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(70));
            text.push_str(line);
            text.push('\n');
            rest = after;
        }
        text.push_str("-----END OPENSSH PRIVATE KEY-----\n");
        seed.fill(0);
        secret.fill(0);
        Ok(Self {
            public_key: format!("ssh-ed25519 {} {comment}", STANDARD.encode(&blob)),
            private: SecretString::from(text),
        })
    }

    /// Writes the private half to a file that is not there yet. Blocks.
    ///
    /// # Errors
    /// The file already exists, which is never overwritten, or the disk refuses.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(OFlag::O_NOFOLLOW.bits());
        let mut file = options.open(path)?;
        file.write_all(self.private.expose_secret().as_bytes())?;
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_first_public_key_of_a_text_is_read_without_its_options() {
        let read = |text: &str| PublicKey::read(text).map(|key| format!("{} {}", key.line, key.has_options));
        let parsed = |text: &str| read(text).unwrap_or_default();
        assert_eq!(parsed("ssh-rsa AAAA me\n"), "ssh-rsa AAAA me false");
        assert_eq!(parsed("\u{feff}# x\r\n\r\n  ecdsa-sha2-nistp256 AAAA\r\n"), "ecdsa-sha2-nistp256 AAAA false");
        assert_eq!(
            parsed("no-pty,command=\"echo \\\" ssh-rsa x\" sk-ssh-ed25519@openssh.com AAAA me"),
            "sk-ssh-ed25519@openssh.com AAAA me true"
        );
        for bad in ["", "\u{feff}", "ssh-rsa", "x y", "from=\"a ssh-rsa AAAA", "no-pty ssh-rsa", "\"\"", "é ü"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_pair_is_what_openssh_reads_and_never_overwrites_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("demo.pem");
        let pair = KeyPair::make("demo").unwrap();
        pair.save(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("-----BEGIN OPENSSH PRIVATE KEY-----\n") && text.lines().all(|line| line.len() <= 70));
        assert!(!format!("{pair:?}").contains("PRIVATE"));
        assert_eq!(KeyPair::make("x").unwrap().save(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_ne!(KeyPair::make("demo").unwrap().public_key, pair.public_key);
        match Command::new("ssh-keygen").arg("-y").arg("-f").arg(&path).output() {
            Ok(output) => {
                let printed = String::from_utf8_lossy(&output.stdout);
                assert_eq!(printed.trim(), pair.public_key, "{}", String::from_utf8_lossy(&output.stderr));
            }
            Err(error) => println!("skipped: no ssh-keygen to compare with: {error}"),
        }
    }
}
