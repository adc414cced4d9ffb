//! A folder of this machine as a repository. Owns the walk: every part of a path
//! is opened without following links, and regular files only are read.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use tokio::time::Instant;

use super::error::FetchError;
use super::scan::{Entry, EntryKind, MAX_ENTRIES, Scan};
use super::source::check_subdir;
use super::tree::{self, SCAN_TIME, Tree};

/// Folders within folders that are looked at; GPU sources count ten parts deep.
const MAX_DEPTH: usize = 10;

/// Scans a folder.
///
/// # Errors
/// The folder cannot be opened, or `subdir` leads out of it.
pub async fn scan(path: &Path, subdir: &str) -> Result<Scan, FetchError> {
    let subdir = check_subdir(subdir)?;
    let whole = path.join(&subdir);
    let (top, below) = (path.to_owned(), subdir.clone());
    if top.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        return Err(FetchError::Folder { what: format!("{} is not a folder", top.display()) });
    }
    let deadline = Instant::now() + SCAN_TIME;
    let (root, entries) = blocking(move || {
        let root = File::open(&whole).map(OwnedFd::from).map_err(|_| missing(&top, &below))?;
        let entries = walk(&root)?;
        Ok((root, entries))
    })
    .await?;
    let mut folder = Folder { root: root.try_clone().map_err(FetchError::io("read a folder"))? };
    tree::scan(&entries, &mut folder, deadline).await
}

/// Which of a folder and the one below it cannot be opened.
fn missing(top: &Path, below: &str) -> FetchError {
    match File::open(top) {
        Ok(_) => FetchError::Below { what: below.to_owned() },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            FetchError::Folder { what: format!("there is no folder {}", top.display()) }
        }
        Err(error) => FetchError::Folder { what: format!("the folder {} cannot be read: {error}", top.display()) },
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(FetchError::Io { what: "read a folder", source: std::io::Error::other(error) }),
    }
}

struct Folder {
    root: OwnedFd,
}

impl Tree for Folder {
    async fn read(&mut self, entry: &Entry, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        let root = self.root.try_clone().map_err(FetchError::io("read a folder"))?;
        let path = entry.path.clone();
        blocking(move || {
            Ok(open(root, &path).and_then(|file| {
                let mut bytes = Vec::new();
                file.take(limit as u64).read_to_end(&mut bytes).ok()?;
                Some(bytes)
            }))
        })
        .await
    }
}

/// Opens a regular file part by part; nothing if any part is a link or the file is something else by now.
fn open(root: OwnedFd, path: &str) -> Option<File> {
    let mut at = root;
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let folder = if parts.peek().is_some() { OFlags::DIRECTORY } else { OFlags::NONBLOCK };
        at = openat(&at, part, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | folder, Mode::empty()).ok()?;
    }
    let kind = FileType::from_raw_mode(fstat(&at).ok()?.st_mode);
    (kind == FileType::RegularFile).then(|| File::from(at))
}

/// Lists what lies below a folder, links and submodules not followed, in its own order.
fn walk(root: &OwnedFd) -> Result<Vec<Entry>, FetchError> {
    let failed = |error: Errno| FetchError::Io { what: "list a folder", source: error.into() };
    let mut entries = Vec::new();
    let mut open: Vec<(OwnedFd, String, usize)> =
        vec![(root.try_clone().map_err(FetchError::io("list a folder"))?, String::new(), 1)];
    while let Some((folder, prefix, depth)) = open.pop() {
        let mut names: Vec<String> = Vec::new();
        for entry in Dir::read_from(&folder).map_err(failed)? {
            let name = entry.map_err(failed)?;
            // A name that is no text cannot be one of those that say something.
            if let Ok(name) = name.file_name().to_str()
                && ![".", "..", ".git"].contains(&name)
            {
                names.push(name.to_owned());
            }
            if entries.len() + names.len() >= MAX_ENTRIES {
                break;
            }
        }
        names.sort_unstable();
        for name in names {
            let Ok(stat) = statat(&folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if depth < MAX_DEPTH => {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    if let Ok(inner) = openat(&folder, name.as_str(), flags, Mode::empty())
                        && !has_git(&inner)
                        && open.len() < 1000
                    {
                        open.push((inner, path, depth + 1));
                    }
                    continue;
                }
                FileType::RegularFile => EntryKind::File,
                _ => EntryKind::Other,
            };
            if entries.len() >= MAX_ENTRIES {
                return Ok(entries);
            }
            entries.push(Entry { path, kind, bytes: u64::try_from(stat.st_size).unwrap_or(0) });
        }
    }
    Ok(entries)
}

/// Whether a folder within the folder is its own repository: a submodule.
fn has_git(folder: &OwnedFd) -> bool {
    statat(folder, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    async fn paths(root: &Path) -> Vec<String> {
        let scan = scan(root, "").await.unwrap();
        scan.files.into_iter().map(|file| file.path).collect()
    }

    #[tokio::test]
    async fn links_are_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("requirements.txt"), "secret").unwrap();
        let root = tempfile::tempdir().unwrap();
        symlink(outside.path().join("requirements.txt"), root.path().join("requirements.txt")).unwrap();
        symlink(outside.path(), root.path().join("deps")).unwrap();
        symlink("/etc/passwd", root.path().join("README.md")).unwrap();
        fs::write(root.path().join("setup.py"), "").unwrap();
        fs::write(root.path().join("requirements-a.txt"), "-r deps/requirements.txt\n-r ../x").unwrap();
        assert_eq!(paths(root.path()).await, ["requirements-a.txt", "setup.py"]);
    }

    #[tokio::test]
    async fn pipes_and_submodules_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&root.path().join("README.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for module in ["module", "worktree"] {
            fs::create_dir(root.path().join(module)).unwrap();
            fs::write(root.path().join(module).join("requirements.txt"), "vllm").unwrap();
        }
        fs::create_dir(root.path().join("module/.git")).unwrap();
        fs::write(root.path().join("worktree/.git"), "gitdir: x").unwrap();
        fs::create_dir(root.path().join(".git")).unwrap();
        fs::write(root.path().join(".git/README"), "x").unwrap();
        fs::write(root.path().join("INSTALL"), "x").unwrap();
        assert_eq!(paths(root.path()).await, ["INSTALL"]);
    }

    #[tokio::test]
    async fn endless_files_are_cut() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("README.md"), "x ".repeat(1_000_000)).unwrap();
        // Holes: a gigabyte that takes no room, and is not opened.
        File::create(root.path().join("INSTALL")).unwrap().set_len(1 << 30).unwrap();
        let scan = scan(root.path(), "").await.unwrap();
        assert_eq!(scan.files.len(), 1);
        assert_eq!(scan.files[0].text.len(), 64 * 1024);
        assert!(scan.warnings[0].contains("64 MiB"));
    }

    #[tokio::test]
    async fn four_mebibytes_are_the_limit() {
        let root = tempfile::tempdir().unwrap();
        for n in 0..80 {
            fs::create_dir(root.path().join(format!("p{n}"))).unwrap();
            fs::write(root.path().join(format!("p{n}/README.md")), "x ".repeat(40_000)).unwrap();
        }
        let scan = scan(root.path(), "").await.unwrap();
        assert_eq!(scan.files.len(), 64);
        assert!(scan.warnings[0].contains("4 MiB"), "{:?}", scan.warnings);
    }

    #[tokio::test]
    async fn lists_named_by_lists_are_read_and_subfolders_can_be_the_top() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sub/deps/deep/er")).unwrap();
        fs::write(root.path().join("sub/requirements.txt"), "-r deps/deep/er/all.txt").unwrap();
        fs::write(root.path().join("sub/deps/deep/er/all.txt"), "-r more.txt").unwrap();
        fs::write(root.path().join("sub/deps/deep/er/more.txt"), "vllm").unwrap();
        let scan = super::scan(root.path(), "sub").await.unwrap();
        let found: Vec<&str> = scan.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(found, ["deps/deep/er/all.txt", "deps/deep/er/more.txt", "requirements.txt"]);
        assert!(super::scan(root.path(), "../x").await.is_err());
        assert!(super::scan(root.path(), "nothing").await.is_err());
    }
}
