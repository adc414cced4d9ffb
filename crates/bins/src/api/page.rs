//! The web page of the server: its files, to anybody who reaches the server by one of its names. What they show is asked for with
//! a session.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, VARY,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use orlop_core::error::Problem;

use super::guard::check_browser;
use super::reply;
use super::state::{Api, Console};
use crate::web::{Assets, BASE, secure};

/// Adds the page to a router, if the server has one.
pub(super) fn with_page(router: Router, api: &Arc<Api>) -> Router {
    let Some(console) = &api.options.console else { return router };
    let assets = Assets::new(console.place.base());
    let file = {
        let api = Arc::clone(api);
        async move |request: Request| serve(&api, &assets, &request)
    };
    let to_base = {
        let api = Arc::clone(api);
        async move |request: Request| redirect(&api, &request)
    };
    let below = format!("{BASE}{{*path}}");
    router
        .route("/", get(to_base.clone()))
        .route(BASE.trim_end_matches('/'), get(to_base))
        .route(BASE, get(file.clone()))
        .route(&below, get(file))
}

fn checked<'a>(api: &'a Api, request: &Request) -> Result<&'a Console, Problem> {
    let console = api.options.console.as_ref();
    let place = console.map(|console| &console.place);
    let authority = request.uri().authority().map(Authority::as_str);
    check_browser(api.options.loopback, &api.options.origins, place, request.headers(), authority)?;
    console.ok_or_else(|| super::call::not_found("the console"))
}

fn redirect(api: &Api, request: &Request) -> Response {
    let console = match checked(api, request) {
        Ok(console) => console,
        Err(refused) => return reply::problem(refused, &reply::request_id(request.headers())),
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let to = HeaderValue::from_str(console.place.base());
    response.headers_mut().extend(to.ok().map(|to| (LOCATION, to)));
    secure(response.headers_mut());
    response
}

fn serve(api: &Api, assets: &Assets, request: &Request) -> Response {
    if let Err(refused) = checked(api, request) {
        let mut response = reply::problem(refused, &reply::request_id(request.headers()));
        secure(response.headers_mut());
        return response;
    }
    let path = request.uri().path().strip_prefix(BASE).unwrap_or_default();
    let Some(asset) = assets.at(path) else {
        let mut response = Response::new(Body::from("there is no such file\n"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        secure(response.headers_mut());
        return response;
    };
    let packed = if accepts_gzip(request.headers()) { asset.packed() } else { None };
    let packs = packed.is_some();
    let tag = if packs { format!("\"{}-gzip\"", asset.tag) } else { format!("\"{}\"", asset.tag) };
    let shown = request.headers().get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let same = shown.split(',').any(|one| one.trim().trim_start_matches("W/") == tag);
    let body = if same { Body::empty() } else { Body::from(packed.unwrap_or_else(|| asset.plain())) };
    let mut response = Response::new(body);
    if same {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    let life = if asset.immutable { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(life));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
    if packs && !same {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    secure(headers);
    response
}

/// Whether a client takes gzip.
pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let listed = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    listed.split(',').any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = quality.trim().strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}
