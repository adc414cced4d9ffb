//! Removing what looks like a secret from text before it is shown, logged or sent. Owns the patterns; reads nothing itself. Lines keep
//! their numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A text without secrets, and how many of which kind were taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scrubbed {
    /// The text, each secret replaced by `[scrubbed:KIND]`.
    pub text: String,
    /// How many, by kind.
    pub counts: BTreeMap<&'static str, u32>,
}

/// Kinds and patterns, in the order in which they are taken out. A group `keep` stays.
const PATTERNS: [(&str, &str); 9] = [
    (
        "private-key",
        r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\z)",
    ),
    (
        "token",
        r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{12,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|sk-[A-Za-z0-9_-]{16,}|xox[a-z]-[A-Za-z0-9-]{8,}|hf_[A-Za-z0-9]{16,}|AIza[A-Za-z0-9_-]{30,}|orlopj\.[a-z0-9]{1,32}\.[0-9a-f]{64}\.[0-9a-f]{64})",
    ),
    ("jwt", r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?"),
    ("user-info", r#"(?i)(?P<keep>\b[a-z][a-z0-9+.-]{0,20}://)[^\s/@'"<>]+@"#),
    (
        "header",
        r"(?i)(?P<keep>\b(?:authorization|x-auth-token|x-subject-token)\b['\x22]?\s{0,4}[:=][ \t]*)[^\r\n'\x22]+",
    ),
    (
        "assignment",
        r#"(?i)(?P<keep>(?:application )?(?:pass(?:word|wd|phrase)?|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|adminpass|credential)s?(?:_?(?:value|id|b64|base64))?['"]?(?:\][ \t]*)?[ \t]*(?::?=|:|=>)[ \t]*)(?:"[^"\r\n]+"|'[^'\r\n]+'|[^\s=,;"'\[\]{}<>$][^\s,;"'\[\]{}]*)"#,
    ),
    (
        "option",
        r#"(?i)(?P<keep>--?(?:password|passwd|passphrase|secret|token|api-key)[ \t]+)(?:"[^"\r\n]+"|'[^'\r\n]+'|[^\s"'$-][^\s"']*)"#,
    ),
    ("e-mail", r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,8}\.[A-Za-z]{2,24}\b"),
    ("random", r#"(?P<keep>[=:][ \t]*['"]?)[A-Za-z0-9+/_-]{32,}={0,2}"#),
];

static COMPILED: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    // A test holds that each of them compiles.
    PATTERNS.iter().filter_map(|(kind, pattern)| Some((*kind, Regex::new(pattern).ok()?))).collect()
});

/// Removes what looks like a secret from a text: private keys, tokens, passwords in assignments and URLs, e-mail addresses.
///
/// ```
/// use orlop_cloud::scrub::scrub;
/// let clean = scrub("url: https://ann:hunter22@db.example/x");
/// assert_eq!(clean.text, "url: https://[scrubbed:user-info]@db.example/x");
/// assert_eq!(clean.counts["user-info"], 1);
/// ```
#[must_use]
pub fn scrub(text: &str) -> Scrubbed {
    let mut counts = BTreeMap::new();
    let mut clean = Cow::Borrowed(text);
    for (kind, pattern) in COMPILED.iter() {
        let replaced = pattern.replace_all(&clean, |found: &Captures<'_>| replacement(kind, found, &mut counts));
        if let Cow::Owned(replaced) = replaced {
            clean = Cow::Owned(replaced);
        }
    }
    Scrubbed { text: clean.into_owned(), counts }
}

/// The text of [`scrub`] alone.
#[must_use]
pub fn scrubbed(text: &str) -> String {
    scrub(text).text
}

fn replacement(kind: &'static str, found: &Captures<'_>, counts: &mut BTreeMap<&'static str, u32>) -> String {
    let whole = found.get(0).map_or("", |part| part.as_str());
    let keep = found.name("keep").map_or("", |part| part.as_str());
    let secret = whole.get(keep.len()..).unwrap_or_default();
    let known = secret.trim_matches(['"', '\'']).starts_with("[scrubbed:");
    // Keystone names one that it does not know so: its id is no secret.
    let is_name = kind == "assignment" && keep.eq_ignore_ascii_case("application credential: ");
    if known || is_name || !is_secret(kind, secret) {
        return whole.to_owned();
    }
    *counts.entry(kind).or_insert(0) += 1;
    let at = if kind == "user-info" { "@" } else { "" };
    // Quotation marks stay, so that what was a string still is one.
    let quote = secret.chars().next().filter(|ch| ['"', '\''].contains(ch)).map(String::from).unwrap_or_default();
    let lines = "\n".repeat(secret.matches('\n').count());
    format!("{keep}{quote}[scrubbed:{kind}]{quote}{at}{lines}")
}

/// What looks like a secret by its place and is none: numbers and switches in assignments, words without digits.
fn is_secret(kind: &str, text: &str) -> bool {
    let bare = text.trim_matches(['"', '\'']);
    match kind {
        "assignment" => {
            let small = bare.to_ascii_lowercase();
            let number = bare.len() < 6 && bare.bytes().all(|b| b.is_ascii_digit());
            !number && !["true", "false", "null", "none", "yes", "no", ""].contains(&small.as_str())
        }
        "random" => {
            bare.bytes().any(|b| b.is_ascii_digit())
                && bare.bytes().any(|b| b.is_ascii_alphabetic())
                && bare.bytes().filter(|b| *b == b'/').count() * 8 < bare.len()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Secrets of every kind, none of them real; written in halves so that no scanner takes them for one.
    fn planted() -> Vec<(&'static str, String, String)> {
        let plant =
            |kind, before: &str, secret: String, after: &str| (kind, format!("{before}{secret}{after}"), secret);
        let letters = "Q7wE9rT2yU5iO8pA1sD4fG6hJ3kL0zXc";
        vec![
            plant("token", "key ", format!("AKIA{}", "IOSFODNN7EXAMPLE"), " here"),
            plant("token", "clone with ", format!("ghp_{letters}"), ""),
            plant("token", "", format!("github_pat_{letters}_{letters}"), "!"),
            plant("token", "use ", format!("glpat-{}", "xYz12345AbCdE67890fg"), "."),
            plant("token", "(", format!("sk-proj-{letters}"), ")"),
            plant("token", "join with ", format!("orlopj.a1.{0}.{0}", "4f".repeat(32)), "."),
            plant("token", "", format!("xoxb-{}", "123456789012-abcdefGHIJK"), ""),
            plant("jwt", "bearer ", format!("eyJ{}.eyJ{}.{letters}", "hbGciOiJIUzI1NiJ9", "zdWIiOiIxMjM0In0"), ""),
            plant("user-info", "--index-url https://", format!("ci:{letters}"), "@pypi.example/simple"),
            plant("header", "curl -H 'X-Auth-Token: ", "gAAAAABk-abc".to_owned(), "'"),
            plant("assignment", "DB_PASSWORD=", "hunter2hunter2".to_owned(), ""),
            plant("assignment", "\"api_key\": \"", "abcdef0123".to_owned(), "\","),
            plant("assignment", "ENV SECRET_TOKEN ='", "s p a c e d 9".to_owned(), "'"),
            plant("assignment", "  password: ", "correct-horse".to_owned(), ""),
            plant("option", "mysql --password ", "tr0ub4dor".to_owned(), " db"),
            plant("e-mail", "by ", "ann.o@mail.example.org".to_owned(), " and others"),
            plant("random", "session = \"", format!("{letters}{letters}"), "\""),
        ]
    }

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(COMPILED.len(), PATTERNS.len());
    }

    #[test]
    fn planted_secrets_are_taken_out_and_counted() {
        for (kind, line, secret) in planted() {
            let clean = scrub(&line);
            assert!(!clean.text.contains(&secret), "{line} became {}", clean.text);
            assert_eq!(clean.counts.get(kind), Some(&1), "{line} became {}", clean.text);
            assert!(clean.text.contains(&format!("[scrubbed:{kind}]")));
            assert_eq!(scrub(&clean.text).counts, BTreeMap::new(), "what is clean stays: {}", clean.text);
        }
    }

    #[test]
    fn a_private_key_goes_as_a_whole_and_lines_keep_their_numbers() {
        for kind in ["RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK"] {
            let text = format!("a\n-----BEGIN {kind}-----\nMIIEow\nIBAAK\n-----END {kind}-----\nb\n");
            let clean = scrub(&text);
            assert_eq!(clean.text, "a\n[scrubbed:private-key]\n\n\n\nb\n", "{kind}");
            assert_eq!(clean.text.lines().count(), text.lines().count());
        }
        let open = scrub("-----BEGIN PRIVATE KEY-----\nMIIEow\n");
        assert!(!open.text.contains("MIIE"), "without an end everything after it goes");
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in [
            "tokenizers==0.13.3",
            "max_tokens: 512",
            "torch==2.1.0+cu121",
            "--index-url https://download.pytorch.org/whl/cu118",
            "FROM nvidia/cuda:12.1.0-devel-ubuntu22.04",
            "password: ${DB_PASSWORD}",
            "token = None",
            "Requires a GPU with 24 GB of VRAM.",
            "https://github.com/org/repo",
            "import secrets",
            "Could not find Application Credential: 21f9cb3dcd4d4f0a.",
        ] {
            assert_eq!(scrub(text), Scrubbed { text: text.to_owned(), counts: BTreeMap::new() });
        }
    }
}
