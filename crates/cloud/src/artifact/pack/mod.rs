//! Storing: a file as it is, a tree or a file as an archive that is equal for equal content. Owns what goes into an
//! archive: names, contents, whether a file can be run and is private, what a link points to; nothing else of the source.

mod tar;
mod zip;

use std::fs::File;
use std::io::{BufWriter, Read, Seek as _, Write};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use orlop_core::error::{Class, Problem};
use orlop_core::spec::artifact::Archive;
use orlop_core::spec::status::ArtifactLocation;

use super::digest::Hashing;
use super::error::{UNSTORABLE, reading, writing};
use super::links::{self, Links};
use super::meter::{Meter, Stream};
use super::mode::Mode;
use super::reference::{Packing, Reference};
use super::store::Files;
use super::walk::{Kind, Walk, look};

/// Something to be written into an archive.
pub(super) enum Content<'a> {
    /// A file: its bytes, and exactly how many.
    File {
        reader: &'a mut dyn Read,
        size: u64,
        mode: Mode,
    },
    Folder(Mode),
    Link(&'a Path),
}

/// A writer of one archive format.
trait Packer {
    /// Writes an entry under a name relative to the root; the root itself has none.
    fn add(&mut self, name: &Path, content: Content<'_>, job: &mut Job<'_>) -> Result<(), Problem>;
}

/// What a packer needs beside the entry.
pub(super) struct Job<'a> {
    /// The file whose bytes are read.
    source: &'a Path,
    /// The folder the archive is written to.
    target: &'a Path,
    meter: &'a mut Meter,
}

impl Job<'_> {
    fn wrote<T>(&self, result: std::io::Result<T>) -> Result<T, Problem> {
        result.map_err(|error| writing(self.target, error))
    }

    /// Copies exactly the bytes an entry announces.
    fn copy(&mut self, reader: &mut dyn Read, size: u64, writer: &mut dyn Write) -> Result<(), Problem> {
        self.meter.allows(size)?;
        let (source, target) = (self.source, self.target);
        let copied = self.meter.copy(Stream {
            reader: &mut reader.take(size),
            read_failed: &|error| reading(source, error),
            writer,
            write_failed: &|error| writing(target, error),
        })?;
        if copied != size {
            let message = format!("{} became shorter while it was stored; end what writes it", source.display());
            return Err(Problem::new(Class::Transient, message));
        }
        Ok(())
    }
}

/// Stores what is at `source`.
pub(super) fn put(
    files: &Files,
    meter: &mut Meter,
    source: &Path,
    archive: Option<Archive>,
) -> Result<ArtifactLocation, Problem> {
    meter.entry()?;
    let name = source.file_name().map_or(source, Path::new);
    let kind = look(source, name)?;
    let packing = match (&kind, archive) {
        (Kind::Link(_), _) => {
            let message =
                format!("{} is a symbolic link, which may lead anywhere; give what it points to", name.display());
            return Err(Problem::new(Class::Invalid, message).with_reason(UNSTORABLE));
        }
        (Kind::File { mode, .. }, None) => Packing::Raw { mode: *mode },
        (Kind::Folder(_), archive) => archive.unwrap_or_default().into(),
        (Kind::File { .. }, Some(archive)) => archive.into(),
    };
    let unfinished = files.unfinished()?;
    let target = unfinished.path().to_owned();
    let mut out = Hashing::new(BufWriter::new(unfinished.as_file()));
    let mut job = Job { source, target: &target, meter };
    let links = write(&mut out, packing, kind, &mut job)?;
    // What is asked for as an archive may be taken as one, and then leads nowhere.
    if archive.is_none() {
        stay(&links, Path::new(""), ", or pack the folder by `archive` and take it with `unpack: false`")?;
    }
    job.wrote(out.flush())?;
    let (_, sha256, size_bytes) = out.finish();
    files.keep(unfinished, &sha256)?;
    let reference = Reference { sha256: sha256.clone(), packing }.to_string();
    Ok(ArtifactLocation { kind: "cas".to_owned(), reference, size_bytes, sha256 })
}

/// Packs a folder, which no link in it may leave, into a file without a name.
pub(super) fn folder(source: &Path, meter: &mut Meter) -> Result<File, Problem> {
    meter.entry()?;
    let kind = look(source, source)?;
    if !matches!(kind, Kind::Folder(_)) {
        return Err(Problem::new(Class::Invalid, format!("{} is not a folder", source.display())));
    }
    let target = std::env::temp_dir();
    let mut file = tempfile::tempfile_in(&target).map_err(|error| writing(&target, error))?;
    let mut job = Job { source, target: &target, meter };
    let mut tar = tar::Writer::new(BufWriter::new(&file));
    let links = pack(&mut tar, kind, &mut job)?;
    tar.finish(&job)?;
    stay(&links, source, "")?;
    file.rewind().map_err(|error| writing(&target, error))?;
    Ok(file)
}

/// Holds when no link of a tree leads out of it; `root` is the tree as it is shown, `way` what else can be done.
fn stay(links: &Links, root: &Path, way: &str) -> Result<(), Problem> {
    let Some((link, target)) = links.iter().find(|(link, _)| links::leaves(link, links)) else { return Ok(()) };
    let message = format!(
        "link {} leads out of the folder, to {}; put a copy in its place{way}",
        root.join(link).display(),
        target.display()
    );
    Err(Problem::new(Class::Invalid, message).with_reason(UNSTORABLE))
}

type Out<'a> = Hashing<BufWriter<&'a File>>;

/// Writes what is stored. Gives the links of a tree.
fn write(out: &mut Out<'_>, packing: Packing, kind: Kind, job: &mut Job<'_>) -> Result<Links, Problem> {
    match packing {
        Packing::Raw { .. } => match kind {
            Kind::File { mut file, size, .. } => job.copy(&mut file, size, out).map(|()| Links::new()),
            Kind::Folder(_) | Kind::Link(_) => Err(Problem::new(Class::Fatal, "only a file can be stored raw")),
        },
        Packing::Tar => {
            let mut tar = tar::Writer::new(out);
            let links = pack(&mut tar, kind, job)?;
            tar.finish(job).map(|()| links)
        }
        Packing::TarGz => {
            // Neither name nor time, so that equal trees give equal bytes.
            let mut gzip = GzBuilder::new().mtime(0).write(out, Compression::default());
            let mut tar = tar::Writer::new(&mut gzip);
            let links = pack(&mut tar, kind, job)?;
            tar.finish(job)?;
            job.wrote(gzip.finish()).map(|_| links)
        }
        Packing::Zip => {
            let mut zip = zip::Writer::new(out);
            let packed = pack(&mut zip, kind, job);
            zip.finish(packed, job)
        }
    }
}

/// Writes a file under its name, or a tree with its root first. Gives the links of the tree.
fn pack(packer: &mut dyn Packer, kind: Kind, job: &mut Job<'_>) -> Result<Links, Problem> {
    let mut links = Links::new();
    let folder = match kind {
        Kind::File { mut file, size, mode } => {
            let name = job.source.file_name().map_or(Path::new("file"), Path::new);
            packer.add(name, Content::File { reader: &mut file, size, mode }, job)?;
            return Ok(links);
        }
        Kind::Folder(mode) => mode,
        Kind::Link(_) => return Err(Problem::new(Class::Fatal, "a link is never the root of an archive")),
    };
    packer.add(Path::new(""), Content::Folder(folder), job)?;
    let mut walk = Walk::new(job.source, job.meter)?;
    while let Some(member) = walk.next(job.meter)? {
        let mut job = Job { source: &member.path, target: job.target, meter: job.meter };
        match member.kind {
            Kind::File { mut file, size, mode } => {
                packer.add(&member.name, Content::File { reader: &mut file, size, mode }, &mut job)?;
            }
            Kind::Folder(mode) => packer.add(&member.name, Content::Folder(mode), &mut job)?,
            Kind::Link(target) => {
                packer.add(&member.name, Content::Link(&target), &mut job)?;
                links.insert(member.name, target);
            }
        }
    }
    Ok(links)
}
