//! The output of a step over the ends of agents, limits and full disks.

use std::sync::Mutex;

use orlop_cloud::runtime::logs::stamp;
use orlop_cloud::runtime::worker::{AttemptEnd, Started};
use orlop_core::id::{Epoch, JobId};

use super::*;

/// What was handed on.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<LogChunk>>);

impl AttemptEvents for Recorder {
    fn started(&self, _: TaskRef, _: Started) {}
    fn log(&self, _: TaskRef, chunk: LogChunk) -> LogCapacity {
        self.0.lock().unwrap().push(chunk);
        LogCapacity::Free
    }
    fn ended(&self, _: TaskRef, _: AttemptEnd) {}
    fn flush(&self) {}
}

impl Recorder {
    fn text(&self) -> String {
        let chunks = self.0.lock().unwrap();
        String::from_utf8(chunks.iter().flat_map(|chunk| chunk.data.clone()).collect()).unwrap()
    }

    /// Takes the first chunks of another one; gives the number of the last.
    fn take_until(&self, known: u64, other: &Self) -> u64 {
        let chunks = other.0.lock().unwrap();
        self.0.lock().unwrap().extend(chunks.iter().filter(|chunk| chunk.seq <= known).cloned());
        self.numbers().last().copied().unwrap_or(0)
    }

    fn numbers(&self) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|chunk| chunk.seq).collect()
    }
}

fn output(dir: &Path, policy: LogPolicy, known: u64) -> Output {
    let id = TaskRef { job: JobId::from_u64(1), index: 0, member: 0, attempt: 1, epoch: Epoch(1) };
    Output::open(id, &dir.join("notes"), ["out", "err"].map(|name| dir.join(name)), policy, known).unwrap()
}

#[tokio::test]
async fn output_resumes_after_the_last_known_chunk() {
    let lines: Vec<String> = (0..5000).map(|n| format!("line {n} of a long text")).collect();
    let whole: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
    for known in 0..=8 {
        let dir = tempfile::tempdir().unwrap();
        let (before, after) = (Recorder::default(), Recorder::default());
        append(dir.path(), &lines[..4000]);
        let mut first = output(dir.path(), LogPolicy::default(), 0);
        pass_all_on(&mut first, &before);
        assert!(before.numbers().len() > 5, "{:?}", before.numbers());
        append(dir.path(), &lines[4000..]);
        let last = after.take_until(known, &before);
        // What an agent was writing when it was killed.
        OpenOptions::new().append(true).open(dir.path().join("notes")).unwrap().write_all(b"half").unwrap();
        let totals = output(dir.path(), LogPolicy::default(), last).finish(&after, Time::EPOCH).await;
        assert_eq!(after.text(), whole, "known up to {known}");
        assert_eq!(after.numbers(), (1..=totals.last_seq).collect::<Vec<_>>());
    }
}

fn pass_all_on(output: &mut Output, events: &Recorder) {
    while !output.pass_on(events).unwrap() {}
}

fn append_to(dir: &Path, name: &str, lines: &[String]) {
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| stamp(Time::from_millis(5), line.as_bytes(), &mut bytes));
    let mut file = OpenOptions::new().append(true).create(true).open(dir.join(name)).unwrap();
    file.write_all(&bytes).unwrap();
}

fn append(dir: &Path, lines: &[String]) {
    append_to(dir, "out", lines);
}

#[tokio::test]
async fn pages_noted_before_a_restart_are_sent_before_newer_output() {
    let lines = |name: &str| -> Vec<String> { (0..3000).map(|n| format!("{name} {n} of a long text")).collect() };
    let (errors, output_lines) = (lines("error"), lines("line"));
    for known in 1..=6 {
        let dir = tempfile::tempdir().unwrap();
        let (before, after) = (Recorder::default(), Recorder::default());
        append_to(dir.path(), "err", &errors);
        append(dir.path(), &[]);
        let mut first = output(dir.path(), LogPolicy::default(), 0);
        pass_all_on(&mut first, &before);
        append(dir.path(), &output_lines);
        let last = after.take_until(known, &before);
        output(dir.path(), LogPolicy::default(), last).finish(&after, Time::EPOCH).await;
        let of = |stream| {
            let chunks = after.0.lock().unwrap();
            let bytes = chunks.iter().filter(|chunk| chunk.stream == stream).flat_map(|chunk| chunk.data.clone());
            String::from_utf8(bytes.collect()).unwrap()
        };
        let whole = |lines: &[String]| lines.iter().flat_map(|line| [line, "\n"]).collect::<String>();
        assert!(of(LogStream::Stderr) == whole(&errors), "known up to {known}");
        assert!(of(LogStream::Stdout) == whole(&output_lines), "known up to {known}");
    }
}

#[tokio::test]
async fn the_file_of_notes_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let events = Recorder::default();
    let mut first = output(dir.path(), LogPolicy::default(), 0);
    for n in 0..2 * NOTES_KEPT + 10 {
        append(dir.path(), &[format!("line {n}")]);
        first.pass_on(&events).unwrap();
    }
    let notes = fs::metadata(dir.path().join("notes")).unwrap().len();
    assert_eq!(notes, ((NOTES_KEPT + 10) * NOTE) as u64);
    let known = *events.numbers().last().unwrap() - 20;
    let again = Recorder::default();
    output(dir.path(), LogPolicy::default(), known).finish(&again, Time::EPOCH).await;
    assert_eq!(again.numbers(), (known + 1..=known + 20).collect::<Vec<_>>());
    // Nobody knows any more what arrived: what is handed on twice has the same numbers.
    let again = Recorder::default();
    output(dir.path(), LogPolicy::default(), 0).finish(&again, Time::EPOCH).await;
    let (chunks, first) = (again.0.lock().unwrap(), events.0.lock().unwrap());
    let begin = usize::try_from(chunks[0].seq).unwrap() - 1;
    assert!(chunks.len() > NOTES_KEPT && chunks[..] == first[begin..], "from {begin}");
}

#[tokio::test]
async fn chunks_sent_again_keep_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (Recorder::default(), Recorder::default());
    let mut first = output(dir.path(), LogPolicy::default(), 0);
    for n in 0..50 {
        append_to(dir.path(), if n % 3 == 0 { "err" } else { "out" }, &[format!("line {n}")]);
        pass_all_on(&mut first, &before);
    }
    append(dir.path(), &["new".to_owned()]);
    let totals = output(dir.path(), LogPolicy::default(), 0).finish(&after, Time::EPOCH).await;
    let (before, after) = (before.0.lock().unwrap(), after.0.lock().unwrap());
    assert_eq!((before.len(), totals.last_seq), (50, 51));
    assert_eq!(after[..50], before[..]);
    assert_eq!((after[50].seq, after[50].data.as_slice()), (51, &b"new\n"[..]));
}

#[tokio::test]
async fn the_end_of_the_output_is_sent_even_if_no_note_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let events = Recorder::default();
    let first = output(dir.path(), LogPolicy::default(), 0);
    append(dir.path(), &["last words".to_owned()]);
    fs::create_dir(dir.path().join("notes")).unwrap();
    assert_eq!(first.finish(&events, Time::EPOCH).await.last_seq, 1);
    assert_eq!(events.text(), "last words\n");
}

#[tokio::test]
async fn output_beyond_the_limit_is_dropped_said_to_be_missing_or_fails_the_step() {
    let limited = |on_full| LogPolicy { limit: 10, on_full };
    for (on_full, expected) in [(OnFull::Drop, false), (OnFull::Fail, true)] {
        let dir = tempfile::tempdir().unwrap();
        let events = Recorder::default();
        append(dir.path(), &["0123456789abc".to_owned()]);
        let mut output = output(dir.path(), limited(on_full), 0);
        assert!(output.pass_on(&events).unwrap());
        assert_eq!(output.is_over_limit(), expected);
        let totals = output.finish(&events, Time::EPOCH).await;
        assert_eq!((totals.bytes, totals.dropped_bytes, totals.last_seq), (10, 4, 2));
        let chunks = events.0.lock().unwrap();
        assert_eq!(chunks.last().unwrap().gap, Some(LogGap { chunks: 1, bytes: 4 }));
    }
    let dir = tempfile::tempdir().unwrap();
    let events = Recorder::default();
    append(dir.path(), &["0123456789abc".to_owned()]);
    let mut output = output(dir.path(), limited(OnFull::Block), 0);
    assert!(output.pass_on(&events).unwrap() && output.is_paused() && !output.is_over_limit());
    assert_eq!(events.text(), "0123456789abc\n", "what was read is kept");
}
