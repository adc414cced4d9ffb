//! Segments are read as they were written, torn and changed in any way.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Cursor, ErrorKind};
use std::path::Path;

use super::read::{BUFFER, Scan, SegmentReader, scan};
use super::write::SegmentWriter;
use super::*;

fn create(path: &Path) -> SegmentWriter {
    let file = OpenOptions::new().read(true).append(true).create_new(true).open(path).unwrap();
    SegmentWriter::begin(Kind::Log, file)
}

/// A segment with these entries, and where each ends.
fn written(path: &Path, entries: &[&str]) -> (Vec<u8>, Vec<usize>) {
    let mut segment = create(path);
    let ends = entries.iter().map(|entry| usize::try_from(segment.append(entry).unwrap().end()).unwrap()).collect();
    segment.write().unwrap();
    (fs::read(path).unwrap(), ends)
}

fn entries(path: &Path) -> Vec<String> {
    let mut seen = Vec::new();
    scan(Kind::Log, File::open(path).unwrap(), |_, payload| seen.extend(decode(payload))).unwrap();
    seen
}

#[test]
fn a_torn_end_is_cut_off_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let all = ["one", "", "three"];
    let (whole, ends) = written(&path, &all);
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut seen = Vec::new();
        let mut segment = SegmentWriter::open(Kind::Log, &path, |_, payload| {
            seen.extend(decode::<String>(payload));
        })
        .unwrap();
        assert_eq!(seen, all[..ends.iter().filter(|end| cut >= **end).count()], "cut at {cut}");
        segment.append(&"more").unwrap();
        segment.write().unwrap();
        seen.push("more".to_owned());
        assert_eq!(entries(&path), seen, "cut at {cut}");
    }
}

#[test]
fn an_entry_is_read_back_from_where_it_is_and_only_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut segment = create(&path);
    let place = segment.append(&"one").unwrap();
    assert_eq!(segment.read::<String>(place).unwrap(), "one");
    segment.write().unwrap();
    assert_eq!(segment.read::<String>(place).unwrap(), "one");
    let later = segment.append(&"two").unwrap();
    assert_eq!(
        (segment.read::<String>(place).unwrap(), segment.read::<String>(later).unwrap()),
        ("one".into(), "two".into())
    );
    assert_eq!(segment.read::<(u64, u64)>(later).unwrap_err().kind(), ErrorKind::InvalidData, "it is no such entry");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(segment.read::<String>(place).unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_changed_byte_ends_the_whole_part() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, ends) = written(&dir.path().join("s"), &["one", "two"]);
    for index in ends[0]..whole.len() {
        let mut bytes = whole.clone();
        bytes[index] ^= 1;
        let mut count = 0;
        let found = scan(Kind::Log, Cursor::new(bytes), |_, _| count += 1).unwrap();
        assert_eq!((found.end, count), (ends[0] as u64, 1));
    }
}

#[test]
fn a_file_of_another_kind_or_version_is_refused_with_what_was_expected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let (mut whole, _) = written(&path, &["one"]);
    let refused = |bytes: &[u8], kind| {
        let Scan { end, fault } = scan(kind, Cursor::new(bytes), |_, _| panic!("nothing of it is read")).unwrap();
        assert_eq!(end, 0);
        fault.unwrap().to_string()
    };
    insta::assert_snapshot!(refused(&whole, Kind::Outbox), @r"file header is `ORLLOG1\n`, expected `ORLOUT1\n`: written by another version of this program, or not a segment");
    whole[6] = b'9';
    insta::assert_snapshot!(refused(&whole, Kind::Log), @r"file header is `ORLLOG9\n`, expected `ORLLOG1\n`: written by another version of this program, or not a segment");
    // It is kept, and a new one begins.
    fs::write(&path, &whole).unwrap();
    let mut segment = SegmentWriter::open(Kind::Log, &path, |_, _| panic!("nothing of it is read")).unwrap();
    segment.append(&"two").unwrap();
    segment.write().unwrap();
    assert_eq!(entries(&path), ["two"]);
    assert_eq!(fs::read(dir.path().join("s.unreadable")).unwrap(), whole);
}

#[test]
fn zeros_that_a_power_cut_leaves_are_no_entries() {
    let dir = tempfile::tempdir().unwrap();
    let (mut whole, ends) = written(&dir.path().join("s"), &["one", "two"]);
    whole.extend([0; 64]);
    let mut count = 0;
    let Scan { end, fault } = scan(Kind::Log, Cursor::new(whole), |_, _| count += 1).unwrap();
    assert_eq!((end, count), (ends[1] as u64, 2));
    insta::assert_snapshot!(fault.unwrap(), @"the entry at byte 32 claims 0 bytes, expected 1 to 1048576");
}

#[test]
fn what_is_given_up_before_anything_was_written_leaves_how_a_segment_begins() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut segment = create(&path);
    segment.append(&"one").unwrap();
    segment.give_up();
    segment.append(&"two").unwrap();
    segment.write().unwrap();
    segment.append(&"three").unwrap();
    segment.give_up();
    let place = segment.append(&"four").unwrap();
    segment.write().unwrap();
    assert_eq!(segment.read::<String>(place).unwrap(), "four");
    assert_eq!(
        (entries(&path), segment.end()),
        (vec!["two".to_owned(), "four".to_owned()], path.metadata().unwrap().len())
    );
}

#[test]
fn what_is_too_long_is_not_written_and_a_length_that_is_said_to_be_takes_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut segment = create(&path);
    let refused = segment.append(&"x".repeat(1 << 20)).unwrap_err();
    insta::assert_snapshot!(refused, @"an entry has 1048579 bytes, at most 1048576 fit");
    segment.append(&"one").unwrap();
    segment.write().unwrap();
    assert_eq!(entries(&path), ["one"]);
    let mut bytes = Kind::Log.magic().to_vec();
    bytes.extend([0xff; 20]);
    let fault = scan(Kind::Log, Cursor::new(bytes), |_, _| ()).unwrap().fault.unwrap();
    insta::assert_snapshot!(fault, @"the entry at byte 8 claims 4294967295 bytes, expected 1 to 1048576");
}

#[test]
fn entries_that_are_not_wanted_are_passed_over_within_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, ends) = written(&dir.path().join("s"), &["one", "two", "", "three", "tail"]);
    let read = |start: usize, end: usize, buffer: usize| -> io::Result<Vec<String>> {
        let part = start as u64..end as u64;
        let (mut reader, mut seen) = (SegmentReader::new(Kind::Log, Cursor::new(&whole), part, buffer)?, Vec::new());
        while let Some((_, payload)) = reader.read_if(2, |first| first.get(1) == Some(&b't'))? {
            seen.extend(decode::<String>(payload));
        }
        assert_eq!(reader.at(), end as u64);
        Ok(seen)
    };
    for buffer in [1, 10, BUFFER] {
        assert_eq!(read(0, ends[4], buffer).unwrap(), ["two", "three", "tail"]);
        assert_eq!(read(ends[1], ends[3], buffer).unwrap(), ["three"]);
    }
}

#[cfg(all(feature = "process", feature = "worker", target_os = "linux"))]
#[test]
fn who_follows_sees_every_entry_once_as_soon_as_it_is_whole() {
    use super::follow::SegmentFollower;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    fs::write(&path, "").unwrap();
    let mut follower = SegmentFollower::open(Kind::Log, &path).unwrap();
    let mut segment = SegmentWriter::open(Kind::Log, &path, |_, _| {}).unwrap();
    let (mut seen, mut whole) = (Vec::new(), Vec::new());
    for text in ["one", "", "three"] {
        segment.append(&text).unwrap();
        segment.write().unwrap();
        whole = fs::read(&path).unwrap();
        follower
            .read(|payload| {
                seen.extend(decode::<String>(payload));
                true
            })
            .unwrap();
    }
    assert_eq!(seen, ["one", "", "three"]);
    let copy = dir.path().join("copy");
    for cut in 0..whole.len() {
        fs::write(&copy, &whole[..cut]).unwrap();
        let (mut follower, mut count) = (SegmentFollower::open(Kind::Log, &copy).unwrap(), 0);
        // It goes on from where the callback stopped it, too.
        let mut tell = |_: &[u8]| {
            count += 1;
            count != 2
        };
        follower.read(&mut tell).unwrap();
        fs::write(&copy, &whole).unwrap();
        while !follower.read(&mut tell).unwrap() {}
        assert_eq!(count, 3, "cut at {cut}");
    }
    let mut foreign = SegmentFollower::open(Kind::Attempt, &path).unwrap();
    assert_eq!(foreign.read(|_| true).unwrap_err().kind(), ErrorKind::InvalidData);
}
