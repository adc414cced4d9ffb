//! Whether an address may be shown. Owns that judgement; what is in doubt carries credentials.

use url::{Host, Url};

use crate::hourglass::spec::ExecutorSpec;

/// Parts of a path or host from this length on look like keys.
const LONG: usize = 24;
/// Parts with a digit from this length on look like keys.
const MIXED: usize = 16;

/// Whether an address carries no credentials: it parses, without user, query and fragment, and no part of path or host looks
/// like a key.
///
/// ```
/// use orlop_k8s::executor::is_plain;
/// assert!(is_plain("https://eth.example/rpc") && is_plain("aggregator.example:9000"));
/// assert!(!is_plain("https://eth.example/v3/0123456789abcdef0123456789abcdef"));
/// assert!(!is_plain("https://user:word@eth.example") && !is_plain("https://eth.example?key=k"));
/// ```
#[must_use]
pub fn is_plain(address: &str) -> bool {
    // Without a scheme, what stands before the port would be taken for one.
    let whole = if address.contains("://") { address.to_owned() } else { format!("grpc://{address}") };
    let Ok(url) = Url::parse(&whole) else { return false };
    let bare =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    // An empty user or query is one all the same: `https://@host`, `https://host?`.
    if !bare || whole.contains(['@', '?', '#', '\\']) {
        return false;
    }
    let host = match url.host() {
        None => return false,
        Some(Host::Domain(name)) => name.split('.').all(is_short),
        Some(_) => true,
    };
    host && url.path().split('/').all(is_short)
}

fn is_short(part: &str) -> bool {
    part.len() < MIXED || part.len() < LONG && !part.contains(|c: char| c.is_ascii_digit())
}

/// The shortest part of a key or an address that tells something.
const TELLING: usize = 8;

/// The texts of a spec that nobody else may read: keys, and addresses with credentials, whole and in parts; the longest first.
pub(super) fn hidden(spec: &ExecutorSpec) -> Vec<String> {
    let config = &spec.config;
    let addresses = config.chains.iter().map(|chain| &chain.rpc).chain([&config.aggregator_endpoint]);
    let secret = addresses.filter(|address| !is_plain(address));
    let whole: Vec<&String> = config.operator_keys.iter().flatten().map(|(_, key)| key).chain(secret).collect();
    let parts = |text: &&String| {
        let parts = text.split(|ch: char| !(ch.is_ascii_alphanumeric() || matches!(ch, '-' | '_' | '.')));
        parts.filter(|part| part.len() >= TELLING).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut all: Vec<String> = whole.iter().flat_map(parts).collect();
    all.extend(whole.into_iter().cloned());
    all.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_and_addresses_with_credentials_are_hidden_whole_and_in_parts_and_plain_addresses_are_not() {
        let spec = serde_json::json!({"image": "executor:1", "config": {
            "aggregatorEndpoint": "aggregator.example:9000", "operatorKeys": {"ecdsa": "0xfeedfacecafebeef"},
            "chains": [{"name": "one", "rpc": "https://user:pass-word-1@eth.example/v3?key=abcdefgh12", "chainId": 1,
                "taskMailboxAddress": "0x1234567890abcdef1234567890abcdef12345678"}]}});
        let hidden = hidden(&serde_json::from_value(spec).unwrap());
        insta::assert_snapshot!(hidden.join("\n"), @"
        https://user:pass-word-1@eth.example/v3?key=abcdefgh12
        0xfeedfacecafebeef
        eth.example
        pass-word-1
        abcdefgh12
        ");
    }

    #[test]
    fn what_is_in_doubt_carries_credentials() {
        for plain in [
            "https://eth.example",
            "wss://base.example:8546/ws",
            "aggregator.example:9000",
            "http://10.0.0.1:8545",
            "http://[::1]:8545/rpc",
            "https://my-quite-long-label.example",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        for secret in [
            "",
            "https://",
            "https://k@eth.example",
            "https://:p@eth.example",
            "https://eth.example/?",
            "https://eth.example/#f",
            "https://eth.example/abcdefghijklmnopqrstuvwx",
            "https://eth.example/abcdefghijklmno1",
            "https://abcdefghijklmno1.eth.example",
            "https://eth.example:x",
            "eth example",
        ] {
            assert!(!is_plain(secret), "{secret}");
        }
    }

    proptest! {
        #[test]
        fn a_key_is_never_plain_wherever_it_stands(key in "[A-Za-z0-9_-]{24,64}", place in 0..5) {
            let address = match place {
                0 => format!("https://eth.example/v2/{key}"),
                1 => format!("https://{key}.eth.example"),
                2 => format!("https://{key}@eth.example"),
                3 => format!("eth.example/{key}/rpc"),
                _ => format!("https://eth.example?apikey={key}"),
            };
            prop_assert!(!is_plain(&address), "{address}");
        }

        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,80}") {
            let _ = is_plain(&text);
        }
    }
}
