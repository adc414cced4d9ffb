//! Walking a tree in an order that depends on names only, without following links. Owns the order: a folder before its
//! members, members by the bytes of their names.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use orlop_core::error::{Class, Problem};

use super::error::{UNSTORABLE, reading};
use super::meter::Meter;
use super::mode::Mode;

/// What is at a path.
#[derive(Debug)]
pub(super) enum Kind {
    /// A file, open.
    File { file: File, size: u64, mode: Mode },
    /// A folder.
    Folder(Mode),
    /// A symbolic link and what it points to.
    Link(PathBuf),
}

/// Looks at a path, which is shown as `name`. A file is opened, so that it stays what it was found to be.
pub(super) fn look(path: &Path, name: &Path) -> Result<Kind, Problem> {
    let failed = |error| reading(path, error);
    let found = fs::symlink_metadata(path).map_err(failed)?;
    let kind = found.file_type();
    if kind.is_dir() {
        return Ok(Kind::Folder(Mode::of(found.mode())));
    }
    if kind.is_symlink() {
        return Ok(Kind::Link(fs::read_link(path).map_err(failed)?));
    }
    if kind.is_file() {
        // Were it replaced meanwhile, a link would not be followed and a pipe not be waited for.
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if found.is_file() {
            return Ok(Kind::File { file, size: found.len(), mode: Mode::of(found.mode()) });
        }
    }
    let what = match kind {
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "no file, folder or link",
    };
    let message = format!("{} is {what}, which cannot be stored; remove it", name.display());
    Err(Problem::new(Class::Invalid, message).with_reason(UNSTORABLE))
}

/// The members of a tree. Holds the names of one folder a level.
#[derive(Debug)]
pub(super) struct Walk {
    root: PathBuf,
    /// Open folders, by their names from the root, and their members not seen yet.
    folders: Vec<(PathBuf, std::vec::IntoIter<OsString>)>,
}

/// A member of a tree.
#[derive(Debug)]
pub(super) struct Member {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Its path from the root of the tree.
    pub(super) name: PathBuf,
    pub(super) kind: Kind,
}

impl Walk {
    pub(super) fn new(root: &Path, meter: &Meter) -> Result<Self, Problem> {
        let members = members(root, meter)?;
        Ok(Self { root: root.to_owned(), folders: vec![(PathBuf::new(), members)] })
    }

    /// The next member; none at the end.
    pub(super) fn next(&mut self, meter: &mut Meter) -> Result<Option<Member>, Problem> {
        while let Some((folder, members)) = self.folders.last_mut() {
            let Some(member) = members.next() else {
                self.folders.pop();
                continue;
            };
            meter.entry()?;
            let name = folder.join(member);
            let path = self.root.join(&name);
            let kind = look(&path, &name)?;
            if matches!(kind, Kind::Folder(_)) {
                self.folders.push((name.clone(), self::members(&path, meter)?));
            }
            return Ok(Some(Member { path, name, kind }));
        }
        Ok(None)
    }
}

/// Names in a folder, in order.
fn members(folder: &Path, meter: &Meter) -> Result<std::vec::IntoIter<OsString>, Problem> {
    let failed = |error| reading(folder, error);
    let mut names = Vec::new();
    for member in fs::read_dir(folder).map_err(failed)? {
        names.push(member.map_err(failed)?.file_name());
        if names.len() as u64 > meter.max_entries() {
            return Err(meter.too_many());
        }
    }
    names.sort_unstable();
    Ok(names.into_iter())
}
