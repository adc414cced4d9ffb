//! Segments of a worker's outbox, torn and changed in any way.

use std::io::Cursor;

use orlop_cloud::outbox::Entry;
use orlop_cloud::segment::read::scan;
use orlop_cloud::segment::{Kind, decode, encode};

/// A segment is read as far as it is whole, and what was read is read again from its beginning alone; an entry that was
/// read can be written, and then reads the same.
pub fn journal(bytes: &[u8]) {
    let mut payloads = Vec::new();
    let found = scan(Kind::Outbox, Cursor::new(bytes), |place, payload| {
        let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
        assert_eq!(bytes.get(start..start + payload.len()), Some(payload), "a payload stands where it is said to");
        payloads.push(payload.to_vec());
    });
    let end = found.map_or(usize::MAX, |scan| usize::try_from(scan.end).unwrap_or(usize::MAX));
    assert!(end <= bytes.len(), "bytes in memory can be read, and no more is whole than there is");
    let mut again = Vec::new();
    let whole = Cursor::new(bytes.get(..end).unwrap_or_default());
    let found = scan(Kind::Outbox, whole, |_, payload| again.push(payload.to_vec()));
    assert!(found.is_ok_and(|scan| scan.fault.is_none()), "the whole part has no fault");
    assert_eq!(payloads, again, "the whole part reads the same alone");
    // Bytes without a checksum around them reach the decoder too.
    for payload in payloads.iter().map(Vec::as_slice).chain([bytes]) {
        if let Some(entry) = decode::<Entry>(payload) {
            let written = encode(&entry).unwrap_or_default();
            assert!(written.len() <= payload.len(), "no form is shorter than the one that is written");
            assert_eq!(decode(&written), Some(entry), "what was read can be written and read again");
        }
    }
}
