//! Where the page is found: its address as browsers see it, and what follows from that.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use orlop_core::error::{Class, Problem};
use ring::digest::{SHA256, digest};

/// The header in which a page sends its proof.
pub(crate) const PROOF: &str = "orlop-proof";
/// Where a server has the page.
pub(crate) const BASE: &str = "/ui/";
/// The most cookies of one name that are looked at: a browser sends one.
const COOKIES: usize = 4;

/// Where the page is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The whole address; ends with `/ui/`.
    url: String,
    /// Scheme, host and port.
    origin: String,
    /// Path, from the first slash to the last.
    base: String,
    /// Host and port, where the address was given; else pages may use any name of the listener.
    authority: Option<String>,
    cookie: String,
    secure: bool,
}

impl Place {
    /// The page of a listener at `url`, such as `http://127.0.0.1:7070`. `id` distinguishes servers that a browser finds under one
    /// host.
    #[must_use]
    pub fn of_listener(url: &str, id: &[u8]) -> Self {
        Self::new(format!("{url}{BASE}"), None, id)
    }

    /// The page at an address, such as behind a reverse proxy.
    ///
    /// # Errors
    /// Invalid where it is no such address.
    pub fn public(url: &str) -> Result<Self, Problem> {
        let wrong = |what: &str| {
            let text = format!("`{url}` is not the address of the page: {what}; such as https://orlop.example.org/ui/");
            Problem::new(Class::Invalid, text)
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let (authority, path) = rest.split_once('/').ok_or_else(|| wrong("it has no path"))?;
        let loopback = matches!(without_port(authority), "localhost" | "127.0.0.1" | "[::1]");
        let plain = |text: &str, more: &str| {
            text.bytes().all(|byte| byte.is_ascii_alphanumeric() || more.contains(char::from(byte)))
        };
        match scheme {
            "https" => {}
            "http" if loopback => {}
            _ => return Err(wrong("use https, or http on loopback")),
        }
        if authority.is_empty() || !plain(authority, ".-:[]") {
            return Err(wrong("its host cannot be read"));
        }
        if !plain(path, "/._~-") || !format!("/{path}").ends_with(BASE) {
            return Err(wrong("its path does not end with /ui/"));
        }
        Ok(Self::new(url.to_owned(), Some(authority.to_owned()), url.as_bytes()))
    }

    fn new(url: String, authority: Option<String>, id: &[u8]) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", &url));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (origin, base, secure) = (format!("{scheme}://{host}"), format!("/{path}"), scheme == "https");
        let hash = digest(&SHA256, id);
        let instance: String = hash.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let port = host.strip_prefix(without_port(host)).and_then(|port| port.strip_prefix(':')).unwrap_or("80");
        // Cookies are not separated by port, so its name is.
        let cookie = if secure { format!("__Host-orlop_{instance}") } else { format!("orlop_{port}_{instance}") };
        Self { origin, base, authority, cookie, secure, url }
    }

    /// The whole address; ends with `/ui/`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The path of the page as browsers ask for it.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Host and port of an address that was given.
    pub(crate) fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// Scheme, host and port of an address that was given.
    pub(crate) fn origin(&self) -> Option<&str> {
        self.authority.is_some().then_some(self.origin.as_str())
    }

    /// The cookie with a value, as the server sets it; without one it is taken back.
    pub(crate) fn set_cookie(&self, value: Option<&str>) -> String {
        let (value, age) = value.map_or(("", "; Max-Age=0"), |value| (value, ""));
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{age}", self.cookie)
    }

    /// Both halves of a session that a request shows: values of the cookie, and the proof.
    pub(crate) fn halves<'h>(&self, headers: &'h HeaderMap) -> Option<Halves<'h>> {
        let proof = headers.get(PROOF)?.to_str().ok()?;
        let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let pairs = all.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let cookies: Vec<&str> =
            pairs.filter(|(name, _)| *name == self.cookie).map(|(_, value)| value).take(COOKIES).collect();
        (!cookies.is_empty()).then_some(Halves { cookies, proof })
    }
}

/// The host of an authority, an IPv6 address in its brackets.
fn without_port(authority: &str) -> &str {
    match authority.find(']') {
        Some(end) => authority.get(..=end).unwrap_or(authority),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Both halves of a session.
#[derive(Debug)]
pub(crate) struct Halves<'h> {
    /// Values of its cookie.
    pub(crate) cookies: Vec<&'h str>,
    /// Its proof.
    pub(crate) proof: &'h str,
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn the_address_of_the_page_says_origin_path_and_form_of_the_cookie() {
        let cases = [
            "https://fleet.example/ui/",
            "https://a.example:8443/orlop/ui/",
            "http://localhost:7070/ui/",
            "http://[::1]/ui/",
        ];
        let shown: Vec<String> = cases
            .iter()
            .map(|url| {
                let place = Place::public(url).unwrap();
                format!("{} {} {}", place.origin, place.base, place.set_cookie(Some("VALUE")))
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        https://fleet.example /ui/ __Host-orlop_a0c3bef1=VALUE; Path=/; HttpOnly; SameSite=Strict; Secure
        https://a.example:8443 /orlop/ui/ __Host-orlop_227f69fb=VALUE; Path=/; HttpOnly; SameSite=Strict; Secure
        http://localhost:7070 /ui/ orlop_7070_e61cb2e4=VALUE; Path=/; HttpOnly; SameSite=Strict
        http://[::1] /ui/ orlop_80_941dbf4e=VALUE; Path=/; HttpOnly; SameSite=Strict
        ");
        let listener = Place::of_listener("http://127.0.0.1:7070", b"id");
        assert_eq!((listener.url(), listener.base(), listener.origin()), ("http://127.0.0.1:7070/ui/", "/ui/", None));
        assert!(listener.set_cookie(None).ends_with("=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"));
    }

    #[test]
    fn an_address_that_a_browser_would_not_trust_is_refused() {
        let cases = [
            "fleet.example/ui/",
            "http://fleet.example/ui/",
            "https://fleet.example",
            "https://fleet.example/ui",
            "https:///ui/",
            "https://a.example/<b>/ui/",
            "https://a.example/x?y=/ui/",
            "https://me@a.example/ui/",
        ];
        let said: Vec<String> = cases.iter().map(|url| Place::public(url).unwrap_err().message).collect();
        insta::assert_snapshot!(said.join("\n"), @"
        `fleet.example/ui/` is not the address of the page: it has no scheme; such as https://orlop.example.org/ui/
        `http://fleet.example/ui/` is not the address of the page: use https, or http on loopback; such as https://orlop.example.org/ui/
        `https://fleet.example` is not the address of the page: it has no path; such as https://orlop.example.org/ui/
        `https://fleet.example/ui` is not the address of the page: its path does not end with /ui/; such as https://orlop.example.org/ui/
        `https:///ui/` is not the address of the page: its host cannot be read; such as https://orlop.example.org/ui/
        `https://a.example/<b>/ui/` is not the address of the page: its path does not end with /ui/; such as https://orlop.example.org/ui/
        `https://a.example/x?y=/ui/` is not the address of the page: its path does not end with /ui/; such as https://orlop.example.org/ui/
        `https://me@a.example/ui/` is not the address of the page: its host cannot be read; such as https://orlop.example.org/ui/
        ");
    }

    #[test]
    fn a_request_shows_a_session_only_with_both_halves() {
        let place = Place::of_listener("http://127.0.0.1:7070", b"id");
        let name = place.cookie.clone();
        let with = |cookie: Option<String>, proof: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.extend(cookie.map(|cookie| (COOKIE, cookie.parse::<HeaderValue>().unwrap())));
            headers.extend(proof.map(|proof| (HeaderName::from_static(PROOF), proof.parse::<HeaderValue>().unwrap())));
            place.halves(&headers).map(|halves| (halves.cookies.join(","), halves.proof.to_owned()))
        };
        assert_eq!(with(Some(format!("a=b; {name}=c")), Some("p")), Some(("c".to_owned(), "p".to_owned())));
        assert_eq!(with(Some(format!("{name}=c; {name}=d")), Some("p")), Some(("c,d".to_owned(), "p".to_owned())));
        assert_eq!(with(Some(format!("{name}=c")), None), None);
        assert_eq!(with(None, Some("p")), None);
        assert_eq!(with(Some(format!("x{name}=c")), Some("p")), None);
    }
}
