//! Logs in files: cut off, shared and deleted. What holds for logs anywhere is in [`super::suite`].

use std::fs;
use std::io::Write as _;
use std::path::Path;

use super::suite::{chunk, key, seqs};
use super::*;
use crate::segment::MAGIC;

fn open(folder: &Path, segment_bytes: u64) -> LogStore {
    LogStore::open(folder, LogOptions { segment_bytes }).unwrap()
}

#[test]
fn a_torn_end_is_not_read_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let whole = {
        let logs = open(folder.path(), 1 << 20);
        logs.append(&(1..=10).map(|seq| chunk(1, seq, "some text")).collect::<Vec<_>>()).unwrap();
        fs::read(folder.path().join("000000000001.log")).unwrap()
    };
    let record = (whole.len() - MAGIC) / 10;
    // Cut anywhere: whole records stay, half ones are not read, and appending goes on.
    for cut in 0..=whole.len() {
        fs::remove_dir_all(folder.path()).unwrap();
        fs::create_dir(folder.path()).unwrap();
        fs::write(folder.path().join("000000000001.log"), &whole[..cut]).unwrap();
        let logs = open(folder.path(), 1 << 20);
        let kept = logs.read(&key(1, 1), None, 0, usize::MAX).unwrap();
        assert_eq!(kept.len(), cut.saturating_sub(MAGIC) / record, "cut at {cut}");
        logs.append(&[chunk(1, 99, "more")]).unwrap();
        assert_eq!(logs.read(&key(1, 1), None, 50, usize::MAX).unwrap().len(), 1);
    }
    // Half a record with a wrong checksum behind whole ones.
    fs::remove_dir_all(folder.path()).unwrap();
    fs::create_dir(folder.path()).unwrap();
    fs::write(folder.path().join("000000000001.log"), &whole).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(folder.path().join("000000000001.log")).unwrap();
    file.write_all(&whole[MAGIC..MAGIC + record - 1]).unwrap();
    file.write_all(b"?").unwrap();
    drop(file);
    assert_eq!(open(folder.path(), 1 << 20).read(&key(1, 1), None, 0, usize::MAX).unwrap().len(), 10);
}

#[test]
fn a_log_of_another_version_is_kept_as_long_as_its_age_says() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("000000000001.log");
    fs::write(&old, b"ORLSPL1\nwhat an earlier version wrote").unwrap();
    let logs = open(folder.path(), 1 << 20);
    logs.append(&[chunk(1, 1, "text")]).unwrap();
    assert_eq!(logs.retain(Time::from_millis(1000), u64::MAX).unwrap(), 0, "it was written a moment ago");
    assert!(old.exists());
    let later = Time::from_millis(i64::MAX);
    assert_eq!(logs.retain(later, u64::MAX).unwrap(), 37);
    assert!(!old.exists());
}

#[test]
fn a_lost_index_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let logs = open(folder.path(), 300);
    logs.append(&(1..=20).map(|seq| chunk(1, seq, "text")).collect::<Vec<_>>()).unwrap();
    let summary = logs.summary(&key(1, 1)).unwrap();
    drop(logs);
    let index = folder.path().join("000000000001.idx");
    let whole = fs::read(&index).unwrap();
    let unsure = [&whole[..whole.len() - 1], b"?"].concat();
    for damaged in [b"", &whole[..MAGIC], &whole[..whole.len() / 2], &unsure, b"nonsense"] {
        fs::write(&index, damaged).unwrap();
        assert_eq!(open(folder.path(), 300).summary(&key(1, 1)).unwrap(), summary, "{damaged:?}");
    }
    fs::remove_file(&index).unwrap();
    assert_eq!(open(folder.path(), 300).summary(&key(1, 1)).unwrap(), summary);
}

#[test]
fn files_go_by_age_and_by_size() {
    let folder = tempfile::tempdir().unwrap();
    let logs = open(folder.path(), 300);
    logs.append(&(1..=40).map(|seq| chunk(1, seq, "text")).collect::<Vec<_>>()).unwrap();
    let gone = logs.retain(Time::from_millis(20), u64::MAX).unwrap();
    assert!(gone > 300);
    let left = seqs(&logs.read(&key(1, 1), None, 0, usize::MAX).unwrap());
    assert!(left[0] <= 20 && left[0] > 10 && left.last() == Some(&40), "{left:?}");
    logs.retain(Time::from_millis(0), 700).unwrap();
    let total: u64 = fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .map(|path| path.metadata().unwrap().len())
        .sum();
    assert!(total <= 700, "{total}");
    let gone = logs.retain(Time::from_millis(1_000), 0).unwrap();
    assert!(gone > 0);
    assert!(!logs.read(&key(1, 1), None, 0, usize::MAX).unwrap().is_empty(), "the file that is written to stays");
    logs.append(&[chunk(1, 41, "more")]).unwrap();
    drop(logs);
    assert_eq!(open(folder.path(), 300).summary(&key(1, 1)).unwrap().last_seq, 41);
}

#[test]
fn logs_in_a_folder_pass_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let (mut epoch, mut before) = (0, None::<LogStore>);
    super::suite::check(&mut || {
        if let Some(before) = before.take() {
            before.resign();
        }
        epoch += 1;
        let logs = LogStore::folder(folder.path(), LogOptions { segment_bytes: 2_000 }).unwrap();
        logs.lead(Epoch(epoch)).unwrap();
        before = Some(logs.clone());
        logs
    });
}

#[test]
fn servers_that_share_a_folder_lose_nothing_to_one_that_was_stopped_while_it_led() {
    let folder = tempfile::tempdir().unwrap();
    let [stopped, next] = [(); 2].map(|()| LogStore::folder(folder.path(), LogOptions::default()).unwrap());
    // Started side by side, while nothing is there.
    stopped.lead(Epoch(1)).unwrap();
    stopped.append(&[chunk(1, 1, "one"), chunk(1, 2, "two")]).unwrap();
    next.lead(Epoch(2)).unwrap();
    assert_eq!(seqs(&next.read(&key(1, 1), None, 0, usize::MAX).unwrap()), [1, 2]);
    next.append(&[chunk(1, 3, "three")]).unwrap();
    // It goes on before it sees that it leads no more. Its session is over, so the agent sends the same to the other.
    stopped.append(&[chunk(1, 3, "three"), chunk(2, 1, "other")]).unwrap();
    next.append(&[chunk(2, 1, "other"), chunk(1, 4, "four")]).unwrap();
    for logs in [next, LogStore::open(folder.path(), LogOptions::default()).unwrap()] {
        assert_eq!(seqs(&logs.read(&key(1, 1), None, 0, usize::MAX).unwrap()), [1, 2, 3, 4]);
        assert_eq!(seqs(&logs.read(&key(2, 1), None, 0, usize::MAX).unwrap()), [1]);
    }
    // A third does not take what it wrote late in its own file for more.
    let small = LogOptions { segment_bytes: 1 };
    let [stopped, next] = [(); 2].map(|()| LogStore::folder(folder.path(), small).unwrap());
    stopped.lead(Epoch(5)).unwrap();
    stopped.append(&[chunk(3, 1, "one")]).unwrap();
    next.lead(Epoch(6)).unwrap();
    next.append(&[chunk(3, 2, "two")]).unwrap();
    stopped.append(&[chunk(3, 2, "two")]).unwrap();
    next.lead(Epoch(7)).unwrap();
    assert_eq!(seqs(&next.read(&key(3, 1), None, 0, usize::MAX).unwrap()), [1, 2]);
    // One that led before leads again.
    stopped.lead(Epoch(8)).unwrap();
    assert_eq!(seqs(&stopped.read(&key(1, 1), None, 0, usize::MAX).unwrap()), [1, 2, 3, 4]);
}

#[test]
fn a_disk_that_takes_no_index_keeps_nobody_from_reading() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), 300).append(&[chunk(1, 1, "text")]).unwrap();
    // Its place is taken by something that cannot be replaced.
    fs::create_dir(folder.path().join("000000000001.idx")).unwrap();
    assert_eq!(seqs(&open(folder.path(), 300).read(&key(1, 1), None, 0, usize::MAX).unwrap()), [1]);
}
