//! Tokens of callers: made, listed, revoked. A secret leaves once only, and no token makes, lists or revokes one that is
//! good for more than itself.

use std::sync::Arc;

use orlop_core::error::Problem;
use orlop_core::id::TenantName;
use orlop_core::ports::fleet_store::{EntryFilter, Kind, MAX_PAGE, Page, Record, Token};
use orlop_core::time::HumanDuration;

use super::super::BASE;
use super::super::auth::{Access, Bearer, Role, Scope};
use super::super::call::{Call, forbidden, internal, not_found};
use super::super::cursor;
use super::super::guard::ACCESS;
use super::super::reply::{Answer, Reply};
use super::super::state::{Api, store};
#[cfg(all(unix, feature = "cli"))]
use super::super::token_cache::stored;
use super::super::view::token::{NewToken, TokenList, TokenView};

/// The most tenants of a token, and the most bytes of its note.
const TENANTS: usize = 1000;
const NOTE: usize = 256;

fn checked(new: &NewToken) -> Result<Role, Problem> {
    let role = Role::ALL.into_iter().find(|role| role.as_str() == new.role && *role != Role::Worker);
    let role = role.ok_or_else(|| Problem::field("role", "use viewer, submitter, operator or admin"))?;
    if new.tenants.is_empty() || new.tenants.len() > TENANTS {
        return Err(Problem::field("tenants", format!("use 1 to {TENANTS} names, or [\"*\"] for all")));
    }
    for (number, name) in new.tenants.iter().enumerate().filter(|(_, name)| *name != "*") {
        let read = name.parse::<TenantName>();
        read.map_err(|error| Problem::field(format!("tenants[{number}]"), error.to_string()))?;
    }
    if new.note.len() > NOTE {
        return Err(Problem::field("note", format!("use at most {NOTE} bytes")));
    }
    Ok(role)
}

#[cfg(all(unix, feature = "cli"))]
impl Api {
    /// Makes a bearer's token one of an administrator, if there is no token yet.
    ///
    /// # Errors
    /// Nothing can be written now.
    pub(crate) async fn make_first_token(&self, bearer: &Bearer) -> Result<(), Problem> {
        let _turn = self.tokens.lock().await;
        if self.has_tokens().await? {
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
        self.write(vec![Record::put(&token).map_err(internal)?]).await
    }

    /// Whether a caller's token was ever made.
    pub(crate) async fn has_tokens(&self) -> Result<bool, Problem> {
        let mut after = None;
        loop {
            let page = Page { after, limit: MAX_PAGE };
            let found = self.handle.store().entries(Kind::Token, &EntryFilter::default(), &page).await;
            let found = found.map_err(|error| store(&error))?;
            // One that cannot be read may have been such a token.
            if found.items.iter().any(|entry| stored(entry).is_none_or(|token| token.kind == ACCESS)) {
                return Ok(true);
            }
            after = found.next;
            if after.is_none() {
                return Ok(false);
            }
        }
    }
}

/// POST /tokens
pub(in super::super) async fn create(api: Arc<Api>, call: Call) -> Answer {
    let new: NewToken = call.json()?;
    let role = checked(&new)?;
    let life = new.expires_in.as_deref().map(str::parse::<HumanDuration>).transpose();
    let life = life.map_err(|error| Problem::field("expires_in", error.to_string()))?;
    if !call.may(Access::Change, &Scope::of(&new.tenants)) {
        let own = call.visible().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(forbidden(format_args!(
            "tenants: this token is valid for {own}; it can create tokens for these only"
        )));
    }
    let now = api.handle.clock().wall();
    let expires_at = life.map(|life| now.plus(life.get())).or(call.caller.expires_at);
    if let Some(own) = call.caller.expires_at.filter(|own| expires_at.is_some_and(|at| at > *own)) {
        let text = format_args!("expires_in: this token expires at {own}; tokens it creates cannot expire later");
        return Err(forbidden(text));
    }
    let _turn = api.tokens.lock().await;
    let bearer = Bearer::generate(&api.random).map_err(internal)?;
    let token = Token {
        id: bearer.id().as_str().to_owned(),
        hash: bearer.hash().as_bytes().to_vec(),
        kind: ACCESS.to_owned(),
        role: role.as_str().to_owned(),
        tenants: new.tenants,
        labels: Vec::new(),
        note: new.note,
        created_at: now,
        expires_at,
        uses_left: None,
        revoked_at: None,
    };
    api.write(vec![Record::put(&token).map_err(internal)?]).await?;
    let place = format!("{BASE}/tokens/{}", token.id);
    let shown = TokenView { token: Some(bearer.reveal()), ..TokenView::from(token) };
    Ok(Reply::json(201, &shown)?.at(&place))
}

/// GET /tokens
pub(in super::super) async fn list(api: Arc<Api>, call: Call) -> Answer {
    let (tokens, next_cursor) = page(&api, &call, ACCESS, "tokens").await?;
    Reply::json(200, &TokenList { items: tokens.into_iter().map(TokenView::from).collect(), next_cursor })
}

/// DELETE /tokens/{id}
pub(in super::super) async fn revoke(api: Arc<Api>, call: Call) -> Answer {
    revoke_one(&api, &call, ACCESS, "token").await
}

/// Tokens of a kind that are not beyond the caller, one page, and where the next one begins.
pub(super) async fn page(
    api: &Api,
    call: &Call,
    kind: &str,
    list: &str,
) -> Result<(Vec<Token>, Option<String>), Problem> {
    let (mut after, limit) = (call.cursor::<String>(list)?, call.limit()? as usize);
    let mut items = Vec::new();
    call.concern.decide();
    loop {
        let wanted = Page { after, limit: MAX_PAGE };
        let found = api.handle.store().entries(Kind::Token, &EntryFilter::default(), &wanted).await;
        let found = found.map_err(|error| store(&error))?;
        let tokens = found.items.iter().filter_map(|entry| serde_json::from_str::<Token>(&entry.body).ok());
        items.extend(tokens.filter(|token| token.kind == kind && call.may(Access::Change, &Scope::of(&token.tenants))));
        after = found.next;
        if items.len() > limit || after.is_none() {
            break;
        }
    }
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| cursor::write(list, &last.id));
    Ok((items, next))
}

/// Revokes a token of a kind that is not beyond the caller.
pub(super) async fn revoke_one(api: &Api, call: &Call, kind: &str, what: &str) -> Answer {
    let id = call.part("id");
    let unknown = || not_found(format_args!("{what} `{}`", id.chars().take(64).collect::<String>()));
    if id.len() > 64 || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(unknown());
    }
    let _turn = api.tokens.lock().await;
    let entry = api.handle.store().entry(Kind::Token, id).await.map_err(|error| store(&error))?;
    let token = entry.and_then(|entry| serde_json::from_str::<Token>(&entry.body).ok());
    let own = |token: &Token| token.kind == kind && call.may(Access::Change, &Scope::of(&token.tenants));
    let token = token.filter(own).ok_or_else(unknown)?;
    if token.revoked_at.is_none() {
        let token = Token { revoked_at: Some(api.now()), ..token };
        api.write(vec![Record::put(&token).map_err(internal)?]).await?;
    }
    Ok(Reply::empty(204))
}
