//! Errors of downloads in words. Owns the classes of answers, and that no message holds a header, a password or a query,
//! which may be a signature.

use std::io;
use std::path::Path;
use std::time::Duration;

use orlop_core::error::{Class, Problem};
use reqwest::header::RETRY_AFTER;
use reqwest::{Response, Url};

use super::client::why;

/// The longest wait an answer can ask for.
const PATIENCE: u64 = 24 * 60 * 60;

/// An artifact is not available.
pub(super) fn unavailable(class: Class, message: impl Into<String>) -> Problem {
    Problem::new(class, message).with_reason("ArtifactUnavailable")
}

/// A URL without what may be secret in it.
pub(super) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query = if url.query().is_some() { "?\u{2026}" } else { "" };
    let path: String = url.path().chars().take(200).collect();
    format!("{}://{host}{port}{path}{query}", url.scheme())
}

/// An answer other than 200.
pub(crate) fn refused(url: &Url, response: &Response) -> Problem {
    let status = response.status();
    let class = match status.as_u16() {
        404 | 410 => Class::NotFound,
        408 | 425 | 429 => Class::Transient,
        400..=499 => Class::Denied,
        _ => Class::Transient,
    };
    let mut error = unavailable(class, format!("{} answered {status}", shown(url)));
    let asked = response.headers().get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.trim().parse::<u64>().ok());
    error.retry_after = asked.map(|seconds| Duration::from_secs(seconds.min(PATIENCE)));
    error
}

/// An answer over the limit.
pub(super) fn too_large(url: &Url, limit: u64) -> Problem {
    let message = format!("{} has more than {limit} bytes; raise --artifact-max-bytes", shown(url));
    unavailable(Class::Invalid, message)
}

/// No answer, or not all of it.
pub(super) fn failed(url: &Url, error: &reqwest::Error) -> Problem {
    let shown = shown(url);
    let message = if error.is_timeout() && error.is_connect() {
        format!("{shown} cannot be reached in time")
    } else if error.is_timeout() {
        format!("{shown} sent nothing for too long")
    } else if error.is_connect() {
        format!("{shown} cannot be reached")
    } else if error.is_builder() {
        return unavailable(Class::Invalid, format!("{shown} cannot be requested"));
    } else {
        format!("{shown} was interrupted")
    };
    let why = why(error).map(|why| format!(": {why}")).unwrap_or_default();
    unavailable(Class::Transient, format!("{message}{why}"))
}

/// The file could not be written.
pub(super) fn writing(target: &Path, error: io::Error) -> Problem {
    let hint = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space",
        _ => "",
    };
    let class = Problem::from(io::Error::from(error.kind())).class;
    Problem::new(class, format!("{} cannot be written{hint}", target.display())).because(error)
}

/// There is something at the target.
pub(super) fn occupied(target: &Path) -> Problem {
    let message = format!("{} already exists; deliver the artifact elsewhere", target.display());
    Problem::new(Class::Exists, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_secrets() {
        let url = Url::parse("https://user:secret@a.example:8443/x/y.tar?X-Signature=secret#secret").unwrap();
        insta::assert_snapshot!(shown(&url), @"https://a.example:8443/x/y.tar?…");
    }

    #[test]
    fn disks_have_their_own_classes() {
        let error = writing(Path::new("/run/x"), io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!((error.class, error.reason), (Class::Capacity, None));
        insta::assert_snapshot!(error, @"/run/x cannot be written; free some space");
    }
}
