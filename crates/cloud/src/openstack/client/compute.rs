//! The compute service. Owns its paths and documents, and the version that is spoken; what is secret in its answers is not read.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::pages::{escaped, list, object};
use super::session::{Microversion, Session};
use crate::openstack::classify::{Call, Meaning, Service};
use crate::openstack::port::{Answered, CloudError, Compute, Keypair, Limits, NewServer, Server};
use crate::openstack::read;
use crate::openstack::wire::{Method, Request};
use crate::provision::mark::Marks;

/// The version that is asked for; an older service is spoken to in its own newest.
const WANTED: Microversion = Microversion(2, 61);
/// The first version with tags in the create itself.
const TAGS: Microversion = Microversion(2, 52);

/// The first version of all.
const LEAST: Microversion = Microversion(2, 1);

/// A version at the beginning of a text.
fn version(text: &str) -> Option<Microversion> {
    let (major, rest) = text.split_once('.')?;
    let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(Microversion(major.parse().ok()?, minor.parse().ok()?))
}

/// Whether a request is understood only where there are tags.
fn has_tags(request: &Request) -> bool {
    let body = request.body.as_ref().and_then(|body| body.pointer("/server/tags"));
    body.is_some() || request.path.contains("tags=")
}

impl Session {
    /// Speaks an older version from now on: the newest that a refusal names, else the first of all. Tells whether the request that
    /// was refused means the same in it.
    pub(super) fn lower(&self, refusal: &CloudError, request: &Request) -> bool {
        let newest = refusal.message.rsplit_once("maximum is ").and_then(|(_, text)| version(text));
        let lowered = *self.lowered.get_or_init(|| newest.unwrap_or(LEAST).min(WANTED));
        tracing::debug!(?lowered, "the compute service refused a newer version");
        lowered >= TAGS || !has_tags(request)
    }

    /// Whether a request that was refused with tags is to be asked again without: the service turned out not to know them.
    async fn tags_are_unknown(&self, error: &CloudError) -> Answered<bool> {
        Ok(error.meaning == Meaning::Microversion && self.microversion().await? < TAGS)
    }

    pub(super) async fn microversion(&self) -> Answered<Microversion> {
        if let Some(lowered) = self.lowered.get() {
            return Ok(*lowered);
        }
        let found = self.microversion.get_or_try_init(async || {
            let document = self.call(Request::get(Service::Compute, "")).await?;
            let text = document.get("version").and_then(|version| version.get("version")).and_then(Value::as_str);
            Ok::<_, CloudError>(text.and_then(version).unwrap_or(LEAST).min(WANTED))
        });
        found.await.copied()
    }
}

fn server_document(new: &NewServer, has_tags: bool) -> Value {
    let marks = Marks::of(&new.deployment);
    let mut server = json!({
        "name": new.name,
        "imageRef": new.image,
        "flavorRef": new.flavor,
        "key_name": new.key,
        "networks": [{"uuid": new.network}],
        "metadata": marks.labels(new.attempt),
        "min_count": 1,
        "max_count": 1,
    });
    if has_tags {
        server["tags"] = json!([marks.tag(), marks.attempt_tag(new.attempt)]);
    }
    if !new.groups.is_empty() {
        server["security_groups"] = new.groups.iter().map(|name| json!({"name": name})).collect();
    }
    if let Some(data) = &new.user_data {
        server["user_data"] = json!(data.reveal());
    }
    let mut document = json!({"server": server});
    if let Some(reservation) = &new.reservation {
        document["os:scheduler_hints"] = json!({"reservation": reservation});
    }
    document
}

fn post(path: String, call: Call, body: Value) -> Request {
    Request::with(Service::Compute, call, Method::Post, path, body)
}

#[async_trait]
impl Compute for Session {
    async fn flavors(&self) -> Answered<Vec<Value>> {
        list(self, Service::Compute, "/flavors/detail", "flavors").await
    }

    async fn limits(&self) -> Answered<Limits> {
        Ok(read::limits(&self.call(Request::get(Service::Compute, "/limits")).await?))
    }

    async fn keypairs(&self) -> Answered<Vec<Keypair>> {
        let found = list(self, Service::Compute, "/os-keypairs", "keypairs").await?;
        Ok(found.iter().filter_map(read::keypair).collect())
    }

    async fn keypair(&self, name: &str) -> Answered<Keypair> {
        let path = format!("/os-keypairs/{}", escaped(name));
        let document = self.call(Request::get(Service::Compute, path)).await?;
        object(Service::Compute, "GET /os-keypairs", &document, "keypair", read::keypair, Meaning::Transient)
    }

    async fn import_keypair(&self, name: &str, public_key: &str) -> Answered<Keypair> {
        let body = json!({"keypair": {"name": name, "type": "ssh", "public_key": public_key}});
        let document = self.call(post("/os-keypairs".to_owned(), Call::CreateKeypair, body)).await?;
        object(Service::Compute, "POST /os-keypairs", &document, "keypair", read::keypair, Meaning::Ambiguous)
    }

    async fn delete_keypair(&self, name: &str) -> Answered<()> {
        self.call(Request::delete(Service::Compute, format!("/os-keypairs/{}", escaped(name)))).await.map(|_| ())
    }

    async fn create_server(&self, new: &NewServer) -> Answered<String> {
        let mut has_tags = self.microversion().await? >= TAGS;
        let document = loop {
            match self.call(post("/servers".to_owned(), Call::Create, server_document(new, has_tags))).await {
                // Nothing was made; the labels are mark enough.
                Err(error) if has_tags && self.tags_are_unknown(&error).await? => has_tags = false,
                answered => break answered?,
            }
        };
        let id = |server: &Value| server.get("id")?.as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        object(Service::Compute, "POST /servers", &document, "server", id, Meaning::Ambiguous)
    }

    async fn server(&self, id: &str) -> Answered<Server> {
        let document = self.call(Request::get(Service::Compute, format!("/servers/{}", escaped(id)))).await?;
        object(Service::Compute, "GET /servers", &document, "server", read::server, Meaning::Transient)
    }

    async fn servers(&self, deployment: Option<&str>) -> Answered<Vec<Server>> {
        let mut has_tags = self.microversion().await? >= TAGS;
        let found = loop {
            let path = match deployment.filter(|_| has_tags) {
                Some(id) => format!("/servers/detail?tags={}", escaped(&Marks::of(id).tag())),
                None => "/servers/detail".to_owned(),
            };
            match list(self, Service::Compute, &path, "servers").await {
                Err(error) if has_tags && self.tags_are_unknown(&error).await? => has_tags = false,
                answered => break answered?,
            }
        };
        let servers = found.iter().filter_map(read::server);
        Ok(match deployment {
            Some(id) => servers.filter(|server| Marks::of(id).owns_server(server)).collect(),
            None => servers.collect(),
        })
    }

    async fn delete_server(&self, id: &str) -> Answered<()> {
        self.call(Request::delete(Service::Compute, format!("/servers/{}", escaped(id)))).await.map(|_| ())
    }

    async fn start_server(&self, id: &str) -> Answered<()> {
        let path = format!("/servers/{}/action", escaped(id));
        self.call(post(path, Call::Change, json!({"os-start": null}))).await.map(|_| ())
    }

    async fn console(&self, id: &str, lines: u32) -> Answered<Option<String>> {
        let path = format!("/servers/{}/action", escaped(id));
        let body = json!({"os-getConsoleOutput": {"length": lines}});
        match self.call(post(path, Call::Read, body)).await {
            Ok(document) => Ok(document.get("output").and_then(Value::as_str).map(str::to_owned)),
            Err(error) if matches!(error.status, Some(404 | 409 | 501)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
