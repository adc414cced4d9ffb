//! How a server proves who it is: by the fleet's own authority, which is made once and kept in a directory, or by files of an
//! outside one. Keys are readable by nobody else.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_core::error::{Class, Problem};
use orlop_core::time::Time;

use crate::wire::grpc::TlsIdentity;
use crate::wire::identity::{Authority, ServerIdentity};

/// The file in the directory of the fleet's own authority with its certificate.
pub(crate) const AUTHORITY: &str = "authority.pem";

/// Where a server's identity comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TlsPlan {
    /// The fleet's own authority, in a directory. Servers that share a store share it too.
    Own {
        /// Where it is kept.
        directory: PathBuf,
        /// Names and addresses by which clients find this server, beside its own.
        names: Vec<String>,
    },
    /// Files of an outside authority, in PEM.
    Files {
        /// The server's certificate, those between it and the authority after it.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
        /// The certificate of the authority whose workers are taken.
        authority: PathBuf,
    },
}

/// An identity that cannot be had.
fn cannot_be_had(why: impl std::fmt::Display) -> Problem {
    Problem::new(Class::Invalid, format!("TLS: {why}"))
}

/// A server's identity, with the authority that signs workers' certificates if it is the fleet's own.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) tls: TlsIdentity,
    pub(crate) authority: Option<Arc<Authority>>,
}

fn cannot_be_used(path: &Path) -> impl Fn(io::Error) -> Problem {
    move |error| cannot_be_had(format_args!("{}: {error}", path.display()))
}

impl TlsPlan {
    /// The identity of a server that listens at these addresses.
    ///
    /// # Errors
    /// A file cannot be read or written, or holds no certificate.
    pub(crate) fn identity(&self, addresses: &[SocketAddr], now: Time) -> Result<Identity, Problem> {
        match self {
            Self::Own { directory, names } => {
                let authority = own(directory, now)?;
                let mut all = names.clone();
                let known = addresses.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified());
                all.extend(known.map(|ip| ip.to_string()));
                all.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
                let server = authority.server(&all, now).map_err(cannot_be_had)?;
                let tls = TlsIdentity { server, workers: authority.pem().to_owned() };
                Ok(Identity { tls, authority: Some(Arc::new(authority)) })
            }
            Self::Files { certificate, key, authority } => {
                let read = |path: &Path| std::fs::read_to_string(path).map_err(cannot_be_used(path));
                let server = ServerIdentity { chain: read(certificate)?, key: read(key)? };
                Ok(Identity { tls: TlsIdentity { server, workers: read(authority)? }, authority: None })
            }
        }
    }
}

/// The fleet's own authority: the one that is kept, else a new one.
fn own(directory: &Path, now: Time) -> Result<Authority, Problem> {
    let (certificate, key) = (directory.join(AUTHORITY), directory.join("authority.key"));
    let read = |path: &Path| match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot_be_used(path)(error)),
    };
    let wrong =
        |error: crate::wire::identity::IdentityError| cannot_be_had(format_args!("{}: {error}", directory.display()));
    match (read(&certificate)?, read(&key)?) {
        (Some(pem), Some(key)) => Authority::load(&pem, &key).map_err(wrong),
        // The key is written first: one alone is what a start that was cut off left.
        (None, _) => {
            let (authority, pem) = Authority::create(now).map_err(wrong)?;
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(cannot_be_used(directory))?;
            keep(&key, &pem, 0o600)?;
            keep(&certificate, authority.pem(), 0o644)?;
            Ok(authority)
        }
        (Some(_), None) => {
            let text = format!("{} exists, but its key {} does not", certificate.display(), key.display());
            Err(cannot_be_had(format_args!("{text}; bring the key back, or delete both: all workers then join anew")))
        }
    }
}

/// Writes a file that appears whole.
fn keep(path: &Path, text: &str, mode: u32) -> Result<(), Problem> {
    let half = path.with_extension(format!("{}.half", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&half)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&half, path)
    };
    write().map_err(cannot_be_used(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_fleets_own_authority_is_made_once_and_its_key_is_nobody_elses_to_read() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("tls");
        let plan = TlsPlan::Own { directory: place.clone(), names: vec!["fleet.example".to_owned()] };
        let now = Time::from_millis(1_800_000_000_000);
        let first = plan.identity(&["192.0.2.1:7071".parse().unwrap()], now).unwrap();
        let again = plan.identity(&[], now).unwrap();
        assert_eq!(first.tls.workers, again.tls.workers);
        assert_eq!(place.join("authority.key").metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(place.join("authority.key")).unwrap();
        let lost = plan.identity(&[], now).unwrap_err().to_string();
        assert!(lost.contains("bring the key back"), "{lost}");
        let files = TlsPlan::Files { certificate: place.join("a"), key: place.join("b"), authority: place.join("c") };
        assert!(files.identity(&[], now).unwrap_err().to_string().contains("No such file"));
    }
}
