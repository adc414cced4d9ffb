//! Tests of the end of a log.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn open(&self) -> Sink {
        Sink::open(&self.path("note"), &self.path("out"), &self.path("err"), Masker::new(["hunter2"])).unwrap()
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }
}

fn piece(stream: Stream, millis: i64, text: &str) -> LogOutput {
    let time = jiff::Timestamp::from_millisecond(millis).unwrap();
    let message = Bytes::from(format!("{time} {text}"));
    match stream {
        Stream::Out => LogOutput::StdOut { message },
        Stream::Err => LogOutput::StdErr { message },
    }
}

#[test]
fn streams_go_to_their_files_with_secrets_masked() {
    let disk = Disk::new();
    let mut sink = disk.open();
    sink.take(&[piece(Stream::Out, 1, "pw hunt"), piece(Stream::Err, 2, "err\n"), piece(Stream::Out, 1, "er2\nmore")])
        .unwrap();
    assert_eq!(disk.text("out"), "1970-01-01T00:00:00.001Z pw ***\n");
    sink.finish().unwrap();
    assert_eq!(disk.text("out"), "1970-01-01T00:00:00.001Z pw ***\n1970-01-01T00:00:00.001Z more\n");
    assert_eq!(disk.text("err"), "1970-01-01T00:00:00.002Z err\n");
}

#[test]
fn a_second_reader_writes_nothing_twice() {
    let disk = Disk::new();
    let all = [piece(Stream::Out, 1, "a\n"), piece(Stream::Out, 1, "b\n"), piece(Stream::Err, 1, "c\n")];
    disk.open().take(&all).unwrap();
    let before = (disk.text("out"), disk.text("err"));
    let mut sink = disk.open();
    assert_eq!(sink.rewind(), 0);
    sink.take(&all).unwrap();
    assert_eq!((disk.text("out"), disk.text("err")), before);
    sink.take(&[piece(Stream::Out, 1, "b\n")]).unwrap();
    assert_eq!(disk.text("out").lines().count(), 3);
}

#[test]
fn a_line_of_another_pod_in_the_same_file_is_left_alone() {
    let disk = Disk::new();
    let mut sink = disk.open();
    sink.take(&[piece(Stream::Out, 1, "a\n")]).unwrap();
    let note = std::fs::read(disk.path("note")).unwrap();
    sink.take(&[piece(Stream::Out, 2, "b\n")]).unwrap();
    std::fs::write(disk.path("note"), note).unwrap();
    let mut other = OpenOptions::new().append(true).open(disk.path("out")).unwrap();
    other.write_all(b"1970-01-01T00:00:00.002Z other\n").unwrap();
    let mut again = disk.open();
    again.take(&[piece(Stream::Out, 1, "a\n"), piece(Stream::Out, 2, "b\n"), piece(Stream::Out, 3, "c\n")]).unwrap();
    let texts: Vec<String> = disk.text("out").lines().map(|line| line[25..].to_owned()).collect();
    assert_eq!(texts, ["a", "b", "other", "c"]);
}

/// Pieces of one stream, some of them parts of lines, with times that do not go back.
fn pieces() -> impl Strategy<Value = Vec<(Stream, i64, String)>> {
    let one = (any::<bool>(), 0_i64..3, "[ab]{0,3}\n?");
    proptest::collection::vec(one, 1..24).prop_map(|list| {
        let mut now = 0;
        list.into_iter()
            .map(|(out, step, text)| {
                now += step;
                (if out { Stream::Out } else { Stream::Err }, now, text)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A process writes some pieces and dies after a write, before its note; another one reads everything again.
    #[test]
    fn every_crash_leaves_every_line_once(list in pieces(), noted in 0_usize..24, cut in 0_usize..24, torn in 0_u64..30) {
        let all: Vec<LogOutput> = list.iter().map(|(stream, millis, text)| piece(*stream, *millis, text)).collect();
        let expected = Disk::new();
        let mut sink = expected.open();
        sink.take(&all).unwrap();
        sink.finish().unwrap();

        let disk = Disk::new();
        let (noted, cut) = (noted.min(all.len()), cut.min(all.len()));
        let (noted, cut) = (noted.min(cut), noted.max(cut));
        let mut sink = disk.open();
        sink.take(&all[..noted]).unwrap();
        let note = std::fs::read(disk.path("note")).unwrap();
        let length = std::fs::metadata(disk.path("out")).unwrap().len();
        sink.take(&all[noted..cut]).unwrap();
        std::fs::write(disk.path("note"), note).unwrap();
        // The last write may have been cut short, but not before what was noted.
        let file = OpenOptions::new().write(true).open(disk.path("out")).unwrap();
        let now = file.metadata().unwrap().len();
        file.set_len(now.saturating_sub(torn).max(length)).unwrap();

        let mut again = disk.open();
        again.rewind();
        again.take(&all).unwrap();
        again.finish().unwrap();
        prop_assert_eq!(disk.text("out"), expected.text("out"));
        prop_assert_eq!(disk.text("err"), expected.text("err"));
    }
}
