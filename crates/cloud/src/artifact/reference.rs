//! References of stored artifacts: the digest, and how the bytes were packed.

use std::fmt;

use orlop_core::error::{Class, Problem};
use orlop_core::spec::artifact::{Archive, ArchiveFormat, Compression};
use orlop_core::spec::status::ArtifactLocation;

use super::mode::Mode;

/// How the bytes of an artifact are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// A file as it is.
    Raw {
        /// What is kept of its mode.
        mode: Mode,
    },
    Tar,
    TarGz,
    Zip,
}

impl Packing {
    const ALL: [Self; 7] = [
        Self::raw(false, false),
        Self::raw(true, false),
        Self::raw(false, true),
        Self::raw(true, true),
        Self::Tar,
        Self::TarGz,
        Self::Zip,
    ];

    const fn raw(executable: bool, private: bool) -> Self {
        Self::Raw { mode: Mode { executable, private } }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Raw { mode } => match (mode.executable, mode.private) {
                (false, false) => "",
                (true, false) => "+x",
                (false, true) => "+p",
                (true, true) => "+xp",
            },
            Self::Tar => ".tar",
            Self::TarGz => ".tar.gz",
            Self::Zip => ".zip",
        }
    }
}

impl From<Archive> for Packing {
    fn from(archive: Archive) -> Self {
        match (archive.format.unwrap_or_default(), archive.compression.unwrap_or_default()) {
            (ArchiveFormat::Zip, _) => Self::Zip,
            (ArchiveFormat::Tar, Compression::None) => Self::Tar,
            (ArchiveFormat::Tar, Compression::Gzip) => Self::TarGz,
        }
    }
}

/// Which bytes, and what they are: `sha256/<64 digits>` and how they are packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// SHA-256 of the stored bytes: 64 lower-case hexadecimal digits, and so safe as a file name.
    pub(super) sha256: String,
    pub(super) packing: Packing,
}

impl Reference {
    /// That of a location. `archive` says how its producer packed it, where the reference does not.
    pub(super) fn of(location: &ArtifactLocation, archive: Option<Archive>) -> Result<Self, Problem> {
        let parsed = Self::parse(&location.reference)
            .filter(|reference| location.sha256.is_empty() || location.sha256 == reference.sha256);
        let Some(mut reference) = parsed else {
            let message = format!(
                "`{}` with digest `{}` is not an artifact of this store; run its step again",
                location.reference, location.sha256
            );
            return Err(Problem::new(Class::Invalid, message));
        };
        if let (true, Some(archive)) = (reference.packing.suffix().is_empty(), archive) {
            reference.packing = archive.into();
        }
        Ok(reference)
    }

    fn parse(text: &str) -> Option<Self> {
        let (sha256, suffix) = text.strip_prefix("sha256/")?.split_at_checked(64)?;
        if !sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let packing = Packing::ALL.into_iter().find(|packing| packing.suffix() == suffix)?;
        Some(Self { sha256: sha256.to_owned(), packing })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256/{}{}", self.sha256, self.packing.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(reference: &str, sha256: &str) -> ArtifactLocation {
        let (reference, sha256) = (reference.to_owned(), sha256.to_owned());
        ArtifactLocation { kind: "cas".to_owned(), reference, size_bytes: 0, sha256 }
    }

    #[test]
    fn references_survive_print_and_parse() {
        for packing in Packing::ALL {
            let reference = Reference { sha256: "0a".repeat(32), packing };
            let location = location(&reference.to_string(), &reference.sha256);
            assert_eq!(Reference::of(&location, None).unwrap(), reference);
        }
    }

    #[test]
    fn a_foreign_reference_is_unpacked_as_its_producer_says() {
        let location = location(&format!("sha256/{}", "0".repeat(64)), "");
        let zip = Archive { format: Some(ArchiveFormat::Zip), compression: None };
        assert_eq!(Reference::of(&location, Some(zip)).unwrap().packing, Packing::Zip);
    }

    #[test]
    fn nothing_else_is_a_reference() {
        let good = "0".repeat(64);
        let upper = "sha256/".to_owned() + &"A".repeat(64);
        let slashes = "sha256/../../../../etc/passwd".to_owned() + &"0".repeat(64);
        let rar = format!("sha256/{good}.rar");
        for bad in ["", "sha256/", &good, &upper, &slashes, &rar, "sha256/\u{1f980}"] {
            assert_eq!(Reference::of(&location(bad, ""), None).unwrap_err().class, Class::Invalid, "{bad}");
        }
        let other = location(&format!("sha256/{good}"), &"1".repeat(64));
        let error = Reference::of(&other, None).unwrap_err();
        assert!(error.message.ends_with("is not an artifact of this store; run its step again"), "{error}");
    }
}
