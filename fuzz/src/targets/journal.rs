//! Journals of a worker's spool, torn and changed in any way.

use orlop_cloud::outbox::codec::{decode, encode};
use orlop_cloud::outbox::segment::walk;

/// A segment is read as far as it is whole, and what was read is read again from its beginning alone; an entry that was
/// read can be written, and then reads the same.
pub fn journal(bytes: &[u8]) {
    let mut payloads = Vec::new();
    let whole = walk(bytes, |place, payload| {
        let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
        assert_eq!(bytes.get(start..start + payload.len()), Some(payload), "a payload stands where it is said to");
        payloads.push(payload.to_vec());
    });
    let whole = usize::try_from(whole).unwrap_or(usize::MAX);
    assert!(whole <= bytes.len(), "no more is whole than there is");
    let mut again = Vec::new();
    walk(bytes.get(..whole).unwrap_or_default(), |_, payload| again.push(payload.to_vec()));
    assert_eq!(payloads, again, "the whole part reads the same alone");
    // Bytes without a checksum around them reach the decoder too.
    for payload in payloads.iter().map(Vec::as_slice).chain([bytes]) {
        if let Some(entry) = decode(payload) {
            let mut written = Vec::new();
            encode(&entry, &mut written);
            assert_eq!(decode(&written), Some(entry), "what was read can be written and read again");
        }
    }
}
