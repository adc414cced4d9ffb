//! Outputs as they are taken: the text of a file that others may be writing, and what is said of one that
//! is not available. Owns the limit of a value and what is none.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;
use orlop_core::attempt::{FileTrouble, OUTPUT_VALUE_MAX};
use orlop_core::error::{Class, Problem};

/// The error for an output that cannot be taken.
pub(crate) fn error_of(kind: &str, name: &str, path: &str, error: Problem) -> Problem {
    // What is there and never can be taken; what cannot be read now counts as missing.
    let reason = if error.class == Class::Invalid { "OutputInvalid" } else { "OutputMissing" };
    let (class, reason) = (error.class, error.reason.unwrap_or(reason));
    Problem::new(class, format!("{} (output {kind} `{name}` at {path})", error.chain())).with_reason(reason)
}

/// Opens a file others may be replacing: a link is not the container's file, and a pipe would wait for a writer. None when
/// nothing is there.
fn open_file(path: &Path) -> io::Result<Option<Result<File, FileTrouble>>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => Ok(Some(if file.metadata()?.is_file() { Ok(file) } else { Err(FileTrouble::NotFile) })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        // Links and sockets cannot be opened so.
        Err(error) => match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => Ok(Some(Err(FileTrouble::NotFile))),
            _ => Err(error),
        },
    }
}

/// The text of a file without one newline at its end; none when nothing is there.
pub(crate) fn read_value(path: &Path) -> io::Result<Option<Result<String, FileTrouble>>> {
    let file = match open_file(path)? {
        Some(Ok(file)) => file,
        Some(Err(trouble)) => return Ok(Some(Err(trouble))),
        None => return Ok(None),
    };
    let mut bytes = Vec::new();
    // The newline at the end does not count.
    file.take(OUTPUT_VALUE_MAX as u64 + 2).read_to_end(&mut bytes)?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    if bytes.len() > OUTPUT_VALUE_MAX {
        return Ok(Some(Err(FileTrouble::TooLarge)));
    }
    Ok(Some(String::from_utf8(bytes).map_err(|_| FileTrouble::NotText)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: &[u8]) -> Option<Result<String, FileTrouble>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, bytes).unwrap();
        read_value(&path).unwrap()
    }

    #[test]
    fn one_newline_is_removed_and_256_kib_fit() {
        assert_eq!(value(b"a\n\n"), Some(Ok("a\n".into())));
        assert_eq!(value(b"a\r\n"), Some(Ok("a\r".into())));
        assert_eq!(value(b""), Some(Ok(String::new())));
        assert_eq!(value(b"\xff"), Some(Err(FileTrouble::NotText)));
        let most = "x".repeat(OUTPUT_VALUE_MAX);
        assert_eq!(value(most.as_bytes()), Some(Ok(most.clone())));
        assert_eq!(value(format!("{most}\n").as_bytes()), Some(Ok(most.clone())));
        assert_eq!(value(format!("{most}y").as_bytes()), Some(Err(FileTrouble::TooLarge)));
        assert_eq!(value(format!("{most}\n\n").as_bytes()), Some(Err(FileTrouble::TooLarge)));
        assert_eq!(value(format!("{most}{most}\n").as_bytes()), Some(Err(FileTrouble::TooLarge)));
    }

    #[test]
    fn what_is_no_file_is_no_value() {
        let directory = tempfile::tempdir().unwrap();
        let no_file = Some(Err(FileTrouble::NotFile));
        assert_eq!(read_value(directory.path()).unwrap(), no_file);
        assert_eq!(read_value(&directory.path().join("none")).unwrap(), None);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/etc/hostname", &link).unwrap();
        assert_eq!(read_value(&link).unwrap(), no_file, "links were followed as the container sees them");
        let pipe = directory.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_value(&pipe).unwrap(), no_file, "and does not wait for a writer");
    }
}
