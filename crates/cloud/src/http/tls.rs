//! TLS of the HTTP client: ring, and whose certificates are trusted, chosen here and not by a default of the process.

use std::sync::Arc;

use orlop_core::error::{Class, Problem};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// Whose certificates a client trusts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust<'a> {
    /// Those of the authorities of this system.
    #[default]
    System,
    /// Those, and the ones of authorities in a text in PEM.
    SystemAnd(&'a [u8]),
    /// Only those of authorities in a text in PEM.
    Only(&'a [u8]),
    /// None, for servers without TLS.
    Nobody,
}

impl Trust<'_> {
    /// The settings of TLS.
    pub(super) fn config(self) -> Result<ClientConfig, Problem> {
        let fatal = |error: rustls::Error| Problem::new(Class::Fatal, "TLS cannot be set up").because(error);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(fatal)?;
        let mut roots = RootCertStore::empty();
        let system = match self {
            Self::System => Verifier::new(provider)
                // A small image may have no certificates at all: then no https host is trusted, and http still works.
                .inspect_err(
                    |error| tracing::warn!(%error, "no https host is trusted: install the certificates of the system"),
                )
                .ok(),
            Self::SystemAnd(pem) => Some(Verifier::new_with_extra_roots(authorities(pem)?, provider).map_err(fatal)?),
            Self::Only(pem) => {
                for authority in authorities(pem)? {
                    roots
                        .add(authority)
                        .map_err(|error| invalid(format!("an authority cannot be trusted: {error}")))?;
                }
                None
            }
            Self::Nobody => None,
        };
        Ok(match system {
            Some(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
            None => builder.with_root_certificates(roots),
        }
        .with_no_client_auth())
    }
}

fn invalid(what: impl Into<String>) -> Problem {
    Problem::new(Class::Invalid, what)
}

/// The certificates in a text in PEM, of which there is one at least.
fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(format!("the file of authorities cannot be read: {error}")))?;
    if found.is_empty() {
        return Err(invalid("the CA file contains no PEM certificate"));
    }
    Ok(found)
}
