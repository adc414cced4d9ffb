//! The encodings in which a secret may turn up in output: base64, URL and JSON. Masking itself is
//! [`Masker`](super::Masker)'s.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

/// Of shorter values no encoding is recognised: it would stand in every log.
pub const SECRET_MIN: usize = 4;

/// The encodings of a value.
pub(super) fn encodings(value: &str) -> Vec<String> {
    if value.trim().len() < SECRET_MIN {
        return Vec::new();
    }
    let mut all = vec![percent(value), json(value)];
    // A file or a variable often ends with a line feed that is not part of what is encoded.
    for text in [value, value.trim()] {
        all.extend([STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].iter().map(|code| code.encode(text)));
    }
    for code in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        all.extend((0..3).filter_map(|before| within(value.trim(), before, &code)));
    }
    all
}

/// What base64 of a longer text shows of a value which begins `before` bytes after a multiple of three: all characters that
/// stand for nothing but the value. None where these are too few to tell.
fn within(value: &str, before: usize, code: &impl Engine) -> Option<String> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(value.as_bytes());
    let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    code.encode(&bytes).get(first..end).filter(|text| text.len() >= SECRET_MIN).map(str::to_owned)
}

/// As in a URL, everything but unreserved characters escaped.
fn percent(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing into a text cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// As in a JSON text, without the quotes.
fn json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::logs::Masker;

    fn masker<const N: usize>(secrets: [&str; N]) -> Masker {
        Masker::with_encodings(secrets)
    }

    /// As in the header of a request: the name of a user stands before the value.
    #[test]
    fn a_value_in_base64_of_a_longer_text_is_masked_wherever_it_begins() {
        for value in ["hunter22", "wörd", "a?b>c~d", "0123456789abcdef0"] {
            let masker = masker([value]);
            let shown = |text: &str| masker.mask_text(&STANDARD.encode(text));
            for before in ["u:", "me:", "you:", "user:", ""] {
                for after in ["", "!", "!!", "!!!", "\n"] {
                    let shown = shown(&format!("{before}{value}{after}"));
                    assert!(shown.contains("***"), "{before}{value}{after}: {shown}");
                    // At most the characters at the borders are left, which stand for parts of a byte.
                    let around = STANDARD.encode(before).len() + STANDARD.encode(after).len() + 4 + "***".len();
                    assert!(shown.len() <= around, "{before}{value}{after}: {shown}");
                }
            }
        }
        let basic = STANDARD.encode("user:hunter22");
        assert_eq!(
            masker(["hunter22"]).mask_text(&format!("authorization: Basic {basic}")),
            "authorization: Basic dXNlcjp***g=="
        );
        let url = URL_SAFE.encode("x?>?>?>?>y");
        assert!(masker(["?>?>?>?>"]).mask_text(&url).contains("***"));
    }

    #[test]
    fn values_and_their_encodings_are_masked() {
        let masker = masker(["p\"ss wörd/1\n"]);
        let shown = |text: &str| masker.mask_text(text);
        assert_eq!(shown("x p\"ss wörd/1 y"), "x *** y");
        assert_eq!(shown("cCJzcyB3w7ZyZC8x"), "***");
        assert_eq!(shown("cCJzcyB3w7ZyZC8xCg=="), "***");
        assert_eq!(shown("p%22ss%20w%C3%B6rd%2F1%0A"), "***");
        assert_eq!(shown(r#"{"a":"p\"ss wörd/1\n"}"#), r#"{"a":"***"}"#);
    }
}
