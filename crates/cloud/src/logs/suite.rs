//! What holds for logs wherever they are kept. Each adapter runs it.

use super::*;

pub(crate) fn key(job: u64, attempt: u32) -> LogKey {
    LogKey { job: JobId::from_u64(job), index: 0, member: 0, attempt }
}

pub(crate) fn chunk(job: u64, seq: u64, text: &str) -> Chunk {
    let (time, gap) = (Time::from_millis(i64::try_from(seq).unwrap()), Gap::default());
    Chunk { key: key(job, 1), stream: LogStream::Stdout, seq, time, gap, data: text.as_bytes().to_vec() }
}

pub(crate) fn seqs(chunks: &[Chunk]) -> Vec<u64> {
    chunks.iter().map(|chunk| chunk.seq).collect()
}

/// Runs all checks. `next` gives a store on the same place whose server leads, where the one before leads no more.
pub(crate) fn check(next: &mut dyn FnMut() -> LogStore) {
    chunks_come_back_by_position_and_stream(&next());
    chunks_sent_twice_are_kept_once_also_by_the_next_leader(next);
    what_is_too_long_is_refused(&next());
    who_leads_no_more_writes_nothing(next);
    old_logs_go_by_age_and_by_size(&next());
    a_log_is_followed(&next());
}

fn chunks_come_back_by_position_and_stream(logs: &LogStore) {
    for seq in 1..=200 {
        let mut other = chunk(2, seq, "other");
        other.stream = LogStream::Stderr;
        let mut own = chunk(1, seq, &"\u{0}\u{1f980}x".repeat(5));
        own.stream = if seq % 2 == 0 { LogStream::Stderr } else { LogStream::Stdout };
        own.gap = Gap { chunks: 1, bytes: seq };
        assert_eq!(logs.append(&[own, other]).unwrap(), 35);
    }
    let all = logs.read(&key(1, 1), None, 0, usize::MAX).unwrap();
    assert_eq!(seqs(&all), (1..=200).collect::<Vec<_>>());
    assert_eq!((all[6].gap, all[6].time), (Gap { chunks: 1, bytes: 7 }, Time::from_millis(7)));
    assert_eq!(all[6].data, "\u{0}\u{1f980}x".repeat(5).as_bytes());
    let even = logs.read(&key(1, 1), Some(LogStream::Stderr), 100, usize::MAX).unwrap();
    assert_eq!(seqs(&even), (102..=200).step_by(2).collect::<Vec<_>>());
    assert_eq!(seqs(&logs.read(&key(1, 1), None, 150, 1).unwrap()), [151]);
    assert_eq!(logs.read(&key(3, 1), None, 0, 100).unwrap(), []);
    let expected = LogSummary { bytes: 200 * 30, chunks: 200, dropped: 200 * 201 / 2, last_seq: 200 };
    assert_eq!(logs.summary(&key(1, 1)).unwrap(), expected);
    assert_eq!(logs.summary(&key(3, 1)).unwrap(), LogSummary::default());
    assert!(logs.has_above(&key(1, 1), 199) && !logs.has_above(&key(1, 1), 200) && !logs.has_above(&key(3, 1), 0));
}

fn chunks_sent_twice_are_kept_once_also_by_the_next_leader(next: &mut dyn FnMut() -> LogStore) {
    let chunks: Vec<Chunk> = (1..=20).map(|seq| chunk(10, seq, "text")).collect();
    let logs = next();
    assert_eq!(logs.append(&chunks[..10]).unwrap(), 40);
    assert_eq!(logs.append(&chunks[5..]).unwrap(), 40, "of which five were kept before");
    let logs = next();
    assert_eq!(logs.append(&chunks).unwrap(), 0);
    assert_eq!(seqs(&logs.read(&key(10, 1), None, 0, usize::MAX).unwrap()), (1..=20).collect::<Vec<_>>());
    let summary = logs.summary(&key(10, 1)).unwrap();
    assert_eq!((summary.bytes, summary.chunks), (80, 20));
}

fn what_is_too_long_is_refused(logs: &LogStore) {
    let long = Chunk { data: vec![0; MAX_CHUNK + 1], ..chunk(20, 1, "") };
    assert_eq!(logs.append(&[long]).unwrap_err().class, Class::Invalid);
    let just = Chunk { data: vec![7; MAX_CHUNK], ..chunk(20, 1, "") };
    logs.append(std::slice::from_ref(&just)).unwrap();
    assert_eq!(logs.read(&key(20, 1), None, 0, 1).unwrap(), [just]);
}

fn who_leads_no_more_writes_nothing(next: &mut dyn FnMut() -> LogStore) {
    let before = next();
    before.resign();
    assert_eq!(before.append(&[chunk(30, 1, "late")]).unwrap_err().class, Class::Transient);
    assert_eq!(next().read(&key(30, 1), None, 0, usize::MAX).unwrap(), []);
}

fn old_logs_go_by_age_and_by_size(logs: &LogStore) {
    let of = |job: u64, time: i64| Chunk { time: Time::from_millis(time), ..chunk(job, 1, &"x".repeat(3_000)) };
    for (job, time) in [(40, 100_000), (41, 200_000), (42, 300_000), (43, 400_000)] {
        logs.append(&[of(job, time)]).unwrap();
    }
    let left = || {
        let kept = |job: &u64| !logs.read(&key(*job, 1), None, 0, 1).unwrap().is_empty();
        [1, 40, 41, 42, 43].into_iter().filter(kept).collect::<Vec<_>>()
    };
    assert!(logs.retain(Time::from_millis(150_000), u64::MAX).unwrap() >= 3_000);
    assert_eq!(left(), [41, 42, 43]);
    assert!(logs.retain(Time::from_millis(0), 7_000).unwrap() >= 3_000);
    assert_eq!(left(), [42, 43]);
    assert_eq!(logs.retain(Time::from_millis(0), 7_000).unwrap(), 0);
}

fn a_log_is_followed(logs: &LogStore) {
    let mut changes = logs.changes();
    let writer = logs.clone();
    let thread = std::thread::spawn(move || {
        for seq in 1..=50 {
            writer.append(&[chunk(50, seq, "line\n")]).unwrap();
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut last = 0;
    while last < 50 {
        for chunk in logs.read(&key(50, 1), None, last, 100).unwrap() {
            assert_eq!(chunk.seq, last + 1);
            last = chunk.seq;
        }
        if last < 50 && !logs.has_above(&key(50, 1), last) {
            runtime.block_on(changes.changed()).unwrap();
        }
    }
    thread.join().unwrap();
}
