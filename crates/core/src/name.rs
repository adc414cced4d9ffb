//! Names derived from others, shortened where they are too long and kept unique by a hash.

use sha2::{Digest, Sha256};

/// The longest label value of Kubernetes, in characters.
const LABEL_MAX: usize = 63;

/// First `digits` hexadecimal digits (at most 64) of the SHA-256 of `bytes`.
#[must_use]
pub fn sha256_hex(bytes: &[u8], digits: usize) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
        }
    }
    text.truncate(digits);
    text
}

/// A text cut to 63 characters: itself when it fits, else its first 54 characters without trailing `-` or `.`, a dash
/// and 8 hexadecimal digits of its SHA-256.
///
/// ```
/// use orlop_core::name::short63;
/// assert_eq!(short63("build"), "build");
/// assert_eq!(short63(&"a".repeat(64)).len(), 63);
/// ```
#[must_use]
pub fn short63(text: &str) -> String {
    if text.chars().count() <= LABEL_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(54).collect();
    format!("{}-{}", head.trim_end_matches(['-', '.']), sha256_hex(text.as_bytes(), 8))
}

/// What a derived object name is made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Name of the flow.
    pub flow: &'a str,
    /// Name of the step, of a fan-out instance (`<step>-i<k>`), or what else follows the flow's name.
    pub part: &'a str,
    /// Suffix of the name, with its leading dash; empty: none.
    pub suffix: &'a str,
}

/// `<flow>-<part><suffix>` within `limit` characters.
///
/// Where it does not fit, the base `<flow>-<part>` becomes its first `limit − len(suffix) − 9` characters without
/// trailing `-` or `.`, a dash, and 8 hexadecimal digits of the SHA-256 of `<flow>/<part>`.
#[must_use]
pub fn bounded(parts: Parts<'_>, limit: usize) -> String {
    let base = format!("{}-{}", parts.flow, parts.part);
    if base.len() + parts.suffix.len() <= limit {
        return base + parts.suffix;
    }
    hashed(&base, parts, limit)
}

fn hashed(base: &str, parts: Parts<'_>, limit: usize) -> String {
    let keep = limit.saturating_sub(parts.suffix.len() + 9);
    let head: String = base.chars().take(keep).collect();
    let hash = sha256_hex(format!("{}/{}", parts.flow, parts.part).as_bytes(), 8);
    format!("{}-{hash}{}", head.trim_end_matches(['-', '.']), parts.suffix)
}

/// Name of the Job of one attempt: `<flow>-<step>-<uid8>`, from the second attempt on with `-<n>`.
///
/// `indexed` is the number of completions of a Job in completion mode Indexed, whose pods' host names carry the index:
/// the limit is then 62 less the digits of the last index, dots become dashes and the hash is always added.
///
/// ```
/// use orlop_core::name::job;
/// assert_eq!(job("etl", "load", "6d0d7a5e-93b1", 1, None), "etl-load-6d0d7a5e");
/// assert_eq!(job("etl", "load", "6d0d7a5e-93b1", 2, None), "etl-load-6d0d7a5e-2");
/// ```
#[must_use]
pub fn job(flow: &str, step: &str, uid: &str, attempt: u32, indexed: Option<u32>) -> String {
    let uid8: String = uid.chars().take(8).collect();
    let suffix = if attempt <= 1 { format!("-{uid8}") } else { format!("-{uid8}-{attempt}") };
    let parts = Parts { flow, part: step, suffix: &suffix };
    match indexed {
        None => bounded(parts, LABEL_MAX),
        Some(completions) => {
            let digits = completions.saturating_sub(1).to_string().len();
            let base = format!("{flow}-{step}").replace('.', "-");
            hashed(&base, parts, 62 - digits)
        }
    }
}

/// Name of a fan-out instance of a step.
#[must_use]
pub fn instance(step: &str, index: u32) -> String {
    format!("{step}-i{index}")
}

/// The name of a flow without the number of its repetition: repetitions of `etl` are named `etl-r2`, `etl-r3`, ….
///
/// ```
/// use orlop_core::name::repeated;
/// assert_eq!((repeated("etl-r12"), repeated("etl"), repeated("my-route-r")), ("etl", "etl", "my-route-r"));
/// ```
#[must_use]
pub fn repeated(name: &str) -> &str {
    match name.rsplit_once("-r") {
        Some((stem, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short63_keeps_short_texts_and_hashes_long_ones() {
        assert_eq!(short63(&"x".repeat(63)), "x".repeat(63));
        let long = format!("{}-.{}", "a".repeat(53), "b".repeat(30));
        let short = short63(&long);
        assert_eq!(short, format!("{}-{}", "a".repeat(53), sha256_hex(long.as_bytes(), 8)));
    }

    #[test]
    fn job_names_follow_flow_step_and_attempt() {
        assert_eq!(job("etl", "load", "0123456789", 1, None), "etl-load-01234567");
        assert_eq!(job("etl", "load", "0123456789", 3, None), "etl-load-01234567-3");
        let long = job(&"f".repeat(60), "step", "0123456789", 12, None);
        assert_eq!(long.len(), 63);
        assert!(long.ends_with("-01234567-12"), "{long}");
    }

    #[test]
    fn indexed_jobs_leave_room_for_the_index_and_always_carry_the_hash() {
        let name = job("a.b", "s", "0123456789", 1, Some(1000));
        assert!(!name.contains('.') && name.starts_with("a-b-s-") && name.len() <= 62 - 3, "{name}");
        assert_eq!(job(&"f".repeat(70), "s", "0123456789", 1, Some(11)).len(), 60);
    }

    proptest! {
        #[test]
        fn names_fit_and_are_functions_of_their_parts(flow in "[a-z][a-z0-9.-]{0,80}[a-z0-9]", step in "[a-z][a-z0-9.-]{0,80}[a-z0-9]", attempt in 1_u32..5000) {
            let name = job(&flow, &step, "0123abcd-ef", attempt, None);
            prop_assert!(name.len() <= 63);
            prop_assert_eq!(&name, &job(&flow, &step, "0123abcd-ef", attempt, None));
            prop_assert_ne!(name, job(&flow, &step, "0123abcd-ef", attempt + 1, None));
        }
    }
}
