//! Errors of the store in words: what could not be read or written, or is wrong with an archive.

use std::io;
use std::path::Path;

use orlop_core::error::{Class, Problem};

/// The reason of errors about what a store does not take: links that lead out, pipes, devices.
pub(super) const UNSTORABLE: &str = "OutputInvalid";

/// A file or folder could not be read.
pub(super) fn reading(path: &Path, error: io::Error) -> Problem {
    of_io(format!("{} cannot be read", path.display()), error)
}

/// A file or folder could not be written.
pub(super) fn writing(path: &Path, error: io::Error) -> Problem {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space",
        io::ErrorKind::ReadOnlyFilesystem => "; use a run directory on a disk that can be written",
        _ => "",
    };
    of_io(format!("{} cannot be written{hint}", path.display()), error)
}

fn of_io(message: String, error: io::Error) -> Problem {
    // An error on its way through a library may have lost its kind but not its number.
    let kind = error.raw_os_error().map_or(error.kind(), |number| io::Error::from_raw_os_error(number).kind());
    Problem::new(Problem::from(io::Error::from(kind)).class, message).because(error)
}

/// The bytes of an archive are not what they should be.
pub(super) fn broken(error: io::Error) -> Problem {
    match error.kind() {
        io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::Other => unfit("it cannot be decoded").because(error),
        _ => of_io("the stored artifact cannot be read".to_owned(), error),
    }
}

/// An artifact cannot be unpacked, and why.
pub(super) fn unfit(why: impl std::fmt::Display) -> Problem {
    Problem::new(Class::Invalid, format!("the artifact cannot be unpacked: {why}"))
}

/// There is something where an artifact is to be delivered.
pub(super) fn occupied(target: &Path) -> Problem {
    let message = format!("{} already exists; deliver the artifact elsewhere", target.display());
    Problem::new(Class::Exists, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_place_and_what_to_do() {
        let full = writing(Path::new("/run/x"), io::Error::from(io::ErrorKind::StorageFull));
        insta::assert_snapshot!(full.chain(), @"/run/x cannot be written; free some space: no storage space");
        assert_eq!(full.class, Class::Capacity);
        let denied = reading(Path::new("/run/x"), io::Error::from(io::ErrorKind::PermissionDenied));
        insta::assert_snapshot!(denied.chain(), @"/run/x cannot be read: permission denied");
        assert_eq!(denied.class, Class::Denied);
        assert_eq!(broken(io::Error::from(io::ErrorKind::UnexpectedEof)).class, Class::Invalid);
        assert_eq!(broken(io::Error::from(io::ErrorKind::TimedOut)).class, Class::Transient);
    }
}
