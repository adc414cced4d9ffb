//! Entries of the outbox log.

use orlop_core::task::{LogGap, TaskRef};
use serde::{Deserialize, Serialize};

use super::EntryNo;
use crate::runtime::worker::event::{AttemptEnd, LogChunk, Started};
use crate::segment::bytes;

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Entry {
    /// An attempt was taken on; the bytes are the agent's own.
    Accepted(EntryNo, TaskRef, #[serde(with = "bytes")] Vec<u8>),
    /// An attempt was not taken on, for this reason.
    Rejected(EntryNo, TaskRef, String),
    /// It was given back before it started.
    Revoked(EntryNo, TaskRef),
    /// Its process or container runs.
    Started(EntryNo, TaskRef, Started),
    /// It ended.
    Ended(EntryNo, TaskRef, Box<AttemptEnd>),
    /// It wrote something.
    Log(EntryNo, TaskRef, LogChunk),
    /// Output before this entry is gone.
    Gap(EntryNo, TaskRef, LogGap),
    /// These entries are no longer needed: acknowledged, or given up.
    Released(Vec<EntryNo>),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use orlop_core::id::{Epoch, JobId};
    use orlop_core::task::{LogStream, TaskEnd, Usage};
    use orlop_core::time::Time;
    use proptest::prelude::*;

    use super::*;
    use crate::runtime::worker::event::{Kept, LogTotals};
    use crate::segment::{decode, encode};

    fn id() -> TaskRef {
        TaskRef { job: JobId::from_u64(u64::MAX), index: 1, member: 2, attempt: 3, epoch: Epoch(4) }
    }

    fn end() -> AttemptEnd {
        AttemptEnd {
            outcome: TaskEnd::Failed,
            exit_code: Some(-1),
            signal: None,
            reason: "oom".to_owned(),
            started_at: Some(Time::from_millis(-5)),
            finished_at: Time::from_millis(1_700_000_000_000),
            usage: Usage { cpu_ms: 1, max_rss: 2, io_read: 3, io_write: u64::MAX },
            outputs: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            log: LogTotals { bytes: 9, dropped_bytes: 8, dropped_chunks: 7, last_seq: 6 },
            tail: vec![0xff, 0],
            artifacts: vec![Kept {
                name: "n".into(),
                sha256: "0".repeat(64),
                bytes: 5,
                path: "a/b".into(),
                executable: true,
            }],
        }
    }

    #[test]
    fn every_kind_comes_back() {
        let chunk = LogChunk {
            stream: LogStream::Stderr,
            seq: 300,
            time: Time::from_millis(5),
            data: vec![0, 0xff],
            gap: Some(LogGap { chunks: 1, bytes: 2 }),
        };
        let no = EntryNo(1 << 40);
        let all = [
            Entry::Accepted(no, id(), vec![1, 2]),
            Entry::Rejected(no, id(), "full".to_owned()),
            Entry::Revoked(no, id()),
            Entry::Started(no, id(), Started { handle: "7@8".to_owned(), at: Time::EPOCH }),
            Entry::Ended(no, id(), Box::new(end())),
            Entry::Log(no, id(), chunk),
            Entry::Gap(no, id(), LogGap { chunks: 3, bytes: 4 }),
            Entry::Released(vec![EntryNo(7), EntryNo(8), EntryNo(u64::MAX), EntryNo(0)]),
        ];
        for entry in all {
            let mut bytes = encode(&entry).unwrap();
            assert_eq!(decode::<Entry>(&bytes).as_ref(), Some(&entry));
            for cut in 0..bytes.len() {
                assert_eq!(decode::<Entry>(&bytes[..cut]), None, "{entry:?} cut at {cut}");
            }
            bytes.push(0);
            assert_eq!(decode::<Entry>(&bytes), None, "more than one entry");
        }
    }

    /// Other bytes are another form: raise the digit of [`crate::segment::Kind::magic`] with them.
    #[test]
    fn entries_have_the_bytes_of_their_version() {
        let bytes = |entry: &Entry| encode(entry).unwrap().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        insta::assert_snapshot!(bytes(&Entry::Accepted(EntryNo(300), id(), vec![1, 2])), @"00ac02ffffffffffffffffff0101030204020102");
        insta::assert_snapshot!(bytes(&Entry::Ended(EntryNo(1), id(), Box::new(end()))), @"0401ffffffffffffffffff0101030204066661696c6564010100036f6f6d010980a0abfef962010203ffffffffffffffffff0101016101620908070602ff0001016e40303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030300503612f6201");
    }

    proptest! {
        #[test]
        fn no_bytes_harm_the_decoder_and_what_it_reads_it_can_write(
            kind in 0_u8..10,
            rest in proptest::collection::vec(any::<u8>(), 0..120),
        ) {
            let bytes: Vec<u8> = std::iter::once(kind).chain(rest).collect();
            if let Some(entry) = decode::<Entry>(&bytes) {
                prop_assert_eq!(decode(&encode(&entry).unwrap()), Some(entry));
            }
        }
    }
}
