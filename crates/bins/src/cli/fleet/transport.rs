//! Connections of the command line to servers: plain, or over TLS with the system's authorities or one that is named.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::Service;

use super::super::failure::Failure;

/// How long connecting may take, the handshake included.
const CONNECTING: Duration = Duration::from_secs(5);

/// What bytes go over.
trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A connection.
pub(super) struct Wire(Box<dyn Bytes>);

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, to)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    tls: Option<Arc<ClientConfig>>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("tls", &self.tls.is_some()).finish()
    }
}

impl Connector {
    /// To servers without TLS only.
    pub(super) fn plain() -> Self {
        Self { tls: None }
    }

    /// To servers with TLS too: with certificates of the authorities in a file (PEM), else of the system's.
    ///
    /// # Errors
    /// The file cannot be read or holds no certificate, or TLS cannot be set up.
    pub(super) fn secure(authority: Option<&Path>) -> Result<Self, Failure> {
        let mut config = match authority {
            None => orlop_cloud::http::system_trust().map_err(|error| Failure::usage(error.chain()))?,
            Some(path) => {
                let wrong = |error: &dyn std::fmt::Display| {
                    Failure::usage(format!("the authority in {} cannot be used: {error}", path.display()))
                };
                let text = std::fs::read(path).map_err(|error| wrong(&error))?;
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(&text) {
                    roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
                }
                if roots.is_empty() {
                    return Err(wrong(&"it holds no certificate in PEM"));
                }
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
                let builder = builder.map_err(|error| wrong(&error))?;
                builder.with_root_certificates(roots).with_no_client_auth()
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: Some(Arc::new(config)) })
    }

    async fn connect(self, uri: Uri) -> io::Result<TokioIo<Wire>> {
        let secure = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        let wire = match self.tls.filter(|_| secure) {
            None if secure => return Err(io::Error::other("TLS is not set up")),
            None => Wire(Box::new(stream)),
            Some(config) => {
                let name = ServerName::try_from(host).map_err(io::Error::other)?;
                Wire(Box::new(TlsConnector::from(config).connect(name, stream).await?))
            }
        };
        Ok(TokioIo::new(wire))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Wire>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Wire>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            match tokio::time::timeout(CONNECTING, connector.connect(uri)).await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "connecting took longer than 5 s")),
            }
        })
    }
}
