//! A fleet over its REST interface. Owns paths, pages and the token; decides nothing.

use std::time::Duration;

use async_trait::async_trait;
use orlop_core::error::{Class, Problem};
use orlop_core::machine::worker::WorkerState;
use reqwest::{Method, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::Value;

use super::{Fleet, WorkerSeen};
use crate::http::{Client, ClientOptions, ProxyChoice, Trust};
use crate::private_url::is_here;
use crate::provision::join::{Address, BadJoin, DEPLOYMENT};
use crate::provision::mark::DeploymentId;

/// Bytes of an answer that are read.
const MAX_ANSWER: usize = 64 << 20;
/// Pages that are read.
const MAX_PAGES: usize = 1000;

/// A fleet behind one or more servers, of which the first that leads is asked. `Debug` does not show the token.
#[derive(Debug)]
pub struct RestFleet {
    servers: Vec<Server>,
    token: Option<SecretString>,
}

/// Where a server is, and what asks it: one of this machine is asked through no proxy.
#[derive(Debug)]
struct Server {
    url: String,
    client: Client,
}

/// A worker, as far as anybody asks here.
#[derive(Deserialize)]
struct Worker {
    id: String,
    incarnation: u32,
    state: String,
    since: String,
    #[serde(default)]
    connected: bool,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    capabilities: Value,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Worker>,
    next_cursor: Option<String>,
}

impl RestFleet {
    /// The fleet at addresses, separated by commas. With authorities, certificates of these (PEM) are trusted beside those of the
    /// system's.
    ///
    /// # Errors
    /// Invalid when an address is none or would carry the token over a network in the clear, or the authorities cannot be read.
    pub fn new(addresses: &str, token: Option<SecretString>, authorities: Option<&[u8]>) -> Result<Self, Problem> {
        let invalid = |what: String| Problem::new(Class::Invalid, what);
        let trust = authorities.map_or(Trust::System, Trust::SystemAnd);
        let mut servers = Vec::new();
        for text in addresses.split(',').map(|text| text.trim().trim_end_matches('/')).filter(|text| !text.is_empty()) {
            let address: Address = text.parse().map_err(|error: BadJoin| invalid(error.to_string()))?;
            let url = address.as_str().to_owned();
            let is_here = Url::parse(&url).is_ok_and(|url| is_here(&url));
            let proxy = if is_here { ProxyChoice::None } else { ProxyChoice::Environment };
            let (connect_timeout, timeout) = (Duration::from_secs(5), Some(Duration::from_secs(30)));
            let client =
                ClientOptions { trust, proxy, connect_timeout, timeout, ..ClientOptions::default() }.build()?;
            servers.push(Server { url, client });
        }
        if servers.is_empty() {
            return Err(invalid("no server of the fleet is named".to_owned()));
        }
        Ok(Self { servers, token })
    }

    /// Asks the servers, one after the other until one leads.
    async fn ask(&self, method: Method, path: &str) -> Result<Value, Problem> {
        let mut last = Problem::new(Class::Invalid, "no server of the fleet is named");
        for server in &self.servers {
            match self.ask_one(server, method.clone(), path).await {
                Err(error) if error.class == Class::Transient => last = error,
                other => return other,
            }
        }
        Err(last)
    }

    async fn ask_one(&self, server: &Server, method: Method, path: &str) -> Result<Value, Problem> {
        let Server { url: server, client } = server;
        let lost = |error: reqwest::Error| {
            Problem::new(Class::Transient, format!("the fleet at {server} cannot be reached"))
                .because(error.without_url())
        };
        let mut request = client.request(method.clone(), format!("{server}/api/v1{path}"));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token.expose_secret());
        }
        if method == Method::POST {
            request = request.header("content-type", "application/json").body("{}");
        }
        let mut answer = request.send().await.map_err(lost)?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(lost)? {
            if body.len() + part.len() > MAX_ANSWER {
                return Err(Problem::new(Class::Invalid, format!("the answer of the fleet at {server} is too long")));
            }
            body.extend_from_slice(&part);
        }
        if status.is_success() {
            let wrong = |_| Problem::new(Class::Transient, format!("{server} is not an Orlop server"));
            return if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&body).map_err(wrong) };
        }
        let class = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Class::Denied,
            StatusCode::NOT_FOUND => Class::NotFound,
            StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => Class::Conflict,
            // Another server leads, or this one has too much to do.
            StatusCode::MISDIRECTED_REQUEST | StatusCode::TOO_MANY_REQUESTS => Class::Transient,
            status if status.is_server_error() => Class::Transient,
            _ => Class::Invalid,
        };
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail: String = said["detail"].as_str().unwrap_or_default().chars().take(200).collect();
        let hint = if class == Class::Denied { "; check its token, which has to be an operator's" } else { "" };
        Err(Problem::new(class, format!("the fleet at {server} answered {}: {detail}{hint}", status.as_u16())))
    }
}

#[async_trait]
impl Fleet for RestFleet {
    async fn worker(&self, deployment: &DeploymentId) -> Result<Option<WorkerSeen>, Problem> {
        let wrong =
            |what: String| Problem::new(Class::Invalid, format!("the fleet lists its workers otherwise: {what}"));
        let label = Value::from(deployment.as_str());
        let (mut found, mut cursor): (Vec<WorkerSeen>, Option<String>) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let next = cursor.take().map(|cursor| {
                format!("&cursor={}", url::form_urlencoded::byte_serialize(cursor.as_bytes()).collect::<String>())
            });
            let path = format!("/workers?limit=1000&label={DEPLOYMENT}%3D{deployment}{}", next.unwrap_or_default());
            let page: Page = serde_json::from_value(self.ask(Method::GET, &path).await?)
                .map_err(|error| wrong(error.to_string()))?;
            for worker in page.items.into_iter().filter(|one| one.capabilities["labels"][DEPLOYMENT] == label) {
                let state: WorkerState =
                    worker.state.parse().map_err(|_| wrong(format!("there is no state {}", worker.state)))?;
                let since = format!("{}/{}/{}", worker.id, worker.incarnation, worker.since);
                let (attempts, connected) = (worker.attempts, worker.connected);
                found.push(WorkerSeen { id: worker.id, state, since, attempts, connected });
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        // One that is there comes before those that left, and the latest of these before the others.
        Ok(found.into_iter().max_by(|a, b| (!a.has_left(), &a.since).cmp(&(!b.has_left(), &b.since))))
    }

    async fn drain(&self, worker: &str) -> Result<(), Problem> {
        let id: String = url::form_urlencoded::byte_serialize(worker.as_bytes()).collect();
        self.ask(Method::POST, &format!("/workers/{id}/drain")).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_over_no_network_in_the_clear_and_is_never_shown() {
        for good in ["https://fleet:7070", "http://127.0.0.1:7070/, https://b"] {
            let fleet = RestFleet::new(good, Some("planted".to_owned().into()), None).unwrap();
            assert!(!format!("{fleet:?}").contains("planted"));
        }
        for bad in ["", " , ", "http://fleet:7070", "https://a,http://b", "fleet", "https://u:p@fleet"] {
            assert_eq!(RestFleet::new(bad, None, None).unwrap_err().class, Class::Invalid, "{bad}");
        }
        assert!(RestFleet::new("https://fleet", None, Some(b"no certificate")).is_err());
    }
}
