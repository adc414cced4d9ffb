//! One piece of a container's output, as the engine sends it: a line, or a part of a long one, with its time before it.
//! Owns the reading of that form and the place in a stream; never reads from an engine.

use bollard::container::LogOutput;
use serde::{Deserialize, Serialize};

/// Which of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime::docker) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) stream: Stream,
    /// Nanoseconds since the Unix epoch; none where the engine sent none.
    pub(super) nanos: Option<i64>,
    pub(super) text: &'a [u8],
}

/// Reads a piece of output.
pub(super) fn frame(output: &LogOutput) -> Frame<'_> {
    let (stream, bytes) = match output {
        LogOutput::StdErr { message } => (Stream::Err, message),
        LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message } => {
            (Stream::Out, message)
        }
    };
    let end = bytes.iter().position(|byte| *byte == b' ');
    let time = end.and_then(|end| std::str::from_utf8(bytes.get(..end)?).ok()?.parse::<jiff::Timestamp>().ok());
    match (time, end) {
        (Some(time), Some(end)) => Frame {
            stream,
            nanos: Some(i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)),
            text: bytes.get(end + 1..).unwrap_or_default(),
        },
        _ => Frame { stream, nanos: None, text: bytes },
    }
}

/// A place in a stream: after this many pieces of that time. Within one stream the engine's times never go back, unless
/// somebody sets the clock back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StreamPosition {
    pub(super) nanos: i64,
    pub(super) count: u32,
}

impl StreamPosition {
    /// The place after one more piece.
    pub(super) fn after(self, nanos: i64) -> Self {
        match nanos.cmp(&self.nanos) {
            std::cmp::Ordering::Greater => Self { nanos, count: 1 },
            std::cmp::Ordering::Equal => Self { count: self.count.saturating_add(1), ..self },
            std::cmp::Ordering::Less => self,
        }
    }

    /// The second it is in, as the engine wants it; one that it cannot say means everything.
    pub(super) fn second(self) -> i32 {
        i32::try_from(self.nanos.div_euclid(1_000_000_000)).unwrap_or_default()
    }
}

/// Finds a place again in a stream that is read from its second on: says of each piece whether it lies behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    place: StreamPosition,
    same: u32,
    found: bool,
}

impl Search {
    pub(super) fn new(place: StreamPosition) -> Self {
        Self { place, same: 0, found: place.count == 0 }
    }

    /// Whether the next piece, of this time, is new.
    pub(super) fn is_new(&mut self, nanos: i64) -> bool {
        if self.found {
            return true;
        }
        match nanos.cmp(&self.place.nanos) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal if self.same < self.place.count => self.same += 1,
            _ => self.found = true,
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_taken_off_pieces() {
        let out = LogOutput::StdErr { message: Bytes::from_static(b"1970-01-01T00:00:01.000000002Z a b\n") };
        assert_eq!(frame(&out), Frame { stream: Stream::Err, nanos: Some(1_000_000_002), text: b"a b\n" });
        let zone = LogOutput::StdOut { message: Bytes::from_static(b"1970-01-01T01:00:01+01:00 ") };
        assert_eq!(frame(&zone), Frame { stream: Stream::Out, nanos: Some(1_000_000_000), text: b"" });
        let bare = LogOutput::Console { message: Bytes::from_static(b"hello you") };
        assert_eq!(frame(&bare), Frame { stream: Stream::Out, nanos: None, text: b"hello you" });
    }

    #[test]
    fn a_place_beyond_what_the_engine_can_say_means_everything() {
        assert_eq!(StreamPosition { nanos: 1_999_999_999, count: 1 }.second(), 1);
        assert_eq!(StreamPosition { nanos: i64::MAX, count: 1 }.second(), 0);
    }

    proptest! {
        #[test]
        fn every_place_is_found_again(mut times in proptest::collection::vec(0_i64..5, 0..20), cut in 0_usize..20) {
            times.sort_unstable();
            let cut = cut.min(times.len());
            let place = times[..cut].iter().fold(StreamPosition::default(), |place, nanos| place.after(*nanos));
            let mut search = Search::new(place);
            let new: Vec<i64> = times.iter().copied().filter(|nanos| search.is_new(*nanos)).collect();
            prop_assert_eq!(new, times[cut..].to_vec());
        }
    }
}
