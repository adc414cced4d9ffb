//! Lists that come in pages. Owns following them: only the query of a link is believed, and a loop of links is refused.

use std::collections::BTreeSet;

use serde_json::Value;

use super::session::Session;
use crate::openstack::classify::{Meaning, Service};
use crate::openstack::port::{Answered, CloudError};
use crate::openstack::wire::Request;

/// Pages of a list that are read.
const MAX_PAGES: usize = 1000;

/// All entries under `key`, over all pages.
pub(super) async fn list(session: &Session, service: Service, path: &str, key: &str) -> Answered<Vec<Value>> {
    let (front, mut query) = match path.split_once('?') {
        Some((front, query)) => (front, query.to_owned()),
        None => (path, String::new()),
    };
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    loop {
        let path = if query.is_empty() { front.to_owned() } else { format!("{front}?{query}") };
        let request = Request::get(service, path);
        let name = request.name();
        let wrong = |words: &str| CloudError::own(service, &name, Meaning::Transient, words);
        if !seen.insert(query.clone()) || seen.len() > MAX_PAGES {
            return Err(wrong("the pages of the list form a cycle"));
        }
        let mut document = session.call(request).await?;
        let next = next(&document, key);
        match document.get_mut(key).map(Value::take) {
            Some(Value::Array(entries)) => all.extend(entries),
            _ => return Err(wrong("the answer has no list")),
        }
        match next {
            Some(next) => query = next,
            None => return Ok(all),
        }
    }
}

/// The query of the next page: `next` of the image service, `<key>_links` of the others.
fn next(document: &Value, key: &str) -> Option<String> {
    let links = document.get(format!("{key}_links")).and_then(Value::as_array).into_iter().flatten();
    let link =
        links.filter(|link| link.get("rel").and_then(Value::as_str) == Some("next")).find_map(|link| link.get("href"));
    let address = link.or_else(|| document.get("next"))?.as_str()?;
    let (_, query) = address.split_once('?')?;
    Some(query.split('#').next().unwrap_or_default().to_owned()).filter(|query| !query.is_empty())
}

/// The object under `key`, read; an answer without one is a failure on the way.
pub(super) fn object<T>(
    service: Service,
    request: &str,
    document: &Value,
    key: &str,
    read: impl Fn(&Value) -> Option<T>,
    otherwise: Meaning,
) -> Answered<T> {
    document.get(key).and_then(read).ok_or_else(|| {
        let mut error = CloudError::own(service, request, otherwise, format!("the answer has no {key}"));
        error.reached = crate::openstack::port::Reached::Lost;
        error
    })
}

/// A part of a path or query, escaped.
pub(super) fn escaped(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_query_of_a_link_is_believed() {
        let of = |document: Value| next(&document, "servers");
        let links = |href: &str| serde_json::json!({"servers": [], "servers_links": [{"rel": "next", "href": href}]});
        assert_eq!(of(links("http://evil.example/steal?limit=1&marker=x#y")).as_deref(), Some("limit=1&marker=x"));
        assert_eq!(of(links("http://evil.example/steal")), None);
        assert_eq!(of(serde_json::json!({"next": "/v2/images?marker=m"})).as_deref(), Some("marker=m"));
        assert_eq!(of(serde_json::json!({"next": 3})), None);
    }

    #[test]
    fn names_cannot_leave_their_place_in_a_path() {
        assert_eq!(escaped("a/../b?c=d&e f#g"), "a%2F..%2Fb%3Fc%3Dd%26e%20f%23g");
    }
}
