//! Masking of secrets in text and in streams. Owns which parts of a secret are recognised and that a secret cut in two
//! by a read is still found; never stores a secret anywhere but in memory.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::encodings::encodings;

/// What stands where a secret stood.
pub const MASK: &str = "***";
/// Lines of a secret of several lines count as secrets of their own from this many bytes on: shorter ones, such as a
/// brace, give nothing away and stand in every log.
const SECRET_LINE_MIN: usize = 8;
/// Up to this many bytes of secrets the finder is a table of all bytes after all prefixes, a kibibyte each; above it takes less
/// memory and more time.
const FAST_MAX: usize = 4 * 1024;

/// Replaces the secrets of a pod by [`MASK`].
///
/// A secret is found as it is, without the blanks around it, and, when it has several lines, line by line. However short
/// it is, no place of it stays: a secret `1` masks every 1. Only blanks are no secret.
///
/// ```
/// use orlop_cloud::runtime::logs::Masker;
/// let masker = Masker::new(["hunter22", "7"]);
/// assert_eq!(masker.mask_text("password hunter22, pin 7"), "password ***, pin ***");
/// ```
#[derive(Clone, Default)]
pub struct Masker {
    /// Longest first, without duplicates.
    secrets: Vec<Secret>,
    finder: Option<AhoCorasick>,
    /// The values alone, where encodings are masked too.
    values: Option<Arc<Masker>>,
}

/// One text that is masked.
#[derive(Clone)]
struct Secret {
    bytes: Vec<u8>,
    /// For each prefix, the length of the longest shorter one that it ends with (the failure function of Knuth, Morris and Pratt).
    borders: Vec<usize>,
}

impl Secret {
    fn new(bytes: Vec<u8>) -> Self {
        let mut secret = Self { borders: Vec::with_capacity(bytes.len()), bytes };
        let mut matched = 0;
        for at in 0..secret.bytes.len() {
            if at > 0 {
                matched = secret.longer(matched, secret.bytes.get(at));
            }
            secret.borders.push(matched);
        }
        secret
    }

    /// What of the secret the text ends with after one more byte, where it ended with `matched` bytes of it.
    fn longer(&self, mut matched: usize, byte: Option<&u8>) -> usize {
        loop {
            if self.bytes.get(matched) == byte {
                return matched + 1;
            }
            match matched.checked_sub(1).and_then(|last| self.borders.get(last)) {
                Some(shorter) => matched = *shorter,
                None => return 0,
            }
        }
    }

    /// How many bytes at the end of the text may be the beginning of the secret.
    fn begun(&self, text: &[u8]) -> usize {
        let from = text.len().saturating_sub(self.bytes.len() - 1);
        text.iter().skip(from).fold(0, |matched, byte| self.longer(matched, Some(byte)))
    }
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Masker({} secrets)", self.secrets.len())
    }
}

impl Masker {
    /// Masks these values.
    #[must_use]
    pub fn new<I>(values: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut found: Vec<Vec<u8>> = Vec::new();
        for secret in values {
            let secret = secret.as_ref();
            let whole = [secret, secret.trim()].into_iter().filter(|s| !s.trim().is_empty());
            let several = secret.trim().contains('\n');
            let lines = secret.lines().map(str::trim).filter(|line| several && line.len() >= SECRET_LINE_MIN);
            found.extend(whole.chain(lines).map(|secret| secret.as_bytes().to_vec()));
        }
        found.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        found.dedup();
        if found.is_empty() {
            return Self::default();
        }
        // The finder cannot be built only beyond billions of bytes of secrets; then nothing at all passes.
        let small = found.iter().map(Vec::len).sum::<usize>() <= FAST_MAX;
        let kind = if small { AhoCorasickKind::DFA } else { AhoCorasickKind::ContiguousNFA };
        let finder = AhoCorasick::builder().kind(Some(kind)).match_kind(MatchKind::LeftmostLongest).build(&found).ok();
        Self { secrets: found.into_iter().map(Secret::new).collect(), finder, values: None }
    }

    /// Masks these values and their base64, URL and JSON forms.
    #[must_use]
    pub fn with_encodings<I>(values: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let values: Vec<String> = values.into_iter().map(|value| value.as_ref().to_owned()).collect();
        let all = values.iter().flat_map(|value| encodings(value)).chain(values.iter().cloned());
        Self { values: Some(Arc::new(Self::new(&values))), ..Self::new(all) }
    }

    /// The text with every value in it masked, but no encoding: for what is handed on, where something made of a secret has to
    /// stay what it is.
    #[must_use]
    pub fn mask_values(&self, text: &str) -> String {
        self.values.as_ref().map_or_else(|| self.mask_text(text), |values| values.mask_text(text))
    }

    /// The bytes with every secret in them masked.
    #[must_use]
    pub fn mask<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.secrets.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut out = Vec::with_capacity(bytes.len());
        self.cut(bytes, bytes.len(), &mut out);
        Cow::Owned(out)
    }

    /// The text with every secret in it masked.
    #[must_use]
    pub fn mask_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.mask(text.as_bytes())).into_owned()
    }

    /// Masks a stream that arrives in pieces: appends what is certain to `out` and keeps in `held` what may be the
    /// beginning of a secret. Whatever the pieces are, the output is that of the whole stream masked at once.
    pub(crate) fn push(&self, held: &mut Vec<u8>, piece: &[u8], out: &mut Vec<u8>) {
        if self.secrets.is_empty() {
            out.extend_from_slice(piece);
            return;
        }
        held.extend_from_slice(piece);
        let from = self.cut(held, self.open(held), out);
        held.drain(..from);
    }

    /// The end of a stream: appends what was held to `out`.
    pub(crate) fn finish(&self, held: &mut Vec<u8>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.mask(held));
        held.clear();
    }

    /// Where the longest end of `bytes` begins that may be the beginning of a secret; the length when there is none.
    fn open(&self, bytes: &[u8]) -> usize {
        bytes.len() - self.secrets.iter().map(|secret| secret.begun(bytes)).max().unwrap_or(0)
    }

    /// Masks `bytes` up to `hold`, where a secret may begin that ends later, and returns how far it came: a secret that
    /// began earlier may reach beyond `hold`.
    fn cut(&self, bytes: &[u8], mut hold: usize, out: &mut Vec<u8>) -> usize {
        let Some(finder) = &self.finder else {
            out.extend_from_slice(MASK.as_bytes());
            return bytes.len();
        };
        let mut at = 0;
        loop {
            let found = finder.find(bytes.get(at..).unwrap_or_default());
            match found.map(|found| (at + found.start(), at + found.end())) {
                Some((start, end)) if start < hold => {
                    out.extend_from_slice(bytes.get(at..start).unwrap_or_default());
                    out.extend_from_slice(MASK.as_bytes());
                    at = end;
                    if at > hold {
                        hold = at + self.open(bytes.get(at..).unwrap_or_default());
                    }
                }
                _ => {
                    out.extend_from_slice(bytes.get(at..hold).unwrap_or_default());
                    return hold;
                }
            }
        }
    }
}

/// Reads secrets from files, for a [`Masker`]. A file that is not there has none, and what is no text stands in no line.
///
/// # Errors
/// When a file cannot be read: its secret could not be masked.
pub fn read_secrets(files: &[PathBuf]) -> io::Result<Vec<String>> {
    let mut secrets = Vec::new();
    for file in files {
        match std::fs::read(file) {
            Ok(bytes) => secrets.extend(String::from_utf8(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn in_pieces(masker: &Masker, pieces: &[&[u8]]) -> String {
        let (mut held, mut out) = (Vec::new(), Vec::new());
        for piece in pieces {
            masker.push(&mut held, piece, &mut out);
        }
        masker.finish(&mut held, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn secret_split_over_reads_is_masked() {
        let mask = Masker::new(["s3cret-value"]);
        assert_eq!(in_pieces(&mask, &[b"a s3c", b"ret-", b"value b"]), "a *** b");
        assert_eq!(in_pieces(&mask, &[b"a s3c", b"ret-nothing"]), "a s3cret-nothing");
        assert_eq!(in_pieces(&mask, &[b"ends with s3cret-val"]), "ends with s3cret-val");
    }

    #[test]
    fn the_longer_secret_wins_also_across_reads() {
        let mask = Masker::new(["abcd", "abcdef"]);
        assert_eq!(in_pieces(&mask, &[b"abcd", b"efg"]), "***g");
        assert_eq!(in_pieces(&mask, &[b"abcd", b"xyz"]), "***xyz");
    }

    #[test]
    fn secrets_of_several_lines_and_with_blanks_around() {
        let mask = Masker::new(["-----BEGIN-----\nMIIEvQIBADAN\nx\n-----END-----\n", "token-1\n"]);
        assert_eq!(mask.mask_text("key MIIEvQIBADAN token-1 x"), "key *** *** x");
    }

    #[test]
    fn short_secrets_are_masked_too_and_blanks_are_none() {
        let mask = Masker::new(["7", "ab\n", "", " \n"]);
        assert_eq!(mask.mask_text("pin 17 \n ab"), "pin 1*** \n ***");
        assert_eq!(in_pieces(&mask, &[b"a", b"b7", b"a"]), "******a");
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", Masker::new(["hunter22"])), "Masker(1 secrets)");
    }

    /// A submitter chooses secrets and output: neither may take time that grows with the square of their lengths.
    #[test]
    fn long_secrets_that_repeat_themselves_take_no_longer_than_others() {
        let secret = "ab".repeat(32 * 1024);
        let mask = Masker::with_encodings([&secret]);
        let begun = &secret.as_bytes()[..secret.len() - 2];
        let mut pieces: Vec<&[u8]> = begun.chunks(8192).collect();
        assert_eq!(in_pieces(&mask, &pieces).len(), begun.len(), "the beginning alone is no secret");
        pieces.push(b"ab");
        assert_eq!(in_pieces(&mask, &pieces), MASK);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            secrets in proptest::collection::vec("[ab]{1,7}", 0..4),
            pieces in proptest::collection::vec("[abc]{0,9}", 0..12),
        ) {
            let mask = Masker::new(&secrets);
            let bytes: Vec<&[u8]> = pieces.iter().map(String::as_bytes).collect();
            let out = in_pieces(&mask, &bytes);
            prop_assert_eq!(&out, &mask.mask_text(&pieces.concat()));
            for secret in &secrets {
                prop_assert!(!out.contains(secret.as_str()), "{secret} is in {out}");
            }
        }
    }
}
