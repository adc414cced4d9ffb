//! How output is cut, masked and limited.

use proptest::prelude::*;

use super::*;
use crate::runtime::worker::logs::masker;

fn at(ms: u64) -> Moment {
    let wall = Time::from_millis(i64::try_from(ms).unwrap());
    Moment { since: Duration::from_millis(ms), wall }
}

fn cutter(limit: u64, on_full: OnFull) -> Cutter {
    Cutter::new(LogPolicy { limit, on_full }, None)
}

const OUT: LogStream = LogStream::Stdout;

#[test]
fn a_short_log_that_ends_soon_is_only_the_tail() {
    let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
    assert_eq!(cut.push(OUT, b"one\n", at(1), &mut out), Fill::Open);
    cut.push(OUT, &[0xff, 0x00], at(60), &mut out);
    cut.tick(at(199), &mut out);
    assert_eq!(cut.due(), Some(Duration::from_millis(200)));
    let (totals, tail) = cut.finish(at(200), &mut out);
    assert!(out.is_empty());
    assert_eq!((totals.bytes, totals.last_seq, tail.as_slice()), (6, 0, &b"one\n\xff\0"[..]));
}

#[test]
fn a_short_log_of_both_streams_goes_in_chunks_for_a_tail_has_no_streams() {
    let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
    cut.push(OUT, b"one", at(1), &mut out);
    cut.push(LogStream::Stderr, b"two", at(2), &mut out);
    let (totals, tail) = cut.finish(at(3), &mut out);
    assert_eq!((totals.last_seq, tail.len(), out[1].stream), (2, 0, LogStream::Stderr));
}

#[test]
fn a_log_above_8_ki_or_200_ms_goes_in_chunks() {
    let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
    cut.push(OUT, &[b'x'; 8193], at(1), &mut out);
    assert_eq!((out.len(), out[0].seq), (1, 1));
    let (mut late, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
    late.push(OUT, b"x", at(1), &mut out);
    late.tick(at(200), &mut out);
    assert_eq!(out.len(), 1);
    let (totals, tail) = late.finish(at(201), &mut out);
    assert_eq!((totals.last_seq, tail.len()), (1, 0));
}

#[test]
fn chunks_end_at_16_ki_at_a_line_after_50_ms_or_after_200_ms() {
    let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
    cut.tick(at(300), &mut out);
    cut.push(OUT, &[b'x'; CHUNK + 1], at(300), &mut out);
    assert_eq!(out.iter().map(|chunk| chunk.data.len()).collect::<Vec<_>>(), [CHUNK, 1]);
    out.clear();
    cut.push(OUT, b"line\npart", at(400), &mut out);
    assert_eq!(cut.due(), Some(Duration::from_millis(450)));
    cut.tick(at(449), &mut out);
    assert!(out.is_empty());
    cut.tick(at(450), &mut out);
    assert_eq!(out[0].data, b"line\n");
    assert_eq!(cut.due(), Some(Duration::from_millis(650)));
    cut.tick(at(650), &mut out);
    assert_eq!((out[1].data.as_slice(), out[1].seq), (&b"part"[..], 4));
}

#[test]
fn one_count_over_both_streams() {
    let (mut cut, mut out) = (cutter(1 << 20, OnFull::Drop), Vec::new());
    cut.tick(at(300), &mut out);
    cut.push(OUT, b"a", at(300), &mut out);
    cut.push(LogStream::Stderr, b"b", at(301), &mut out);
    let (totals, _) = cut.finish(at(302), &mut out);
    assert_eq!(out.iter().map(|chunk| chunk.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(totals.last_seq, 2);
}

#[test]
fn beyond_the_limit_output_is_dropped_and_counted() {
    let (mut cut, mut out) = (cutter(10, OnFull::Drop), Vec::new());
    assert_eq!(cut.push(OUT, b"0123456789ab", at(1), &mut out), Fill::Open);
    cut.push(OUT, b"cd", at(2), &mut out);
    let (totals, tail) = cut.finish(at(3), &mut out);
    assert_eq!((totals.bytes, totals.dropped_bytes, totals.dropped_chunks), (10, 4, 2));
    assert!(tail.is_empty(), "a log with a gap has chunks");
    assert_eq!(out[0].data, b"0123456789");
    assert_eq!(out[0].gap, Some(LogGap { chunks: 2, bytes: 4 }));
}

#[test]
fn at_the_limit_a_job_waits_or_fails_as_chosen() {
    let mut out = Vec::new();
    let mut block = cutter(10, OnFull::Block);
    assert_eq!(block.push(OUT, b"012345678", at(1), &mut out), Fill::Open);
    assert_eq!(block.push(OUT, b"9ab", at(1), &mut out), Fill::Wait);
    assert_eq!(block.finish(at(2), &mut out).0.bytes, 12);
    let mut fail = cutter(10, OnFull::Fail);
    assert_eq!(fail.push(OUT, b"0123456789", at(1), &mut out), Fill::Open);
    assert_eq!(fail.push(OUT, b"a", at(1), &mut out), Fill::Fail);
}

proptest! {
    #[test]
    fn secrets_never_leave_and_nothing_else_is_lost(
        pieces in proptest::collection::vec(("[abcd]{0,9}", 0_u64..120, any::<bool>()), 0..20),
    ) {
        let mut cut = Cutter::new(LogPolicy::default(), Some(Arc::new(masker(["abcd", "bbbb"]))));
        let (mut now, mut out, mut whole) = (0, Vec::new(), [String::new(), String::new()]);
        for (text, wait, err) in &pieces {
            now += wait;
            cut.push(if *err { LogStream::Stderr } else { OUT }, text.as_bytes(), at(now), &mut out);
            cut.tick(at(now), &mut out);
            whole[usize::from(*err)].push_str(text);
        }
        let (totals, tail) = cut.finish(at(now), &mut out);
        let seqs: Vec<u64> = out.iter().map(|chunk| chunk.seq).collect();
        prop_assert_eq!(seqs, (1..=totals.last_seq).collect::<Vec<_>>());
        for (stream, whole) in [OUT, LogStream::Stderr].into_iter().zip(&whole) {
            let chunks = out.iter().filter(|chunk| chunk.stream == stream).map(|chunk| &chunk.data);
            let rest = if stream == OUT { tail.as_slice() } else { &[] };
            let got: Vec<u8> = chunks.flatten().chain(rest).copied().collect();
            prop_assert_eq!(String::from_utf8(got).unwrap(), masker(["abcd", "bbbb"]).mask_text(whole));
        }
    }
}
