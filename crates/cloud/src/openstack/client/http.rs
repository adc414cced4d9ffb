//! Requests over HTTP. Owns connections, times, limits and TLS: certificates are always checked, and redirects never followed.

use std::error::Error as _;

use async_trait::async_trait;
use orlop_core::error::{Problem, chain};
use reqwest::header::{DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use ring::rand::SecureRandom as _;

use crate::http::{Client, ClientOptions, Trust, why};
use crate::openstack::wire::{Lost, MAX_BODY, Method, Response, Sent, Token, Transport};

/// Requests over HTTP, with the certificates and proxies of the system.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    kept: Client,
    /// Creates take their own connection: one from before may be dead, and nobody would know what became of them.
    fresh: Client,
}

impl HttpTransport {
    /// A transport that trusts the authorities of the system, and those of a text in PEM beside them.
    ///
    /// # Errors
    /// The text holds no certificate, or TLS cannot be set up.
    pub fn new(authorities: Option<&[u8]>) -> Result<Self, Problem> {
        let trust = authorities.map_or(Trust::System, Trust::SystemAnd);
        let kept = ClientOptions { trust, ..ClientOptions::default() };
        let fresh = ClientOptions { keep_alive: false, ..kept };
        Ok(Self { kept: kept.build()?, fresh: fresh.build()? })
    }
}

/// An id under which all services log what belongs to one request.
fn global_id() -> String {
    let mut bytes = [0_u8; 16];
    if ring::rand::SystemRandom::new().fill(&mut bytes).is_err() {
        // Without randomness the id only helps less.
        tracing::debug!("the system provides no random numbers");
    }
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    format!("req-{}-{}-4{}-8{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
}

/// Why there is no answer.
fn lost(error: &reqwest::Error) -> Lost {
    let causes = error.source().map(chain).unwrap_or_default().to_lowercase();
    match error {
        // A handshake that was cut is no word on anybody's certificate.
        error if error.is_connect() && causes.contains("certificate") => Lost::Tls,
        error if error.is_connect() || error.is_builder() => {
            Lost::Refused(why(error).unwrap_or_else(|| "no cause is given".to_owned()))
        }
        error if error.is_timeout() => Lost::Timeout,
        _ => Lost::Broken,
    }
}

/// A map of texts as a form.
fn form(body: &serde_json::Value) -> String {
    let pairs = body.as_object().into_iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?)));
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

fn word(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

fn date(text: &str) -> Option<i64> {
    jiff::fmt::rfc2822::parse(text).ok().map(|zoned| zoned.timestamp().as_millisecond())
}

#[async_trait]
impl Transport for HttpTransport {
    async fn send(&self, sent: &Sent) -> Result<Response, Lost> {
        let client = if sent.request.is_repeatable() { &self.kept } else { &self.fresh };
        let method = match sent.request.method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
            Method::Put => reqwest::Method::PUT,
            Method::Delete => reqwest::Method::DELETE,
        };
        let mut request = client.request(method, &sent.url).timeout(sent.request.patience());
        request = request.header("accept", "application/json").header("x-openstack-request-id", global_id());
        for (name, value) in &sent.headers {
            let mut value = HeaderValue::try_from(value.as_str())
                .map_err(|_| Lost::Refused(format!("the header {name} cannot be sent")))?;
            value.set_sensitive(true);
            request = request.header(*name, value);
        }
        match &sent.request.body {
            Some(body) if sent.request.form => {
                request = request.header("content-type", "application/x-www-form-urlencoded").body(form(body));
            }
            Some(body) => request = request.header("content-type", "application/json").body(body.to_string()),
            None => {}
        }
        let mut answer = request.send().await.map_err(|error| lost(&error))?;
        let headers = answer.headers();
        let mut response = Response {
            status: answer.status().as_u16(),
            request_id: word(headers, "x-openstack-request-id").or_else(|| word(headers, "x-compute-request-id")),
            retry_after: word(headers, RETRY_AFTER.as_str()).and_then(|wait| wait.trim().parse().ok()),
            date: word(headers, DATE.as_str()).and_then(|text| date(&text)),
            subject_token: word(headers, "x-subject-token").map(Token),
            body: String::new(),
        };
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| lost(&error))? {
            if body.len() + chunk.len() > MAX_BODY {
                return Err(Lost::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        response.body = String::from_utf8_lossy(&body).into_owned();
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(date("Fri, 20 Nov 2026 13:44:03 GMT"), Some(1_795_182_243_000));
        assert_eq!(date("yesterday"), None);
    }

    #[test]
    fn global_ids_are_uuids_and_never_the_same() {
        let (one, other) = (global_id(), global_id());
        assert_eq!(one.len(), 40);
        assert_ne!(one, other);
    }
}
