//! Sessions of browsers: begun by a link or a token, ended, and the links that open them.

use std::sync::Arc;

use axum::http::header::SET_COOKIE;
use orlop_core::error::{Code, Problem};
use orlop_core::ports::fleet_store::SessionGrant;
use orlop_core::time::Time;

use super::super::auth::{Bearer, Caller, Role};
use super::super::call::{Call, forbidden, internal, not_found};
use super::super::guard::{FETCH_SITE, Guard, check_page};
use super::super::reply::{Answer, Reply};
use super::super::route::Method;
use super::super::state::{Api, Console};
use super::super::view::session::{
    ConsoleLimits, ConsoleServer, ConsoleView, NewSessionLink, SessionBegun, SessionLinkView, SessionView, SignIn,
};
use super::super::view::time;
use crate::host::scheduler::Status;
use crate::web::{Begun, TOPICS};

/// What a page that is served here can show and do.
const CAPABILITIES: [&str; 8] = ["flows", "jobs", "workers", "tenants", "approvals", "live", "submit", "tokens"];

/// The longest path of a link.
const PATH: usize = 1024;

fn console(api: &Api) -> Result<&Console, Problem> {
    let missing = || not_found("the console");
    api.options.console.as_ref().ok_or_else(missing)
}

/// GET /console
pub(in super::super) async fn console_of(api: Arc<Api>, call: Call) -> Answer {
    let console = console(&api)?;
    let caller = api.session_caller(&call.headers).await?;
    let known = caller.is_some();
    let epoch = match api.handle.status() {
        Status::Leading { epoch } => Some(epoch.0),
        _ => None,
    };
    let server = ConsoleServer {
        name: known.then(|| api.handle.options().holder.name.clone()),
        version: known.then_some(env!("CARGO_PKG_VERSION")),
        epoch: epoch.filter(|_| known),
        time: time(api.now()),
    };
    let limits = ConsoleLimits { tick_ms: u64::try_from(console.tick.as_millis()).unwrap_or(u64::MAX), topics: TOPICS };
    let view = ConsoleView {
        build: crate::web::build(),
        mode: "fleet",
        server,
        session: caller.as_ref().map(SessionView::from),
        capabilities: CAPABILITIES.to_vec(),
        limits,
    };
    Reply::json(200, &view)
}

/// POST /session
pub(in super::super) async fn begin(api: Arc<Api>, call: Call) -> Answer {
    let console = console(&api)?;
    if call.headers.contains_key(FETCH_SITE) {
        check_page(&call.headers, Method::Post)?;
    }
    let wanted: SignIn = call.json()?;
    let sessions = api.guard.sessions();
    let now = api.now();
    let begun = match (&wanted.key, &wanted.token) {
        (Some(key), None) => sessions.follow(key.trim(), now).await,
        (None, Some(token)) => match api.guard.grant_of(token.trim()).await? {
            Some(grant) => sessions.begin(grant, now).await,
            None => Err(Problem::coded(Code::Unauthenticated, "")),
        },
        _ => return Err(Problem::field("key", "give either key or token")),
    };
    let begun = match begun {
        Ok(begun) => begun,
        Err(problem) if problem.code == Code::Unauthenticated => {
            return Err(sessions.failed(call.peer.ip(), now));
        }
        Err(problem) => return Err(problem),
    };
    let Begun { session, cookie, proof } = begun;
    let caller = Caller::of_session(&session).ok_or_else(|| internal("a session cannot be read"))?;
    tracing::info!(target: "orlop::api", session = session.id, actor = caller.name(), address = %call.peer.ip(), "a browser session began");
    let reply = Reply::json(201, &SessionBegun { proof, session: SessionView::from(&caller) })?;
    Ok(reply.header(SET_COOKIE, &console.place.set_cookie(Some(&cookie))).by(caller))
}

/// DELETE /session
pub(in super::super) async fn end(api: Arc<Api>, call: Call) -> Answer {
    call.concern.decide();
    let console = console(&api)?;
    let Some(id) = &call.caller.session else {
        return Err(Problem::field("", "this request is not of a session; only a session can end itself"));
    };
    api.guard.end_session(id).await?;
    tracing::info!(target: "orlop::api", session = id, actor = call.caller.name(), "a browser session was ended");
    Ok(Reply::empty(204).header(SET_COOKIE, &console.place.set_cookie(None)))
}

/// POST /session-links
pub(in super::super) async fn link(api: Arc<Api>, call: Call) -> Answer {
    call.concern.decide();
    let wanted: NewSessionLink = call.json_or_default()?;
    let role = role(&call.caller, wanted.role.as_deref())?;
    let path = path(wanted.path.as_deref().unwrap_or_default())?;
    let (url, expires_at) = api.session_link(call.caller.grant(role), path).await?;
    Reply::json(201, &SessionLinkView { url, expires_at: time(expires_at) })
}

fn role(caller: &Caller, wanted: Option<&str>) -> Result<Role, Problem> {
    let Some(wanted) = wanted else { return Ok(caller.role) };
    let role = Role::ALL.into_iter().find(|role| role.as_str().eq_ignore_ascii_case(wanted) && *role != Role::Worker);
    let role = role.ok_or_else(|| Problem::field("role", "use viewer, submitter, operator or admin"))?;
    match caller.role.may(role) {
        true => Ok(role),
        false => Err(forbidden(format_args!(
            "role: this caller has the role {}; use it or a lower one",
            caller.role.as_str()
        ))),
    }
}

/// A path below the base.
fn path(path: &str) -> Result<&str, Problem> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'#' | b'"' | b'<' | b'>' | b'\'' | b'`');
    let route = path.split('?').next().unwrap_or_default();
    let below =
        !path.starts_with('/') && !route.contains(':') && !route.split('/').any(|part| matches!(part, "." | ".." | ""));
    if path.is_empty() || (path.len() <= PATH && below && path.bytes().all(plain)) {
        return Ok(path);
    }
    Err(Problem::field("path", "use a path below the page, such as flows/nightly, percent-encoded and without `..`"))
}

impl Api {
    /// Where browsers find the page, if there is one.
    pub(crate) fn console_url(&self) -> Option<&str> {
        self.options.console.as_ref().map(|console| console.place.url())
    }

    /// A link to the page that opens one session, and until when it can be used.
    ///
    /// # Errors
    /// NotFound without a console; as of the store.
    pub(crate) async fn session_link(&self, grant: SessionGrant, path: &str) -> Result<(String, Time), Problem> {
        let console = console(self)?;
        let (key, expires_at) = self.guard.sessions().link(grant, self.now()).await?;
        Ok((format!("{}{path}#k={key}", console.place.url()), expires_at))
    }
}

impl Guard {
    /// What the bearer of a token may do; none where it is not good.
    async fn grant_of(&self, token: &str) -> Result<Option<SessionGrant>, Problem> {
        let Ok(bearer) = Bearer::parse(token) else { return Ok(None) };
        let caller = self.bearer(&bearer).await?;
        Ok(caller.filter(|caller| caller.role != Role::Worker).map(|caller| caller.grant(caller.role)))
    }
}
