//! The webhook's certificate in files that somebody else renews.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orlop_core::time::Time;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::listen::server_config;

/// Most bytes of a file: chains and keys have a few thousand.
const FILE_MAX: u64 = 1 << 20;
/// How often files are read that change meanwhile.
const READS: usize = 5;

/// Where the pair is, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Files {
    /// The certificate, those between it and its authority after it.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Files {
    /// The files of a pair.
    #[must_use]
    pub fn new(certificate: PathBuf, key: PathBuf) -> Self {
        Self { certificate, key }
    }

    /// Both as they are at one moment. Kubernetes replaces mounted files by turning the link `..data` to another folder, so
    /// that one of each could be read: it is read until nothing changes in between.
    pub(super) fn read(&self) -> Result<Pem, String> {
        let mut before = self.once();
        for _ in 1..READS {
            let now = self.once();
            if now == before {
                return now;
            }
            before = now;
        }
        Err(format!("{} and {} change while they are read", self.certificate.display(), self.key.display()))
    }

    fn once(&self) -> Result<Pem, String> {
        Ok(Pem { certificate: content(&self.certificate)?, key: content(&self.key)? })
    }
}

fn content(path: &Path) -> Result<Vec<u8>, String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(io::Error::other(format!("has more than {FILE_MAX} bytes")));
        }
        Ok(bytes)
    };
    read().map_err(|error| format!("{}: {error}", path.display()))
}

/// A certificate and its key as text. Not for logs.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

#[cfg(test)]
#[cfg(feature = "fleet")]
impl Pem {
    /// Whether both files have the same content.
    pub(super) fn is_pair_of_equals(&self) -> bool {
        self.certificate == self.key
    }
}

/// A pair that can be used.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) config: Arc<ServerConfig>,
    /// Until when its certificate is good.
    pub(super) expires: Time,
}

impl Pair {
    fn of(pem: &Pem, now: Time) -> Result<Self, String> {
        let config = server_config(&pem.certificate, &pem.key).map_err(|error| error.to_string())?;
        let expires = expiry(&pem.certificate)?;
        if expires <= now {
            return Err(format!("the certificate was good until {expires}"));
        }
        Ok(Self { config: Arc::new(config), expires })
    }
}

/// Until when the first certificate of a chain is good.
fn expiry(chain: &[u8]) -> Result<Time, String> {
    let reported = |error: &dyn std::fmt::Display| format!("the certificate cannot be read: {error}");
    let leaf = CertificateDer::from_pem_slice(chain).map_err(|error| reported(&error))?;
    let (_, leaf) = x509_parser::parse_x509_certificate(&leaf).map_err(|error| reported(&error))?;
    Ok(Time::from_millis(leaf.validity().not_after.timestamp().saturating_mul(1000)))
}

/// What a look at the files came to.
#[derive(Debug)]
pub(super) enum Look {
    /// Nothing new.
    Same,
    /// Another pair is in use now.
    Taken(Pair),
    /// What is there now cannot be used.
    Failed(String),
}

/// What is known of the files.
#[derive(Default)]
pub(super) struct CertificateFiles {
    used: Option<Pem>,
    /// What cannot be used, and whether that was reported.
    failing: Option<(Result<Pem, String>, bool)>,
}

impl CertificateFiles {
    /// What is in the files now. A pair that does not fit is looked at twice before it is reported while another one is in use:
    /// anyone who writes the two files one after the other is just not done yet.
    pub(super) fn look(&mut self, read: Result<Pem, String>, now: Time) -> Look {
        if self.used.is_some() && read.as_ref().ok() == self.used.as_ref() {
            self.failing = None;
            return Look::Same;
        }
        let why = match read.as_ref().map_err(Clone::clone).and_then(|pem| Pair::of(pem, now)) {
            Ok(pair) => {
                (self.used, self.failing) = (read.ok(), None);
                return Look::Taken(pair);
            }
            Err(why) => why,
        };
        let seen = self.failing.take().filter(|(known, _)| *known == read);
        let tell = match &seen {
            Some((_, reported)) => !reported,
            None => self.used.is_none(),
        };
        self.failing = Some((read, tell || seen.is_some()));
        if tell { Look::Failed(why) } else { Look::Same }
    }
}
