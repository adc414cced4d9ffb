//! Lists in pages: all objects of a kind, however many there are, in answers of a bounded size. Owns the way from page to
//! page, and the one time a list is begun again that has become too old to go on with.

use serde_json::Value;

use super::{Api, ApiError, Kind, Page, Request};

/// Objects asked for at once, as other clients of API servers do.
pub const PAGE: u32 = 500;

/// All objects of a kind with these labels, in a namespace, or in all where it is empty; in the server's order.
///
/// Between two pages the server may forget the version that the list shows (410). Then the list is begun anew, once: whoever
/// is told so twice asks a server that forgets faster than it answers.
///
/// ```
/// # #[cfg(feature = "testing")] {
/// use orlop_k8s::api::{Client, Kind, list};
/// use orlop_k8s::testing::ApiServer;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let api = Client::new(ApiServer::new().client());
/// assert!(list(&api, Kind::Node, "", "").await.unwrap().is_empty());
/// # });
/// # }
/// ```
///
/// # Errors
/// What the server said instead of a page.
pub async fn list<A: Api + ?Sized>(api: &A, kind: Kind, namespace: &str, labels: &str) -> Result<Vec<Value>, ApiError> {
    list_all(api, &Request::list(kind, namespace, labels.to_owned())).await
}

/// The same for the list that a request asks for.
pub(crate) async fn list_all<A: Api + ?Sized>(api: &A, request: &Request) -> Result<Vec<Value>, ApiError> {
    match pages(api, request).await {
        Err(error) if error.code == Some(410) => pages(api, request).await,
        listed => listed,
    }
}

async fn pages<A: Api + ?Sized>(api: &A, request: &Request) -> Result<Vec<Value>, ApiError> {
    let mut all = Vec::new();
    let mut page = Page { limit: PAGE, token: String::new() };
    loop {
        let mut answer = api.send(&request.clone().page(page.clone())).await?;
        let items = answer.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take);
        all.extend(items.unwrap_or_default());
        match answer.pointer("/metadata/continue").and_then(Value::as_str) {
            Some(token) if !token.is_empty() => token.clone_into(&mut page.token),
            _ => return Ok(all),
        }
    }
}
