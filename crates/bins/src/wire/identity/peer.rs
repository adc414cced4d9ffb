//! The certificate a caller showed, already checked against the authority by the transport.

use std::fmt;

use orlop_core::id::WorkerId;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

use super::{fingerprint, hex};

/// A caller's certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerCertificate(CertificateDer<'static>);

impl PeerCertificate {
    /// The certificate in DER.
    #[must_use]
    pub fn new(der: Vec<u8>) -> Self {
        Self(CertificateDer::from(der))
    }

    /// Whether it speaks for this worker.
    #[must_use]
    pub fn is_of(&self, worker: &WorkerId) -> bool {
        let name = ServerName::try_from(worker.as_str());
        let parsed = ParsedCertificate::try_from(&self.0);
        matches!((name, parsed), (Ok(name), Ok(parsed)) if verify_server_name(&parsed, &name).is_ok())
    }

    /// The worker whose certificate it is; none where it cannot be read or names no worker.
    #[must_use]
    pub fn worker(&self) -> Option<WorkerId> {
        let (_, parsed) = x509_parser::parse_x509_certificate(&self.0).ok()?;
        let names = parsed.subject_alternative_name().ok()??;
        names.value.general_names.iter().find_map(|name| match name {
            x509_parser::extensions::GeneralName::DNSName(name) => name.parse().ok(),
            _ => None,
        })
    }

    /// SHA-256, by which a worker's record knows it.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        fingerprint(&self.0)
    }
}

impl fmt::Debug for PeerCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerCertificate({})", hex(&self.fingerprint()))
    }
}
