//! TLS of downloads: ring and the certificates of the system, chosen here and not by a default of the process.

use std::sync::Arc;

use orlop_core::error::{Class, Problem};
#[cfg(any(feature = "git", feature = "openstack"))]
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// The settings of a client that trusts the authorities of this system.
///
/// # Errors
/// Fatal when TLS cannot be set up at all.
pub fn system_trust() -> Result<ClientConfig, Problem> {
    let fatal = |error: rustls::Error| Problem::new(Class::Fatal, "TLS cannot be set up").because(error);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(fatal)?;
    let mut config = match Verifier::new(provider) {
        Ok(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth(),
        Err(error) => {
            // A small image may have no certificates at all: then no https host is trusted, and http still works.
            tracing::warn!(%error, "no https download will work: install the certificates of the system");
            builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The settings of a client that trusts the authorities of this system and those of a text in PEM.
///
/// # Errors
/// Invalid when the text holds no certificate; Fatal when TLS cannot be set up at all.
#[cfg(any(feature = "git", feature = "openstack"))]
pub(crate) fn trust_beside_system(pem: &[u8]) -> Result<ClientConfig, Problem> {
    let invalid = |what: String| Problem::new(Class::Invalid, what);
    let extra: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(format!("the file of authorities cannot be read: {error}")))?;
    if extra.is_empty() {
        return Err(invalid("the file of authorities holds no certificate".to_owned()));
    }
    let fatal = |error: rustls::Error| Problem::new(Class::Fatal, "TLS cannot be set up").because(error);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(extra, Arc::clone(&provider)).map_err(fatal)?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(fatal)?;
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}
