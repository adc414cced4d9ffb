//! What is asked of the API server: every request with its answer is counted, and tells that the server is there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::http::{Method, Request};
use kube::client::Body;
use orlop_k8s::api::{self, Api, ApiError};
use serde_json::Value;
use tokio::time::timeout;
use tower::service_fn;

use super::server_time::ServerTime;
use super::{OperatorHealth, Which};
use crate::telemetry::metrics::OperatorMetrics;

/// How long the head of an answer is waited for; a watch has its own end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client whose requests are counted, as those of a controller where one is named.
pub(super) fn measured(
    client: kube::Client,
    controller: Option<Which>,
    metrics: Arc<OperatorMetrics>,
    health: OperatorHealth,
    time: ServerTime,
) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let (client, metrics) = (client.clone(), Arc::clone(&metrics));
        let (health, time) = (health.clone(), time.clone());
        async move {
            let resource_request = ResourceRequest::of(&request);
            let began = Instant::now();
            let answer = if resource_request.verb == "watch" {
                client.send(request).await
            } else {
                timeout(PATIENCE, client.send(request))
                    .await
                    .unwrap_or_else(|late| Err(kube::Error::Service(late.into())))
            };
            let date = answer.as_ref().ok().and_then(|answer| answer.headers().get("date")?.to_str().ok());
            if let Some(date) = date {
                time.learn(date);
            }
            let code = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
            // Anyone who is not let in has not reached anything.
            if (200..500).contains(&code) && code != 401 {
                health.reached();
            }
            let code = if code == 0 { "none".to_owned() } else { code.to_string() };
            let labels = [resource_request.verb, resource_request.resource.as_str(), code.as_str()];
            metrics.kube.requests.of(labels).inc();
            metrics.kube.duration.of(labels).observe(began.elapsed().as_secs_f64());
            if let Some(controller) = controller.filter(|_| resource_request.writes()) {
                metrics.kube.writes.of([controller.name(), &resource_request.resource, resource_request.verb]).inc();
            }
            answer
        }
    });
    kube::Client::new(service, namespace)
}

/// A request in the words of roles.
#[derive(Debug, PartialEq, Eq)]
struct ResourceRequest {
    verb: &'static str,
    resource: String,
}

impl ResourceRequest {
    fn of(request: &Request<Body>) -> Self {
        Self::read(request.method(), request.uri().path(), request.uri().query().unwrap_or_default())
    }

    fn read(method: &Method, path: &str, query: &str) -> Self {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        // `api/v1/…` or `apis/GROUP/VERSION/…`.
        let rest = match parts.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        let (resource, named, sub) = match rest {
            ["namespaces", _, resource, _, sub, ..] => (*resource, true, Some(*sub)),
            ["namespaces", _, resource, _] => (*resource, true, None),
            ["namespaces", _, resource] | [resource] => (*resource, false, None),
            _ => ("none", true, None),
        };
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ if query.split('&').any(|part| part.starts_with("watch=") && !part.ends_with("false")) => "watch",
            _ if named => "get",
            _ => "list",
        };
        let resource = sub.map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
        Self { verb, resource }
    }

    /// Whether a controller writes so; leases are nobody's.
    fn writes(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete") && self.resource != "leases"
    }
}

/// The way to the leases. Says once what is wrong with it, and once that it is well again.
pub(super) struct Elections<A> {
    api: A,
    namespace: String,
    trouble: Mutex<Option<u16>>,
}

impl<A> Elections<A> {
    pub(super) fn new(api: A, namespace: String) -> Self {
        Self { api, namespace, trouble: Mutex::new(None) }
    }

    fn tell(&self, error: Option<&ApiError>) {
        let mut known = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let code = error.map(|error| error.code.unwrap_or(0));
        if *known == code {
            return;
        }
        *known = code;
        let (namespace, why) = (self.namespace.as_str(), error.map(ApiError::unquoted));
        match (code, why) {
            (Some(403), Some(why)) => tracing::error!(
                namespace,
                why,
                "leases are denied, so this process cannot lead; its service account needs get, create and update on \
                 leases of coordination.k8s.io in that namespace"
            ),
            (Some(_), Some(why)) => tracing::warn!(namespace, why, "the lease cannot be asked for; retrying"),
            _ => tracing::info!(namespace, "the lease can be asked for again"),
        }
    }
}

#[async_trait]
impl<A: Api> Api for Elections<A> {
    async fn send(&self, request: &api::Request) -> Result<Value, ApiError> {
        let answer = self.api.send(request).await;
        // A lease that is not there yet, or that another was faster to take, is no trouble.
        let error = answer.as_ref().err().filter(|error| !matches!(error.code, Some(404 | 409)));
        self.tell(error);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_named_as_roles_name_them() {
        let named = |method: Method, path: &str, query: &str| {
            let ResourceRequest { verb, resource } = ResourceRequest::read(&method, path, query);
            format!("{verb} {resource}")
        };
        let root = "/apis/workflow.kube-zen.io/v1alpha1";
        assert_eq!(named(Method::GET, &format!("{root}/jobflows"), "watch=true&x=1"), "watch jobflows");
        assert_eq!(named(Method::GET, &format!("{root}/namespaces/n/jobflows"), "limit=500"), "list jobflows");
        assert_eq!(named(Method::GET, &format!("{root}/namespaces/n/jobflows/f"), ""), "get jobflows");
        assert_eq!(
            named(Method::PATCH, &format!("{root}/namespaces/n/jobflows/f/status"), ""),
            "patch jobflows/status"
        );
        assert_eq!(named(Method::POST, "/api/v1/namespaces/n/configmaps", ""), "create configmaps");
        assert_eq!(named(Method::DELETE, "/apis/batch/v1/namespaces/n/jobs/j", ""), "delete jobs");
        assert_eq!(named(Method::GET, "/version", ""), "get none");
        let update = ResourceRequest::read(&Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "");
        assert_eq!((update.verb, update.writes()), ("update", false));
    }
}
