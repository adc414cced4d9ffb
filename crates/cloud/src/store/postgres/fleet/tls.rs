//! TLS to PostgreSQL: whether it is spoken, whom it trusts, and the handshake. Owns `sslmode` and `sslrootcert` of the store's
//! URL; off this machine nothing goes in plain text unless the URL says so.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use orlop_core::error::{Class, Problem};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Config, Socket};
use tokio_rustls::TlsConnector;

fn invalid(message: impl Into<String>) -> Problem {
    Problem::new(Class::Invalid, message)
}

/// What a URL says of TLS.
#[derive(Debug, Default, PartialEq, Eq)]
struct TlsParameters {
    mode: Option<String>,
    root: Option<String>,
}

impl TlsParameters {
    fn take(&mut self, key: &str, value: &str) -> bool {
        let place = match key {
            "sslmode" => &mut self.mode,
            "sslrootcert" => &mut self.root,
            _ => return false,
        };
        *place = Some(value.to_owned());
        true
    }
}

/// A URL, or words, without what it says of TLS.
fn without(text: &str) -> (String, TlsParameters) {
    let mut said = TlsParameters::default();
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        let Some((place, query)) = text.split_once('?') else { return (text.to_owned(), said) };
        let rest: Vec<&str> = query
            .split('&')
            .filter(|pair| {
                let read = url::form_urlencoded::parse(pair.as_bytes()).next();
                !read.is_some_and(|(key, value)| said.take(&key, &value))
            })
            .collect();
        let rest = rest.join("&");
        return (if rest.is_empty() { place.to_owned() } else { format!("{place}?{rest}") }, said);
    }
    let rest: Vec<&str> = words(text)
        .into_iter()
        .filter(|word| {
            let pair = word.split_once('=').map(|(key, value)| (key.trim(), value.trim().trim_matches('\'')));
            !pair.is_some_and(|(key, value)| said.take(key, value))
        })
        .collect();
    (rest.join(" "), said)
}

/// Words of a text, those in quotes whole.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                words.extend(text.get(from..at).filter(|word| !word.is_empty()));
                from = at + c.len_utf8();
            }
            _ => {}
        }
    }
    words.extend(text.get(from..).filter(|word| !word.is_empty()));
    words
}

/// Whether nothing of it leaves this machine.
fn is_local(config: &Config) -> bool {
    let hosts = config.get_hosts();
    let host = |host: &Host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
    };
    // An address goes before the name.
    let addresses = config.get_hostaddrs();
    addresses.iter().all(std::net::IpAddr::is_loopback) && (!addresses.is_empty() || hosts.iter().all(host))
}

/// How a database is reached, and with which TLS, if with any.
///
/// # Errors
/// Invalid when the URL cannot be read, asks for something else than TLS or none, or names a file that holds no certificates.
pub(super) fn of(text: &str) -> Result<(Config, Option<Tls>), Problem> {
    let (rest, said) = without(text);
    let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
        // The text itself can hold a password.
        invalid(format!("the URL of the fleet store cannot be read: {error}"))
    })?;
    let local = is_local(&config);
    let speaks = match said.mode.as_deref() {
        None => !local,
        Some("disable") => {
            if !local {
                tracing::warn!(
                    "the fleet store is elsewhere and is reached in plain text: its URL says sslmode=disable"
                );
            }
            false
        }
        Some("require" | "verify-ca" | "verify-full") => true,
        Some("allow" | "prefer") if local => said.root.is_some(),
        Some(other) => {
            return Err(invalid(format!(
                "the URL of the fleet store says sslmode={other}; use verify-full, which is the default off this machine, or \
                 disable for plain text"
            )));
        }
    };
    if !speaks {
        config.ssl_mode(SslMode::Disable);
        return Ok((config, None));
    }
    config.ssl_mode(SslMode::Require);
    let roots = said.root.as_deref().filter(|root| *root != "system").map(authorities).transpose()?;
    Ok((config, Some(Tls(Arc::new(client(roots)?)))))
}

fn authorities(file: &str) -> Result<RootCertStore, Problem> {
    let wrong = |why: &dyn std::fmt::Display| invalid(format!("sslrootcert of the fleet store: `{file}`: {why}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
        roots.add(certificate.map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() { Err(wrong(&"it holds no certificate")) } else { Ok(roots) }
}

/// Who trusts these authorities, or those of the system.
fn client(roots: Option<RootCertStore>) -> Result<ClientConfig, Problem> {
    let fatal = |error: rustls::Error| Problem::new(Class::Fatal, "TLS cannot be set up").because(error);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(fatal)?;
    Ok(match roots {
        Some(roots) => builder.with_root_certificates(roots).with_no_client_auth(),
        None => {
            let verifier = Verifier::new(provider).map_err(fatal)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
    })
}

/// TLS to a database whose certificate is checked, name included.
#[derive(Clone, Debug)]
pub(super) struct Tls(Arc<ClientConfig>);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, Self::Error> {
        Ok(Handshake { config: Arc::clone(&self.0), name: ServerName::try_from(domain)?.to_owned() })
    }
}

/// A handshake that is still to be made.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move { TlsConnector::from(self.config).connect(self.name, stream).await.map(Encrypted) })
    }
}

/// A connection over TLS.
pub(super) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl AsyncRead for Encrypted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl TlsStream for Encrypted {
    /// The certificate is checked: passwords need no further tie to this connection.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_off_this_machine_is_reached_over_tls_unless_the_url_says_otherwise() {
        for (url, tls) in [
            ("postgres://orlop@db.example/orlop", true),
            ("postgres://orlop@10.0.0.7/orlop?application_name=x", true),
            ("postgres://db/orlop?sslmode=require", true),
            ("postgres://db/orlop?sslmode=verify-full&application_name=x", true),
            ("postgres://db/orlop?sslmode=disable", false),
            ("postgres://127.0.0.1/orlop", false),
            ("postgres://[::1]:5433/orlop", false),
            ("postgres://localhost/orlop?sslmode=require", true),
            ("postgres://localhost,db/orlop", true),
            ("host=/run/postgresql user=orlop dbname=orlop", false),
            ("host=db user=orlop password='a b=c' sslmode=disable", false),
            ("host=db user=orlop password='a sslmode=disable'", true),
            ("host=localhost hostaddr=10.0.0.7 user=orlop", true),
        ] {
            let (config, over) = of(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(over.is_some(), tls, "{url}");
            let mode = if tls { SslMode::Require } else { SslMode::Disable };
            assert_eq!(config.get_ssl_mode(), mode, "{url}");
        }
        let (config, _) = of("host=db user=orlop password='a b=c' sslmode=disable").unwrap();
        assert_eq!(config.get_password(), Some(&b"a b=c"[..]));
        let (config, _) = of("postgres://db/orlop?sslmode=require&application_name=x").unwrap();
        assert_eq!(config.get_application_name(), Some("x"));
    }

    #[test]
    fn what_would_fall_back_to_plain_text_is_refused() {
        for (url, wanted) in [
            ("postgres://u:hush@db/orlop?sslmode=prefer", "says sslmode=prefer; use verify-full"),
            ("host=db password=hush sslmode=allow", "says sslmode=allow"),
            ("postgres://u:hush@db/orlop?sslrootcert=/nowhere/ca.pem", "`/nowhere/ca.pem`"),
        ] {
            let error = of(url).unwrap_err();
            assert!(error.class == Class::Invalid && error.message.contains(wanted), "{url}: {error}");
            assert!(!error.chain().contains("hush"), "{error}");
        }
    }
}
