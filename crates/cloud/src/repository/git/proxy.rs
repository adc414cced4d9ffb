//! Proxies on the way to a repository: which one, and for which hosts none. Owns the reading of settings as curl and Git read
//! them; a proxy is the user's own, so that it may stand in a private network, but the repository may not.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::repository::error::FetchError;

/// Settings of proxies, as environments have them. What they say of users is never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// The proxy for https, if there is one.
    https: Option<String>,
    /// Hosts that are asked without it.
    except: String,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxies").field("https", &self.https.is_some()).field("except", &self.except).finish()
    }
}

impl Proxies {
    /// From variables: `https_proxy`, else `all_proxy`, and `no_proxy`, lower case before upper case.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| {
            let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
            set(name).or_else(|| set(&name.to_ascii_uppercase()))
        };
        Self { https: get("https_proxy").or_else(|| get("all_proxy")), except: get("no_proxy").unwrap_or_default() }
    }

    /// The proxy for an address of https; nothing where it is asked without one.
    ///
    /// # Errors
    /// The setting names no proxy of HTTP.
    pub(super) fn of(&self, url: &Url) -> Result<Option<Url>, FetchError> {
        let Some(given) = self.https.as_deref().filter(|_| !self.is_excepted(url)) else { return Ok(None) };
        let given = given.trim();
        let whole = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
        let proxy = Url::parse(&whole).map_err(|_| FetchError::Proxy { why: "it is not a URL" })?;
        match proxy.scheme() {
            "http" | "https" if proxy.has_host() => Ok(Some(proxy)),
            _ => Err(FetchError::Proxy { why: "it is neither http nor https" }),
        }
    }

    fn is_excepted(&self, url: &Url) -> bool {
        let port = url.port_or_known_default();
        let entries = self.except.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty());
        entries.take(1000).any(|entry| entry == "*" || url.host().is_some_and(|host| is_named(&host, port, entry)))
    }
}

/// Whether an entry of `no_proxy` is about a host: by its name or that of a domain it is in, its address or a range, and its port
/// where the entry has one.
fn is_named(host: &Host<&str>, port: Option<u16>, entry: &str) -> bool {
    match host {
        Host::Domain(name) => {
            let (entry, own) = entry.rsplit_once(':').map_or((entry, None), |(entry, port)| (entry, Some(port)));
            let (name, entry) = (name.trim_end_matches('.').to_ascii_lowercase(), entry.to_ascii_lowercase());
            let entry = entry.trim_start_matches('*').trim_matches('.');
            let is_in = || name.strip_suffix(entry).is_some_and(|front| front.is_empty() || front.ends_with('.'));
            own.is_none_or(|own| own.parse().ok() == port) && !entry.is_empty() && is_in()
        }
        Host::Ipv4(address) => holds(entry, IpAddr::V4(*address), port),
        Host::Ipv6(address) => holds(entry, IpAddr::V6(*address), port),
    }
}

/// Whether an address, or a range of them, holds an address.
fn holds(entry: &str, address: IpAddr, port: Option<u16>) -> bool {
    if let Ok(socket) = entry.parse::<std::net::SocketAddr>() {
        return socket.ip() == address && Some(socket.port()) == port;
    }
    let (network, bits) = entry.split_once('/').map_or((entry, None), |(network, bits)| (network, Some(bits)));
    let Ok(network) = network.trim_matches(['[', ']']).parse::<IpAddr>() else { return false };
    let Some(bits) = bits else { return network == address };
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let ((own, most), (asked, of)) = (number(network), number(address));
    match bits.parse::<u32>() {
        Ok(0) => most == of,
        Ok(bits) if bits <= most && most == of => (own ^ asked) >> (128 - bits) == 0,
        _ => false,
    }
}

/// Whether a name is one that only networks of their own know: without a dot, or of a domain that is kept for them. Where a proxy
/// looks names up, this is all that can be known of them here.
pub(super) fn is_local(name: &str) -> bool {
    const KEPT: [&str; 9] =
        ["localhost", "local", "internal", "intranet", "private", "corp", "home", "lan", "localdomain"];
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    match name.rsplit_once('.') {
        Some((front, last)) => KEPT.contains(&last) || last == "arpa" || front.is_empty(),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(pairs: &[(&str, &str)]) -> Proxies {
        Proxies::read(|name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_proxy_is_read_as_curl_reads_it() {
        let url = Url::parse("https://a.example/x").unwrap();
        let of = |pairs: &[(&str, &str)]| match proxies(pairs).of(&url) {
            Ok(found) => found.map(|url| url.to_string()).unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[("https_proxy", " ")]), "");
        assert_eq!(of(&[("http_proxy", "http://p:1")]), "", "that one is for http");
        assert_eq!(of(&[("https_proxy", "http://p:1"), ("HTTPS_PROXY", "http://q:1")]), "http://p:1/");
        assert_eq!(of(&[("HTTPS_PROXY", "10.0.0.5:3128"), ("ALL_PROXY", "http://q:1")]), "http://10.0.0.5:3128/");
        assert_eq!(of(&[("ALL_PROXY", "https://u:p@q:1")]), "https://u:p@q:1/");
        for bad in ["socks5://p:1", "http://", "://", "file:///x"] {
            assert!(of(&[("https_proxy", bad)]).starts_with("the proxy in https_proxy is not usable"), "{bad}");
        }
        assert!(!format!("{:?}", proxies(&[("https_proxy", "http://u:hunter2@p:1")])).contains("hunter2"));
    }

    #[test]
    fn hosts_of_no_proxy_are_asked_without_one() {
        let is_direct = |except: &str, url: &str| {
            let set = proxies(&[("https_proxy", "http://p:1"), ("NO_PROXY", except)]);
            set.of(&Url::parse(url).unwrap()).unwrap().is_none()
        };
        for (except, url) in [
            ("*", "https://a.example/"),
            ("x, a.example", "https://a.example/"),
            ("a.example", "https://GIT.A.example./"),
            (".a.example", "https://git.a.example/"),
            ("*.a.example", "https://git.a.example/"),
            (".a.example", "https://a.example/"),
            ("a.example:8443", "https://a.example:8443/"),
            ("10.0.0.0/8", "https://10.1.2.3/"),
            ("10.1.2.3", "https://10.1.2.3/"),
            ("10.1.2.3:443", "https://10.1.2.3/"),
            ("0.0.0.0/0", "https://10.1.2.3/"),
            ("::1", "https://[::1]/"),
            ("[::1]", "https://[::1]/"),
            ("fd00::/8", "https://[fd00::7]/"),
        ] {
            assert!(is_direct(except, url), "{except} {url}");
        }
        for (except, url) in [
            ("", "https://a.example/"),
            ("a.example", "https://ba.example/"),
            ("a.example", "https://a.example.org/"),
            ("a.example:8443", "https://a.example/"),
            (".", "https://a.example/"),
            ("10.0.0.0/33", "https://10.1.2.3/"),
            ("10.0.0.0/16", "https://10.1.2.3/"),
            ("::/0", "https://10.1.2.3/"),
            ("10.1.2.3:8443", "https://10.1.2.3/"),
            ("3", "https://10.1.2.3/"),
        ] {
            assert!(!is_direct(except, url), "{except} {url}");
        }
    }

    #[test]
    fn names_that_only_a_network_of_its_own_knows_are_distinguished_from_others() {
        for name in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "metadata.google.internal",
            "printer",
            "nas.local",
            "x.home.arpa",
            ".",
        ] {
            assert!(is_local(name), "{name}");
        }
        for name in ["github.com", "git.test", "local.example", "internal.example."] {
            assert!(!is_local(name), "{name}");
        }
    }
}
