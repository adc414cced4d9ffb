//! Tokens of callers: made, listed, revoked. Owns that a secret leaves once only, and that the first token is one that can
//! make others.

use std::sync::Arc;

use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{EntryFilter, Kind, Page, Record, Token};
use orlop_core::time::GoDuration;

use super::super::BASE;
use super::super::auth::{Bearer, Role};
use super::super::call::{Call, not_found, wrong};
use super::super::cursor;
use super::super::guard::ACCESS;
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
use super::super::view::token::{NewToken, TokenList, TokenView};
use crate::host::scheduler::Error;
use crate::wire::problem::{Code, Problem};

/// The most tenants of a token, and the most bytes of its note.
const TENANTS: usize = 1000;
const NOTE: usize = 256;

fn checked(new: &NewToken) -> Result<Role, Error> {
    let role = Role::ALL.into_iter().find(|role| role.as_str() == new.role && *role != Role::Worker);
    let role = role.ok_or_else(|| wrong("role", "use viewer, submitter, operator or admin"))?;
    if new.tenants.is_empty() || new.tenants.len() > TENANTS {
        return Err(wrong("tenants", format!("use 1 to {TENANTS} names, or [\"*\"] for all")));
    }
    for (number, name) in new.tenants.iter().enumerate().filter(|(_, name)| *name != "*") {
        let read = name.parse::<TenantName>();
        read.map_err(|error| wrong(&format!("tenants[{number}]"), error.to_string()))?;
    }
    if new.note.len() > NOTE {
        return Err(wrong("note", format!("use at most {NOTE} bytes")));
    }
    Ok(role)
}

fn internal(error: impl std::fmt::Display) -> Error {
    Box::new(Problem::new(Code::Internal, error.to_string()))
}

#[cfg(all(unix, feature = "cli"))]
impl Api {
    /// Makes a bearer's token one of an administrator, if there is no token yet.
    ///
    /// # Errors
    /// Nothing can be written now.
    pub(crate) async fn make_first_token(&self, bearer: &Bearer) -> Result<(), Error> {
        let _turn = self.tokens.lock().await;
        if self.guard.is_secured().await? {
            return Ok(());
        }
        let token = Token {
            id: bearer.id().as_str().to_owned(),
            hash: bearer.hash().as_bytes().to_vec(),
            kind: ACCESS.to_owned(),
            role: Role::Admin.as_str().to_owned(),
            tenants: vec!["*".to_owned()],
            labels: Vec::new(),
            note: "first".to_owned(),
            created_at: self.now(),
            expires_at: None,
            uses_left: None,
            revoked_at: None,
        };
        self.write(vec![Record::put(&token).map_err(internal)?]).await?;
        self.guard.secure();
        Ok(())
    }
}

/// POST /tokens
pub(in super::super) async fn create(api: Arc<Api>, call: Call) -> Answer {
    let new: NewToken = call.json()?;
    let role = checked(&new)?;
    let life = new.expires_in.as_deref().map(str::parse::<GoDuration>).transpose();
    let life = life.map_err(|error| wrong("expires_in", error.to_string()))?;
    let _turn = api.tokens.lock().await;
    let can_make_others = role == Role::Admin && new.tenants.iter().any(|name| name == "*") && life.is_none();
    let secured = !api.options.loopback || api.guard.is_secured().await?;
    if !secured && !can_make_others {
        let text = "from the first token on everybody needs one; make one with the role admin for all tenants first, \
                    one that does not expire";
        return Err(Box::new(Problem::new(Code::Conflict, text)));
    }
    let bearer = Bearer::generate(&api.random).map_err(internal)?;
    let now = api.handle.clock().wall();
    let token = Token {
        id: bearer.id().as_str().to_owned(),
        hash: bearer.hash().as_bytes().to_vec(),
        kind: ACCESS.to_owned(),
        role: role.as_str().to_owned(),
        tenants: new.tenants,
        labels: Vec::new(),
        note: new.note,
        created_at: now,
        expires_at: life.map(|life| now.plus(life.get())),
        uses_left: None,
        revoked_at: None,
    };
    api.write(vec![Record::put(&token).map_err(internal)?]).await?;
    api.guard.secure();
    let place = format!("{BASE}/tokens/{}", token.id);
    let shown = TokenView { token: Some(bearer.reveal()), ..TokenView::from(token) };
    Ok(Reply::json(201, &shown)?.at(&place))
}

/// GET /tokens
pub(in super::super) async fn list(api: Arc<Api>, call: Call) -> Answer {
    let page = Page { after: call.cursor::<String>("tokens")?, limit: call.limit()? };
    let found = api.handle.store().entries(Kind::Token, &EntryFilter::default(), &page).await;
    let found = found.map_err(|error| store(&error))?;
    let tokens = found.items.iter().filter_map(|entry| serde_json::from_str::<Token>(&entry.body).ok());
    let items = tokens.filter(|token| token.kind == ACCESS).map(TokenView::from).collect();
    Reply::json(200, &TokenList { items, next_cursor: found.next.map(|key| cursor::write("tokens", &key)) })
}

/// DELETE /tokens/{id}
pub(in super::super) async fn revoke(api: Arc<Api>, call: Call) -> Answer {
    let id = call.part("id");
    let unknown = || not_found(format_args!("token `{}`", id.chars().take(64).collect::<String>()));
    if id.len() > 64 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(unknown());
    }
    let _turn = api.tokens.lock().await;
    let entry = api.handle.store().entry(Kind::Token, id).await.map_err(|error| store(&error))?;
    let token = entry.and_then(|entry| serde_json::from_str::<Token>(&entry.body).ok()).ok_or_else(unknown)?;
    if token.revoked_at.is_none() {
        let token = Token { revoked_at: Some(api.handle.clock().wall()), ..token };
        api.write(vec![Record::put(&token).map_err(internal)?]).await?;
    }
    Ok(Reply::empty(204))
}
