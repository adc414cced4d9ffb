//! Logs as they are written, read, followed, cut off and deleted.

use std::io::Write as _;

use super::*;

fn key(job: u64, attempt: u32) -> LogKey {
    LogKey { job: JobId::from_u64(job), index: 0, member: 0, attempt }
}

fn chunk(job: u64, seq: u64, text: &str) -> Chunk {
    let (time, gap) = (Time::from_millis(i64::try_from(seq).unwrap()), Gap::default());
    Chunk { key: key(job, 1), stream: LogStream::Stdout, seq, time, gap, data: text.as_bytes().to_vec() }
}

fn seqs(chunks: &[Chunk]) -> Vec<u64> {
    chunks.iter().map(|chunk| chunk.seq).collect()
}

fn open(folder: &Path, segment_bytes: u64) -> LogStore {
    LogStore::open(folder, LogOptions { segment_bytes }).unwrap()
}

#[test]
fn chunks_come_back_by_position_and_stream_over_many_files() {
    let folder = tempfile::tempdir().unwrap();
    let logs = open(folder.path(), 2_000);
    for seq in 1..=200 {
        let mut other = chunk(2, seq, "other");
        other.stream = LogStream::Stderr;
        let mut own = chunk(1, seq, &"\u{0}\u{1f980}x".repeat(5));
        own.stream = if seq % 2 == 0 { LogStream::Stderr } else { LogStream::Stdout };
        own.gap = Gap { chunks: 1, bytes: seq };
        logs.append(&[own, other]).unwrap();
    }
    assert!(fs::read_dir(folder.path()).unwrap().count() > 10);
    let all = logs.read(&key(1, 1), None, 0, usize::MAX).unwrap();
    assert_eq!(seqs(&all), (1..=200).collect::<Vec<_>>());
    assert_eq!(all[6].gap, Gap { chunks: 1, bytes: 7 });
    assert_eq!(all[6].data, "\u{0}\u{1f980}x".repeat(5).as_bytes());
    let even = logs.read(&key(1, 1), Some(LogStream::Stderr), 100, usize::MAX).unwrap();
    assert_eq!(seqs(&even), (102..=200).step_by(2).collect::<Vec<_>>());
    assert_eq!(seqs(&logs.read(&key(1, 1), None, 150, 1).unwrap()), [151]);
    assert_eq!(logs.read(&key(3, 1), None, 0, 100).unwrap(), []);
    let summary = logs.summary(&key(1, 1));
    assert_eq!((summary.chunks, summary.dropped, summary.last_seq), (200, 200 * 201 / 2, 200));
}

#[test]
fn chunks_sent_twice_are_kept_once_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let logs = open(folder.path(), 300);
    let chunks: Vec<Chunk> = (1..=20).map(|seq| chunk(1, seq, "text")).collect();
    assert_eq!(logs.append(&chunks[..10]).unwrap(), 40);
    assert_eq!(logs.append(&chunks[5..]).unwrap(), 40, "of which five were kept before");
    drop(logs);
    let logs = open(folder.path(), 300);
    assert_eq!(logs.append(&chunks).unwrap(), 0);
    assert_eq!(seqs(&logs.read(&key(1, 1), None, 0, usize::MAX).unwrap()), (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_torn_end_is_cut_off_and_the_rest_stays() {
    let folder = tempfile::tempdir().unwrap();
    let whole = {
        let logs = open(folder.path(), 1 << 20);
        logs.append(&(1..=10).map(|seq| chunk(1, seq, "some text")).collect::<Vec<_>>()).unwrap();
        fs::read(folder.path().join("000000000001.log")).unwrap()
    };
    // Cut anywhere: whole records stay, half ones go, and appending goes on.
    for cut in 0..=whole.len() {
        fs::write(folder.path().join("000000000001.log"), &whole[..cut]).unwrap();
        let logs = open(folder.path(), 1 << 20);
        let kept = logs.read(&key(1, 1), None, 0, usize::MAX).unwrap();
        assert_eq!(kept.len(), cut / (whole.len() / 10), "cut at {cut}");
        logs.append(&[chunk(1, 99, "more")]).unwrap();
        assert_eq!(logs.read(&key(1, 1), None, 50, usize::MAX).unwrap().len(), 1);
    }
    // Half a record with a wrong checksum behind whole ones.
    fs::write(folder.path().join("000000000001.log"), &whole).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(folder.path().join("000000000001.log")).unwrap();
    file.write_all(&whole[..whole.len() / 10 - 1]).unwrap();
    file.write_all(b"?").unwrap();
    drop(file);
    assert_eq!(open(folder.path(), 1 << 20).read(&key(1, 1), None, 0, usize::MAX).unwrap().len(), 10);
}

#[test]
fn a_lost_index_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let logs = open(folder.path(), 300);
    logs.append(&(1..=20).map(|seq| chunk(1, seq, "text")).collect::<Vec<_>>()).unwrap();
    let summary = logs.summary(&key(1, 1));
    drop(logs);
    let index = folder.path().join("000000000001.idx");
    let text = fs::read_to_string(&index).unwrap();
    for damaged in ["", "1 2", &text[..text.len() / 2], "nonsense"] {
        fs::write(&index, damaged).unwrap();
        assert_eq!(open(folder.path(), 300).summary(&key(1, 1)), summary, "{damaged:?}");
    }
    fs::remove_file(&index).unwrap();
    assert_eq!(open(folder.path(), 300).summary(&key(1, 1)), summary);
}

#[test]
fn files_go_by_age_and_by_size() {
    let folder = tempfile::tempdir().unwrap();
    let logs = open(folder.path(), 300);
    logs.append(&(1..=40).map(|seq| chunk(1, seq, "text")).collect::<Vec<_>>()).unwrap();
    let gone = logs.retain(Time::from_millis(20), u64::MAX).unwrap();
    assert!(gone.segments > 1);
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
    assert!(gone.segments > 0);
    assert!(!logs.read(&key(1, 1), None, 0, usize::MAX).unwrap().is_empty(), "the file that is written to stays");
    logs.append(&[chunk(1, 41, "more")]).unwrap();
    drop(logs);
    assert_eq!(open(folder.path(), 300).summary(&key(1, 1)).last_seq, 41);
}

#[tokio::test]
async fn a_log_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let logs = open(folder.path(), 1 << 20);
    let mut changes = logs.changes();
    let writer = logs.clone();
    let thread = std::thread::spawn(move || {
        for seq in 1..=50 {
            writer.append(&[chunk(1, seq, "line\n")]).unwrap();
        }
    });
    let mut last = 0;
    while last < 50 {
        for chunk in logs.read(&key(1, 1), None, last, 100).unwrap() {
            assert_eq!(chunk.seq, last + 1);
            last = chunk.seq;
        }
        if last < 50 && logs.summary(&key(1, 1)).last_seq == last {
            changes.changed().await.unwrap();
        }
    }
    thread.join().unwrap();
}

#[test]
fn what_is_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let logs = open(folder.path(), 1 << 20);
    let long = Chunk { data: vec![0; MAX_CHUNK + 1], ..chunk(1, 1, "") };
    assert_eq!(logs.append(&[long]).unwrap_err().class, orlop_core::error::Class::Invalid);
    let just = Chunk { data: vec![7; MAX_CHUNK], ..chunk(1, 1, "") };
    logs.append(std::slice::from_ref(&just)).unwrap();
    assert_eq!(logs.read(&key(1, 1), None, 0, 1).unwrap(), [just]);
    logs.sync().unwrap();
}
