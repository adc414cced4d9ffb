//! The zip format with deflate, written as a stream. Owns its bytes; names must be UTF-8 in it.

use std::io::Write;
use std::path::Path;

use orlop_core::error::{Class, Problem};
use zip::result::ZipError;
use zip::write::{SimpleFileOptions, StreamWriter};
use zip::{CompressionMethod, DateTime, ZipWriter};

use super::super::error::writing;
use super::{Content, Job, Packer};

/// From this size on, an entry needs the larger form of sizes; compression may add a little.
const LARGE: u64 = 0xf000_0000;

/// Writes a zip archive.
pub(super) struct Writer<W: Write> {
    out: ZipWriter<StreamWriter<W>>,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out: ZipWriter::new_stream(out) }
    }

    /// Ends the archive, unless packing failed.
    pub(super) fn finish<T>(self, packed: Result<T, Problem>, job: &Job<'_>) -> Result<T, Problem> {
        let ended = self.out.finish();
        let packed = packed?;
        ended.map(|_| packed).map_err(|error| failed(job, error))
    }
}

fn failed(job: &Job<'_>, error: ZipError) -> Problem {
    match error {
        ZipError::Io(error) => writing(job.target, error),
        error => {
            let message = format!("{} cannot be stored in a zip archive; use tar", job.source.display());
            Problem::new(Class::Invalid, message).because(error)
        }
    }
}

/// A path as text.
fn text<'a>(path: &'a Path, job: &Job<'_>) -> Result<&'a str, Problem> {
    path.to_str().ok_or_else(|| {
        let message = format!("{} cannot be stored in a zip archive: it is not UTF-8; use tar", job.source.display());
        Problem::new(Class::Invalid, message)
    })
}

impl<W: Write> Packer for Writer<W> {
    fn add(&mut self, name: &Path, content: Content<'_>, job: &mut Job<'_>) -> Result<(), Problem> {
        let name = text(name, job)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::default());
        match content {
            Content::File { reader, size, mode } => {
                let options = options.unix_permissions(mode.of_file()).large_file(size >= LARGE);
                self.out.start_file(name, options).map_err(|error| failed(job, error))?;
                job.copy(reader, size, &mut self.out)
            }
            Content::Folder(mode) => {
                let name = if name.is_empty() { "./".to_owned() } else { format!("{name}/") };
                let options = options.unix_permissions(mode.of_folder());
                self.out.add_directory(name, options).map_err(|error| failed(job, error))
            }
            Content::Link(target) => {
                let options = options.unix_permissions(0o777);
                let target = text(target, job)?;
                self.out.add_symlink(name, target, options).map_err(|error| failed(job, error))
            }
        }
    }
}
