//! Requests over a `kube::Client`. Owns their form as HTTP and what its errors are here; never repeats one: who asks decides
//! when to ask again.

use async_trait::async_trait;
use http::Method;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;

use super::{Api, ApiError, Kind, Page, Request, Verb};

/// Sends requests by a `kube::Client`.
#[derive(Clone)]
pub struct Client {
    client: kube::Client,
}

impl Client {
    /// Sends requests by this client, with its credentials and rights.
    #[must_use]
    pub const fn new(client: kube::Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Api for Client {
    async fn send(&self, request: &Request) -> Result<Value, ApiError> {
        let http = http_request(request).map_err(|error| ApiError::no_answer(error.to_string()))?;
        self.client.request(http).await.map_err(|error| ApiError::from_client(&error))
    }
}

/// Objects of a kind through the client itself, in a namespace or in all: for watches, pages and metadata alone.
pub(crate) fn dynamic(client: kube::Client, kind: Kind, namespace: Option<&str>) -> kube::Api<DynamicObject> {
    let version = kind.api_version();
    let (group, version) = version.split_once('/').unwrap_or(("", version.as_str()));
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind.name()), kind.plural());
    match namespace {
        Some(namespace) => kube::Api::namespaced_with(client, namespace, &resource),
        None => kube::Api::all_with(client, &resource),
    }
}

/// The form of an answer that holds metadata alone.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

fn http_request(request: &Request) -> Result<http::Request<Vec<u8>>, http::Error> {
    let (method, kind) = match request.verb {
        Verb::Get | Verb::GetMetadata | Verb::List { .. } => (Method::GET, None),
        Verb::Create => (Method::POST, Some("application/json")),
        Verb::Update => (Method::PUT, Some("application/json")),
        Verb::Patch | Verb::PatchStatus => (Method::PATCH, Some("application/merge-patch+json")),
        Verb::Apply { .. } | Verb::ApplyStatus { .. } => (Method::PATCH, Some("application/apply-patch+yaml")),
        Verb::Delete { .. } => (Method::DELETE, Some("application/json")),
    };
    let mut uri = request.path();
    if let Verb::List { labels, fields, page } = &request.verb {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("labelSelector", labels);
        if !fields.is_empty() {
            query.append_pair("fieldSelector", fields);
        }
        if let Some(Page { limit, token }) = page {
            query.append_pair("limit", &limit.to_string());
            if !token.is_empty() {
                query.append_pair("continue", token);
            }
        }
        uri.push('?');
        uri.push_str(&query.finish());
    }
    // Managers have plain names.
    match (&request.verb, request.manager) {
        (Verb::Apply { manager } | Verb::ApplyStatus { manager }, _) => {
            uri.push_str("?force=true&fieldManager=");
            uri.push_str(manager);
        }
        (_, Some(manager)) => {
            uri.push_str("?fieldManager=");
            uri.push_str(manager);
        }
        _ => {}
    }
    let body = match request.delete_options() {
        Some(options) => options.to_string().into_bytes(),
        None if kind.is_some() => request.body.to_string().into_bytes(),
        None => Vec::new(),
    };
    let mut builder = http::Request::builder().method(method).uri(uri);
    if request.verb == Verb::GetMetadata {
        builder = builder.header(http::header::ACCEPT, METADATA);
    }
    if let Some(kind) = kind {
        builder = builder.header(http::header::CONTENT_TYPE, kind);
    }
    builder.body(body)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_become_http() {
        let requests = [
            Request::list(Kind::Pod, "n", "batch.kubernetes.io/job-name=a".into()),
            Request::list(Kind::Event, "n", String::new()).fields("regarding.uid=u".into()),
            Request::list(Kind::Node, "", String::new()).page(Page { limit: 2, token: String::new() }),
            Request::list(Kind::Node, "", String::new()).page(Page { limit: 2, token: "a+/=".into() }),
            Request::patch_status("n", "f", json!({"status": {}})),
            Request::delete(Kind::Job, "n", "a", Some("u".into())),
            Request::delete(Kind::Deployment, "n", "a", None).after_its_children(),
            Request::create(Kind::Service, json!({"metadata": {"name": "s", "namespace": "n"}})).by("me"),
            Request::apply(Kind::Service, json!({"metadata": {"name": "s", "namespace": "n"}}), "me"),
            Request::apply_status(Kind::Performer, json!({"metadata": {"name": "p", "namespace": "n"}}), "me"),
            Request::get(Kind::Node, "", "node-1"),
            Request::get_metadata(Kind::Secret, "n", "s"),
        ];
        let reported: Vec<String> = requests
            .iter()
            .map(|request| {
                let http = http_request(request).unwrap();
                let header = ["content-type", "accept"].into_iter().find_map(|name| http.headers().get(name));
                let kind = header.map_or("", |kind| kind.to_str().unwrap());
                let line = format!("{} {} {kind} {}", http.method(), http.uri(), String::from_utf8_lossy(http.body()));
                line.trim_end().to_owned()
            })
            .collect();
        insta::assert_snapshot!(reported.join("\n"), @r#"
        GET /api/v1/namespaces/n/pods?labelSelector=batch.kubernetes.io%2Fjob-name%3Da
        GET /apis/events.k8s.io/v1/namespaces/n/events?labelSelector=&fieldSelector=regarding.uid%3Du
        GET /api/v1/nodes?labelSelector=&limit=2
        GET /api/v1/nodes?labelSelector=&limit=2&continue=a%2B%2F%3D
        PATCH /apis/workflow.kube-zen.io/v1alpha1/namespaces/n/jobflows/f/status application/merge-patch+json {"status":{}}
        DELETE /apis/batch/v1/namespaces/n/jobs/a application/json {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Background"}
        DELETE /apis/apps/v1/namespaces/n/deployments/a application/json {"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Foreground"}
        POST /api/v1/namespaces/n/services?fieldManager=me application/json {"metadata":{"name":"s","namespace":"n"}}
        PATCH /api/v1/namespaces/n/services/s?force=true&fieldManager=me application/apply-patch+yaml {"metadata":{"name":"s","namespace":"n"}}
        PATCH /apis/hourglass.eigenlayer.io/v1alpha1/namespaces/n/performers/p/status?force=true&fieldManager=me application/apply-patch+yaml {"metadata":{"name":"p","namespace":"n"}}
        GET /api/v1/nodes/node-1
        GET /api/v1/namespaces/n/secrets/s application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1
        "#);
    }

    #[test]
    fn answers_that_are_no_refusals_leave_the_outcome_open() {
        let status = kube::core::Status { code: 409, reason: "AlreadyExists".into(), ..kube::core::Status::default() };
        let error = ApiError::from_client(&kube::Error::Api(Box::new(status)));
        assert_eq!((error.code, error.reason.as_str()), (Some(409), "AlreadyExists"));
        let error = ApiError::from_client(&kube::Error::Service("connection reset".into()));
        assert!(error.outcome_is_unknown());
        insta::assert_snapshot!(error, @"the API server does not answer: ServiceError: connection reset");
    }
}
