//! Which server an agent or client trusts: the one whose authority has a known fingerprint, or one that a known authority
//! signed. Never opens a socket.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::authority::SERVER_NAME;
use super::{IdentityError, fingerprint};

/// By what a server is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Trust {
    /// By the fingerprint of its authority, as in a join token.
    Fingerprint([u8; 32]),
    /// By the certificate of its authority, in DER; under the fleet's own name for servers.
    Fleet(Vec<u8>),
    /// By the certificate of an outside authority, in DER; under the name of its address.
    Outside(Vec<u8>),
}

/// Accepts a server under the fleet's name for servers whose chain ends in the authority with the fingerprint.
struct Pinned {
    authority: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({})", super::hex(&self.authority))
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let known = intermediates.iter().find(|certificate| fingerprint(certificate) == self.authority);
        let known = known.ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let fleet = fleet_verifier(known.clone().into_owned(), &self.provider)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        fleet.verify_server_cert(end_entity, intermediates, &server_name()?, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn server_name() -> Result<ServerName<'static>, Error> {
    ServerName::try_from(SERVER_NAME).map_err(|error| Error::General(error.to_string()))
}

fn fleet_verifier(
    authority: CertificateDer<'static>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, IdentityError> {
    let wrong = IdentityError::new("reading the authority's certificate");
    let mut roots = RootCertStore::empty();
    roots.add(authority).map_err(|error| wrong(&error))?;
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| wrong(&error))
}

/// The TLS of a client that trusts so, with its own certificate (DER) and key (PEM) if it has them; and the name to ask
/// for, where it is not that of the address.
pub(in super::super) fn client_config(
    trust: &Trust,
    own: Option<(&[u8], &str)>,
) -> Result<(ClientConfig, Option<ServerName<'static>>), IdentityError> {
    let wrong = IdentityError::new("preparing TLS");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| wrong(&error))?;
    let fleet = Some(server_name().map_err(|error| wrong(&error))?);
    let (builder, name) = match trust {
        Trust::Fingerprint(authority) => {
            let pinned = Pinned { authority: *authority, provider };
            (builder.dangerous().with_custom_certificate_verifier(Arc::new(pinned)), fleet)
        }
        Trust::Fleet(der) | Trust::Outside(der) => {
            let verifier = fleet_verifier(CertificateDer::from(der.clone()), &provider)?;
            (builder.with_webpki_verifier(verifier), fleet.filter(|_| matches!(trust, Trust::Fleet(_))))
        }
    };
    let mut config = match own {
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| wrong(&error))?;
            let chain = vec![CertificateDer::from(certificate.to_vec())];
            builder.with_client_auth_cert(chain, key).map_err(|error| wrong(&error))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((config, name))
}
