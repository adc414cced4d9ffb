//! The API server double over HTTP, for programs that are processes of their own. Owns the way to it: an address and a
//! kubeconfig.

use std::path::{Path, PathBuf};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use serde_json::json;

/// What a kubelet would tell: no pod of the double writes anything.
fn log_of(path: &str) -> Option<String> {
    let pod = path.strip_suffix("/log")?.rsplit('/').next()?;
    Some(format!("one\ntwo of {}", if pod.contains("-a-") { "a" } else { "another" }))
}

/// Serves a double on this machine as a client sees it, and gives its address.
pub(crate) async fn serve(client: kube::Client) -> String {
    let answer = move |request: Request| {
        let client = client.clone();
        async move {
            let (parts, body) = request.into_parts();
            if let Some(text) = log_of(parts.uri.path()) {
                return Response::new(Body::from(text));
            }
            let body = to_bytes(body, 4 << 20).await.expect("a body").to_vec();
            match client.send(Request::from_parts(parts, body.into())).await {
                Ok(answer) => answer.map(Body::new),
                Err(error) => {
                    let mut refused = Response::new(Body::from(error.to_string()));
                    *refused.status_mut() = StatusCode::BAD_GATEWAY;
                    refused
                }
            }
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = axum::Router::new().fallback(answer);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

/// Writes the way to a server into a folder, and gives the file.
pub(crate) fn kubeconfig(dir: &Path, address: &str) -> PathBuf {
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": address}}], "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "other"}}]});
    let file = dir.join("kubeconfig");
    std::fs::write(&file, text.to_string()).expect("it is written");
    file
}
