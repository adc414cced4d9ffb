//! URLs that secrets may go over: https, or http to this machine only.

use url::{Host, Url};

/// Whether a URL names this machine.
pub(crate) fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// The URL, if it is one of the web and holds no secret itself.
///
/// # Errors
/// Why not.
#[cfg(any(feature = "openstack", feature = "llm"))]
pub(crate) fn web_url(given: &str) -> Result<Url, &'static str> {
    let url = Url::parse(given.trim()).map_err(|_| "it is not a URL")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a user");
    }
    if !url.has_host() {
        return Err("it names no host");
    }
    if matches!(url.scheme(), "https" | "http") { Ok(url) } else { Err("it is not https") }
}

/// Whether others can read what goes over a URL.
#[cfg(any(feature = "openstack", feature = "llm"))]
pub(crate) fn is_readable(url: &Url) -> bool {
    url.scheme() != "https" && !is_here(url)
}

/// The URL, if nobody else reads what goes over it and it holds no secret itself.
///
/// # Errors
/// Why not.
#[cfg(any(feature = "openstack", feature = "llm"))]
pub(crate) fn private_url(given: &str) -> Result<Url, &'static str> {
    let url = web_url(given)?;
    if is_readable(&url) { Err("http would expose secrets; use https") } else { Ok(url) }
}

#[cfg(test)]
mod tests {
    use super::private_url;

    #[test]
    fn only_https_and_this_machine_are_private() {
        for good in ["https://a.example/x", "http://127.0.0.1:5", "http://[::1]/", "http://LOCALHOST/x", " https://a "]
        {
            assert!(private_url(good).is_ok(), "{good}");
        }
        let bad = [
            ("http://a.example", "http would expose"),
            ("http://127.0.0.1.a.example", "http would expose"),
            ("http://localhost.a.example", "http would expose"),
            ("http://[::ffff:127.0.0.1]/", "http would expose"),
            ("ftp://127.0.0.1", "not https"),
            ("https://user@a.example", "holds a user"),
            ("https://:secret@a.example", "holds a user"),
            ("file:///x", "no host"),
            ("a.example", "not a URL"),
        ];
        for (text, why) in bad {
            assert!(private_url(text).is_err_and(|reported| reported.contains(why)), "{text}: {:?}", private_url(text));
        }
    }
}
