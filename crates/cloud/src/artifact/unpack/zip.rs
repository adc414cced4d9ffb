//! Reading the zip format, the entries this store writes and no others. Owns the reading; what may be written is the
//! place's decision.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};

use nix::sys::stat::SFlag;
use orlop_core::error::Problem;
use zip::ZipArchive;
use zip::result::ZipError;

use super::super::error::{broken, unfit};
use super::super::mode::Mode;
use super::target::{Entry, UnpackTarget};

/// The longest link target that is read into memory.
const LINK: u64 = 4096;

/// Unpacks an archive.
pub(super) fn read(mut file: File, place: &mut UnpackTarget<'_>) -> Result<(), Problem> {
    // The directory of the archive is read into memory at once: look how long it is before.
    if entries(&mut file)? > place.max_entries() {
        return Err(place.too_many());
    }
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(failed)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(failed)?;
        let name = entry.name_raw().to_vec();
        let mode = entry.unix_mode().unwrap_or(0o100_644);
        // What a system stores in the mode beside the permissions.
        match SFlag::from_bits_truncate(mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFDIR => place.add(&name, Entry::Folder(Mode::of(mode)))?,
            SFlag::S_IFLNK => {
                let mut target = Vec::new();
                (&mut entry).take(LINK + 1).read_to_end(&mut target).map_err(broken)?;
                place.add(&name, Entry::Link { target: &target })?;
            }
            SFlag::S_IFREG => {
                place.allows(entry.size())?;
                place.add(&name, Entry::File { reader: &mut entry, mode: Mode::of(mode) })?;
            }
            _ => {
                let name = String::from_utf8_lossy(&name).chars().take(200).collect::<String>();
                return Err(unfit(format_args!("entry `{}` is not a file, folder or link", name.escape_debug())));
            }
        }
    }
    Ok(())
}

fn failed(error: ZipError) -> Problem {
    match error {
        ZipError::Io(error) => broken(error),
        error => unfit("it cannot be decoded").because(error),
    }
}

/// Number of entries by the record at the end of an archive without a comment, as this store writes it (APPNOTE 4.3.14
/// to 4.3.16).
fn entries(file: &mut File) -> Result<u64, Problem> {
    let end: [u8; 22] = at(file, SeekFrom::End(-22))?;
    let (b"PK\x05\x06", [0, 0]) = (&part(&end, 0), part(&end, 20)) else {
        return Err(unfit("it is not a zip archive without a comment"));
    };
    let count = u16::from_le_bytes(part(&end, 10));
    if count != u16::MAX {
        return Ok(u64::from(count));
    }
    let locator: [u8; 20] = at(file, SeekFrom::End(-42))?;
    if &part(&locator, 0) != b"PK\x06\x07" {
        return Ok(u64::from(count));
    }
    let end: [u8; 56] = at(file, SeekFrom::Start(u64::from_le_bytes(part(&locator, 8))))?;
    if &part(&end, 0) != b"PK\x06\x06" {
        return Err(unfit("the record at its end is damaged"));
    }
    Ok(u64::from_le_bytes(part(&end, 32)))
}

/// Some bytes of a file.
fn at<const N: usize>(file: &mut File, position: SeekFrom) -> Result<[u8; N], Problem> {
    let mut bytes = [0; N];
    file.seek(position).and_then(|_| file.read_exact(&mut bytes)).map_err(broken)?;
    Ok(bytes)
}

/// Some bytes of a record, zero where it ends.
fn part<const N: usize>(record: &[u8], from: usize) -> [u8; N] {
    let mut bytes = [0; N];
    for (byte, value) in bytes.iter_mut().zip(record.iter().skip(from)) {
        *byte = *value;
    }
    bytes
}
