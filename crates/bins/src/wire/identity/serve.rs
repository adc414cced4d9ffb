//! The server's side of TLS over plain sockets, for what is not gRPC. Owns the settings; never opens a socket.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{IdentityError, ServerIdentity};

/// TLS 1.2 or later for HTTP, with the certificate of a server and none of its callers.
///
/// # Errors
/// A certificate or the key cannot be read, or they do not belong together.
pub fn http_config(identity: &ServerIdentity) -> Result<Arc<ServerConfig>, IdentityError> {
    let wrong = IdentityError::new("preparing TLS");
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(identity.chain.as_bytes()).collect();
    let chain = chain.map_err(|error| wrong(&error))?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(|error| wrong(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| wrong(&error))?;
    let config = builder.with_no_client_auth().with_single_cert(chain, key);
    let mut config = config.map_err(|error| wrong(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
