//! The tar format, GNU dialect: headers that say nothing but name, kind, size and mode.

use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use orlop_core::error::Problem;
use tar::{EntryType, Header};

use super::{Content, Job, Packer};

const BLOCK: usize = 512;

/// Writes a tar archive.
pub(super) struct Writer<W> {
    out: W,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out }
    }

    /// Ends the archive: two empty blocks.
    pub(super) fn finish(mut self, job: &Job<'_>) -> Result<(), Problem> {
        job.wrote(self.out.write_all(&[0; 2 * BLOCK]))?;
        job.wrote(self.out.flush())
    }

    /// Fills the last block of an entry.
    fn pad(&mut self, size: u64, job: &Job<'_>) -> Result<(), Problem> {
        let rest = usize::try_from(size % BLOCK as u64).unwrap_or(0);
        let padding = (BLOCK - rest) % BLOCK;
        job.wrote(self.out.write_all([0; BLOCK].get(..padding).unwrap_or_default()))
    }

    /// Writes a name that is too long for a header ahead of it.
    fn write_long(&mut self, kind: EntryType, name: &[u8], job: &Job<'_>) -> Result<(), Problem> {
        let size = name.len() as u64 + 1;
        let mut long = header(kind, size, 0o644);
        set(&mut long.as_old_mut().name, b"././@LongLink");
        long.set_cksum();
        job.wrote(self.out.write_all(long.as_bytes()))?;
        job.wrote(self.out.write_all(name))?;
        job.wrote(self.out.write_all(&[0]))?;
        self.pad(size, job)
    }
}

fn header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Fills a field of a header as far as it goes; false where that is not far enough.
fn set(field: &mut [u8; 100], text: &[u8]) -> bool {
    for (byte, value) in field.iter_mut().zip(text) {
        *byte = *value;
    }
    text.len() <= field.len()
}

impl<W: Write> Packer for Writer<W> {
    fn add(&mut self, name: &Path, content: Content<'_>, job: &mut Job<'_>) -> Result<(), Problem> {
        let mut name = name.as_os_str().as_bytes().to_vec();
        let mut header = match &content {
            Content::File { size, mode, .. } => header(EntryType::Regular, *size, mode.of_file()),
            Content::Folder(mode) => {
                name.extend(if name.is_empty() { "./".as_bytes() } else { b"/" });
                header(EntryType::Directory, 0, mode.of_folder())
            }
            Content::Link(_) => header(EntryType::Symlink, 0, 0o777),
        };
        if let Content::Link(target) = &content {
            let target = target.as_os_str().as_bytes();
            if !set(&mut header.as_old_mut().linkname, target) {
                self.write_long(EntryType::GNULongLink, target, job)?;
            }
        }
        if !set(&mut header.as_old_mut().name, &name) {
            self.write_long(EntryType::GNULongName, &name, job)?;
        }
        header.set_cksum();
        job.wrote(self.out.write_all(header.as_bytes()))?;
        if let Content::File { reader, size, .. } = content {
            job.copy(reader, size, &mut self.out)?;
            self.pad(size, job)?;
        }
        Ok(())
    }
}
