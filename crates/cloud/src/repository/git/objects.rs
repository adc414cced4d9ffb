//! Trees and blobs out of the object store: a listing, then the chosen blobs by their ids. Owns the formats of `ls-tree` and
//! `cat-file`; no work tree is ever written.

use std::collections::HashMap;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::Instant;

use super::program::{Group, Program};
use crate::repository::error::FetchError;
use crate::repository::scan::{Entry, EntryKind, MAX_ENTRIES};
use crate::repository::tree::Tree;

/// Bytes one line of a listing may have.
const MAX_LINE: usize = 8192;

/// Lists a tree, with the id of each entry, and whether that is all of it.
pub(super) async fn list(
    program: &Program,
    commit: &str,
    subdir: &str,
    deadline: Instant,
) -> Result<(Vec<(Entry, String)>, bool), FetchError> {
    let tree = format!("{commit}:{subdir}");
    let mut group = program.start(&mut program.command(&[
        "ls-tree",
        "-r",
        "-z",
        "-l",
        "--full-tree",
        "--end-of-options",
        &tree,
    ]))?;
    let Some(stdout) = group.child.stdout.take() else { return Ok((Vec::new(), false)) };
    let mut lines = BufReader::with_capacity(64 * 1024, stdout);
    let mut entries = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut lines).take(MAX_LINE as u64);
        match tokio::time::timeout_at(deadline, limited.read_until(0, &mut line)).await {
            Ok(Ok(0)) => break,
            Ok(Ok(_)) if line.last() == Some(&0) => {
                entries.extend(entry(line.get(..line.len() - 1).unwrap_or_default()));
            }
            // A path beyond any length, a broken pipe or no time left: what is there is used.
            _ => return Ok((entries, false)),
        }
        if entries.len() >= MAX_ENTRIES {
            return Ok((entries, false));
        }
    }
    let status = group.child.wait().await.map_err(FetchError::io("wait for git"))?;
    if !status.success() && entries.is_empty() {
        let what = if subdir.is_empty() { "a tree".to_owned() } else { format!("the folder {subdir}") };
        return Err(FetchError::Missing { what });
    }
    Ok((entries, status.success()))
}

/// `100644 blob ID SIZE<tab>PATH`.
fn entry(line: &[u8]) -> Option<(Entry, String)> {
    let line = std::str::from_utf8(line).ok()?;
    let (head, path) = line.split_once('\t')?;
    let mut words = head.split_whitespace();
    let (mode, kind, id, size) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let regular = kind == "blob" && ["100644", "100755", "100664"].contains(&mode);
    let strange = path.starts_with('/') || path.split('/').any(|part| part == ".." || part.is_empty());
    let kind = if regular && !strange { EntryKind::File } else { EntryKind::Other };
    let is_id = (40..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit());
    is_id.then(|| (Entry { path: path.to_owned(), kind, bytes: size.parse().unwrap_or(0) }, id.to_owned()))
}

/// Blobs by their paths.
pub(super) struct Objects {
    ids: HashMap<String, String>,
    /// The process that gives them out, with its pipes.
    _group: Group,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Objects {
    pub(super) fn new(program: &Program, entries: &[(Entry, String)]) -> Result<Self, FetchError> {
        let files = entries.iter().filter(|(entry, _)| entry.kind == EntryKind::File);
        let ids = files.map(|(entry, id)| (entry.path.clone(), id.clone())).collect();
        let mut command = program.command(&["cat-file", "--batch"]);
        command.stdin(Stdio::piped()).stderr(Stdio::null());
        let mut group = program.start(&mut command)?;
        let pipes = || FetchError::Io { what: "speak with git", source: std::io::ErrorKind::BrokenPipe.into() };
        let questions = group.child.stdin.take().ok_or_else(pipes)?;
        let answers = BufReader::new(group.child.stdout.take().ok_or_else(pipes)?);
        Ok(Self { ids, _group: group, questions, answers })
    }
}

impl Tree for Objects {
    async fn read(&mut self, entry: &Entry, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        let Some(id) = self.ids.get(&entry.path) else { return Ok(None) };
        let failed = || FetchError::io("speak with git");
        self.questions.write_all(format!("{id}\n").as_bytes()).await.map_err(failed())?;
        let mut head = String::new();
        (&mut self.answers).take(256).read_line(&mut head).await.map_err(failed())?;
        let mut words = head.split_whitespace();
        let size = match (words.next(), words.next(), words.next().and_then(|size| size.parse::<u64>().ok())) {
            (Some(found), Some("blob"), Some(size)) if found == id => size,
            _ => return Ok(None),
        };
        let wanted = size.min(limit as u64);
        let mut bytes = Vec::new();
        (&mut self.answers).take(wanted).read_to_end(&mut bytes).await.map_err(failed())?;
        // The rest and the line feed after it, so that the next answer begins where it is looked for.
        let rest = size - wanted + 1;
        tokio::io::copy(&mut (&mut self.answers).take(rest), &mut tokio::io::sink()).await.map_err(failed())?;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blobs_of_regular_files_are_files() {
        let id = "0f8fad5bd9cb469fa16570867728950e0f8fad5b";
        let kind = |line: &str| entry(line.as_bytes()).map(|(entry, _)| entry.kind);
        assert_eq!(kind(&format!("100644 blob {id}       7\ta/b")), Some(EntryKind::File));
        assert_eq!(kind(&format!("100755 blob {id} 7\ta")), Some(EntryKind::File));
        assert_eq!(kind(&format!("120000 blob {id} 7\ta")), Some(EntryKind::Other), "a link");
        assert_eq!(kind(&format!("160000 commit {id} -\ta")), Some(EntryKind::Other), "a submodule");
        assert_eq!(kind(&format!("100644 blob {id} 7\t../a")), Some(EntryKind::Other));
        assert_eq!(kind(&format!("100644 blob {id} 7\t/a")), Some(EntryKind::Other));
        assert_eq!(kind("100644 blob -x 7\ta"), None);
        assert_eq!(kind(""), None);
        assert_eq!(entry(b"\xff"), None);
    }
}
