//! The way of a download from host to host. Owns where a redirect leads, how many there may be, and whether the headers
//! of the source still go with it.

use orlop_core::error::{Class, Problem};
use reqwest::header::LOCATION;
use reqwest::{Response, StatusCode, Url};

use super::error::{shown, unavailable};

/// Redirects followed at most.
const MAX_REDIRECTS: u32 = 5;

/// Where a download has got to.
#[derive(Debug)]
pub(super) struct Trail {
    url: Url,
    /// Whether it never left the first host. One that comes back was sent there by somebody else.
    at_home: bool,
    redirects: u32,
}

/// Whether a status sends the client elsewhere.
pub(super) fn is_one(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

impl Trail {
    pub(super) fn begin(url: &str) -> Result<Self, Problem> {
        let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = parsed.ok_or_else(|| {
            // The text may hold a password, and no parser says where.
            unavailable(Class::Invalid, "the url of the artifact is not an http or https URL")
        })?;
        Ok(Self { url, at_home: true, redirects: 0 })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Whether the source's headers go with the next request.
    pub(super) fn is_at_home(&self) -> bool {
        self.at_home
    }

    /// Goes where an answer sends it.
    pub(super) fn follow(&mut self, response: &Response) -> Result<(), Problem> {
        self.go(response.headers().get(LOCATION).map(reqwest::header::HeaderValue::as_bytes))
    }

    fn go(&mut self, location: Option<&[u8]>) -> Result<(), Problem> {
        self.redirects += 1;
        if self.redirects > MAX_REDIRECTS {
            let message = format!("more than {MAX_REDIRECTS} redirects, the last from {}", shown(&self.url));
            return Err(unavailable(Class::Invalid, message));
        }
        let next = location
            .and_then(|location| std::str::from_utf8(location).ok())
            .and_then(|location| self.url.join(location).ok())
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(next) = next else {
            let message = format!("{} redirects to something that is not an http or https URL", shown(&self.url));
            return Err(unavailable(Class::Invalid, message));
        };
        self.at_home &= next.origin() == self.url.origin();
        self.url = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(locations: &[&str]) -> Result<Trail, Problem> {
        let mut trail = Trail::begin("https://a.example/x/y")?;
        for location in locations {
            trail.go(Some(location.as_bytes()))?;
        }
        Ok(trail)
    }

    #[test]
    fn headers_stay_with_the_first_host() {
        let at_home = |locations: &[&str]| trail(locations).unwrap().is_at_home();
        assert!(at_home(&[]));
        assert!(at_home(&["z", "/w", "?q=1", "https://a.example:443/v", "//A.EXAMPLE/u"]));
        for other in [
            "https://b.example/",
            "https://a.example:8443/",
            "http://a.example/",
            "http://a.example:443/",
            "https://a.example.evil/",
            "https://sub.a.example/",
            "https://a.example@b.example/",
            "//b.example",
            "\\\\b.example",
        ] {
            assert!(!at_home(&[other]), "{other}");
        }
        assert!(!at_home(&["https://b.example/", "https://a.example/"]), "they do not come back");
    }

    #[test]
    fn five_redirects_are_followed_and_no_more() {
        assert_eq!(trail(&["1", "2", "3", "4", "5"]).unwrap().url().as_str(), "https://a.example/x/5");
        let error = trail(&["1", "2", "3", "4", "5", "6"]).unwrap_err();
        assert_eq!((error.class, error.reason), (Class::Invalid, Some("ArtifactUnavailable")));
        insta::assert_snapshot!(error, @"more than 5 redirects, the last from https://a.example/x/5");
    }

    #[test]
    fn only_http_is_followed() {
        for bad in ["file:///etc/passwd", "ftp://a.example/", "https://", "javascript:alert(1)", "data:,x"] {
            assert_eq!(trail(&[bad]).unwrap_err().class, Class::Invalid, "{bad}");
        }
        let mut trail = trail(&[]).unwrap();
        assert!(trail.go(None).is_err());
        assert!(trail.go(Some(b"\xff")).is_err());
        for bad in ["", "x", "file:///etc/passwd", "http://", "http:///", "https://user:secret@", "unix:/x"] {
            let error = Trail::begin(bad).unwrap_err();
            assert!(!error.message.contains("secret"), "{error}");
        }
    }
}
