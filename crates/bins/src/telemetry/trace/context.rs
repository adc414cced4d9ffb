//! The W3C trace context as text and as a value.

use std::fmt;

use ring::digest::{SHA256, digest};
use uuid::Uuid;

/// Where a span stands: its trace, its own number, and whether anybody keeps it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Context {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) sampled: bool,
}

/// Lower-case hexadecimal digits as bytes, not all of them zero.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut bytes = [0; N];
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn some<const N: usize>(bytes: [u8; N]) -> Option<[u8; N]> {
    (bytes != [0; N]).then_some(bytes)
}

impl Context {
    /// The context that a `traceparent` tells; none if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version: [u8; 1] = hex(version)?;
        // Later versions may say more behind; the first one says nothing.
        if version == [0xff] || (version == [0] && parts.next().is_some()) {
            return None;
        }
        let flags: [u8; 1] = hex(flags)?;
        Some(Self { trace: some(hex(trace)?)?, span: some(hex(span)?)?, sampled: flags.first()? & 1 == 1 })
    }

    /// The first context of a new trace. The last 7 bytes of its number are random: who samples looks at them.
    pub(super) fn new(sampled: impl FnOnce(u64) -> bool) -> Self {
        let trace = *Uuid::new_v4().as_bytes();
        let chance = trace.iter().skip(9).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        Self { trace, span: random(), sampled: sampled(chance) }
    }

    /// A span below this one, with a number that nobody else finds.
    pub(super) fn child(self) -> Self {
        Self { span: random(), ..self }
    }

    /// The span of this trace that stands for a part of the life of something. Anyone who knows the trace finds the same
    /// number, so that programs name each other's spans without a word.
    #[must_use]
    pub fn named(self, part: &str, of: &str) -> Self {
        let text = [&self.trace[..], part.as_bytes(), b"/", of.as_bytes()].concat();
        let hash = digest(&SHA256, &text);
        let mut span = [0; 8];
        for (byte, from) in span.iter_mut().zip(hash.as_ref()) {
            *byte = *from;
        }
        Self { span: some(span).unwrap_or([1; 8]), ..self }
    }

    /// Whether spans of this trace are kept.
    #[must_use]
    pub const fn is_sampled(self) -> bool {
        self.sampled
    }
}

fn random() -> [u8; 8] {
    let mut span = [0; 8];
    for (byte, from) in span.iter_mut().zip(Uuid::new_v4().as_bytes()) {
        *byte = *from;
    }
    some(span).unwrap_or([1; 8])
}

/// Bytes as hexadecimal digits.
pub(super) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", digits(&self.trace), digits(&self.span), u8::from(self.sampled))
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_reads_back_and_what_is_none_is_refused() {
        let context = Context::parse(GOOD).unwrap();
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), GOOD);
        assert!(!Context::parse(&GOOD.replace("-01", "-00")).unwrap().is_sampled());
        assert!(Context::parse(&format!("cc{}-more", &GOOD[2..])).is_some(), "a later version");
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e47-00f067aa0ba902b7-01",
            "0é-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Context::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn two_programs_find_the_same_span() {
        let context = Context::parse(GOOD).unwrap();
        let named = context.named("run", "j1/0/0/1/1");
        assert_eq!(named, context.child().named("run", "j1/0/0/1/1"));
        assert_ne!(named, context.named("run", "j1/0/0/2/1"));
        assert_ne!(named, context.named("assign", "j1/0/0/1/1"));
        assert_eq!((named.trace, named.sampled), (context.trace, true));
    }
}
