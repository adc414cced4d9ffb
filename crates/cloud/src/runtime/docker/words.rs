//! A container's last words. Owns where they are read and how much of them counts; never decides whether they matter.

use std::io::Read as _;
use std::path::Path;

use futures::StreamExt as _;
use orlop_core::error::Problem;

use super::engine::Engine;
use super::record::{Container, Words};
use super::{archive, error};
use crate::runtime::logs::Masker;

/// The longest message, in bytes, as in Kubernetes.
const MESSAGE_MAX: usize = 4096;

/// What is read of a longer one, in bytes, so that a secret across its end is recognised.
const READ_MAX: usize = 64 * 1024;

/// The lines and bytes that stand in for missing last words, as in Kubernetes.
const TAIL_LINES: u32 = 80;
const TAIL_MAX: usize = 2048;

/// The last words of a container that ended with `exit_code`, secrets masked, and whether there were any to mask.
pub(super) async fn last(
    engine: &Engine,
    container: &Container,
    exit_code: i32,
    masker: &Masker,
) -> Result<(String, bool), Problem> {
    let said = match &container.words {
        Words::None => Vec::new(),
        Words::File(path) => from_file(path)?,
        Words::Inside(path) => from_container(engine, &container.id, path).await?,
    };
    if said.is_empty() && exit_code != 0 && container.falls_back {
        let tail = masker.mask_text(&String::from_utf8_lossy(&engine.tail(&container.id, TAIL_LINES).await?));
        return Ok((end(&tail, TAIL_MAX).to_owned(), false));
    }
    let said = String::from_utf8_lossy(&said);
    let masked = masker.mask_values(&said);
    Ok((beginning(&masked, MESSAGE_MAX).to_owned(), masked != said))
}

/// Makes an empty file that every user may write, for the last words of an execution that begins.
pub(super) fn prepare(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    // The same file as before: a container has it mounted.
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o666))
}

fn from_file(path: &Path) -> Result<Vec<u8>, Problem> {
    let mut said = Vec::new();
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(said),
        Err(error) => return Err(Problem::from(error)),
    };
    file.take(READ_MAX as u64).read_to_end(&mut said)?;
    Ok(said)
}

/// Out of the container, which may have put anything there: a link is followed inside of it, by the engine.
async fn from_container(engine: &Engine, id: &str, path: &str) -> Result<Vec<u8>, Problem> {
    let Some(path) = archive::resolve(engine, id, path).await? else { return Ok(Vec::new()) };
    let mut stream = archive::stream(engine, id, &path).boxed();
    let mut bytes = Vec::new();
    while bytes.len() < 2 * READ_MAX {
        match stream.next().await {
            Some(Ok(piece)) => bytes.extend_from_slice(&piece),
            Some(Err(error)) => return Err(error::engine(error, &format!("reading `{path}` of container `{id}`"))),
            None => break,
        }
    }
    let mut said = Vec::new();
    let mut archive = tar::Archive::new(bytes.as_slice());
    if let Some(entry) = archive.entries()?.next() {
        let entry = entry?;
        if entry.header().entry_type().is_file() {
            entry.take(READ_MAX as u64).read_to_end(&mut said)?;
        }
    }
    Ok(said)
}

fn beginning(text: &str, max: usize) -> &str {
    let to = (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..to.unwrap_or_default()).unwrap_or_default()
}

fn end(text: &str, max: usize) -> &str {
    let from = (text.len().saturating_sub(max)..=text.len()).find(|at| text.is_char_boundary(*at));
    text.get(from.unwrap_or_default()..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_between_characters() {
        assert_eq!(beginning("äö", 3), "ä");
        assert_eq!(beginning("äö", 4), "äö");
        assert_eq!(end("äö", 3), "ö");
        assert_eq!(end("äö", 9), "äö");
    }

    #[test]
    fn the_file_is_emptied_in_place_and_open_to_all() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("words");
        prepare(&path).unwrap();
        std::fs::write(&path, "old").unwrap();
        let inode = std::fs::metadata(&path).unwrap().ino();
        prepare(&path).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert_eq!((metadata.len(), metadata.ino()), (0, inode));
        assert_eq!(metadata.permissions().mode() & 0o777, 0o666);
        assert_eq!(from_file(&path).unwrap(), b"");
        assert_eq!(from_file(&dir.path().join("none")).unwrap(), b"");
    }
}
