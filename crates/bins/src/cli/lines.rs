//! Lines of a log file, whole and page by page.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use orlop_cloud::runtime::logs::Stream;
use orlop_cloud::runtime::logs::read::{Entry, read};

/// Bytes up to which pieces of a line are joined: one that never ends must not fill the memory.
const LONGEST: usize = 1024 * 1024;

/// Makes lines of pieces.
#[derive(Debug, Default)]
pub(super) struct Joiner(Option<Entry>);

impl Joiner {
    /// Takes the next entry of a stream. Gives the line that ends with it.
    pub(super) fn push(&mut self, entry: Entry) -> Option<Entry> {
        let line = match self.0.take() {
            None => entry,
            Some(mut line) => {
                line.text.push_str(&entry.text);
                line.goes_on = entry.goes_on;
                line
            }
        };
        if line.goes_on && line.text.len() < LONGEST {
            self.0 = Some(line);
            return None;
        }
        Some(line)
    }

    /// What is left at the end of the stream.
    pub(super) fn rest(&mut self) -> Option<Entry> {
        self.0.take()
    }
}

/// The lines of one file.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    stream: Stream,
    next: u64,
    page: VecDeque<Entry>,
    joiner: Joiner,
}

impl Lines {
    /// Lines from byte `from` on, where an entry begins; `joiner` has what came before.
    pub(super) fn new(path: &Path, stream: Stream, from: u64, joiner: Joiner) -> Self {
        Self { path: path.to_owned(), stream, next: from, page: VecDeque::new(), joiner }
    }

    /// The last lines of a file, not more than so many bytes of it.
    ///
    /// # Errors
    /// Those of the file system; a file that is not there has no lines.
    pub(super) fn last(path: &Path, stream: Stream, bytes: u64) -> io::Result<Vec<Entry>> {
        let length = match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            metadata => metadata?.len(),
        };
        let from = length.saturating_sub(bytes);
        let mut lines = Self::new(path, stream, from, Joiner::default());
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push(line);
        }
        // The first one was cut.
        Ok(if from > 0 { all.split_off(all.len().min(1)) } else { all })
    }

    /// The next line.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn next(&mut self) -> io::Result<Option<Entry>> {
        loop {
            while let Some(entry) = self.page.pop_front() {
                if let Some(line) = self.joiner.push(entry) {
                    return Ok(Some(line));
                }
            }
            let page = read(&self.path, self.stream, self.next)?;
            if page.next == self.next {
                return Ok(self.joiner.rest());
            }
            self.next = page.next;
            self.page = page.entries.into();
        }
    }
}

/// The lines of several files by time; of equal times those of the first file first.
#[derive(Debug)]
pub(super) struct Merged(Vec<(Lines, Option<Entry>)>);

impl Merged {
    /// Begins to read.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn new(files: impl IntoIterator<Item = Lines>) -> io::Result<Self> {
        let first = |mut lines: Lines| {
            let line = lines.next()?;
            Ok((lines, line))
        };
        files.into_iter().map(first).collect::<io::Result<_>>().map(Self)
    }

    /// The number of a file and its next line.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn next(&mut self) -> io::Result<Option<(usize, Entry)>> {
        let heads = self.0.iter_mut().enumerate().filter(|(_, (_, head))| head.is_some());
        let first = heads.min_by_key(|(_, (_, head))| head.as_ref().map(|entry| entry.time));
        let Some((file, (lines, head))) = first else { return Ok(None) };
        let line = std::mem::replace(head, lines.next()?);
        Ok(line.map(|line| (file, line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(mut lines: Merged) -> Vec<(usize, String)> {
        let mut all = Vec::new();
        while let Some((file, line)) = lines.next().unwrap() {
            all.push((file, line.text));
        }
        all
    }

    #[test]
    fn files_are_merged_by_time_and_pieces_of_lines_joined() {
        let dir = tempfile::tempdir().unwrap();
        let (out, err) = (dir.path().join("1.out"), dir.path().join("1.err"));
        let at = |second: u32, mark: char, text: &str| format!("1970-01-01T00:00:0{second}.000Z{mark}{text}\n");
        let long = [at(1, '+', "lo"), at(3, '+', "ng "), at(3, ' ', "line"), at(4, ' ', "end")].concat();
        std::fs::write(&out, long).unwrap();
        std::fs::write(&err, [at(1, ' ', "one"), at(2, ' ', "two"), at(5, '+', "open")].concat()).unwrap();
        let file = |path: &Path, stream| Lines::new(path, stream, 0, Joiner::default());
        let none = file(&dir.path().join("none"), Stream::Stdout);
        let merged = Merged::new([file(&out, Stream::Stdout), file(&err, Stream::Stderr), none]).unwrap();
        let all = [(0, "long line"), (1, "one"), (1, "two"), (0, "end"), (1, "open")];
        assert_eq!(texts(merged), all.map(|(file, text)| (file, text.to_owned())));
    }

    #[test]
    fn a_line_that_never_ends_comes_in_large_pieces() {
        let mut joiner = Joiner::default();
        let entry = Entry {
            time: orlop_core::time::Time::EPOCH,
            stream: Stream::Stdout,
            text: "x".repeat(16 * 1024),
            goes_on: true,
        };
        let lines: Vec<Entry> = (0..130).filter_map(|_| joiner.push(entry.clone())).collect();
        assert_eq!(lines.iter().map(|line| line.text.len()).collect::<Vec<_>>(), [LONGEST, LONGEST]);
        assert_eq!(joiner.rest().unwrap().text.len(), 2 * 16 * 1024);
    }

    #[test]
    fn of_a_large_file_only_the_end_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.out");
        let text: String = (0..5000).map(|n| format!("1970-01-01T00:00:01.000Z {n}\n")).collect();
        std::fs::write(&path, text).unwrap();
        let last = Lines::last(&path, Stream::Stdout, 3000).unwrap();
        assert!((90..=100).contains(&last.len()), "{}", last.len());
        assert_eq!((last[0].text.len(), last.last().unwrap().text.as_str()), (4, "4999"));
        assert_eq!(Lines::last(&path, Stream::Stdout, 1 << 20).unwrap().len(), 5000);
        assert!(Lines::last(&dir.path().join("none"), Stream::Stdout, 10).unwrap().is_empty());
    }
}
