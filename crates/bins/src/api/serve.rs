//! The layers every request passes, in one function: request id, browser, token, rate, role, query, size and time of the
//! body, idempotency, the route, audit, metrics. A path that is not in the table is answered 404.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, Query, RawPathParams, Request};
use axum::http::Uri;
use axum::http::uri::Authority;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{MethodRouter, on};
use orlop_core::error::{Code, Problem};
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::AuditEntry;

use super::BASE;
use super::auth::{Caller, Concern};
use super::call::Call;
use super::cors;
use super::guard::{Origin, check_browser};
use super::page::{accepts_gzip, with_page};
use super::reply::{self, Answer, Reply, request_id};
use super::route::{Method, Needs, Repeat, Route};
use super::state::Api;
use super::table::{ROOT, ROUTES};
use super::until::{Ending, Holder, until};
use crate::listen::Connection;

/// Everything the interface answers.
pub fn router(api: &Arc<Api>) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(&format!("{BASE}{}", route.path), method(api, route));
    }
    for route in ROUTES.iter().filter(|route| ROOT.contains(&route.path)) {
        router = router.route(route.path, method(api, route));
    }
    let router = with_page(router, api);
    let nothing = async |request: Request| {
        let id = request_id(request.headers());
        reply::problem(Problem::coded(Code::NotFound, "route not found"), &id)
    };
    let other = async |request: Request| {
        let (id, method) = (request_id(request.headers()), request.method());
        let text = format!("method {method} is not allowed for this route; see `Allow`");
        reply::problem(Problem::coded(Code::MethodNotAllowed, text), &id)
    };
    let router = router.method_not_allowed_fallback(other).fallback(nothing);
    match api.options.origins.is_empty() {
        true => router,
        false => router.layer(from_fn_with_state(Arc::clone(api), cors::pass)),
    }
}

fn method(api: &Arc<Api>, route: &'static Route) -> MethodRouter {
    type Params = Result<RawPathParams, RawPathParamsRejection>;
    let api = Arc::clone(api);
    let answer = async move |ConnectInfo(peer): ConnectInfo<SocketAddr>, params: Params, request: Request| {
        let Ok(params) = params else {
            let id = request_id(request.headers());
            return reply::problem(Problem::coded(Code::NotFound, "the path is not valid UTF-8"), &id);
        };
        let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        serve(api, route, peer, params, request).await
    };
    on(route.method.filter(), answer)
}

async fn serve(
    api: Arc<Api>,
    route: &'static Route,
    peer: SocketAddr,
    params: Vec<(String, String)>,
    request: Request,
) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    let connection = request.extensions().get::<Connection>().cloned();
    let target = request.uri().path().to_owned();
    // An answer with a secret is not packed: its length would tell of what it holds.
    let packs = !matches!(route.repeat, Repeat::Secret | Repeat::Never) && accepts_gzip(request.headers());
    let (mut who, concern) = (None, Concern::default());
    let answer = pass(&api, route, peer, (params, &id), request, (&mut who, &concern)).await;
    if let (Some(connection), Ok(_), Needs::Role(_), Some(who)) = (connection, &answer, route.needs, &who) {
        connection.known(who.name());
    }
    if let Some(signed_in) = answer.as_ref().ok().and_then(Reply::caller) {
        who = Some(signed_in.clone());
    }
    let asked = Asked { route, peer, target, id: &id };
    if let Some(entry) = asked.entry(&api, &answer, who.as_ref(), &concern) {
        let refused = answer.as_ref().err().map(|problem| problem.code);
        api.note(entry, knocks(refused)).await;
    }
    let response = match answer {
        Ok(reply) => match who.clone() {
            Some(caller) => {
                let ending = reply.last().cloned().map_or(Ending::Break, Ending::Last);
                let through = |body| until(&api, Holder::Caller(caller), ending, None, body);
                reply.streams_through(through).response(&id, packs).await
            }
            None => reply.response(&id, packs).await,
        },
        Err(problem) => reply::problem(problem, &id),
    };
    tracing::debug!(
        target: "orlop::api",
        request_id = id,
        route = route.name,
        status = response.status().as_u16(),
        actor = who.as_ref().map(Caller::name),
        "answered"
    );
    let transport = &api.metrics.transport;
    transport.http_requests.of([route.name, response.status().as_str()]).inc();
    transport.http_duration.of([route.name]).observe(began.elapsed().as_secs_f64());
    response
}

/// Whether a refusal is one of somebody whom nobody knows, or who asks too often.
fn knocks(refused: Option<Code>) -> bool {
    matches!(refused, Some(Code::Unauthenticated | Code::RateLimited))
}

/// A request as the audit trail has it.
struct Asked<'a> {
    route: &'static Route,
    peer: SocketAddr,
    target: String,
    id: &'a str,
}

impl Asked<'_> {
    /// What is noted of it: what changed something, or was refused.
    fn entry(self, api: &Api, answer: &Answer, who: Option<&Caller>, concern: &Concern) -> Option<AuditEntry> {
        let refused = answer.as_ref().err().map(|problem| problem.code);
        let writes = self.route.method.writes() && self.route.repeat != Repeat::Reads;
        if !writes && !knocks(refused) && refused != Some(Code::Forbidden) {
            return None;
        }
        // A caller who signs in has no identity until that is done.
        let known = who.filter(|_| self.route.needs != Needs::Nothing || answer.is_ok());
        let correlation = answer.as_ref().map(Reply::correlation).unwrap_or_default();
        let session = known.and_then(|caller| caller.session.as_deref());
        Some(AuditEntry {
            number: 0,
            time: api.handle.clock().wall(),
            actor: known.map_or_else(|| self.peer.ip().to_string(), |caller| caller.name().to_owned()),
            tenant: whose(who, concern),
            action: self.route.name.into(),
            target: of_session(of_work(self.target, correlation), session),
            outcome: refused.map_or("ok", Code::as_str).into(),
            request_id: Some(self.id.to_owned()),
        })
    }
}

/// The tenant of an entry: the one whose objects the request was about, else the caller's only one.
pub(crate) fn whose(who: Option<&Caller>, concern: &Concern) -> Option<TenantName> {
    match who {
        Some(caller) if concern.is_open() => caller.only(),
        _ => concern.tenant(),
    }
}

/// The target of a request with what its client calls the work, by which it is found in job, events and logs.
fn of_work(target: String, correlation: &[String]) -> String {
    if correlation.is_empty() { target } else { format!("{target} correlation_id={}", correlation.join(",")) }
}

/// The target of a request of the console, with the session that made it.
fn of_session(target: String, session: Option<&str>) -> String {
    session.map_or(target.clone(), |session| format!("{target} session={session}"))
}

async fn pass(
    api: &Arc<Api>,
    route: &'static Route,
    peer: SocketAddr,
    (params, id): (Vec<(String, String)>, &str),
    request: Request,
    (who, concern): (&mut Option<Caller>, &Concern),
) -> Answer {
    let (parts, body) = request.into_parts();
    check_browser(
        api.options.loopback,
        &api.options.origins,
        api.options.console.as_ref().map(|console| &console.place),
        &parts.headers,
        parts.uri.authority().map(Authority::as_str),
    )?;
    let changes = api.guard.changes();
    let caller = api.identify(route, &parts.headers, peer).await?;
    *who = Some(caller.clone());
    api.guard.check_pace(&caller)?;
    if let Needs::Role(role) = route.needs {
        caller.check(role)?;
    }
    let query = query(&parts.uri)?;
    let decided = concern.clone();
    let holder = Holder::Caller(caller.clone());
    let origin = Origin { address: peer.ip(), exposed: !api.options.loopback };
    let ended = || api.guard.stranger(origin, "this token was revoked or has expired meanwhile");
    let seen = changes.clone();
    let answer = async {
        let body = api.bodies.read(caller.name(), route, &parts.headers, body).await?;
        let late = caller.expires_at.is_some_and(|at| at <= api.now());
        if route.needs != Needs::Nothing && (late || seen.has_changed().unwrap_or(true)) && !api.holds(&holder).await? {
            return Err(ended());
        }
        let path = parts.uri.path().to_owned();
        let (request_id, concern) = (id.to_owned(), concern.clone());
        let call = Call { caller, peer, concern, request_id, path, params, query, headers: parts.headers, body };
        call.check_query(route)?;
        match call.key()? {
            Some(key)
                if route.method == Method::Post
                    && !matches!(route.repeat, Repeat::Loop | Repeat::Never | Repeat::Reads) =>
            {
                let key = key.to_owned();
                api.once(route, key, call).await
            }
            _ => (route.handler)(Arc::clone(api), call).await,
        }
    };
    let answer = match route.needs {
        Needs::Nothing => answer.await,
        // A body may take its time, and so may an answer that is waited for.
        Needs::Role(_) => tokio::select! {
            biased;
            answer = answer => answer,
            () = api.over(&holder, changes) => Err(ended()),
        },
    };
    if answer.is_ok() && route.needs != Needs::Nothing && !decided.is_decided() {
        tracing::error!(target: "orlop::api", route = route.name, "no tenant check was made for this request; the response is withheld");
        return Err(Problem::coded(Code::Internal, "access to this object was not checked"));
    }
    answer
}

fn query(uri: &Uri) -> Result<Vec<(String, String)>, Problem> {
    let read = Query::<Vec<(String, String)>>::try_from_uri(uri);
    read.map(|Query(pairs)| pairs).map_err(|_| Problem::field("", "the query cannot be read"))
}
