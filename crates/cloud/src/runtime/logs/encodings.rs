//! The encodings in which a secret may turn up in output: base64, URL and JSON. Masking itself is
//! [`Masker`](super::Masker)'s.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

/// Of shorter values no encoding is recognised: it would stand in every log.
pub const SECRET_MIN: usize = 4;

/// Characters of a line of base64, as `openssl`, PEM and MIME tools and `base64` break it.
const WIDTHS: [usize; 2] = [64, 76];
/// Shorter ends of such a text give nothing away.
const LINE_MIN: usize = 8;

/// Of longer values the usual form of each encoding is recognised: a finder of all of them would take too much memory.
const ALL_MAX: usize = 8 * 1024;
/// Of longer values no encoding is recognised.
const ENCODED_MAX: usize = 64 * 1024;

/// The encodings of a value.
pub(super) fn encodings(value: &str) -> Vec<String> {
    let length = value.trim().len();
    if !(SECRET_MIN..=ENCODED_MAX).contains(&length) {
        return Vec::new();
    }
    if length <= ALL_MAX { every(value) } else { usual(value) }
}

/// Base64 whole and in lines, a part of a URL, and JSON.
fn usual(value: &str) -> Vec<String> {
    let mut all = vec![STANDARD_NO_PAD.encode(value), escaped(value, b"-._~", "%20"), quoted(value)];
    all.extend(WIDTHS.into_iter().flat_map(|width| lines(&STANDARD.encode(value), width)));
    all
}

fn every(value: &str) -> Vec<String> {
    let mut all = Vec::new();
    // A file or a variable often ends with a line feed that is not part of what is encoded.
    for text in [value, value.trim()] {
        all.extend(percents(text));
        all.extend(jsons(text));
        all.extend([STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD].iter().map(|code| code.encode(text)));
        let whole = STANDARD.encode(text);
        all.extend(WIDTHS.into_iter().flat_map(|width| lines(&whole, width)));
    }
    for code in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        all.extend((0..3).filter_map(|before| within(value.trim(), before, &code)));
    }
    all
}

/// The lines of a text of base64 that give something away.
fn lines(text: &str, width: usize) -> Vec<String> {
    let lines = text.as_bytes().chunks(width).filter(|line| line.len() >= LINE_MIN);
    lines.map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

/// What base64 of a longer text shows of a value which begins `before` bytes after a multiple of three: all characters that
/// stand for nothing but the value. None where these are too few to tell.
fn within(value: &str, before: usize, code: &impl Engine) -> Option<String> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(value.as_bytes());
    let (first, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    code.encode(&bytes).get(first..end).filter(|text| text.len() >= SECRET_MIN).map(str::to_owned)
}

/// As in a URL: everything but unreserved characters escaped, in a path also but `/`, in a form with `+` for a blank; digits in
/// either case.
fn percents(value: &str) -> Vec<String> {
    let forms: [(&[u8], &str); 4] = [(b"-._~", "%20"), (b"-._~/", "%20"), (b"-._~", "+"), (b"-._~/", "+")];
    let upper = forms.map(|(kept, blank)| escaped(value, kept, blank));
    upper.into_iter().flat_map(|text| [lower_escapes(&text), text]).collect()
}

/// With every byte escaped but letters, digits and those that are kept.
fn escaped(value: &str, kept: &[u8], blank: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b' ' => out.push_str(blank),
            byte if byte.is_ascii_alphanumeric() || kept.contains(&byte) => out.push(char::from(byte)),
            // Writing into a text cannot fail.
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn lower_escapes(text: &str) -> String {
    let mut digits = 0;
    let lower = |byte: char| {
        digits = if byte == '%' { 2_u8 } else { digits };
        if byte != '%' && digits > 0 {
            digits -= 1;
            return byte.to_ascii_lowercase();
        }
        byte
    };
    text.chars().map(lower).collect()
}

/// As in a JSON text, without the quotes.
fn quoted(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// The forms that languages write of it: as it is, with all but ASCII escaped, with escaped slashes, and such a text in a JSON
/// text again.
fn jsons(value: &str) -> Vec<String> {
    let plain = quoted(value);
    let mut ascii = String::with_capacity(plain.len());
    for c in plain.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            let mut units = [0; 2];
            // Writing into a text cannot fail.
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    vec![quoted(&plain), quoted(&ascii), plain.replace('/', "\\/"), ascii.replace('/', "\\/"), plain, ascii]
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
    fn base64_that_is_broken_into_lines_is_masked() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nVJTUt9Us8cKjMzEfYyjiWA4R4\n-----END KEY-----\n";
        for text in [key, key.trim()] {
            let masker = masker([key]);
            for width in [64, 76] {
                let lines: Vec<String> = STANDARD
                    .encode(text)
                    .as_bytes()
                    .chunks(width)
                    .map(|line| String::from_utf8_lossy(line).into_owned())
                    .collect();
                let shown = masker.mask_text(&lines.join("\n"));
                assert!(shown.lines().all(|line| line == "***" || line.len() < LINE_MIN), "{width}: {shown}");
            }
        }
    }

    #[test]
    fn the_usual_encodings_of_a_long_value_are_masked() {
        let value: String = (0..6000_u32).map(|n| format!("{:x}/", n.wrapping_mul(2_654_435_761))).collect();
        assert!((ALL_MAX + 1..=ENCODED_MAX).contains(&value.len()), "{}", value.len());
        let masker = masker([value.as_str()]);
        for text in [STANDARD.encode(&value), escaped(&value, b"-._~", "%20"), quoted(&value), value.clone()] {
            let shown = masker.mask_text(&text);
            assert!(shown.trim_end_matches('=') == "***", "{}", shown.len());
        }
    }

    #[test]
    fn forms_that_languages_write_are_masked() {
        let masker = masker(["p\"ss w\u{f6}rd/1&<"]);
        for text in [
            r#"p\"ss w\u00f6rd/1&<"#,
            r#"p\"ss wörd\/1&<"#,
            r#"p\\\"ss wörd/1&<"#,
            "p%22ss%20w%C3%B6rd/1%26%3C",
            "p%22ss+w%C3%B6rd%2F1%26%3C",
            "p%22ss%20w%c3%b6rd%2f1%26%3c",
        ] {
            assert_eq!(masker.mask_text(text), "***", "{text}");
        }
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
