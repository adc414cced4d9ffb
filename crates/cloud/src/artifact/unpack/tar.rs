//! Reading the tar format, the entries this store writes and no others. Owns the reading; what may be written is the
//! place's decision.

use std::borrow::Cow;
use std::io::Read;

use orlop_core::error::Problem;
use tar::{Archive, EntryType};

use super::super::error::{broken, unfit};
use super::super::mode::Mode;
use super::target::{Entry, UnpackTarget};

/// The longest name that is read into memory.
const LONG: u64 = 4096 + 1;

/// Unpacks an archive.
pub(super) fn read(archive: impl Read, place: &mut UnpackTarget<'_>) -> Result<(), Problem> {
    let mut archive = Archive::new(archive);
    let (mut long_name, mut long_link) = (None, None);
    // Extensions are read here, since a hostile one could be of any size.
    for entry in archive.entries().map_err(broken)?.raw(true) {
        let mut entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        match kind {
            EntryType::GNULongName => {
                long_name = Some(long(&mut entry)?);
                continue;
            }
            EntryType::GNULongLink => {
                long_link = Some(long(&mut entry)?);
                continue;
            }
            _ => {}
        }
        let name = long_name.take().unwrap_or_else(|| entry.header().path_bytes().into_owned());
        let link = long_link.take().or_else(|| entry.header().link_name_bytes().map(Cow::into_owned));
        match kind {
            EntryType::Regular => {
                place.allows(entry.size())?;
                let mode = Mode::of(entry.header().mode().map_err(broken)?);
                let size = entry.size();
                let mut counted = Counted { inner: &mut entry, left: size };
                place.add(&name, Entry::File { reader: &mut counted, mode })?;
            }
            EntryType::Directory => {
                let mode = Mode::of(entry.header().mode().map_err(broken)?);
                place.add(&name, Entry::Folder(mode))?;
            }
            EntryType::Symlink => place.add(&name, Entry::Link { target: &link.unwrap_or_default() })?,
            kind => {
                let name = String::from_utf8_lossy(&name).chars().take(200).collect::<String>();
                return Err(unfit(format_args!("entry `{}` is {}", name.escape_debug(), said(kind))));
            }
        }
    }
    Ok(())
}

fn said(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a named pipe",
        EntryType::XHeader | EntryType::XGlobalHeader => "a PAX extension",
        _ => "of a kind that is not delivered",
    }
}

/// The name in an entry that holds one for the next.
fn long(entry: &mut impl Read) -> Result<Vec<u8>, Problem> {
    let mut name = Vec::new();
    entry.take(LONG + 1).read_to_end(&mut name).map_err(broken)?;
    if name.len() as u64 > LONG {
        return Err(unfit("an entry has a name longer than a system takes"));
    }
    if name.last() == Some(&0) {
        name.pop();
    }
    Ok(name)
}

/// A reader that fails when it ends before it should.
struct Counted<'a, R> {
    inner: &'a mut R,
    left: u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if read == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}
