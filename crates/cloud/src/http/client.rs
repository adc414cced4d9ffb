//! The HTTP client that all adapters and the command line use. Owns TLS, proxies, times and how the client calls
//! itself. It never follows a redirect: where that is right, and with which headers, is for who asks.

use std::error::Error as _;
use std::net::SocketAddr;
use std::time::Duration;

use orlop_core::error::{Class, Problem, innermost};
use reqwest::{Client, Proxy, Url};

use super::tls::Trust;

/// Through which proxy servers are asked.
#[derive(Clone, Copy, Debug, Default)]
pub enum ProxyChoice<'a> {
    /// Those that the environment names (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`).
    #[default]
    Environment,
    /// This one, for https.
    Url(&'a Url),
    /// None, whatever the environment says.
    None,
}

/// What a client is built with. By default it trusts the authorities of the system, takes the proxies of the environment, and waits
/// 10 s for a connection and for ever for an answer.
#[derive(Clone, Copy, Debug)]
pub struct ClientOptions<'a> {
    /// Whose certificates it trusts.
    pub trust: Trust<'a>,
    /// Through which proxy it asks.
    pub proxy: ProxyChoice<'a>,
    /// How long connecting may take, name resolution and TLS included.
    pub connect_timeout: Duration,
    /// How long nothing may arrive; none = for ever.
    pub idle_timeout: Option<Duration>,
    /// How long a request may take until its answer is read; none = for ever.
    pub timeout: Option<Duration>,
    /// What it calls itself.
    pub user_agent: &'a str,
    /// Whether it offers HTTP/2 to servers with TLS.
    pub http2: bool,
    /// Whether a connection is used for another request.
    pub keep_alive: bool,
    /// A name, and the addresses it stands for in place of those that it leads to.
    pub resolved: Option<(&'a str, &'a [SocketAddr])>,
}

impl Default for ClientOptions<'_> {
    fn default() -> Self {
        Self {
            trust: Trust::System,
            proxy: ProxyChoice::Environment,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: None,
            timeout: None,
            user_agent: concat!("orlop/", env!("CARGO_PKG_VERSION")),
            http2: true,
            keep_alive: true,
            resolved: None,
        }
    }
}

impl ClientOptions<'_> {
    /// A client. Needs no TLS provider to be installed.
    ///
    /// # Errors
    /// Invalid when a text of authorities holds no certificate; Fatal when TLS or the proxy cannot be set up.
    pub fn build(self) -> Result<Client, Problem> {
        let fatal =
            |error: reqwest::Error| Problem::new(Class::Fatal, "the HTTP client cannot be set up").because(error);
        let mut tls = self.trust.config()?;
        let protocols: &[&[u8]] = if self.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let mut client = Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.connect_timeout)
            .user_agent(self.user_agent);
        client = match self.proxy {
            ProxyChoice::Environment => client,
            ProxyChoice::Url(url) => client.no_proxy().proxy(Proxy::https(url.clone()).map_err(fatal)?),
            ProxyChoice::None => client.no_proxy(),
        };
        if let Some(idle_timeout) = self.idle_timeout {
            client = client.read_timeout(idle_timeout);
        }
        if let Some(timeout) = self.timeout {
            client = client.timeout(timeout);
        }
        if !self.keep_alive {
            client = client.pool_max_idle_per_host(0);
        }
        if let Some((name, addresses)) = self.resolved {
            client = client.resolve_to_addrs(name, addresses);
        }
        client.build().map_err(fatal)
    }
}

/// Why there is no answer: the innermost cause, without the URL, which may hold a secret.
pub(crate) fn why(error: &reqwest::Error) -> Option<String> {
    error.source().map(|cause| innermost(cause).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_holds_no_authority_is_refused_before_anything_is_sent() {
        let built = |trust| ClientOptions { trust, ..ClientOptions::default() }.build();
        let cut = b"-----BEGIN CERTIFICATE-----\nAAAA\n".as_slice();
        for pem in [b"".as_slice(), b"no certificate", cut] {
            for trust in [Trust::Only(pem), Trust::SystemAnd(pem)] {
                assert_eq!(built(trust).unwrap_err().class, Class::Invalid, "{trust:?}");
            }
        }
        assert!(built(Trust::System).is_ok() && built(Trust::Nobody).is_ok());
    }
}
