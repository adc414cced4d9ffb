//! Copies out of containers, running or ended. Owns the archive calls and what of an archive is unpacked; links inside a
//! container are followed by the engine, inside of it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bollard::query_parameters as query;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use orlop_core::error::{Class, Problem};
use tokio::sync::mpsc;

use super::engine::Engine;
use super::error;
use crate::artifact::Limits;

/// The bit of a file mode, as the engine writes it, that marks a symbolic link.
const SYMLINK: u32 = 1 << 27;

/// How many links in a row are followed.
const LINKS: usize = 16;

/// Chunks between the network and the disk.
const BUFFER: usize = 32;

/// The path behind the links at `path`, inside the container; none when there is nothing.
pub(super) async fn resolve(engine: &Engine, id: &str, path: &str) -> Result<Option<String>, Problem> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let options = query::ContainerArchiveInfoOptions { path: path.clone() };
        match engine.docker().get_container_archive_info(id, Some(options)).await {
            // The engine says where a link leads in the end, or at least one step further.
            Ok(stat) if stat.file_mode & SYMLINK != 0 && !stat.link_target.is_empty() && stat.link_target != path => {
                path = if stat.link_target.starts_with('/') {
                    stat.link_target
                } else {
                    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    format!("{parent}/{}", stat.link_target)
                };
            }
            Ok(_) => return Ok(Some(path)),
            Err(error) if error::is_not_found(&error) => return Ok(None),
            // The answer to this question has no text, so it is asked again in a way that has.
            Err(error) if error::status(&error).is_some() => {
                return match stream(engine, id, &path).boxed().next().await {
                    Some(Err(reported)) if error::is_not_found(&reported) || is_no_directory(&reported) => Ok(None),
                    Some(Err(reported)) => Err(looking(reported, &path, id)),
                    Some(Ok(_)) | None => Err(looking(error, &path, id)),
                };
            }
            Err(error) => return Err(looking(error, &path, id)),
        }
    }
    Ok(None)
}

fn looking(error: bollard::errors::Error, path: &str, id: &str) -> Problem {
    error::engine(error, &format!("looking for `{path}` in container `{id}`"))
}

/// Whether a path goes on below a file.
fn is_no_directory(error: &bollard::errors::Error) -> bool {
    error.to_string().contains("not a directory")
}

/// The archive of a path of a container.
pub(super) fn stream(
    engine: &Engine,
    id: &str,
    path: &str,
) -> impl Stream<Item = Result<Bytes, bollard::errors::Error>> + use<> {
    let options = query::DownloadFromContainerOptions { path: path.to_owned() };
    engine.docker().download_from_container(id, Some(options)).boxed()
}

/// Copies a file or directory out of a container into a new directory below `scratch`, and returns where it is. Stops as
/// soon as it has more than the limits allow.
pub(super) async fn copy(
    engine: &Engine,
    id: &str,
    inside: &str,
    scratch: &Path,
    limits: Limits,
) -> Result<PathBuf, Problem> {
    let nothing = || Problem::new(Class::NotFound, format!("there is no `{inside}` in container `{id}`"));
    let path = resolve(engine, id, inside).await?.ok_or_else(nothing)?;
    let Some(name) = Path::new(&path).file_name().map(ToOwned::to_owned) else {
        let message = format!("`{inside}` is the whole file system of the container; name a path inside of it");
        return Err(Problem::new(Class::Invalid, message));
    };
    let directory = tempfile::tempdir_in(scratch)?;
    let target = directory.path().to_owned();
    let (send, receive) = mpsc::channel(BUFFER);
    let unpacked =
        tokio::task::spawn_blocking(move || unpack(Chunks { receive, chunk: Bytes::new() }, &target, limits));
    let sent = pump(engine, id, &path, &send).await;
    drop(send);
    let fail = |error: io::Error| {
        let class = Problem::from(io::Error::from(error.kind())).class;
        // Names and kinds of files come from the container; what is wrong with them is not a lack on this side.
        let class = if matches!(class, Class::NotFound | Class::Exists) { Class::Invalid } else { class };
        Problem::new(class, format!("unpacking `{path}` of container `{id}` failed: {error}")).because(error)
    };
    // The other side ends in any case before its directory may go.
    let unpacked = unpacked.await;
    if !sent? {
        return Err(nothing());
    }
    match unpacked {
        Ok(result) => result.map_err(fail)?,
        Err(stopped) => return Err(Problem::new(Class::Transient, "unpacking stopped").because(stopped)),
    }
    let copied = directory.path().join(name);
    if std::fs::symlink_metadata(&copied).is_err() {
        return Err(nothing());
    }
    Ok(directory.keep().join(copied.file_name().unwrap_or_default()))
}

/// Sends an archive on as it comes, or says that there is nothing.
async fn pump(engine: &Engine, id: &str, path: &str, send: &mpsc::Sender<Bytes>) -> Result<bool, Problem> {
    let mut chunks = stream(engine, id, path).boxed();
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) => {
                if send.send(chunk).await.is_err() {
                    // The other side has ended, and says why.
                    break;
                }
            }
            Err(error) if error::is_not_found(&error) => return Ok(false),
            Err(error) => return Err(error::engine(error, &format!("copying `{path}` out of container `{id}`"))),
        }
    }
    Ok(true)
}

/// Unpacks files, directories and links below `target`; devices and pipes are left out, and nothing leaves `target`.
fn unpack(chunks: Chunks, target: &Path, limits: Limits) -> io::Result<()> {
    let mut archive = tar::Archive::new(chunks);
    // Directories last and innermost first: one that may not be written to must not hinder its content.
    let mut directories = Vec::new();
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    for entry in archive.entries()? {
        let mut entry = entry?;
        // Before anything of it is written: the size in its header is what is read of it.
        (bytes, entries) = (bytes.saturating_add(entry.size()), entries + 1);
        within(bytes, entries, limits)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() {
            directories.push(entry);
        } else if !(kind.is_character_special() || kind.is_block_special() || kind.is_fifo()) {
            entry.unpack_in(target)?;
        }
    }
    directories.sort_by(|a, b| b.path_bytes().cmp(&a.path_bytes()));
    for mut directory in directories {
        directory.unpack_in(target)?;
    }
    Ok(())
}

fn within(bytes: u64, entries: u64, limits: Limits) -> io::Result<()> {
    let most = limits.max_bytes;
    if bytes > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has more than {most} bytes")));
    }
    let most = limits.max_entries;
    if entries > most {
        let message = format!("it has more than {most} files, folders and links");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(())
}

/// Chunks of an archive as something to read from, on a thread that may block.
struct Chunks {
    receive: mpsc::Receiver<Bytes>,
    chunk: Bytes,
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.receive.blocking_recv() {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let taken = self.chunk.split_to(buffer.len().min(self.chunk.len()));
        if let Some(start) = buffer.get_mut(..taken.len()) {
            start.copy_from_slice(&taken);
        }
        Ok(taken.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> (tempfile::TempDir, io::Result<()>) {
        unpacked_within(Limits::default(), build)
    }

    fn unpacked_within(
        limits: Limits,
        build: impl FnOnce(&mut tar::Builder<Vec<u8>>),
    ) -> (tempfile::TempDir, io::Result<()>) {
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        let (send, receive) = mpsc::channel(BUFFER);
        for chunk in builder.into_inner().unwrap().chunks(700) {
            send.try_send(Bytes::copy_from_slice(chunk)).unwrap();
        }
        drop(send);
        let dir = tempfile::tempdir().unwrap();
        let result = unpack(Chunks { receive, chunk: Bytes::new() }, dir.path(), limits);
        (dir, result)
    }

    fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header
    }

    #[test]
    fn trees_keep_modes_and_a_locked_directory_its_content() {
        use std::os::unix::fs::PermissionsExt as _;
        let (dir, result) = unpacked(|tar| {
            tar.append_data(&mut header(tar::EntryType::Directory, 0o555, 0), "d", io::empty()).unwrap();
            tar.append_data(&mut header(tar::EntryType::Regular, 0o755, 2), "d/f", &b"hi"[..]).unwrap();
            tar.append_link(&mut header(tar::EntryType::Symlink, 0o777, 0), "d/l", "/etc/shadow").unwrap();
            tar.append_data(&mut header(tar::EntryType::Fifo, 0o644, 0), "d/p", io::empty()).unwrap();
        });
        result.unwrap();
        let path = |name: &str| dir.path().join(name);
        assert_eq!(std::fs::read(path("d/f")).unwrap(), b"hi");
        assert_eq!(std::fs::metadata(path("d/f")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(std::fs::metadata(path("d")).unwrap().permissions().mode() & 0o777, 0o555);
        assert_eq!(std::fs::read_link(path("d/l")).unwrap(), Path::new("/etc/shadow"));
        assert!(!path("d/p").exists());
    }

    #[test]
    fn more_than_the_limits_allow_is_not_unpacked() {
        let build = |tar: &mut tar::Builder<Vec<u8>>| {
            for name in ["a", "b", "c"] {
                tar.append_data(&mut header(tar::EntryType::Regular, 0o644, 4), name, &b"1234"[..]).unwrap();
            }
        };
        let try_with = |max_bytes, max_entries| unpacked_within(Limits { max_bytes, max_entries }, build);
        try_with(12, 3).1.unwrap();
        let (dir, result) = try_with(11, 3);
        insta::assert_snapshot!(result.unwrap_err(), @"it has more than 11 bytes");
        assert!(dir.path().join("b").exists() && !dir.path().join("c").exists());
        insta::assert_snapshot!(try_with(12, 2).1.unwrap_err(), @"it has more than 2 files, folders and links");
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        let (_dir, result) = unpacked(|tar| {
            tar.append_link(&mut header(tar::EntryType::Symlink, 0o777, 0), "l", outside.path()).unwrap();
            tar.append_data(&mut header(tar::EntryType::Regular, 0o644, 2), "l/f", &b"hi"[..]).unwrap();
        });
        assert!(result.is_err());
        assert!(!outside.path().join("f").exists());
    }
}
