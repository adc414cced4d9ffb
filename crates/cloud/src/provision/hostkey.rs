//! Host keys of a machine, as its console shows them.

use serde::{Deserialize, Serialize};

/// The first line of the keys on a console.
const BEGIN: &str = "-----BEGIN SSH HOST KEY KEYS-----";
/// The last one.
const END: &str = "-----END SSH HOST KEY KEYS-----";
/// Keys that are read.
const MAX_KEYS: usize = 16;
/// Characters of a key.
const MAX_KEY: usize = 4096;

/// A host key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostKey {
    /// Its kind, such as `ssh-ed25519`.
    pub kind: String,
    /// The key in base64.
    pub key: String,
}

impl HostKey {
    /// The first key in a line, whatever stands around it.
    fn in_line(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).find_map(|pair| match pair {
            [kind, key] if is_kind(kind) && is_key(key) => {
                Some(Self { kind: (*kind).to_owned(), key: (*key).to_owned() })
            }
            _ => None,
        })
    }
}

fn is_kind(text: &str) -> bool {
    ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"].iter().any(|front| text.starts_with(front))
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.@".contains(&byte))
}

/// Every key begins with the length of its kind's name, which is short.
fn is_key(text: &str) -> bool {
    (16..=MAX_KEY).contains(&text.len())
        && text.starts_with("AAAA")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}

/// The host keys that a console shows: those of its last whole list, for a machine may have been made anew.
#[must_use]
pub fn of_console(text: &str) -> Vec<HostKey> {
    let (mut keys, mut open): (Vec<HostKey>, Option<Vec<HostKey>>) = (Vec::new(), None);
    for line in text.lines() {
        if line.contains(BEGIN) {
            open = Some(Vec::new());
        } else if line.contains(END) {
            keys = open.take().filter(|found| !found.is_empty()).unwrap_or(keys);
        } else if let Some(found) = open.as_mut().filter(|found| found.len() < MAX_KEYS) {
            found.extend(HostKey::in_line(line));
        }
    }
    keys
}

/// The host keys in a file of known hosts; lines that say something else than a host's key are none.
#[must_use]
pub fn of_known_hosts(text: &str) -> Vec<HostKey> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '@']));
    lines.filter_map(HostKey::in_line).collect()
}

/// A file of known hosts with these keys for one host.
#[must_use]
pub fn known_hosts(address: &str, port: u16, keys: &[HostKey]) -> String {
    let host = if port == 22 { address.to_owned() } else { format!("[{address}]:{port}") };
    keys.iter().map(|key| format!("{host} {} {}\n", key.kind, key.key)).collect()
}

/// A key that was met and that is none of the machine's own.
#[must_use]
pub fn stranger<'a>(own: &[HostKey], met: &'a [HostKey]) -> Option<&'a HostKey> {
    met.iter().find(|key| !own.is_empty() && !own.contains(key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ED25519: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIFFhJ1Zo6ND5DBbQO5CHQTxUX4Rj9pV1mPZWFmQjGfVc";
    const ECDSA: &str = "AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBKd7kzW8pyyKhiQ0dxbVh5Y4ZkX5qL0W2bF1cWc3J7uZl0sC3dM4bHyTq1xjYwXb";

    /// The end of a boot as a serial console shows it: other lines before, within and after.
    fn console(ed25519: &str) -> String {
        format!(
            "[   41.220511] cloud-init[1893]: Cloud-init v. 24.1.3 running 'modules:final'\r\n\
             ci-info: | Keytype |                Fingerprint (sha256)                | Options | Comment |\r\n\
             <14>Jan  5 14:20:11 cloud-init: #############################################################\r\n\
             <14>Jan  5 14:20:11 cloud-init: -----BEGIN SSH HOST KEY FINGERPRINTS-----\r\n\
             <14>Jan  5 14:20:11 cloud-init: 256 SHA256:3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs root@demo (ED25519)\r\n\
             <14>Jan  5 14:20:11 cloud-init: -----END SSH HOST KEY FINGERPRINTS-----\r\n\
             -----BEGIN SSH HOST KEY KEYS-----\r\n\
             ecdsa-sha2-nistp256 {ECDSA} root@demo\r\n\
             [   41.500000] random: crng init done\r\n\
             ssh-ed25519 {ed25519} root@demo\r\n\
             -----END SSH HOST KEY KEYS-----\r\n\
             [   41.612001] cloud-init[1893]: Cloud-init v. 24.1.3 finished at Mon, 05 Jan 2026 14:20:11 +0000.\r\n\
             \r\nUbuntu 22.04.5 LTS demo ttyS0\r\n\r\ndemo login: "
        )
    }

    #[test]
    fn a_console_shows_the_keys_of_the_last_whole_list() {
        let keys = of_console(&console(ED25519));
        let read: Vec<(&str, &str)> = keys.iter().map(|key| (key.kind.as_str(), key.key.as_str())).collect();
        assert_eq!(read, [("ecdsa-sha2-nistp256", ECDSA), ("ssh-ed25519", ED25519)]);
        let other = ED25519.replace("FFhJ", "GGhJ");
        assert_eq!(of_console(&(console(&other) + &console(ED25519))), keys, "it was made anew");
        let torn = console(&other).replace(END, "");
        assert_eq!(of_console(&(console(ED25519) + &torn)), keys, "a list that is not whole says nothing yet");
        let front = console(ED25519).replace("ssh-ed25519", "[   41.5] cloud-init[1893]: ssh-ed25519");
        assert_eq!(of_console(&front), keys);
        for nothing in ["", "login:", &format!("{BEGIN}\n{END}\n"), &format!("{BEGIN}\nssh-ed25519 x\n{END}\n")] {
            assert!(of_console(nothing).is_empty(), "{nothing}");
        }
        assert!(of_console(&format!("ssh-ed25519 {ED25519} root\n")).is_empty(), "outside of the list it is any key");
    }

    #[test]
    fn a_key_that_the_console_does_not_show_is_a_strangers() {
        let own = of_console(&console(ED25519));
        let met = |text: &str| stranger(&own, &of_known_hosts(text)).map(|key| key.key.clone());
        assert_eq!(met(&known_hosts("192.0.2.1", 22, &own)), None);
        assert_eq!(met(""), None);
        let other = ED25519.replace("FFhJ", "GGhJ");
        assert_eq!(met(&format!("192.0.2.1 ssh-ed25519 {other}\n")), Some(other.clone()));
        assert_eq!(met(&format!("|1|a=|b= ssh-ed25519 {other}\n")), Some(other.clone()), "names may be hashed");
        assert_eq!(met(&format!("@revoked * ssh-ed25519 {other}\n# {other}\n")), None);
        assert!(stranger(&[], &of_known_hosts(&format!("h ssh-ed25519 {other}"))).is_none(), "nothing was seen");
        assert_eq!(known_hosts("h", 2222, &own[1..]), format!("[h]:2222 ssh-ed25519 {ED25519}\n"));
    }

    proptest! {
        #[test]
        fn whatever_a_console_shows_is_read(text in "(?s).{0,200}", middle in "(?s).{0,200}") {
            for key in of_console(&format!("{text}\n{BEGIN}\n{middle}\n{END}\n{text}")) {
                prop_assert!(is_kind(&key.kind) && is_key(&key.key));
            }
        }
    }
}
