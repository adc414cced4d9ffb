//! The place an archive is unpacked to, out of everybody's sight. Owns what may be written there: names below it, files,
//! folders and links, within the limits; nothing is ever written through a link, since links come last.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use orlop_core::error::Problem;

use super::super::error::{broken, unfit, writing};
use super::super::links::{self, Links};
use super::super::meter::{Meter, Stream};
use super::super::mode::Mode;

/// The longest path a system takes, in bytes.
const PATH_MAX: usize = 4096;

/// What an archive was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One file.
    File,
    /// A folder and what is in it.
    Tree,
}

/// An entry of an archive.
pub(super) enum Entry<'a> {
    File { reader: &'a mut dyn Read, mode: Mode },
    Folder(Mode),
    Link { target: &'a [u8] },
}

/// Where an archive is unpacked.
pub(super) struct UnpackTarget<'a> {
    root: PathBuf,
    meter: &'a mut Meter,
    shape: Option<Shape>,
    links: Links,
}

impl<'a> UnpackTarget<'a> {
    /// A place with its root at a path where nothing is.
    pub(super) fn new(root: PathBuf, meter: &'a mut Meter) -> Self {
        Self { root, meter, shape: None, links: Links::new() }
    }

    /// Entries there may be.
    pub(super) fn max_entries(&self) -> u64 {
        self.meter.max_entries()
    }

    /// The error of an archive with too many entries.
    pub(super) fn too_many(&self) -> Problem {
        self.meter.too_many()
    }

    /// Holds while this many bytes are within the limit.
    pub(super) fn allows(&self, bytes: u64) -> Result<(), Problem> {
        self.meter.allows(bytes)
    }

    /// Unpacks an entry. The first one is the root of a tree, or the only file.
    pub(super) fn add(&mut self, name: &[u8], entry: Entry<'_>) -> Result<(), Problem> {
        self.meter.entry()?;
        let inside = inside(name)?;
        match (self.shape, entry) {
            (None, Entry::Folder(mode)) if inside.as_os_str().is_empty() => {
                self.shape = Some(Shape::Tree);
                self.folder(Path::new(""), mode)
            }
            (None, Entry::File { reader, mode }) if inside.components().count() == 1 => {
                self.shape = Some(Shape::File);
                self.file(Path::new(""), reader, mode)
            }
            (None, _) => Err(unfit("it does not begin with the root of a tree")),
            (Some(Shape::File), _) => Err(unfit("something follows its only file")),
            (Some(Shape::Tree), _) if inside.as_os_str().is_empty() => Err(unfit("it has two roots")),
            (Some(Shape::Tree), Entry::Folder(mode)) => self.folder(&inside, mode),
            (Some(Shape::Tree), Entry::File { reader, mode }) => self.file(&inside, reader, mode),
            (Some(Shape::Tree), Entry::Link { target }) => self.link(inside, target),
        }
    }

    fn folder(&self, inside: &Path, mode: Mode) -> Result<(), Problem> {
        let path = self.path(inside);
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| misfit(inside, &path, error))?;
        fs::set_permissions(&path, Permissions::from_mode(mode.of_folder())).map_err(|error| writing(&path, error))
    }

    fn file(&mut self, inside: &Path, reader: &mut dyn Read, mode: Mode) -> Result<(), Problem> {
        let path = self.path(inside);
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = opened.map_err(|error| misfit(inside, &path, error))?;
        let write_failed = |error| writing(&path, error);
        self.meter.copy(Stream { reader, read_failed: &broken, writer: &mut file, write_failed: &write_failed })?;
        file.set_permissions(Permissions::from_mode(mode.of_file())).map_err(write_failed)
    }

    fn link(&mut self, inside: PathBuf, target: &[u8]) -> Result<(), Problem> {
        if target.is_empty() || target.len() >= PATH_MAX || target.contains(&0) {
            return Err(unfit(format_args!("link `{}` points to nothing a system takes", inside.display())));
        }
        let target = PathBuf::from(std::ffi::OsStr::from_bytes(target));
        match self.links.insert(inside.clone(), target) {
            None => Ok(()),
            Some(_) => Err(twice(&inside)),
        }
    }

    /// Creates the links, once everything else is there, and says what the archive was made of.
    pub(super) fn finish(self) -> Result<Shape, Problem> {
        let shape = self.shape.ok_or_else(|| unfit("it is empty"))?;
        if let Some(path) = self.links.keys().find(|path| links::leaves(path, &self.links)) {
            return Err(unfit(format_args!(
                "link `{}` leads out of it; deliver it with `unpack: false`, or let its step store what it points to",
                path.display()
            )));
        }
        for (inside, target) in &self.links {
            let path = self.path(inside);
            symlink(target, &path).map_err(|error| misfit(inside, &path, error))?;
        }
        Ok(shape)
    }

    fn path(&self, inside: &Path) -> PathBuf {
        if inside.as_os_str().is_empty() { self.root.clone() } else { self.root.join(inside) }
    }
}

/// The name of an entry as a path below the root, empty for the root itself.
fn inside(name: &[u8]) -> Result<PathBuf, Problem> {
    let shown = || String::from_utf8_lossy(name).chars().take(200).collect::<String>();
    let refused = |why: &str| Err(unfit(format_args!("entry `{}` {why}", shown().escape_debug())));
    if name.len() >= PATH_MAX {
        return refused("has a name longer than a system takes");
    }
    if name.contains(&0) {
        return refused("has a NUL in its name");
    }
    if name.starts_with(b"/") {
        return refused("has an absolute name");
    }
    if matches!(name, b"./" | b".") {
        return Ok(PathBuf::new());
    }
    let mut path = PathBuf::new();
    for part in name.strip_suffix(b"/").unwrap_or(name).split(|byte| *byte == b'/') {
        match part {
            b".." => return refused("leaves the target"),
            b"" | b"." => return refused("has a name that is not in its normal form"),
            part => path.push(std::ffi::OsStr::from_bytes(part)),
        }
    }
    Ok(path)
}

fn twice(inside: &Path) -> Problem {
    unfit(format_args!("entry `{}` appears twice", inside.display()))
}

/// Why an entry could not be created: it does not fit to the others, or the disk does not take it.
fn misfit(inside: &Path, path: &Path, error: io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::AlreadyExists => twice(inside),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory if !inside.as_os_str().is_empty() => {
            unfit(format_args!("entry `{}` is in no folder of it", inside.display()))
        }
        io::ErrorKind::InvalidFilename => unfit(format_args!("entry `{}` has too long a name", inside.display())),
        _ => writing(path, error),
    }
}
