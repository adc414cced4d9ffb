//! The server's side of TLS over plain sockets, for what is not gRPC. Never opens a socket.

use std::sync::Arc;

use rustls::ServerConfig;

use super::{IdentityError, ServerIdentity};
use crate::listen::server_config;

/// TLS 1.2 or later for HTTP, with the certificate of a server and none of its callers.
///
/// # Errors
/// A certificate or the key cannot be read, or they do not belong together.
pub fn http_config(identity: &ServerIdentity) -> Result<Arc<ServerConfig>, IdentityError> {
    let wrong = IdentityError::new("preparing TLS");
    let config = server_config(identity.chain.as_bytes(), identity.key.as_bytes());
    config.map(Arc::new).map_err(|error| wrong(&error))
}
