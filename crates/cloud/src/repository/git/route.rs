//! The way to a repository: which host, which of its addresses, and where it redirects to.
//! Owns the checks; the address that was checked is the one that is connected to.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use futures::future::BoxFuture;
use orlop_core::error::chain;
use reqwest::header::{AUTHORIZATION, HeaderValue, LOCATION};
use reqwest::{StatusCode, Url};
use url::Host;

use super::proxy::is_local;
use super::{Options, Request};
use crate::http::{Client, ClientOptions, ProxyChoice, Trust};
use crate::repository::address::is_public;
use crate::repository::error::FetchError;
use crate::repository::source::{Allow, Source};

/// Redirects that are followed.
const MAX_REDIRECTS: usize = 3;
/// How long a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// What is asked first, so that redirects are seen before Git runs.
const QUESTION: &str = "/info/refs?service=git-upload-pack";

type Resolve = Arc<dyn Fn(String, u16) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> + Send + Sync>;

/// How long a name is looked up that a proxy will look up again.
const LOOKUP_TIME: Duration = Duration::from_secs(3);

/// Which addresses may be connected to, and how names become addresses.
#[derive(Clone)]
pub(super) struct Doors {
    pub(super) is_open: fn(IpAddr) -> bool,
    /// Whether names that only a private network knows may be sent to a proxy.
    local_names: bool,
    pub(super) resolve: Resolve,
}

impl fmt::Debug for Doors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doors").finish_non_exhaustive()
    }
}

impl Doors {
    pub(super) fn new(private_hosts: bool) -> Self {
        let resolve: Resolve = Arc::new(|host, port| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((host.as_str(), port)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        });
        Self { is_open: if private_hosts { |_| true } else { is_public }, local_names: private_hosts, resolve }
    }

    /// Checks a host that a proxy connects to: addresses as ever, names by what they are and by what they lead to here, if they lead
    /// anywhere. What the proxy makes of a name cannot be known.
    async fn check_proxied(&self, url: &Url) -> Result<(), FetchError> {
        let Some(Host::Domain(name)) = url.host() else { return self.check(url).await.map(drop) };
        if !self.local_names && is_local(name) {
            return Err(FetchError::LocalName { host: name.to_owned() });
        }
        match tokio::time::timeout(LOOKUP_TIME, self.check(url)).await {
            Ok(Err(FetchError::Network { .. })) | Err(_) => {
                tracing::debug!("the name of the host is known to the proxy only");
                Ok(())
            }
            Ok(checked) => checked.map(drop),
        }
    }

    /// The addresses of a host, all of which must be open.
    async fn check(&self, url: &Url) -> Result<Vec<SocketAddr>, FetchError> {
        let port = url.port_or_known_default().unwrap_or(22);
        let unknown = |why: String| FetchError::Network { url: url.to_string(), why };
        let addresses = match url.host() {
            Some(Host::Ipv4(address)) => vec![IpAddr::V4(address)],
            Some(Host::Ipv6(address)) => vec![IpAddr::V6(address)],
            Some(Host::Domain(name)) => match name.parse::<IpAddr>() {
                Ok(address) => vec![address],
                Err(_) => (self.resolve)(name.to_owned(), port).await.map_err(|error| unknown(error.to_string()))?,
            },
            None => Vec::new(),
        };
        if addresses.is_empty() {
            return Err(unknown("the host has no address".to_owned()));
        }
        if let Some(closed) = addresses.iter().find(|address| !(self.is_open)(**address)) {
            let host = url.host_str().unwrap_or_default().to_owned();
            return Err(FetchError::Private { host, address: closed.to_string() });
        }
        Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

/// Where a repository is fetched from in the end.
#[derive(Debug, Clone)]
pub(super) struct Route {
    /// The address, after redirects.
    pub(super) url: Url,
    /// The checked addresses of its host; none where a proxy connects to it.
    pub(super) addresses: Vec<SocketAddr>,
    /// The proxy.
    pub(super) proxy: Option<Url>,
    /// The header that goes to it; only to the host that was asked first.
    pub(super) authorization: Option<String>,
}

/// Finds the way: over https it asks, follows up to three redirects and checks each host; over ssh it checks the host.
pub(super) async fn find(doors: &Doors, request: &Request, options: &Options) -> Result<Route, FetchError> {
    let authorization = request.token.as_ref().map(|token| {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{token}"));
        format!("Basic {pair}")
    });
    match &request.source {
        Source::Https(url) => follow(doors, url, authorization, options).await,
        Source::Ssh(url) => {
            Ok(Route { url: url.clone(), addresses: doors.check(url).await?, proxy: None, authorization: None })
        }
        Source::Folder(path) => Err(FetchError::Missing { what: path.display().to_string() }),
    }
}

async fn follow(
    doors: &Doors,
    first: &Url,
    authorization: Option<String>,
    options: &Options,
) -> Result<Route, FetchError> {
    let mut route = Route { url: first.clone(), addresses: Vec::new(), proxy: None, authorization };
    for _ in 0..=MAX_REDIRECTS {
        route.proxy = options.proxies.of(&route.url)?;
        route.addresses = match &route.proxy {
            Some(_) => doors.check_proxied(&route.url).await.map(|()| Vec::new())?,
            None => doors.check(&route.url).await?,
        };
        let Some(location) = ask(&route, options).await? else { return Ok(route) };
        let next = redirected(&route.url, &location)?;
        if next.origin() != route.url.origin() {
            route.authorization = None;
        }
        route.url = next;
    }
    Err(FetchError::Redirect { url: first.to_string(), why: format!("more than {MAX_REDIRECTS} times") })
}

/// The repository that a redirect of the question leads to.
fn redirected(url: &Url, location: &str) -> Result<Url, FetchError> {
    let strange = || FetchError::Redirect {
        url: url.to_string(),
        why: "to something that is not a repository over https".to_owned(),
    };
    let question = Url::parse(&format!("{}{QUESTION}", base(url))).map_err(|_| strange())?;
    let next = question.join(location).map_err(|_| strange())?;
    let text = next.as_str();
    let text = text.strip_suffix(QUESTION).or_else(|| text.strip_suffix("/info/refs")).ok_or_else(strange)?;
    match Source::parse(text, Allow::default()) {
        Ok(Source::Https(next)) => Ok(next),
        _ => Err(strange()),
    }
}

/// The address without a `/` at the end.
pub(super) fn base(url: &Url) -> &str {
    url.as_str().trim_end_matches('/')
}

/// Asks for the refs: nothing if they are there, else where it redirects to.
async fn ask(route: &Route, options: &Options) -> Result<Option<String>, FetchError> {
    let url = &route.url;
    let shown = || url.to_string();
    let network = |error: reqwest::Error| FetchError::Network { url: shown(), why: chain(&error.without_url()) };
    let client = client(route, options)?;
    let mut question = client.get(format!("{}{QUESTION}", base(url)));
    if let Some(authorization) = &route.authorization {
        let mut value = HeaderValue::try_from(authorization)
            .map_err(|_| FetchError::Denied { url: shown(), why: "the token cannot be sent in a header".to_owned() })?;
        value.set_sensitive(true);
        question = question.header(AUTHORIZATION, value);
    }
    let answer = question.send().await.map_err(network)?;
    match answer.status() {
        StatusCode::OK => Ok(None),
        status if status.is_redirection() => match answer.headers().get(LOCATION).and_then(|value| value.to_str().ok())
        {
            Some(location) => Ok(Some(location.to_owned())),
            None => Err(FetchError::Redirect { url: shown(), why: "without saying where to".to_owned() }),
        },
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Err(FetchError::Network { url: shown(), why: status.to_string() })
        }
        status => Err(FetchError::Denied { url: shown(), why: status.to_string() }),
    }
}

fn client(route: &Route, options: &Options) -> Result<Client, FetchError> {
    let pem = match &options.ca_file {
        Some(file) => Some(std::fs::read(file).map_err(FetchError::io("read the authorities to trust"))?),
        None => None,
    };
    let (proxy, resolved) = match (&route.proxy, route.url.host()) {
        (Some(proxy), _) => (ProxyChoice::Url(proxy), None),
        (None, Some(Host::Domain(name))) => (ProxyChoice::None, Some((name, route.addresses.as_slice()))),
        (None, _) => (ProxyChoice::None, None),
    };
    let options = ClientOptions {
        trust: pem.as_deref().map_or(Trust::System, Trust::SystemAnd),
        proxy,
        connect_timeout: CONNECT_TIME,
        user_agent: concat!("git/2 orlop/", env!("CARGO_PKG_VERSION")),
        // One request over one connection needs no more.
        http2: false,
        resolved,
        ..ClientOptions::default()
    };
    options.build().map_err(|error| FetchError::Network { url: route.url.to_string(), why: error.chain() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn hosts_that_lead_to_private_addresses_are_refused() {
        let mut doors = Doors::new(false);
        doors.resolve = Arc::new(|host, _| {
            let addresses = match host.as_str() {
                "public.example" => vec!["8.8.8.8".parse().unwrap()],
                "mixed.example" => vec!["8.8.8.8".parse().unwrap(), "10.0.0.1".parse().unwrap()],
                "nobody.example" => vec![],
                _ => vec!["169.254.169.254".parse().unwrap()],
            };
            Box::pin(async move { Ok(addresses) })
        });
        let check = async |url: &str| doors.check(&Url::parse(url).unwrap()).await;
        assert_eq!(check("https://public.example/x").await.unwrap(), ["8.8.8.8:443".parse().unwrap()]);
        assert_eq!(check("ssh://git@public.example:2222/x").await.unwrap(), ["8.8.8.8:2222".parse().unwrap()]);
        for url in [
            "https://mixed.example/x",
            "https://metadata.example/x",
            "https://127.0.0.1/x",
            "https://2130706433/x",
            "https://0x7f.1/x",
            "https://[::1]/x",
            "https://[::ffff:10.0.0.1]/x",
            "https://10.0.0.1/x",
            "ssh://git@10.0.0.1/x",
        ] {
            assert!(matches!(check(url).await, Err(FetchError::Private { .. })), "{url}");
        }
        assert!(matches!(check("https://nobody.example/x").await, Err(FetchError::Network { .. })));
    }

    #[test]
    fn redirects_go_from_https_to_https_and_to_repositories_only() {
        let url = Url::parse("https://a.example/x").unwrap();
        let go = |location: &str| redirected(&url, location).map(|url| url.to_string());
        assert_eq!(go(&format!("https://b.example/y{QUESTION}")).unwrap(), "https://b.example/y");
        assert_eq!(go(&format!("/z{QUESTION}")).unwrap(), "https://a.example/z");
        for bad in [
            "http://b.example/y/info/refs?service=git-upload-pack",
            "https://b.example/login",
            "file:///etc/passwd",
            "ext::id",
            "https://u:p@b.example/y/info/refs",
            "//",
            "ssh://b.example/y/info/refs",
        ] {
            assert!(matches!(go(bad), Err(FetchError::Redirect { .. })), "{bad}");
        }
    }
}
