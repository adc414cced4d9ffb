//! Connections to a server. Never repeats an attempt to connect.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use orlop_core::error::{Code, Problem};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::Channel;
use tonic::transport::Uri;

use super::super::identity::{JoinToken, Trust, client_config};
use super::{PING, PING_TIMEOUT};
use crate::api::is_loopback;

/// The port where none is named.
const PORT: u16 = 7071;
/// How long connecting may take, handshake included.
const CONNECT: Duration = Duration::from_secs(5);

/// What bytes go over.
trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}
type Wire = Box<dyn Bytes>;

/// Where a server is: `http://127.0.0.1:7071` or `https://host:7071`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    uri: Uri,
    host: String,
    port: u16,
    tls: bool,
}

impl Endpoint {
    /// The same, at an address of this machine over plain text.
    pub(crate) fn at(&self, address: std::net::SocketAddr) -> Result<Self, Problem> {
        format!("http://{address}").parse()
    }

    /// Whether it speaks TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.tls
    }

    /// The host.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Endpoint {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let wrong = |why: &str| Problem::coded(Code::InvalidSpec, format!("`{text}` is not a server address: {why}"));
        let uri: Uri = text.parse().map_err(|_| wrong("use https://host:port, or http://127.0.0.1:port"))?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("it begins with neither https:// nor http://")),
        };
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        if !tls && !is_loopback(&host) {
            return Err(wrong("plain text is for this machine only; use https://"));
        }
        let port = uri.port_u16().unwrap_or(PORT);
        // TLS is ours, so the transport above it hears of none.
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let uri = format!("http://{shown}:{port}").parse().map_err(|_| wrong("use https://host:port"))?;
        Ok(Self { uri, host, port, tls })
    }
}

/// How to connect to a server: by what it is known, and what is shown to it.
#[derive(Clone)]
pub struct Connector {
    endpoint: Endpoint,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// Whether the server at the address is still the one that is meant: asked before each connection, also one in place of another that
    /// broke.
    check: Option<Check>,
}

type Check = Arc<dyn Fn() -> bool + Send + Sync>;

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Connector {
    /// To a server on this machine, without TLS.
    ///
    /// # Errors
    /// The address asks for TLS.
    pub fn plain(endpoint: Endpoint) -> Result<Self, Problem> {
        if endpoint.tls {
            return Err(Problem::coded(
                Code::InvalidSpec,
                "https:// needs a join token or the certificate of an authority",
            ));
        }
        Ok(Self { endpoint, tls: None, check: None })
    }

    /// To a server that a join token names: its authority's certificate must have the token's fingerprint.
    ///
    /// # Errors
    /// The address is not `https://`.
    pub fn joining(endpoint: Endpoint, token: &JoinToken) -> Result<Self, Problem> {
        Self::over_tls(endpoint, &Trust::Fingerprint(token.authority()), None)
    }

    /// To a server of the fleet whose authority (DER) is known, with the worker's own certificate (DER) and key (PEM).
    ///
    /// # Errors
    /// The address is not `https://`, or a certificate or key cannot be read.
    pub fn fleet(endpoint: Endpoint, authority: &[u8], own: Option<(&[u8], &str)>) -> Result<Self, Problem> {
        Self::over_tls(endpoint, &Trust::Fleet(authority.to_vec()), own)
    }

    /// To a server with a certificate for its address by an outside authority (DER), with the worker's own certificate
    /// (DER) and key (PEM).
    ///
    /// # Errors
    /// The address is not `https://`, or a certificate or key cannot be read.
    pub fn outside(endpoint: Endpoint, authority: &[u8], own: Option<(&[u8], &str)>) -> Result<Self, Problem> {
        Self::over_tls(endpoint, &Trust::Outside(authority.to_vec()), own)
    }

    fn over_tls(endpoint: Endpoint, trust: &Trust, own: Option<(&[u8], &str)>) -> Result<Self, Problem> {
        if !endpoint.tls {
            return Err(Problem::coded(Code::InvalidSpec, "a certificate is checked over https:// only"));
        }
        let wrong = |error: &dyn std::fmt::Display| Problem::coded(Code::InvalidSpec, error.to_string());
        let (config, name) = client_config(trust, own).map_err(|error| wrong(&error))?;
        let name = match name {
            Some(name) => name,
            None => ServerName::try_from(endpoint.host.clone()).map_err(|error| wrong(&error))?,
        };
        Ok(Self { endpoint, tls: Some((TlsConnector::from(Arc::new(config)), name)), check: None })
    }

    /// Connects only as long as this holds.
    #[must_use]
    pub(crate) fn only_if(self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { check: Some(Arc::new(check)), ..self }
    }

    /// Connects. The connection is pinged every 10 s and given up when an answer takes 5 s.
    ///
    /// # Errors
    /// The server cannot be reached, or is not the one that is trusted.
    pub async fn connect(&self) -> Result<Channel, Problem> {
        let endpoint = tonic::transport::Endpoint::from(self.endpoint.uri.clone())
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let (host, port) = (self.endpoint.host.clone(), self.endpoint.port);
        let (tls, check) = (self.tls.clone(), self.check.clone());
        let connect = tower::service_fn(move |_: Uri| {
            let (host, tls) = (host.clone(), tls.clone());
            let ours = check.as_ref().is_none_or(|check| check());
            async move {
                if !ours {
                    return Err(io::Error::other("the server has stopped"));
                }
                let stream = TcpStream::connect((host.as_str(), port)).await?;
                stream.set_nodelay(true)?;
                let wire: Wire = match tls {
                    None => Box::new(stream),
                    Some((tls, name)) => Box::new(tls.connect(name, stream).await?),
                };
                Ok::<_, io::Error>(TokioIo::new(wire))
            }
        });
        let wrong = |error: tonic::transport::Error| {
            let mut detail =
                format!("connecting to {host}:{port}", host = self.endpoint.host, port = self.endpoint.port);
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                detail.push_str(&format!(": {error}"));
                cause = error.source();
            }
            Problem::coded(Code::StoreUnavailable, detail)
        };
        endpoint.connect_with_connector(connect).await.map_err(wrong)
    }
}
