//! Delivering: stored bytes as they are, or the file or tree they are an archive of. Owns what arrives: all of it,
//! checked against its digest, or nothing.

mod tar;
mod target;
mod zip;

use std::fs::{self, File, Permissions};
use std::io::{BufReader, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use orlop_core::error::{Class, Problem};
use orlop_core::spec::artifact::Archive;
use orlop_core::spec::status::ArtifactLocation;
use tempfile::{TempDir, TempPath};

use self::target::UnpackTarget;
use super::digest;
use super::error::{occupied, reading, unfit, writing};
use super::merge::merge;
use super::meter::Meter;
use super::mode::Mode;
use super::reference::{Packing, Reference};
use super::store::Files;

/// What is delivered where.
#[derive(Debug)]
pub(super) struct DeliveryOrder {
    pub(super) reference: Reference,
    /// Whether an archive is delivered as the original file or tree.
    pub(super) unpack: bool,
    pub(super) target: PathBuf,
    /// Whether it takes the place of what is at the target.
    pub(super) replace: bool,
}

impl DeliveryOrder {
    /// The original file or tree of a location, where nothing is.
    pub(super) fn of(location: &ArtifactLocation, archive: Option<Archive>, target: &Path) -> Result<Self, Problem> {
        let reference = Reference::of(location, archive)?;
        Ok(Self { reference, unpack: true, target: target.components().collect(), replace: false })
    }
}

/// Delivers an artifact.
pub(super) fn get(files: &Files, meter: &mut Meter, order: &DeliveryOrder) -> Result<(), Problem> {
    let target = &order.target;
    match fs::symlink_metadata(target) {
        Ok(_) if !order.replace => return Err(occupied(target)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(reading(target, error)),
        Ok(_) => {}
    }
    let (place, file) = files.open_stored(&order.reference)?;
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match order.reference.packing {
        Packing::Raw { mode } => copy(&place, mode, folder, order, meter),
        _ if !order.unpack => copy(&place, Mode::default(), folder, order, meter),
        packing => unpack(file, packing, folder, order, meter),
    }
}

/// Delivers a copy of the stored file. Where the file system can, it shares the file's blocks until one is written.
fn copy(stored: &Path, mode: Mode, folder: &Path, order: &DeliveryOrder, meter: &Meter) -> Result<(), Problem> {
    let failed = |error| writing(&order.target, error);
    let copy = tempfile::Builder::new().prefix(".orlop-").tempfile_in(folder).map_err(failed)?;
    fs::copy(stored, copy.path()).map_err(failed)?;
    let mut copied = File::open(copy.path()).map_err(failed)?;
    verify(&mut copied, order, meter)?;
    copied.set_permissions(Permissions::from_mode(mode.of_file())).map_err(failed)?;
    in_place(order, folder, || arrive(copy.into_temp_path(), &order.target))
}

/// Lets something arrive at the target. What it replaces is moved aside before, and comes back should that fail.
fn in_place(order: &DeliveryOrder, folder: &Path, arrive: impl FnOnce() -> Result<(), Problem>) -> Result<(), Problem> {
    if !order.replace {
        return arrive();
    }
    let failed = |error| writing(&order.target, error);
    let aside = tempfile::Builder::new().prefix(".orlop-").tempdir_in(folder).map_err(failed)?;
    let old = aside.path().join(STAGED);
    match fs::rename(&order.target, &old) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let arrived = arrive();
    if arrived.is_err() && old.symlink_metadata().is_ok() {
        fs::rename(&old, &order.target).map_err(|error| {
            let kept = aside.keep();
            writing(&kept, error)
        })?;
    }
    arrived
}

/// Delivers the file or tree an archive was made of.
fn unpack(
    mut file: File,
    packing: Packing,
    folder: &Path,
    order: &DeliveryOrder,
    meter: &mut Meter,
) -> Result<(), Problem> {
    verify(&mut file, order, meter)?;
    file.rewind().map_err(super::error::broken)?;
    let failed = |error| writing(&order.target, error);
    let (staging, shape) = staged(file, packing, folder, meter)?;
    let staged = staging.path().join(STAGED);
    in_place(order, folder, || {
        if shape == target::Shape::File {
            let staged = TempPath::try_from_path(staged).map_err(failed)?;
            return arrive(staged, &order.target);
        }
        // Nothing was at the target when the work began, and a folder that is not empty is never replaced.
        fs::rename(&staged, &order.target).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists
            | std::io::ErrorKind::DirectoryNotEmpty
            | std::io::ErrorKind::NotADirectory => occupied(&order.target),
            _ => failed(error),
        })
    })
}

/// Name of what was unpacked in its staging folder.
const STAGED: &str = "artifact";

/// Unpacks an archive into a new folder in `folder`, which is removed when it is dropped.
fn staged(file: File, packing: Packing, folder: &Path, meter: &mut Meter) -> Result<(TempDir, target::Shape), Problem> {
    let failed = |error| writing(folder, error);
    let staging = tempfile::Builder::new().prefix(".orlop-").tempdir_in(folder).map_err(failed)?;
    let mut place = UnpackTarget::new(staging.path().join(STAGED), meter);
    match packing {
        Packing::Tar => tar::read(BufReader::new(file), &mut place)?,
        Packing::TarGz => tar::read(GzDecoder::new(BufReader::new(file)), &mut place)?,
        Packing::Zip => zip::read(file, &mut place)?,
        Packing::Raw { .. } => return Err(Problem::new(Class::Fatal, "a raw file has nothing to unpack")),
    }
    Ok((staging, place.finish()?))
}

/// Puts the content of a folder that was packed as tar into `folder`, beside what is there.
pub(super) fn into_folder(mut file: File, folder: &Path, meter: &mut Meter) -> Result<(), Problem> {
    file.rewind().map_err(super::error::broken)?;
    match staged(file, Packing::Tar, folder, meter)? {
        (staging, target::Shape::Tree) => merge(&staging.path().join(STAGED), folder),
        (_, target::Shape::File) => Err(unfit("it is not an archive of a folder")),
    }
}

/// Lets a finished file appear at the target, never in place of another.
fn arrive(file: TempPath, target: &Path) -> Result<(), Problem> {
    file.persist_noclobber(target).map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => occupied(target),
        _ => writing(target, error.error),
    })
}

/// Holds when a file has the digest it should.
fn verify(file: &mut File, order: &DeliveryOrder, meter: &Meter) -> Result<(), Problem> {
    let found = digest::of(file, &super::error::broken, meter)?;
    if found == order.reference.sha256 {
        return Ok(());
    }
    let message = format!(
        "the stored bytes of artifact {} are damaged: their digest is {found}; run its step again",
        order.reference
    );
    Err(Problem::new(Class::Invalid, message))
}
