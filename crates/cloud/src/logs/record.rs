//! The form of a record in a segment: length, checksum, head, bytes. Owns encoding and checking; reads no file.

use orlop_core::id::JobId;
use orlop_core::task::LogStream;
use orlop_core::time::Time;

use super::{Chunk, Gap, LogKey, MAX_CHUNK};

/// Bytes before the head: length of what follows the checksum, and the checksum.
pub(super) const FRAME: usize = 8;
/// Bytes of the head.
pub(super) const HEAD: usize = 8 + 4 + 4 + 4 + 1 + 8 + 8 + 4 + 8;

fn checksum(head: &[u8], data: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(head);
    crc.update(data);
    crc.sum()
}

/// Writes a chunk behind what `out` holds.
pub(super) fn encode(chunk: &Chunk, out: &mut Vec<u8>) {
    let Chunk { key, stream, seq, time, gap, data } = chunk;
    let mut body = Vec::with_capacity(HEAD);
    body.extend(key.job.as_u64().to_le_bytes());
    body.extend(key.index.to_le_bytes());
    body.extend(key.member.to_le_bytes());
    body.extend(key.attempt.to_le_bytes());
    body.push(match stream {
        LogStream::Stdout => 1,
        LogStream::Stderr => 2,
        LogStream::System => 3,
    });
    body.extend(seq.to_le_bytes());
    body.extend(time.millis().to_le_bytes());
    body.extend(gap.chunks.to_le_bytes());
    body.extend(gap.bytes.to_le_bytes());
    out.extend(u32::try_from(body.len() + data.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(checksum(&body, data).to_le_bytes());
    out.extend(body);
    out.extend_from_slice(data);
}

/// Takes numbers off the front of a head.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
}

/// The length of what follows a frame, if it can be one.
pub(super) fn body_len(frame: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes(Reader(frame).take()?) as usize;
    (HEAD..=HEAD + MAX_CHUNK).contains(&len).then_some(len)
}

/// What a head says; the data is left empty.
pub(super) fn head(body: &[u8]) -> Option<Chunk> {
    let mut reader = Reader(body);
    let job = JobId::from_u64(u64::from_le_bytes(reader.take()?));
    let index = u32::from_le_bytes(reader.take()?);
    let member = u32::from_le_bytes(reader.take()?);
    let attempt = u32::from_le_bytes(reader.take()?);
    let stream = match reader.take()? {
        [1] => LogStream::Stdout,
        [2] => LogStream::Stderr,
        [3] => LogStream::System,
        _ => return None,
    };
    let seq = u64::from_le_bytes(reader.take()?);
    let time = Time::from_millis(i64::from_le_bytes(reader.take()?));
    let gap = Gap { chunks: u32::from_le_bytes(reader.take()?), bytes: u64::from_le_bytes(reader.take()?) };
    Some(Chunk { key: LogKey { job, index, member, attempt }, stream, seq, time, gap, data: Vec::new() })
}

/// Whether the checksum of a record is right.
pub(super) fn is_whole(frame: &[u8], head: &[u8], data: &[u8]) -> bool {
    let told = frame.get(4..).and_then(|rest| Reader(rest).take());
    told.map(u32::from_le_bytes) == Some(checksum(head, data))
}

/// The chunk of a whole record whose checksum is right.
pub(super) fn decode(frame: &[u8], body: &[u8]) -> Option<Chunk> {
    let (first, data) = body.split_at_checked(HEAD)?;
    let chunk = head(first).filter(|_| is_whole(frame, first, data))?;
    Some(Chunk { data: data.to_vec(), ..chunk })
}
