//! The server's side of TLS, made of a certificate and its key. Reads no file and opens no socket.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoClientAuth;
use rustls::server::danger::ClientCertVerifier;
use rustls::{Error, ServerConfig};
#[cfg(feature = "fleet")]
use rustls::{RootCertStore, server::WebPkiClientVerifier};

/// Why there are no settings. Never shows the key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsFault {
    /// The certificate is no PEM.
    #[error("the certificate is not valid PEM: {0}")]
    Certificate(pem::Error),
    /// There is none in it.
    #[error("the certificate file contains no PEM certificate")]
    NoCertificate,
    /// The certificate is PEM of something else.
    #[error("the certificate is not well formed")]
    Malformed,
    /// The key is no PEM.
    #[error("the key is not valid PEM: {0}")]
    Key(pem::Error),
    /// There is none in it.
    #[error("the key file contains no PEM private key")]
    NoKey,
    /// They are of two pairs.
    #[error("the key does not match the certificate")]
    Mismatch,
    /// The authority of callers cannot be used.
    #[cfg(feature = "fleet")]
    #[error("the authority of workers cannot be used: {0}")]
    Authority(rustls::server::VerifierBuilderError),
    /// Something else is not spoken.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(Error),
}

impl From<Error> for TlsFault {
    fn from(error: Error) -> Self {
        match error {
            Error::InconsistentKeys(_) => Self::Mismatch,
            Error::InvalidCertificate(_) => Self::Malformed,
            other => Self::Unusable(other),
        }
    }
}

/// TLS 1.2 or later for HTTP, with a certificate (those between it and its authority after it) and its key in PEM, and
/// without certificates of callers.
///
/// # Errors
/// One of them cannot be read, or they do not belong together.
pub(crate) fn server_config(chain: &[u8], key: &[u8]) -> Result<ServerConfig, TlsFault> {
    let mut config = config(chain, key, Arc::new(NoClientAuth))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The same for gRPC, whose callers may show certificates of an authority, in PEM.
///
/// # Errors
/// As of [`server_config`], and where the authority has no certificate that can be read.
#[cfg(feature = "fleet")]
pub(crate) fn mutual_config(chain: &[u8], key: &[u8], authority: &[u8]) -> Result<ServerConfig, TlsFault> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate.map_err(TlsFault::Certificate)?)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()));
    let verifier = verifier.allow_unauthenticated().build().map_err(TlsFault::Authority)?;
    let mut config = config(chain, key, verifier)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn config(chain: &[u8], key: &[u8], callers: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig, TlsFault> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(TlsFault::Certificate)?;
    if chain.is_empty() {
        return Err(TlsFault::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsFault::NoKey,
        other => TlsFault::Key(other),
    })?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_client_cert_verifier(callers).with_single_cert(chain, key)?)
}
